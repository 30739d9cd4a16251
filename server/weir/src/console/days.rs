//! Charges by day and model.

use std::sync::Arc;

use app::views::{DaySpend, DaysPanel, Month};
use domain::window::Zone;
use ledger::report::tenant_days;
use tenants::directory::Snapshot;
use tenants::tenant::Tenant;

use super::months::{TenantMonth, month};
use super::{Fault, HOUSE_ZONE};
use crate::weir::Weir;

pub(super) async fn panel(
    weir: &Weir,
    tenant: Option<(Arc<Snapshot>, Arc<Tenant>)>,
    wanted: Option<Month>,
) -> Result<DaysPanel, Fault> {
    let now = weir.clock.now();
    let tenant = tenant.map(|(_, tenant)| tenant);
    let zone = tenant.as_ref().map_or_else(Zone::utc, |tenant| tenant.zone.clone());
    let name = tenant.as_ref().map_or(HOUSE_ZONE, |tenant| &tenant.time_zone).to_owned();
    // Days are those of the calendar month, wherever the tenant's billing month begins.
    let TenantMonth { month, period, running } = month(wanted, &zone, 1, now)?;
    let id = tenant.as_ref().map(|tenant| tenant.id);
    let spent = tenant_days(&weir.pool, id, period.start, period.end, &zone).await?;
    let mut rows = Vec::with_capacity(spent.len());
    for row in spent.into_iter().filter(|row| row.charge.0 != 0) {
        let day = u8::try_from(zone.day_of(row.day_start)?.day()).unwrap_or(1);
        rows.push(DaySpend { day, model: row.model, charge_nanos: row.charge.0 });
    }
    let today = if running { u8::try_from(zone.day_of(now)?.day()).ok() } else { None };
    Ok(DaysPanel { month, zone: name, as_of_ms: now.0, today, rows })
}
