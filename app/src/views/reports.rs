//! Rows of the overview's panels.

use super::Month;

/// Spend by tenant in one month. The rows are the largest ten; what the others spent is the
/// difference to the totals, so that rows and "other" always add up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpendPanel {
    /// The month that was asked for, or the running one.
    pub month: Month,
    /// The zone whose calendar cuts the month: `UTC`, `Europe/Paris`.
    pub zone: String,
    /// When the figures were read.
    pub as_of_ms: i64,
    /// The largest ten, in the order asked for.
    pub rows: Vec<SpendRow>,
    /// Settled by all tenants.
    pub total_settled_nanos: i64,
    /// Held for calls that still run, by all tenants.
    pub total_held_nanos: i64,
    /// How many tenants exist (archived ones left out).
    pub tenants: i64,
    /// How many of them are at or over 100 % of their cap.
    pub tenants_at_cap: i64,
    /// How many of them are at or over 80 % and under 100 %.
    pub tenants_over_80: i64,
}

/// What one tenant spent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpendRow {
    /// The tenant's slug.
    pub tenant_slug: String,
    /// The tenant's name, as somebody typed it.
    pub tenant_name: String,
    /// The plan's name.
    pub plan: String,
    /// Settled this month.
    pub settled_nanos: i64,
    /// Held for calls that still run.
    pub held_nanos: i64,
    /// The month's cap; `None` when the plan has none.
    pub cap_nanos: Option<i64>,
    /// Where calls are refused: the cap with its overage; `None` when the plan has no cap.
    pub hard_stop_nanos: Option<i64>,
    /// How much of the tenant's month has passed.
    pub elapsed_permille: i64,
}

/// Model mix over a window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MixPanel {
    /// First instant counted.
    pub from_ms: i64,
    /// First instant not counted any more.
    pub to_ms: i64,
    /// The zone in which both are shown.
    pub zone: String,
    /// When the figures were read.
    pub as_of_ms: i64,
    /// Every model, largest charge first.
    pub rows: Vec<MixRow>,
}

/// What one model was used for. The four token classes are disjoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MixRow {
    /// The model's name.
    pub model: String,
    /// Fresh input, with audio and cache writes.
    pub input_tokens: i64,
    /// Input read from the provider's cache.
    pub cached_input_tokens: i64,
    /// Visible output, with audio and images.
    pub output_tokens: i64,
    /// Thinking.
    pub reasoning_tokens: i64,
    /// Calls that were admitted.
    pub requests: i64,
    /// What tenants are charged.
    pub charge_nanos: i64,
}

/// Charges by day and model in one month.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DaysPanel {
    /// The month.
    pub month: Month,
    /// The zone whose calendar cuts the days.
    pub zone: String,
    /// When the figures were read.
    pub as_of_ms: i64,
    /// Today's day of the month when the month is the running one: its bar is "so far", and later
    /// days are still to come. `None` for a month that is over.
    pub today: Option<u8>,
    /// One row per day and model with a charge, in any order; days without one are left out.
    pub rows: Vec<DaySpend>,
}

/// What one model cost on one day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DaySpend {
    /// Day of the month, from 1.
    pub day: u8,
    /// The model's name.
    pub model: String,
    /// What tenants are charged.
    pub charge_nanos: i64,
}
