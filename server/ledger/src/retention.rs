//! What is forgotten: never a fact, only slices that no window can see any more.

use domain::window::UnixMs;
use sqlx::PgPool;

use crate::error::LedgerError;

/// Deletes slices of rolling windows that ended long ago, at most one portion, and says how many.
///
/// # Errors
/// When the database cannot be reached.
pub async fn prune_slices(pool: &PgPool, now: UnixMs) -> Result<u64, LedgerError> {
    let _ = (pool, now);
    todo!()
}
