//! The equation of one month of one tenant.

use domain::id::TenantId;
use domain::window::Period;
use sqlx::PgPool;

use super::{AUDIT, BookLine};
use crate::error::LedgerError;
use crate::instant::instant;

/// The sums of one month: of the calls that were admitted in it. The balance is that of today: it has no months.
///
/// Lines of usage are dated when they were posted, and one may hold calls of two months: what belongs to the other
/// month's calls is taken off.
///
/// # Errors
/// When the database cannot be reached.
pub async fn verify_month(
    pool: &PgPool,
    tenant_id: TenantId,
    month: Period,
) -> Result<BookLine, LedgerError> {
    let mut audit = pool.begin_with(AUDIT).await?;
    let row = sqlx::query!(
        r#"with mine as materialized (
               select charge_nanos, cost_nanos, bookings, ledger_transaction from usage_events
               where tenant_id = $1 and admitted_at >= $2 and admitted_at < $3),
           posted as materialized (
               select distinct ledger_transaction as id from mine where ledger_transaction is not null),
           e as (
               select count(*) as events, coalesce(sum(charge_nanos), 0)::bigint as charge,
                      coalesce(sum(cost_nanos), 0)::bigint as cost,
                      coalesce(sum(case when bookings is null then charge_nanos
                          else substring(bookings from 'tenant/[0-9]+/month_cost/' || $4::bigint || '/([0-9]+)')::bigint
                          end), 0)::bigint as month
               from mine),
           others as (
               select coalesce(sum(o.charge_nanos), 0)::bigint as charge
               from usage_events o join posted on posted.id = o.ledger_transaction
               where o.tenant_id = $1 and (o.admitted_at < $2 or o.admitted_at >= $3)
                 and o.admitted_at >= $2::timestamptz - interval '35 days'
                 and o.admitted_at < $3::timestamptz + interval '35 days'),
           r as (
               select coalesce(sum(requests), 0)::bigint as requests, coalesce(sum(charge_nanos), 0)::bigint as charge,
                      coalesce(sum(cost_nanos), 0)::bigint as cost
               from usage_rollups where tenant_id = $1 and slot_start >= $2 and slot_start < $3),
           used as (
               select coalesce(sum(l.amount_nanos), 0)::bigint as used
               from balance_ledger l join posted on posted.id = l.transaction_id
               where l.tenant_id = $1 and l.account = 'usage' and l.kind = 'usage')
           select e.events as "events!", e.charge as "events_charge!", e.cost as "events_cost!",
                  (e.month - coalesce((select sum(amount) from give_backs
                      where (tenant_id, scope, scope_id, meter, slice_start_ms) = ($1, 'tenant', $1, 'month_cost', $4)),
                      0))::bigint as "month_expected!",
                  r.requests as "rollup_requests!", r.charge as "rollups_charge!", r.cost as "rollups_cost!",
                  (used.used - others.charge)::bigint as "ledger_usage!",
                  (select used from meter_slices where (tenant_id, scope, scope_id, meter, slice_start_ms)
                      = ($1, 'tenant', $1, 'month_cost', $4)) as "month_slices?",
                  (select coalesce(sum(amount_nanos), 0)::bigint from balance_ledger
                   where tenant_id = $1 and account = 'balance') as "ledger_balance!",
                  coalesce((select balance_nanos from balances where tenant_id = $1), 0) as "balance!"
           from e, others, r, used"#,
        tenant_id.0,
        instant(month.start)?,
        instant(month.end)?,
        month.start.0,
    )
    .fetch_one(&mut *audit)
    .await?;
    audit.rollback().await?;
    Ok(BookLine {
        tenant_id,
        events: row.events,
        rollup_requests: row.rollup_requests,
        events_charge: row.events_charge,
        ledger_usage: row.ledger_usage,
        rollups_charge: row.rollups_charge,
        month_expected: row.month_expected,
        month_slices: row.month_slices,
        ledger_balance: row.ledger_balance,
        balance: row.balance,
        events_cost: row.events_cost,
        rollups_cost: row.rollups_cost,
    })
}
