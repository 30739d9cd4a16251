//! Numbers that should have been equal, written down before anything is repaired.

use domain::id::{RequestId, TenantId};
use domain::window::UnixMs;
use sqlx::PgPool;

use crate::error::LedgerError;
use crate::usage_event::DriftNote;

/// A difference that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drift {
    /// The row.
    pub id: i64,
    /// Whose.
    pub tenant_id: TenantId,
    /// The call, when it is one's.
    pub request_id: Option<RequestId>,
    /// What differed.
    pub note: DriftNote,
    /// When it was seen.
    pub seen_at: UnixMs,
}

/// The newest differences, of one tenant or of all; at most `limit`.
///
/// # Errors
/// When the database cannot be reached.
pub async fn list(
    pool: &PgPool,
    tenant_id: Option<TenantId>,
    limit: i64,
) -> Result<Vec<Drift>, LedgerError> {
    let _ = (pool, tenant_id, limit);
    todo!()
}
