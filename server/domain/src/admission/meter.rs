//! Limits as they apply to one call, and what is known of them.

use serde::{Deserialize, Serialize};

use crate::money::Nanos;
use crate::plan::{LimitRule, Metric};
use crate::window::{Period, RollingWindow, UnixMs};

/// Whose limit it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// The tenant's.
    Tenant,
    /// A team's.
    Team,
    /// A key's.
    Key,
    /// The operator's own at a provider.
    Provider,
}

impl Scope {
    /// The word used in rows and answers.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Tenant => "tenant",
            Self::Team => "team",
            Self::Key => "key",
            Self::Provider => "provider",
        }
    }

    /// Reads the word back.
    #[must_use]
    pub fn parse(code: &str) -> Option<Self> {
        [Self::Tenant, Self::Team, Self::Key, Self::Provider].into_iter().find(|s| s.code() == code)
    }
}

/// One limit that applies to a call: whose it is, and what it says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meter {
    /// Whose limit.
    pub scope: Scope,
    /// The row of that tenant, team, key or provider.
    pub scope_id: i64,
    /// What it says.
    pub rule: LimitRule,
}

impl Meter {
    /// The meter's name in rows and answers; unique within a scope.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        use Metric::{Cost, Requests, Tokens};
        match &self.rule {
            LimitRule::Bucket { metric: Requests, .. } => "requests_rate",
            LimitRule::Bucket { metric: Tokens, .. } => "tokens_rate",
            LimitRule::Bucket { metric: Cost, .. } => "cost_rate",
            LimitRule::Window { metric, window, .. } => match (window, metric) {
                (RollingWindow::FiveHours, Requests) => "5h_requests",
                (RollingWindow::FiveHours, Tokens) => "5h_tokens",
                (RollingWindow::FiveHours, Cost) => "5h_cost",
                (RollingWindow::Day, Requests) => "day_requests",
                (RollingWindow::Day, Tokens) => "day_tokens",
                (RollingWindow::Day, Cost) => "day_cost",
                (RollingWindow::Week, Requests) => "week_requests",
                (RollingWindow::Week, Tokens) => "week_tokens",
                (RollingWindow::Week, Cost) => "week_cost",
            },
            LimitRule::Month { metric: Requests, .. } => "month_requests",
            LimitRule::Month { metric: Tokens, .. } => "month_tokens",
            LimitRule::Month { metric: Cost, .. } => "month_cost",
            LimitRule::Balance => "balance",
            LimitRule::Lease { .. } => "concurrency",
        }
    }

    /// What the meter counts.
    #[must_use]
    pub const fn metric(&self) -> Metric {
        match &self.rule {
            LimitRule::Bucket { metric, .. }
            | LimitRule::Window { metric, .. }
            | LimitRule::Month { metric, .. } => *metric,
            LimitRule::Balance => Metric::Cost,
            LimitRule::Lease { .. } => Metric::Requests,
        }
    }
}

/// The worst case of one call, before it is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Estimate {
    /// Tokens it will probably use: for the token rate.
    pub tokens: i64,
    /// The most it can be charged: for every limit on money.
    pub charge: Nanos,
}

impl Estimate {
    /// What the call would take from a meter that counts `metric`.
    #[must_use]
    pub const fn amount(&self, metric: Metric) -> i64 {
        match metric {
            Metric::Requests => 1,
            Metric::Tokens => self.tokens,
            Metric::Cost => self.charge.0,
        }
    }
}

/// What is known of one meter at one instant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Counter {
    /// Of a bucket: its level at an instant. It may be below zero, which is a debt.
    Bucket {
        /// The level in millionths.
        level_micro: i64,
        /// When it was so.
        at: UnixMs,
    },
    /// Of a rolling window: what each slice that still counts used, oldest first, and what is held.
    Rolling {
        /// Start of the slice and what was used in it.
        slices: Vec<(UnixMs, i64)>,
        /// What live calls set aside.
        held: i64,
    },
    /// Of a month: what was used and what is held in the period.
    Month {
        /// The period of the instant of admission.
        period: Period,
        /// What was used in it.
        used: i64,
        /// What live calls set aside in it.
        held: i64,
    },
    /// Of a prepaid balance.
    Balance {
        /// What was ever paid in.
        credited: i64,
        /// What was ever used.
        used: i64,
        /// What live calls set aside.
        held: i64,
    },
    /// Of a lease: how many calls are running.
    Lease {
        /// How many.
        live: i64,
    },
}

/// What an admitted call takes from one meter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Take {
    /// Whose meter.
    pub scope: Scope,
    /// The row of that tenant, team, key or provider.
    pub scope_id: i64,
    /// Which meter.
    pub meter: String,
    /// What it counts.
    pub metric: Metric,
    /// How it gives back.
    pub kind: TakeKind,
    /// How much is set aside, in the metric's unit.
    pub amount: i64,
}

/// How what was taken is given back, and where the use is booked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TakeKind {
    /// Left a bucket: the difference to the real use goes back, or is owed.
    Bucket {
        /// The most the bucket holds, in units.
        capacity: i64,
    },
    /// Is held in a window: the use is booked in the slice of the admission.
    Window {
        /// The start of that slice (rolling) or period (month); 0 for a balance.
        slice_start: UnixMs,
        /// The start of the period whose held amount it is; 0 where the held amount has no period.
        period_start: UnixMs,
    },
    /// Occupies a place until the call ends.
    Lease,
}
