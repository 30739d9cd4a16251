//! What was learned of the models' tokens, over the life of a process.

use anyhow::Context;
use gateway::Gateway;
use sqlx::PgPool;
use tenants::calibration;

/// Takes over what is stored. Without it the gateway begins with the usual figures, and learns anew.
pub(crate) async fn load(gateway: &Gateway, pool: &PgPool) {
    match calibration::load(pool).await {
        Ok(stored) => gateway.calibration().adopt(&stored),
        Err(error) => tracing::warn!(%error, "what was learned of tokens is not read"),
    }
}

/// Stores what was learned since the last time, and meets what other processes stored.
pub(crate) async fn keep(gateway: &Gateway, pool: &PgPool) -> anyhow::Result<u64> {
    let learned = gateway.calibration();
    let fresh = learned.fresh();
    if fresh.is_empty() {
        return Ok(0);
    }
    let stored = calibration::merge(pool, &fresh).await.context("calibrations")?;
    learned.stored(&fresh, &stored);
    Ok(u64::try_from(stored.len()).unwrap_or(u64::MAX))
}
