//! Budgets that a correction gives back: slices are lowered, never below zero, and alerts whose mark is not reached
//! any more are withdrawn, so that the threshold fires again when it is really crossed.

use std::collections::BTreeMap;

use domain::id::TenantId;
use domain::money::Nanos;
use domain::window::UnixMs;
use sqlx::PgConnection;

use crate::movement::MovementError;
use crate::usage_event::Booking;

/// The longest month, with a change of the clock in it.
const MONTH_MS_MAX: i64 = (31 * 24 + 2) * 60 * 60 * 1_000;

/// One slice of a tenant's own meters. The order of the fields is the order in which rows are locked.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Slice {
    scope: String,
    scope_id: i64,
    meter: String,
    slice_start_ms: i64,
}

impl From<Booking> for Slice {
    fn from(booking: Booking) -> Self {
        Self {
            scope: booking.scope.code().to_owned(),
            scope_id: booking.scope_id,
            meter: booking.meter,
            slice_start_ms: booking.slice_start.0,
        }
    }
}

/// How much each slice gets back.
pub(crate) type Shares = BTreeMap<Slice, i64>;

/// A slice, what it was, and by how much it moves.
struct Change {
    slice: Slice,
    used: i64,
    by: i64,
}

/// The slice of the tenant's month budget that `at` lies in; nothing when nothing was booked on one.
pub(crate) async fn month_slice(
    connection: &mut PgConnection,
    tenant_id: TenantId,
    at: UnixMs,
) -> Result<Option<Slice>, sqlx::Error> {
    let start = sqlx::query_scalar!(
        r#"select slice_start_ms from meter_slices
           where tenant_id = $1 and scope = 'tenant' and scope_id = $1 and meter = 'month_cost'
             and slice_start_ms between $2 and $3
           order by slice_start_ms desc limit 1"#,
        tenant_id.0,
        at.plus_ms(-MONTH_MS_MAX).0,
        at.0,
    )
    .fetch_optional(connection)
    .await?;
    Ok(start.map(|slice_start_ms| Slice {
        scope: "tenant".to_owned(),
        scope_id: tenant_id.0,
        meter: "month_cost".to_owned(),
        slice_start_ms,
    }))
}

/// Gives the tenant's budget of the month of `at` an amount back.
pub(crate) async fn of_month(
    connection: &mut PgConnection,
    tenant_id: TenantId,
    transaction_id: i64,
    at: UnixMs,
    amount: Nanos,
) -> Result<(), MovementError> {
    let Some(slice) = month_slice(connection, tenant_id, at).await? else {
        return Err(MovementError::NotFound("month budget with usage at that instant"));
    };
    let shares = Shares::from([(slice, amount.0)]);
    Ok(lower(connection, tenant_id, transaction_id, &shares).await?)
}

/// Lowers slices, each by its share or to zero, notes by how much, and withdraws alerts.
pub(crate) async fn lower(
    connection: &mut PgConnection,
    tenant_id: TenantId,
    transaction_id: i64,
    shares: &Shares,
) -> Result<(), sqlx::Error> {
    let mut changes = locked(connection, tenant_id, shares).await?;
    for change in &mut changes {
        change.by = -change.by.min(change.used);
    }
    changes.retain(|change| change.by != 0);
    write(connection, tenant_id, transaction_id, &changes).await?;
    withdraw(connection, tenant_id, transaction_id, &changes).await
}

/// Takes again what a movement gave back, and fires again the alerts that it withdrew.
pub(crate) async fn take_again(
    connection: &mut PgConnection,
    tenant_id: TenantId,
    undone: i64,
    transaction_id: i64,
) -> Result<(), sqlx::Error> {
    let rows = sqlx::query!(
        r#"select scope, scope_id, meter, slice_start_ms, amount from give_backs
           where transaction_id = $1 and tenant_id = $2"#,
        undone,
        tenant_id.0,
    )
    .fetch_all(&mut *connection)
    .await?;
    let given = rows.into_iter().map(|row| {
        let (scope, scope_id, meter) = (row.scope, row.scope_id, row.meter);
        (Slice { scope, scope_id, meter, slice_start_ms: row.slice_start_ms }, row.amount)
    });
    // A slice that no window sees any more has been forgotten: it needs nothing.
    let changes = locked(connection, tenant_id, &given.collect()).await?;
    write(connection, tenant_id, transaction_id, &changes).await?;
    fire_again(connection, tenant_id, undone, &changes).await
}

/// Locks the slices that are there, in the order of all writers, and says what they hold.
async fn locked(
    connection: &mut PgConnection,
    tenant_id: TenantId,
    shares: &Shares,
) -> Result<Vec<Change>, sqlx::Error> {
    if shares.is_empty() {
        return Ok(Vec::new());
    }
    let rows = sqlx::query!(
        r#"select s.scope, s.scope_id, s.meter, s.slice_start_ms, s.used, w.share as "share!"
           from meter_slices s
           join unnest($2::text[], $3::bigint[], $4::text[], $5::bigint[], $6::bigint[])
                as w (scope, scope_id, meter, slice_start_ms, share)
                on (s.scope, s.scope_id, s.meter, s.slice_start_ms)
                   = (w.scope, w.scope_id, w.meter, w.slice_start_ms)
           where s.tenant_id = $1
           order by s.scope collate "C", s.scope_id, s.meter collate "C", s.slice_start_ms
           for update of s"#,
        tenant_id.0,
        &shares.keys().map(|s| s.scope.clone()).collect::<Vec<_>>()[..],
        &shares.keys().map(|s| s.scope_id).collect::<Vec<_>>()[..],
        &shares.keys().map(|s| s.meter.clone()).collect::<Vec<_>>()[..],
        &shares.keys().map(|s| s.slice_start_ms).collect::<Vec<_>>()[..],
        &shares.values().copied().collect::<Vec<_>>()[..],
    )
    .fetch_all(connection)
    .await?;
    let changes = rows.into_iter().map(|row| {
        let (scope, scope_id, meter) = (row.scope, row.scope_id, row.meter);
        let slice = Slice { scope, scope_id, meter, slice_start_ms: row.slice_start_ms };
        Change { slice, used: row.used, by: row.share }
    });
    Ok(changes.collect())
}

