//! One tenant: its head and its budget.

use std::sync::Arc;

use app::views::{Budget, Month, TenantPage, TenantStatus as Shown};
use ledger::report::last_calls;
use tenants::directory::Snapshot;
use tenants::tenant::{Tenant, TenantStatus};

use super::Fault;
use super::spend::{FULL_PERMILLE, NEARLY_PERMILLE, Spent, of_tenants};
use crate::weir::Weir;

/// How a tenant stands: the gravest that fits.
pub(super) fn standing(spent: &Spent) -> Shown {
    match (spent.tenant.status, spent.used_permille()) {
        (TenantStatus::Archived, _) => Shown::Archived,
        (TenantStatus::Suspended, _) => Shown::Suspended,
        (TenantStatus::Active, Some(used)) if used >= FULL_PERMILLE => Shown::Refused,
        (TenantStatus::Active, Some(used)) if used >= NEARLY_PERMILLE => Shown::Over80,
        (TenantStatus::Active, _) => Shown::Active,
    }
}

pub(super) async fn page(
    weir: &Weir,
    snapshot: &Snapshot,
    tenant: &Arc<Tenant>,
    wanted: Option<Month>,
) -> Result<TenantPage, Fault> {
    let now = weir.clock.now();
    let month = of_tenants(weir, snapshot, vec![Arc::clone(tenant)], wanted).await?.pop();
    let Some(spent) = month else { return Err(app::console::ConsoleError::NotFound.into()) };
    // How a tenant stands is a matter of the running month, whichever is looked at.
    let status = if spent.month.running {
        standing(&spent)
    } else {
        let running = of_tenants(weir, snapshot, vec![Arc::clone(tenant)], None).await?.pop();
        running.as_ref().map_or(Shown::Active, standing)
    };
    let last = last_calls(&weir.pool, &[tenant.id]).await?;
    Ok(TenantPage {
        slug: tenant.slug.clone(),
        name: tenant.name.clone(),
        plan: spent.plan.as_ref().map(|plan| plan.name.clone()).unwrap_or_default(),
        status,
        zone: tenant.time_zone.clone(),
        created_ms: tenant.created_at.0,
        last_request_ms: last.first().map(|(_, at)| at.0),
        as_of_ms: now.0,
        budget: Budget {
            month: spent.month.month,
            settled_nanos: spent.settled_nanos,
            held_nanos: spent.held_nanos,
            cap_nanos: spent.caps.cap_nanos,
            hard_stop_nanos: spent.caps.hard_stop_nanos,
            elapsed_permille: spent.month.elapsed_permille(now),
            resets_ms: spent.month.period.end.0,
        },
    })
}
