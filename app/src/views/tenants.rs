//! Tenants and their calls.

use super::Month;

/// One page of the list of tenants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantsPage {
    /// The running month, which spend is counted in.
    pub month: Month,
    /// The zone of the shown times.
    pub zone: String,
    /// When the figures were read.
    pub as_of_ms: i64,
    /// The rows of this page.
    pub rows: Vec<TenantRow>,
    /// How many tenants pass the filter, over all pages.
    pub matching: i64,
    /// How many tenants exist per status, whatever the filter.
    pub counts: StatusCounts,
    /// Names of the plans, for the filter.
    pub plans: Vec<String>,
}

/// Tenants per status, whatever the filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StatusCounts {
    /// Active, at whatever spend (those in the next two counts too).
    pub active: i64,
    /// Active, at or over 80 % and under 100 % of the cap.
    pub over_80: i64,
    /// Active, at or over 100 % of the cap.
    pub refused: i64,
    /// Suspended by an operator.
    pub suspended: i64,
    /// Archived.
    pub archived: i64,
}

/// How a tenant stands. The first that fits, from the bottom up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TenantStatus {
    /// Calls pass. As a filter: active at whatever spend.
    Active,
    /// At or over 80 % of the month's cap.
    Over80,
    /// At or over 100 % of the month's cap.
    Refused,
    /// Suspended by an operator: every call is refused.
    Suspended,
    /// Kept for the books only.
    Archived,
}

impl TenantStatus {
    /// Every status.
    pub const ALL: [Self; 5] =
        [Self::Active, Self::Over80, Self::Refused, Self::Suspended, Self::Archived];

    /// The status as it stands in the URL.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Over80 => "over80",
            Self::Refused => "refused",
            Self::Suspended => "suspended",
            Self::Archived => "archived",
        }
    }

    /// Reads the URL's form.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }
}

/// A line of the list of tenants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantRow {
    /// The tenant's slug.
    pub slug: String,
    /// The tenant's name, as somebody typed it.
    pub name: String,
    /// The plan's name.
    pub plan: String,
    /// How it stands.
    pub status: TenantStatus,
    /// Settled this month.
    pub settled_nanos: i64,
    /// Held for calls that still run.
    pub held_nanos: i64,
    /// The month's cap; `None` when the plan has none.
    pub cap_nanos: Option<i64>,
    /// Calls admitted in the last 24 hours.
    pub requests_24h: i64,
    /// Of those, calls that failed at the provider or here.
    pub failed_24h: i64,
    /// When the last call came.
    pub last_request_ms: Option<i64>,
    /// When the tenant was created.
    pub created_ms: i64,
}

/// One tenant: the head of its page and its budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantPage {
    /// The tenant's slug.
    pub slug: String,
    /// The tenant's name, as somebody typed it.
    pub name: String,
    /// The plan's name.
    pub plan: String,
    /// How it stands.
    pub status: TenantStatus,
    /// The zone in which its months are cut and its times shown.
    pub zone: String,
    /// When the tenant was created.
    pub created_ms: i64,
    /// When the last call came.
    pub last_request_ms: Option<i64>,
    /// When the figures were read.
    pub as_of_ms: i64,
    /// Money in the month.
    pub budget: Budget,
}

/// Money of one month.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    /// The month.
    pub month: Month,
    /// Settled in the month.
    pub settled_nanos: i64,
    /// Held for calls that still run.
    pub held_nanos: i64,
    /// The month's cap; `None` when the plan has none.
    pub cap_nanos: Option<i64>,
    /// Where calls are refused: the cap with its overage; `None` when the plan has no cap.
    pub hard_stop_nanos: Option<i64>,
    /// How much of the month has passed; 1000 for a month that is over.
    pub elapsed_permille: i64,
    /// When the month ends and the budget starts anew.
    pub resets_ms: i64,
}

/// A tenant's newest calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallsPanel {
    /// The zone of the shown times.
    pub zone: String,
    /// When the figures were read.
    pub as_of_ms: i64,
    /// Newest first, at most 20.
    pub rows: Vec<CallRow>,
}

/// One metered call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallRow {
    /// The request id that the client saw.
    pub request_id: String,
    /// When it was admitted.
    pub at_ms: i64,
    /// The key's name.
    pub key_name: String,
    /// The model's name.
    pub model: String,
    /// How it ended.
    pub outcome: CallOutcome,
    /// All input-side tokens.
    pub input_tokens: i64,
    /// Visible output.
    pub output_tokens: i64,
    /// Thinking.
    pub reasoning_tokens: i64,
    /// What the tenant is charged.
    pub charge_nanos: i64,
    /// From admission to the last byte, a length in milliseconds.
    pub latency_ms: i64,
    /// Whether the usage is our estimate, because the provider gave none.
    pub estimated: bool,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallOutcome {
    /// Answered to the end.
    Completed,
    /// The provider answered with an error.
    ProviderFailed,
    /// The provider did not answer in time.
    TimedOut,
    /// The client went away before the end.
    ClientGone,
    /// The gateway stopped in the middle.
    Interrupted,
    /// Found open after a crash and closed by estimate.
    Orphaned,
}