/// Moves the locked slices, and notes what they got back.
async fn write(
    connection: &mut PgConnection,
    tenant_id: TenantId,
    transaction_id: i64,
    changes: &[Change],
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        r#"with change as (
               select * from unnest($3::text[], $4::bigint[], $5::text[], $6::bigint[], $7::bigint[])
                   as c (scope, scope_id, meter, slice_start_ms, by)),
           moved as (
               update meter_slices s set used = s.used + c.by from change c
               where s.tenant_id = $1 and (s.scope, s.scope_id, s.meter, s.slice_start_ms)
                   = (c.scope, c.scope_id, c.meter, c.slice_start_ms))
           insert into give_backs (tenant_id, scope, scope_id, meter, slice_start_ms, transaction_id, amount)
           select $1, scope, scope_id, meter, slice_start_ms, $2, -by from change"#,
        tenant_id.0,
        transaction_id,
        &changes.iter().map(|c| c.slice.scope.clone()).collect::<Vec<_>>()[..],
        &changes.iter().map(|c| c.slice.scope_id).collect::<Vec<_>>()[..],
        &changes.iter().map(|c| c.slice.meter.clone()).collect::<Vec<_>>()[..],
        &changes.iter().map(|c| c.slice.slice_start_ms).collect::<Vec<_>>()[..],
        &changes.iter().map(|c| c.by).collect::<Vec<_>>()[..],
    )
    .execute(connection)
    .await
    .map(drop)
}

/// Withdraws the alerts of these slices whose mark is above what is used now.
async fn withdraw(
    connection: &mut PgConnection,
    tenant_id: TenantId,
    transaction_id: i64,
    changes: &[Change],
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        r#"insert into withdrawn_alerts (alert_id, transaction_id)
           select a.id, $2
           from unnest($3::text[], $4::bigint[], $5::text[], $6::bigint[], $7::bigint[])
                as c (scope, scope_id, meter, slice_start_ms, used)
           join alerts a on (a.tenant_id, a.scope, a.scope_id, a.meter, a.period_start_ms)
                          = ($1, c.scope, c.scope_id, c.meter, c.slice_start_ms)
           where a.limit_amount::numeric * a.threshold_percent > c.used::numeric * 100
             and not exists (select from withdrawn_alerts w where w.alert_id = a.id)"#,
        tenant_id.0,
        transaction_id,
        &changes.iter().map(|c| c.slice.scope.clone()).collect::<Vec<_>>()[..],
        &changes.iter().map(|c| c.slice.scope_id).collect::<Vec<_>>()[..],
        &changes.iter().map(|c| c.slice.meter.clone()).collect::<Vec<_>>()[..],
        &changes.iter().map(|c| c.slice.slice_start_ms).collect::<Vec<_>>()[..],
        &changes.iter().map(|c| c.used.saturating_add(c.by)).collect::<Vec<_>>()[..],
    )
    .execute(connection)
    .await
    .map(drop)
}

/// Fires again the alerts that a movement withdrew, where their mark is reached again now that it is undone.
async fn fire_again(
    connection: &mut PgConnection,
    tenant_id: TenantId,
    undone: i64,
    changes: &[Change],
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        r#"insert into alerts (tenant_id, scope, scope_id, meter, period_start_ms, threshold_percent,
                               limit_amount, used_amount, request_id, round)
           select a.tenant_id, a.scope, a.scope_id, a.meter, a.period_start_ms, a.threshold_percent,
                  a.limit_amount, c.used, a.request_id, a.round + 1
           from withdrawn_alerts w
           join alerts a on a.id = w.alert_id and a.tenant_id = $1
           join unnest($3::text[], $4::bigint[], $5::text[], $6::bigint[], $7::bigint[])
                as c (scope, scope_id, meter, slice_start_ms, used)
                on (a.scope, a.scope_id, a.meter, a.period_start_ms)
                   = (c.scope, c.scope_id, c.meter, c.slice_start_ms)
           where w.transaction_id = $2 and a.limit_amount::numeric * a.threshold_percent <= c.used::numeric * 100
           on conflict on constraint alerts_once_key do nothing"#,
        tenant_id.0,
        undone,
        &changes.iter().map(|c| c.slice.scope.clone()).collect::<Vec<_>>()[..],
        &changes.iter().map(|c| c.slice.scope_id).collect::<Vec<_>>()[..],
        &changes.iter().map(|c| c.slice.meter.clone()).collect::<Vec<_>>()[..],
        &changes.iter().map(|c| c.slice.slice_start_ms).collect::<Vec<_>>()[..],
        &changes.iter().map(|c| c.used.saturating_add(c.by)).collect::<Vec<_>>()[..],
    )
    .execute(connection)
    .await
    .map(drop)
}
