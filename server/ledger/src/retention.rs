//! What is forgotten: never a fact, only slices that no window can see any more.

use domain::window::UnixMs;
use sqlx::PgPool;

use crate::error::LedgerError;

/// Slices of rolling windows are kept for two weeks: twice the longest window, so that what a window sees is
/// never near to being deleted.
const SLICES_KEPT_MS: i64 = 14 * 24 * 60 * 60 * 1_000;
/// How many are deleted at once: a portion that holds no lock for long.
const PORTION: i64 = 10_000;

/// Deletes slices of rolling windows that ended long ago, at most one portion, and says how many.
///
/// # Errors
/// When the database cannot be reached.
pub async fn prune_slices(pool: &PgPool, now: UnixMs) -> Result<u64, LedgerError> {
    let done = sqlx::query!(
        r#"delete from meter_slices
           where (tenant_id, scope, scope_id, meter, slice_start_ms) in (
               select tenant_id, scope, scope_id, meter, slice_start_ms
               from meter_slices
               where slice_start_ms < $1 and split_part(meter, '_', 1) in ('5h', 'day', 'week')
               limit $2)"#,
        now.plus_ms(-SLICES_KEPT_MS).0,
        PORTION,
    )
    .execute(pool)
    .await?;
    Ok(done.rows_affected())
}
