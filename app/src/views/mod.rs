//! What a page shows: plain owned rows, made by the server, free of database types.
//!
//! Units stand in the names: `_nanos` is 1e-9 USD, `_tokens` a count of tokens, `_ms` milliseconds
//! since the Unix epoch (or a length in milliseconds where the name says so), `_permille`
//! thousandths. Intervals are half open: `[from_ms, to_ms)`.

mod filter;
mod keys;
mod reports;
mod tenants;

pub use filter::{
    MixMetric, Month, SpendOrder, TenantColumn, TenantFilter, TenantSort, TrafficRange,
};
pub use keys::{KeyPage, KeyRow, KeyStatus, KeysPanel, NewKey, SampleModels};
pub use reports::{DaySpend, DaysPanel, MixPanel, MixRow, SpendPanel, SpendRow};
pub use tenants::{
    Budget, CallOutcome, CallRow, CallsPanel, StatusCounts, TenantPage, TenantRow, TenantStatus,
    TenantsPage,
};

/// Facts about this installation that the frame of every page shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// What the operator called it at set-up.
    pub name: String,
    /// Whether the data is seeded for a demonstration: every page says so.
    pub demo: bool,
    /// Which engine admits calls right now.
    pub engine: EngineMode,
    /// Whether no owner exists yet: the sign-in page then points to the set-up link.
    pub setup_needed: bool,
    /// Where API clients send their calls, without a trailing slash: `https://gw.example`.
    pub gateway_url: String,
    /// The program's version.
    pub version: String,
    /// The server's clock.
    pub now_ms: i64,
}

/// Which engine admits calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineMode {
    /// Redis, as configured.
    Redis,
    /// PostgreSQL, as configured.
    Postgres,
    /// PostgreSQL, because the configured Redis does not answer.
    PostgresFallback,
}
