//! The counter of a tenant's month, at a moment when no call moves it.

use std::time::Duration;

use domain::admission::{Meter, Scope};
use domain::id::TenantId;
use domain::plan::{LimitRule, Metric, Plan};
use domain::window::{Period, Zone};
use ledger::slice;
use limiter::Observer;
use sqlx::PgPool;
use tokio::time::sleep;

/// How often it is read again when it is not what the slice says: a call is in the books a moment before its counter
/// is told.
const TRIES: u32 = 20;
/// The pause in between: all tries together take a second.
const PAUSE: Duration = Duration::from_millis(50);

/// What the engine of admission says of a month.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counter {
    /// There is none.
    None,
    /// The engine that has the authority does not answer.
    Unread,
    /// Calls kept moving it: it cannot be compared now.
    Moving,
    /// What it says is used, and what the slice said before and after it was read.
    Read {
        /// The counter.
        used: i64,
        /// The slice.
        slice: i64,
    },
}

/// Reads the counter of the running month beside its slice.
pub(super) async fn read(
    pool: &PgPool,
    observer: &Observer,
    tenant_id: TenantId,
    zone: &Zone,
    plan: &Plan,
    month: Period,
) -> anyhow::Result<Counter> {
    let is_budget =
        |rule: &&LimitRule| matches!(rule, LimitRule::Month { metric: Metric::Cost, .. });
    let Some(rule) = plan.rules.iter().find(is_budget).cloned() else { return Ok(Counter::None) };
    let meters = [Meter { scope: Scope::Tenant, scope_id: tenant_id.0, rule }];
    let name = meters[0].name();
    let slice = || slice::used(pool, tenant_id, Scope::Tenant, tenant_id.0, name, month.start);
    let first = slice().await?;
    let mut last = Counter::Moving;
    for _ in 0..TRIES {
        let before = slice().await?;
        let used = match observer.readings(tenant_id, zone, &meters, None).await {
            Ok(readings) => readings.first().map_or(0, |reading| reading.used),
            Err(error) => {
                tracing::warn!(%error, "the counter cannot be read");
                return Ok(Counter::Unread);
            }
        };
        if before == slice().await? {
            last = Counter::Read { used, slice: before };
            if used == before {
                return Ok(last);
            }
        }
        sleep(PAUSE).await;
    }
    // Where calls came in between, the difference may be theirs.
    Ok(if slice().await? == first { last } else { Counter::Moving })
}
