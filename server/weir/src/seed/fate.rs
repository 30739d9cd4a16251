//! What becomes of a call that was admitted.

use domain::usage::{Dialect, Outcome, Usage, UsageSource};
use domain::window::UnixMs;

use super::ask::Ask;
use super::cast::{CastTenant, Habit};
use super::demand::{DAY_MS, HOUR_MS};

/// How long a provider may be silent before its first byte.
const FIRST_BYTE_TIMEOUT_MS: i64 = 120_000;
/// The longest a call may take.
const TOTAL_TIMEOUT_MS: i64 = 900_000;
/// The noisy tenant is this slow on the last day, in percent.
const NOISY_SLOW_PERCENT: i64 = 260;

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fate {
    pub(crate) outcome: Outcome,
    /// What the client got; nothing when it had left.
    pub(crate) http_status: Option<u16>,
    /// What the provider answered; nothing when it did not.
    pub(crate) upstream_status: Option<u16>,
    pub(crate) error: Option<&'static str>,
    pub(crate) usage: Usage,
    pub(crate) source: UsageSource,
    pub(crate) first_byte_ms: Option<i64>,
    pub(crate) duration_ms: i64,
}

/// A time in which a provider was not well.
struct Incident {
    dialect: Dialect,
    /// So many days before the history's last day, in UTC.
    days_ago: i64,
    from_ms: i64,
    length_ms: i64,
    /// Of a thousand calls, how many it hit.
    hits: u64,
    what: Trouble,
}

/// What can go wrong at a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trouble {
    Overloaded,
    RateLimited,
    Failed,
    Silent,
}

const INCIDENTS: [Incident; 4] = [
    Incident {
        dialect: Dialect::Anthropic,
        days_ago: 12,
        from_ms: 13 * HOUR_MS,
        length_ms: HOUR_MS,
        hits: 720,
        what: Trouble::Overloaded,
    },
    Incident {
        dialect: Dialect::Openai,
        days_ago: 41,
        from_ms: 15 * HOUR_MS,
        length_ms: 2 * HOUR_MS,
        hits: 320,
        what: Trouble::RateLimited,
    },
    Incident {
        dialect: Dialect::Gemini,
        days_ago: 5,
        from_ms: 9 * HOUR_MS,
        length_ms: HOUR_MS,
        hits: 450,
        what: Trouble::Silent,
    },
    Incident {
        dialect: Dialect::Openai,
        days_ago: 1,
        from_ms: 18 * HOUR_MS,
        length_ms: HOUR_MS / 2,
        hits: 300,
        what: Trouble::Failed,
    },
];

impl Trouble {
    /// Outcome, the client's status, the provider's status, the words.
    const fn told(self) -> (Outcome, u16, Option<u16>, &'static str) {
        match self {
            Self::Overloaded => (Outcome::ProviderError, 502, Some(529), "overloaded"),
            Self::RateLimited => (Outcome::ProviderError, 429, Some(429), "rate limit reached"),
            Self::Failed => (Outcome::ProviderError, 502, Some(500), "internal error"),
            Self::Silent => (Outcome::ProviderTimeout, 504, None, "no first byte in time"),
        }
    }
}

/// Lets a call come to its end.
pub(crate) fn befall(ask: &mut Ask<'_>, tenant: &CastTenant, today: UnixMs) -> Fate {
    if let Some(trouble) = trouble(ask, tenant, today) {
        return failed(ask, trouble);
    }
    let (first_byte_ms, duration_ms) = pace(ask, tenant, today);
    let roll = ask.dice.below(1_000);
    let fine = Fate {
        outcome: Outcome::Ok,
        http_status: Some(200),
        upstream_status: Some(200),
        error: None,
        usage: ask.usage,
        source: UsageSource::Provider,
        first_byte_ms: Some(first_byte_ms),
        duration_ms,
    };
    match roll {
        0..=2 if ask.offer.model.dialect == Dialect::Gemini => {
            let usage = Usage { output: 0, reasoning: 0, ..ask.usage };
            let duration_ms = first_byte_ms;
            Fate { outcome: Outcome::Blocked, usage, duration_ms, ..fine }
        }
        3..=16 if ask.stream => left(ask, fine),
        17 if ask.stream => {
            let cut = left(ask, fine);
            Fate { outcome: Outcome::Interrupted, http_status: Some(200), ..cut }
        }
        18..=20 => {
            // The provider forgot to say what was used.
            let (input, output) = (ask.usage.input_tokens(), ask.usage.output);
            let usage = Usage { input, output, ..Usage::default() };
            Fate { usage, source: UsageSource::Estimated, ..fine }
        }
        _ => fine,
    }
}

