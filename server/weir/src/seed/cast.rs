//! The tenants of the demonstration: who they are, what they bought, how they work.

use domain::money::{NANOS_PER_USD, Nanos};
use domain::plan::{CallTerms, DenyMode, LimitRule, Metric, ModelAccess};
use domain::window::RollingWindow;
use tenants::plan::NewPlan;

/// A plan of the operator's own, beside those that Weir brings: no rolling windows, and a margin.
pub(crate) const SCALE: &str = "scale";
/// What `scale` allows a month.
const SCALE_MONTH_USD: i64 = 400;
/// What `scale` adds to the providers' prices.
const SCALE_MARKUP_BPS: i64 = 2_000;
/// Its share beside the plans that Weir brings: between `pro` and `enterprise`.
const SCALE_WEIGHT: i64 = 6;

/// When a tenant's programs call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rhythm {
    /// In working hours.
    Office,
    /// In the evening and at weekends.
    Evening,
    /// All day, a little more by day.
    Always,
}

/// What a tenant's calls look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// A person asks, a short answer.
    Chat,
    /// Pages found elsewhere are put before the question.
    Retrieval,
    /// A program that calls itself, with a long memory that the provider caches.
    Agent,
    /// Facts taken out of texts, one by one, unattended.
    Extraction,
}

/// What else happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Habit {
    /// Nothing.
    Steady,
    /// The noisy one: many calls at once, more failures, slow answers of late.
    Bursts,
    /// One evening with far too many guests.
    Hackathon,
}

/// How much of its month a tenant has used at the end of the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Aim {
    /// What comes of its usual share.
    Usual,
    /// Between 80 and 100 percent, whatever the day of the month.
    Near,
    /// More than 100 percent, and refused since.
    Over,
}

/// A team of a tenant.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CastTeam {
    pub(crate) name: &'static str,
    /// Its own budget for a month, if it has one.
    pub(crate) month_usd: Option<i64>,
}

/// A key of a tenant.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CastKey {
    pub(crate) name: &'static str,
    /// Which of the tenant's teams it is of.
    pub(crate) team: Option<usize>,
    /// Its share of the tenant's calls.
    pub(crate) weight: u64,
    /// Its own limit on calls a day, if it has one.
    pub(crate) day_requests: Option<i64>,
}

/// A tenant.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CastTenant {
    pub(crate) slug: &'static str,
    pub(crate) name: &'static str,
    pub(crate) zone: &'static str,
    pub(crate) plan: &'static str,
    pub(crate) teams: &'static [CastTeam],
    pub(crate) keys: &'static [CastKey],
    pub(crate) rhythm: Rhythm,
    pub(crate) work: Work,
    pub(crate) habit: Habit,
    pub(crate) aim: Aim,
    /// Calls on an ordinary weekday at the end of the history.
    pub(crate) calls_per_day: i64,
    /// Of a thousand of those, how many there were at its beginning.
    pub(crate) at_first_per_mille: i64,
    /// The share of the month's budget that an ordinary month at the end of the history uses.
    pub(crate) month_percent: i64,
    /// The models it calls, and how often.
    pub(crate) models: &'static [(&'static str, u64)],
}

const fn team(name: &'static str) -> CastTeam {
    CastTeam { name, month_usd: None }
}

const fn key(name: &'static str, team: Option<usize>, weight: u64) -> CastKey {
    CastKey { name, team, weight, day_requests: None }
}

const SUPPORT_AND_OPS: &[CastTeam] = &[team("support"), team("operations")];
const ONE_TEAM: &[CastTeam] = &[team("product")];

