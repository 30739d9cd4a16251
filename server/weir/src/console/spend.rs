//! Spend by tenant in one month.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use app::views::{Month, SpendOrder, SpendPanel, SpendRow};
use domain::id::TenantId;
use domain::plan::Plan;
use ledger::report::{TenantPeriod, spend_by_tenant};
use limiter::Admission as _;
use tenants::directory::Snapshot;
use tenants::tenant::{Tenant, TenantStatus};

use super::months::{Caps, TenantMonth, anchor_day, month};
use super::{Fault, HOUSE_ZONE};
use crate::weir::Weir;

/// How many tenants the panel shows.
const ROWS: usize = 10;
/// A cap is nearly used up from here on, in thousandths.
pub(super) const NEARLY_PERMILLE: i64 = 800;
/// A cap is used up from here on, in thousandths.
pub(super) const FULL_PERMILLE: i64 = 1_000;

/// What one tenant spent in its month.
pub(super) struct Spent {
    pub(super) tenant: Arc<Tenant>,
    pub(super) plan: Option<Arc<Plan>>,
    pub(super) month: TenantMonth,
    pub(super) caps: Caps,
    pub(super) settled_nanos: i64,
    pub(super) held_nanos: i64,
}

impl Spent {
    pub(super) fn total_nanos(&self) -> i64 {
        self.settled_nanos.saturating_add(self.held_nanos)
    }

    pub(super) fn used_permille(&self) -> Option<i64> {
        self.caps.used_permille(self.total_nanos())
    }
}

/// What each of `tenants` spent in the month that is asked for, each in its own calendar.
pub(super) async fn of_tenants(
    weir: &Weir,
    snapshot: &Snapshot,
    tenants: Vec<Arc<Tenant>>,
    wanted: Option<Month>,
) -> Result<Vec<Spent>, Fault> {
    let now = weir.clock.now();
    let mut spent = Vec::with_capacity(tenants.len());
    for tenant in tenants {
        let plan = snapshot.plan(tenant.plan).cloned();
        let month = month(wanted, &tenant.zone, anchor_day(plan.as_deref()), now)?;
        let caps = Caps::of(plan.as_deref());
        spent.push(Spent { tenant, plan, month, caps, settled_nanos: 0, held_nanos: 0 });
    }
    let periods: Vec<TenantPeriod> = spent
        .iter()
        .map(|spent| TenantPeriod {
            tenant_id: spent.tenant.id,
            from: spent.month.period.start,
            to: spent.month.period.end,
        })
        .collect();
    let settled = spend_by_tenant(&weir.pool, &periods).await?;
    let settled: HashMap<TenantId, i64> =
        settled.into_iter().map(|row| (row.tenant_id, row.settled.0)).collect();
    let held: HashMap<TenantId, i64> = weir
        .limiter
        .held_by_tenant()
        .await?
        .into_iter()
        .map(|(tenant, nanos)| (tenant, nanos.0))
        .collect();
    for spent in &mut spent {
        let of = |sums: &HashMap<TenantId, i64>| sums.get(&spent.tenant.id).copied().unwrap_or(0);
        spent.settled_nanos = of(&settled);
        // What live calls hold belongs to the month that runs.
        spent.held_nanos = if spent.month.running { of(&held) } else { 0 };
    }
    Ok(spent)
}

pub(super) async fn panel(
    weir: &Weir,
    wanted: Option<Month>,
    order: SpendOrder,
) -> Result<SpendPanel, Fault> {
    let now = weir.clock.now();
    let snapshot = weir.directory.snapshot();
    let living = |tenant: &&Arc<Tenant>| tenant.status != TenantStatus::Archived;
    let tenants: Vec<Arc<Tenant>> = snapshot.tenants().filter(living).cloned().collect();
    let mut spent = of_tenants(weir, &snapshot, tenants, wanted).await?;
    let label = month(wanted, &domain::window::Zone::utc(), 1, now)?.month;
    let sum = |of: fn(&Spent) -> i64| {
        spent.iter().map(of).fold(0_i64, |sum, nanos| sum.saturating_add(nanos))
    };
    let (total_settled_nanos, total_held_nanos) = (sum(|s| s.settled_nanos), sum(|s| s.held_nanos));
    let count = |from: i64, to: i64| {
        let within =
            |spent: &&Spent| spent.used_permille().is_some_and(|used| (from..to).contains(&used));
        i64::try_from(spent.iter().filter(within).count()).unwrap_or(i64::MAX)
    };
    let tenants_at_cap = count(FULL_PERMILLE, i64::MAX);
    let tenants_over_80 = count(NEARLY_PERMILLE, FULL_PERMILLE);
    let tenants = i64::try_from(spent.len()).unwrap_or(i64::MAX);
    spent.sort_by_key(|spent| {
        let by_cap = spent.used_permille().unwrap_or(-1);
        let first = match order {
            SpendOrder::Spend => spent.total_nanos(),
            SpendOrder::Cap => by_cap,
        };
        (Reverse(first), Reverse(spent.total_nanos()), spent.tenant.slug.clone())
    });
    let rows = spent.into_iter().take(ROWS).map(|spent| SpendRow {
        tenant_slug: spent.tenant.slug.clone(),
        tenant_name: spent.tenant.name.clone(),
        plan: spent.plan.as_ref().map(|plan| plan.name.clone()).unwrap_or_default(),
        settled_nanos: spent.settled_nanos,
        held_nanos: spent.held_nanos,
        cap_nanos: spent.caps.cap_nanos,
        hard_stop_nanos: spent.caps.hard_stop_nanos,
        elapsed_permille: spent.month.elapsed_permille(now),
    });
    Ok(SpendPanel {
        month: label,
        zone: HOUSE_ZONE.to_owned(),
        as_of_ms: now.0,
        rows: rows.collect(),
        total_settled_nanos,
        total_held_nanos,
        tenants,
        tenants_at_cap,
        tenants_over_80,
    })
}
