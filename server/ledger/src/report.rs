//! The reads behind the pages. All are over rollups and slices; events are only read a page at a time, by index.

use domain::id::{KeyId, RequestId, TenantId};
use domain::money::Nanos;
use domain::usage::{Outcome, UsageSource};
use domain::window::{UnixMs, Zone};
use sqlx::PgPool;

use crate::error::LedgerError;
use crate::refusal::RefusedCall;
use crate::usage_event::{Attempt, UsageEvent};

/// A tenant and the month that is asked for, in its own calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TenantPeriod {
    /// Whose.
    pub tenant_id: TenantId,
    /// The first instant of the period.
    pub from: UnixMs,
    /// The first instant after it.
    pub to: UnixMs,
}

/// What a tenant has been charged in a period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TenantSpend {
    /// Whose.
    pub tenant_id: TenantId,
    /// The sum of the charges of ended calls.
    pub settled: Nanos,
}

/// What one model was used for. The token classes are disjoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelMix {
    /// The model that clients named.
    pub model: String,
    /// Calls.
    pub requests: i64,
    /// Fresh input tokens, audio included.
    pub input: i64,
    /// Input tokens read from a cache.
    pub cached_input: i64,
    /// Input tokens written to a cache.
    pub cache_write: i64,
    /// Visible output tokens, audio and images included.
    pub output: i64,
    /// Thinking tokens.
    pub reasoning: i64,
    /// What providers charge.
    pub cost: Nanos,
    /// What tenants are charged.
    pub charge: Nanos,
}

/// What one model cost on one local day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DaySpend {
    /// The first instant of the day.
    pub day_start: UnixMs,
    /// The model that clients named.
    pub model: String,
    /// Calls.
    pub requests: i64,
    /// What tenants are charged.
    pub charge: Nanos,
}

/// What was spent with one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeySpend {
    /// The key.
    pub key_id: KeyId,
    /// Calls.
    pub requests: i64,
    /// What the tenant is charged.
    pub charge: Nanos,
}

/// How busy a tenant was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TenantActivity {
    /// Whose.
    pub tenant_id: TenantId,
    /// Calls.
    pub requests: i64,
    /// Of them, those that failed at the provider or here.
    pub failed: i64,
    /// What the tenant is charged.
    pub charge: Nanos,
    /// The last quarter of an hour with a call.
    pub last_slot: UnixMs,
}

/// Sums over all tenants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Calls.
    pub requests: i64,
    /// Of them, those that failed at the provider or here.
    pub failed: i64,
    /// Calls whose tokens are Weir's own count.
    pub estimated: i64,
    /// Input tokens of all classes.
    pub input_tokens: i64,
    /// Output tokens of all classes.
    pub output_tokens: i64,
    /// What providers charge.
    pub cost: Nanos,
    /// What tenants are charged.
    pub charge: Nanos,
}

/// Where a page of events begins: before this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventCursor {
    /// Its instant of admission.
    pub admitted_at: UnixMs,
    /// Its id.
    pub request_id: RequestId,
}

/// One line of a list of events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRow {
    /// Names the call.
    pub request_id: RequestId,
    /// When it was admitted.
    pub admitted_at: UnixMs,
    /// The key that called.
    pub key_id: KeyId,
    /// The model that the client named.
    pub model: String,
    /// Whether the answer was a stream.
    pub stream: bool,
    /// How it ended.
    pub outcome: Outcome,
    /// The status that the client got.
    pub http_status: Option<u16>,
    /// Where the token counts come from.
    pub usage_source: UsageSource,
    /// Input tokens of all classes.
    pub input_tokens: i64,
    /// Output tokens of all classes.
    pub output_tokens: i64,
    /// What the tenant is charged.
    pub charge: Nanos,
    /// From the admission to the end, in milliseconds.
    pub duration_ms: i32,
    /// From the admission to the first byte, in milliseconds.
    pub first_byte_ms: Option<i32>,
}