/// The twelve.
pub(crate) const CAST: [CastTenant; 12] = [
    CastTenant {
        slug: "harborline-freight",
        name: "Harborline Freight",
        zone: "America/Los_Angeles",
        plan: SCALE,
        teams: SUPPORT_AND_OPS,
        keys: &[key("dispatch-agent", Some(1), 6), key("support-chat", Some(0), 3)],
        rhythm: Rhythm::Always,
        work: Work::Agent,
        habit: Habit::Steady,
        aim: Aim::Over,
        calls_per_day: 150,
        at_first_per_mille: 620,
        month_percent: 96,
        models: &[("claude-sonnet-5-5", 5), ("gpt-6.1-sol", 3), ("claude-haiku-5-5", 2)],
    },
    CastTenant {
        slug: "sagarmatha-travel",
        name: "Sagarmatha Travel",
        zone: "Asia/Kathmandu",
        plan: SCALE,
        teams: ONE_TEAM,
        keys: &[key("trip-planner", Some(0), 5), key("whatsapp-bot", Some(0), 4)],
        rhythm: Rhythm::Always,
        work: Work::Retrieval,
        habit: Habit::Steady,
        aim: Aim::Near,
        calls_per_day: 130,
        at_first_per_mille: 700,
        month_percent: 74,
        models: &[("gemini-4-argon", 4), ("gemini-3.8-flash", 4), ("gpt-6.1-terra", 2)],
    },
    CastTenant {
        slug: "brightwater-legal",
        name: "Brightwater Legal",
        zone: "Europe/London",
        plan: "enterprise",
        teams: &[team("contracts"), team("litigation")],
        keys: &[
            key("contract-review", Some(0), 6),
            key("discovery", Some(1), 4),
            key("intranet", None, 1),
        ],
        rhythm: Rhythm::Office,
        work: Work::Retrieval,
        habit: Habit::Steady,
        aim: Aim::Near,
        calls_per_day: 160,
        at_first_per_mille: 800,
        month_percent: 70,
        models: &[("claude-opus-5-5", 7), ("claude-sonnet-5-5", 2), ("gemini-4-argon", 1)],
    },
    CastTenant {
        slug: "kestrel-games",
        name: "Kestrel Games",
        zone: "Europe/Stockholm",
        plan: "starter",
        teams: ONE_TEAM,
        keys: &[
            key("npc-dialogue", Some(0), 9),
            CastKey { day_requests: Some(80), ..key("load-test", Some(0), 4) },
        ],
        rhythm: Rhythm::Evening,
        work: Work::Chat,
        habit: Habit::Bursts,
        aim: Aim::Usual,
        calls_per_day: 240,
        at_first_per_mille: 760,
        month_percent: 58,
        models: &[("gemini-2.5-flash-lite", 4), ("gemini-3.8-flash", 3), ("gpt-6-luna", 3)],
    },
    CastTenant {
        slug: "lumen-clinics",
        name: "Lumen Clinics",
        zone: "America/New_York",
        plan: "pro",
        teams: &[CastTeam { name: "triage", month_usd: Some(60) }, team("billing")],
        keys: &[key("triage-notes", Some(0), 5), key("claims", Some(1), 5)],
        rhythm: Rhythm::Office,
        work: Work::Chat,
        habit: Habit::Steady,
        aim: Aim::Usual,
        calls_per_day: 125,
        at_first_per_mille: 850,
        month_percent: 54,
        models: &[("claude-sonnet-5-5", 5), ("gpt-6.1-terra", 3), ("claude-haiku-5-5", 3)],
    },
    CastTenant {
        slug: "tanager-books",
        name: "Tanager Books",
        zone: "Europe/Vienna",
        plan: "starter",
        teams: ONE_TEAM,
        keys: &[key("blurbs", Some(0), 1)],
        rhythm: Rhythm::Office,
        work: Work::Extraction,
        habit: Habit::Steady,
        aim: Aim::Usual,
        calls_per_day: 60,
        at_first_per_mille: 900,
        month_percent: 41,
        models: &[("gemini-3.8-flash", 6), ("gpt-5.4-mini", 4)],
    },
    CastTenant {
        slug: "ostara-foods",
        name: "Ostara Foods",
        zone: "Europe/Paris",
        plan: "starter",
        teams: ONE_TEAM,
        keys: &[key("recipes", Some(0), 3), key("labels", None, 2)],
        rhythm: Rhythm::Always,
        work: Work::Chat,
        habit: Habit::Steady,
        aim: Aim::Usual,
        calls_per_day: 75,
        at_first_per_mille: 500,
        month_percent: 63,
        models: &[("gpt-5.4-mini", 5), ("claude-haiku-5-5", 3), ("gemini-3.8-flash", 2)],
    },
    CastTenant {
        slug: "millrace-insurance",
        name: "Millrace Insurance",
        zone: "Europe/Zurich",
        plan: "enterprise",
        teams: &[team("claims"), team("underwriting")],
        keys: &[key("claims-agent", Some(0), 5), key("risk-memo", Some(1), 3)],
        rhythm: Rhythm::Office,
        work: Work::Agent,
        habit: Habit::Steady,
        aim: Aim::Usual,
        calls_per_day: 100,
        at_first_per_mille: 700,
        month_percent: 24,
        models: &[("gpt-6.1-sol", 5), ("claude-opus-5-5", 4), ("gpt-6-luna", 1)],
    },
    CastTenant {
        slug: "koru-learning",
        name: "Koru Learning",
        zone: "Pacific/Auckland",
        plan: "pro",
        teams: ONE_TEAM,
        keys: &[key("tutor", Some(0), 7), key("grading", Some(0), 3)],
        rhythm: Rhythm::Evening,
        work: Work::Chat,
        habit: Habit::Steady,
        aim: Aim::Usual,
        calls_per_day: 80,
        at_first_per_mille: 420,
        month_percent: 23,
        models: &[("gpt-6.1-terra", 4), ("gemini-4-argon", 3), ("gemini-3.8-flash", 3)],
    },
    CastTenant {
        slug: "banyan-retail",
        name: "Banyan Retail",
        zone: "Asia/Kolkata",
        plan: "starter",
        teams: ONE_TEAM,
        keys: &[key("product-search", Some(0), 1)],
        rhythm: Rhythm::Always,
        work: Work::Extraction,
        habit: Habit::Steady,
        aim: Aim::Usual,
        calls_per_day: 65,
        at_first_per_mille: 1_150,
        month_percent: 29,
        models: &[("gemini-2.5-flash-lite", 5), ("gpt-6-luna", 3), ("gemini-3.8-flash", 2)],
    },
    CastTenant {
        slug: "alderway-hr",
        name: "Alderway HR",
        zone: "America/Toronto",
        plan: "free",
        teams: ONE_TEAM,
        keys: &[key("trial", Some(0), 1)],
        rhythm: Rhythm::Office,
        work: Work::Chat,
        habit: Habit::Steady,
        aim: Aim::Usual,
        calls_per_day: 26,
        at_first_per_mille: 600,
        month_percent: 46,
        models: &[("claude-haiku-5-5", 6), ("gpt-6-luna", 4)],
    },
    CastTenant {
        slug: "saltbox-studio",
        name: "Saltbox Studio",
        zone: "America/Sao_Paulo",
        plan: "free",
        teams: ONE_TEAM,
        keys: &[key("prototype", Some(0), 2), key("laptop", None, 1)],
        rhythm: Rhythm::Evening,
        work: Work::Chat,
        habit: Habit::Hackathon,
        aim: Aim::Usual,
        calls_per_day: 18,
        at_first_per_mille: 900,
        month_percent: 60,
        models: &[("gemini-2.5-flash-lite", 7), ("claude-haiku-5-5", 3)],
    },
];

