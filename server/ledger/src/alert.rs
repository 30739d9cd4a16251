//! Thresholds that were crossed: each once per tenant, scope, period and threshold.

use domain::admission::Scope;
use domain::id::{RequestId, TenantId};
use domain::window::UnixMs;
use sqlx::PgPool;

use crate::error::LedgerError;

/// The marks of a month budget that are worth an alert, in percent of its limit.
pub const DEFAULT_THRESHOLDS_PERCENT: [i64; 2] = [80, 100];

/// A threshold that was crossed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alert {
    /// The row.
    pub id: i64,
    /// Whose.
    pub tenant_id: TenantId,
    /// Whose meter.
    pub scope: Scope,
    /// The row of that tenant, team or key.
    pub scope_id: i64,
    /// Which meter.
    pub meter: String,
    /// The start of the period.
    pub period_start: UnixMs,
    /// The threshold, in percent of the limit.
    pub threshold_percent: i64,
    /// The limit then.
    pub limit: i64,
    /// What was used then.
    pub used: i64,
    /// The call that crossed it.
    pub request_id: RequestId,
    /// When.
    pub fired_at: UnixMs,
}

/// The newest alerts, of one tenant or of all; at most `limit`.
///
/// # Errors
/// When the database cannot be reached.
pub async fn list(
    pool: &PgPool,
    tenant_id: Option<TenantId>,
    limit: i64,
) -> Result<Vec<Alert>, LedgerError> {
    let _ = (pool, tenant_id, limit);
    todo!()
}