/// The client left in the middle. Half of the time the provider was read on to its own count.
fn left(ask: &mut Ask<'_>, fine: Fate) -> Fate {
    let part = ask.dice.between(50, 950);
    let first = fine.first_byte_ms.unwrap_or(0);
    let duration_ms = first + (fine.duration_ms - first) * part / 1_000;
    let gone = Fate { outcome: Outcome::ClientDisconnected, http_status: None, ..fine };
    if ask.dice.chance(500) {
        return gone;
    }
    let usage = Usage {
        input: ask.usage.input_tokens(),
        output: ask.usage.output * part / 1_000,
        ..Usage::default()
    };
    Fate { usage, source: UsageSource::Estimated, duration_ms, ..gone }
}

fn trouble(ask: &mut Ask<'_>, tenant: &CastTenant, today: UnixMs) -> Option<Trouble> {
    let at = ask.call.at;
    for incident in &INCIDENTS {
        let from = today.plus_ms(incident.from_ms - incident.days_ago * DAY_MS);
        let during = from <= at && at < from.plus_ms(incident.length_ms);
        if during && incident.dialect == ask.offer.model.dialect && ask.dice.chance(incident.hits) {
            return Some(incident.what);
        }
    }
    let usual = match tenant.habit {
        Habit::Bursts => 25,
        Habit::Steady | Habit::Hackathon => 7,
    };
    if !ask.dice.chance(usual) {
        return None;
    }
    let weighted = [
        (Trouble::Failed, 3),
        (Trouble::Overloaded, 3),
        (Trouble::RateLimited, 2),
        (Trouble::Silent, 2),
    ];
    ask.dice.pick(&weighted).copied()
}

fn failed(ask: &mut Ask<'_>, trouble: Trouble) -> Fate {
    let (outcome, client, upstream_status, words) = trouble.told();
    let duration_ms = match trouble {
        Trouble::Silent => FIRST_BYTE_TIMEOUT_MS + ask.dice.between(0, 40),
        Trouble::Overloaded | Trouble::RateLimited | Trouble::Failed => ask.dice.between(40, 900),
    };
    Fate {
        outcome,
        http_status: Some(client),
        upstream_status,
        error: Some(words),
        usage: Usage::default(),
        source: UsageSource::None,
        first_byte_ms: None,
        duration_ms,
    }
}

/// Time to the first byte and to the end.
fn pace(ask: &mut Ask<'_>, tenant: &CastTenant, today: UnixMs) -> (i64, i64) {
    let pro = ask.offer.model.class == "pro";
    let ((low, high), (least, most)) =
        if pro { ((420, 1_500), (6, 14)) } else { ((160, 620), (2, 6)) };
    let dice = &mut ask.dice;
    let mut wait = dice.between(low, high) + ask.usage.input_tokens() / 150;
    if dice.chance(30) {
        wait = wait.saturating_mul(4);
    }
    let per_token = dice.between(least, most);
    let slow = tenant.habit == Habit::Bursts && today.since_ms(ask.call.at) < DAY_MS;
    let percent = if slow { NOISY_SLOW_PERCENT } else { 100 };
    let thinking = ask.usage.reasoning * per_token;
    let writing = ask.usage.output * per_token * percent / 100;
    let first = ((wait + thinking) * percent / 100).min(FIRST_BYTE_TIMEOUT_MS - 1);
    let total = (first + writing).min(TOTAL_TIMEOUT_MS - 1);
    if ask.stream { (first, total) } else { (total - total.min(3), total) }
}