/// The operator's own plan.
pub(crate) fn scale_plan() -> NewPlan {
    NewPlan {
        name: SCALE.to_owned(),
        rules: vec![
            LimitRule::Bucket { metric: Metric::Requests, rate_milli_per_s: 50_000, capacity: 500 },
            LimitRule::Bucket {
                metric: Metric::Tokens,
                rate_milli_per_s: 20_000_000,
                capacity: 1_200_000,
            },
            LimitRule::Lease { limit: 64 },
            month_budget(SCALE_MONTH_USD),
        ],
        models: ModelAccess::All,
        markup_bps: SCALE_MARKUP_BPS,
        default_max_output_tokens: 4_096,
        max_output_tokens: 65_536,
        deny_mode: DenyMode::Reject,
        request_fee: Nanos::ZERO,
        terms: CallTerms { weight: SCALE_WEIGHT, ..CallTerms::default() },
    }
}

impl CastTeam {
    /// Its own limits.
    pub(crate) fn rules(&self) -> Vec<LimitRule> {
        self.month_usd.map(month_budget).into_iter().collect()
    }
}

impl CastKey {
    /// Its own limits.
    pub(crate) fn rules(&self) -> Vec<LimitRule> {
        let day = |limit| LimitRule::Window {
            metric: Metric::Requests,
            window: RollingWindow::Day,
            limit,
        };
        self.day_requests.map(day).into_iter().collect()
    }
}

fn month_budget(usd: i64) -> LimitRule {
    LimitRule::Month {
        metric: Metric::Cost,
        limit: usd.saturating_mul(NANOS_PER_USD),
        overage_bps: domain::plan::default_overage_bps(),
        anchor_day: 1,
    }
}
