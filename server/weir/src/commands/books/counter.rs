//! The counter of a tenant's month, at a moment when no call moves it.

use std::time::Duration;

use domain::admission::{Meter, Scope};
use domain::id::TenantId;
use domain::plan::{LimitRule, Metric, Plan};
use domain::window::{Period, UnixMs, Zone};
use ledger::slice;
use limiter::Observer;
use sqlx::PgPool;
use tokio::time::sleep;

/// How often it is read again when a call moved it in between, or was written and not yet settled.
const TRIES: u32 = 20;
/// The pause before that: some times what a settlement takes after its commit.
const PAUSE: Duration = Duration::from_millis(50);

/// What the engine of admission says of a month.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counter {
    /// There is none.
    None,
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
    now: UnixMs,
) -> anyhow::Result<Counter> {
    let budget = plan
        .rules
        .iter()
        .find(|rule| matches!(rule, LimitRule::Month { metric: Metric::Cost, .. }));
    let Some(rule) = budget.cloned() else { return Ok(Counter::None) };
    let meters = [Meter { scope: Scope::Tenant, scope_id: tenant_id.0, rule }];
    let name = meters[0].name();
    let slice = || slice::used(pool, tenant_id, Scope::Tenant, tenant_id.0, name, month.start);
    let mut seen = Counter::Moving;
    for _ in 0..TRIES {
        let before = slice().await?;
        let readings = observer.readings(tenant_id, zone, &meters, Some(now)).await?;
        let after = slice().await?;
        if let Some(reading) = readings.first()
            && before == after
        {
            seen = Counter::Read { used: reading.used, slice: before };
            if reading.used == before {
                break;
            }
        }
        sleep(PAUSE).await;
    }
    Ok(seen)
}