impl EventRow {
    /// The cursor of the page after this row.
    #[must_use]
    pub const fn cursor(&self) -> EventCursor {
        EventCursor { admitted_at: self.admitted_at, request_id: self.request_id }
    }
}

/// An event as it stands in the books.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    /// The event. What it booked and noted is not kept with it: both lists are empty.
    pub event: UsageEvent,
    /// The transaction of the ledger that its charge is part of; nothing when nothing was charged.
    pub ledger_transaction: Option<i64>,
    /// When it was written.
    pub persisted_at: UnixMs,
}

/// What each tenant was charged in its own period: from the month slice, or from the rollups where there is none.
///
/// # Errors
/// When the database cannot be reached.
pub async fn spend_by_tenant(
    pool: &PgPool,
    periods: &[TenantPeriod],
) -> Result<Vec<TenantSpend>, LedgerError> {
    let _ = (pool, periods);
    todo!()
}

/// What each model was used for, of one tenant or of all, largest charge first.
/// Both instants are on a quarter of an hour.
///
/// # Errors
/// When the database cannot be reached.
pub async fn model_mix(
    pool: &PgPool,
    tenant_id: Option<TenantId>,
    from: UnixMs,
    to: UnixMs,
) -> Result<Vec<ModelMix>, LedgerError> {
    let _ = (pool, tenant_id, from, to);
    todo!()
}

/// Charges by local day and model, of one tenant or of all. Days without a call are left out.
///
/// # Errors
/// When the database cannot be reached, or the days are outside the calendar.
pub async fn tenant_days(
    pool: &PgPool,
    tenant_id: Option<TenantId>,
    from: UnixMs,
    to: UnixMs,
    zone: &Zone,
) -> Result<Vec<DaySpend>, LedgerError> {
    let _ = (pool, tenant_id, from, to, zone);
    todo!()
}

/// A tenant's newest events before `before`, newest first.
///
/// # Errors
/// When the database cannot be reached.
pub async fn recent_events(
    pool: &PgPool,
    tenant_id: TenantId,
    before: Option<EventCursor>,
    limit: i64,
) -> Result<Vec<EventRow>, LedgerError> {
    let _ = (pool, tenant_id, before, limit);
    todo!()
}

/// What was spent with each key of a tenant.
///
/// # Errors
/// When the database cannot be reached.
pub async fn key_spend(
    pool: &PgPool,
    tenant_id: TenantId,
    from: UnixMs,
    to: UnixMs,
) -> Result<Vec<KeySpend>, LedgerError> {
    let _ = (pool, tenant_id, from, to);
    todo!()
}

/// How busy each tenant was; tenants without a call are left out.
///
/// # Errors
/// When the database cannot be reached.
pub async fn activity(
    pool: &PgPool,
    from: UnixMs,
    to: UnixMs,
) -> Result<Vec<TenantActivity>, LedgerError> {
    let _ = (pool, from, to);
    todo!()
}

/// Sums over all tenants.
///
/// # Errors
/// When the database cannot be reached.
pub async fn totals(pool: &PgPool, from: UnixMs, to: UnixMs) -> Result<Totals, LedgerError> {
    let _ = (pool, from, to);
    todo!()
}

/// The event of a request id, with its attempts.
///
/// # Errors
/// When the database cannot be reached.
pub async fn find_event(
    pool: &PgPool,
    request_id: RequestId,
) -> Result<Option<StoredEvent>, LedgerError> {
    let _: Option<Attempt> = None;
    let _ = (pool, request_id);
    todo!()
}

/// The refused call of a request id.
///
/// # Errors
/// When the database cannot be reached.
pub async fn find_refusal(
    pool: &PgPool,
    request_id: RequestId,
) -> Result<Option<RefusedCall>, LedgerError> {
    let _ = (pool, request_id);
    todo!()
}
