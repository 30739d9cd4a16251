//! Slices against the events' bookings, less what corrections gave back.

use domain::id::TenantId;
use domain::window::UnixMs;
use sqlx::{PgConnection, PgPool};

use super::{Compared, DIFFERENCES_AT_ONCE, Difference};
use crate::drift;
use crate::error::LedgerError;
use crate::instant::{instant, to_ms};
use crate::usage_event::DriftNote;

/// Slices of rolling windows are forgotten after two weeks: what is about to be is not compared any more.
const ROLLING_KEPT_MS: i64 = 13 * 24 * 60 * 60 * 1_000;
/// How far back the shared meters are compared: the running month and the one before it.
const HOUSE_MS: i64 = 63 * 24 * 60 * 60 * 1_000;
/// A month with more events than these is compared by the daily audit only: reading them takes some tenths of a
/// second, and every tenant with traffic is compared every minute.
const EVENTS_AT_ONCE: i64 = 200_000;

/// A slice as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mend {
    scope: String,
    scope_id: i64,
    meter: String,
    slice_start_ms: i64,
    expected: i64,
    /// What it was; nothing when it was not there.
    found: Option<i64>,
}

/// From where on the shared meters are compared.
pub(super) fn from_for_house(now: UnixMs) -> UnixMs {
    now.plus_ms(-HOUSE_MS)
}

/// The start of the earliest month that events since `from` were booked on, unless too many events are in it.
pub(super) async fn month_in_reach(
    snapshot: &mut PgConnection,
    tenant_id: TenantId,
    from: UnixMs,
) -> Result<Option<UnixMs>, LedgerError> {
    let start = sqlx::query_scalar!(
        r#"select min(split_part(word, '/', 4)::bigint) from usage_events e, string_to_table(e.bookings, ' ') as word
           where e.tenant_id = $1 and e.admitted_at >= $2 and split_part(word, '/', 3) like 'month\_%'"#,
        tenant_id.0,
        instant(from)?,
    )
    .fetch_one(&mut *snapshot)
    .await?;
    let Some(start) = start.map(UnixMs) else { return Ok(None) };
    let events = sqlx::query_scalar!(
        r#"select coalesce(sum(requests), 0)::bigint as "events!" from usage_rollups
           where tenant_id = $1 and slot_start >= $2"#,
        tenant_id.0,
        instant(start)?,
    )
    .fetch_one(snapshot)
    .await?;
    Ok((events <= EVENTS_AT_ONCE).then_some(start))
}

struct Row {
    scope: String,
    scope_id: i64,
    meter: String,
    slice_start_ms: i64,
    expected: i64,
    found: Option<i64>,
}

/// Compares every slice that begins at `from` or later; that of a balance, which begins at 0, with everything.
pub(super) async fn compare(
    snapshot: &mut PgConnection,
    tenant_id: TenantId,
    from: UnixMs,
    now: UnixMs,
    compared: &mut Compared,
) -> Result<(), LedgerError> {
    let silent_to = last_silent(snapshot, tenant_id, from).await?;
    let rows = differing(snapshot, tenant_id, from, silent_to, now).await?;
    compared.unproven = unproven(snapshot, tenant_id, from, silent_to, now).await?;
    compared.differences.extend(rows.into_iter().map(|row| {
        // A correction of a slice that was too high may have given back more than was booked.
        let expected = row.expected.max(0);
        let place = format!(
            "{} {}, slice from {} ms: the events and corrections say otherwise",
            row.scope, row.scope_id, row.slice_start_ms
        );
        let note = DriftNote {
            kind: drift::SLICE.to_owned(),
            meter: Some(row.meter.clone()),
            expected,
            found: row.found.unwrap_or(0),
            cause: place,
        };
        let mend = Mend {
            scope: row.scope,
            scope_id: row.scope_id,
            meter: row.meter,
            slice_start_ms: row.slice_start_ms,
            expected,
            found: row.found,
        };
        Difference { tenant_id, note, mend: Some(super::Mend::Slice(mend)) }
    }));
    Ok(())
}

/// When the last event was admitted that does not tell what it booked; nothing when all do. A slice that begins
/// later has none of them in it.
async fn last_silent(
    snapshot: &mut PgConnection,
    tenant_id: TenantId,
    from: UnixMs,
) -> Result<Option<i64>, LedgerError> {
    let last = sqlx::query_scalar!(
        r#"select max(admitted_at) from usage_events
           where ($1::bigint = 0 or tenant_id = $1) and admitted_at >= $2 and bookings is null"#,
        tenant_id.0,
        instant(from)?,
    )
    .fetch_one(snapshot)
    .await?;
    Ok(last.map(|last| to_ms(last).0))
}

async fn differing(
    snapshot: &mut PgConnection,
    tenant_id: TenantId,
    from: UnixMs,
    silent_to: Option<i64>,
    now: UnixMs,
) -> Result<Vec<Row>, LedgerError> {
    let rows = sqlx::query_as!(
        Row,
        r#"with booked as (
               select split_part(word, '/', 1) as scope, split_part(word, '/', 2)::bigint as scope_id,
                      split_part(word, '/', 3) as meter, split_part(word, '/', 4)::bigint as slice_start_ms,
                      split_part(word, '/', 5)::bigint as amount
               from usage_events e, string_to_table(e.bookings, ' ') as word
               where ($1::bigint = 0 or e.tenant_id = $1) and e.admitted_at >= $3 and word <> ''
                 and (split_part(word, '/', 1) = 'provider') = ($1::bigint = 0)
               union all
               select scope, scope_id, meter, slice_start_ms, -amount from give_backs where tenant_id = $1),
           truth as (
               select scope, scope_id, meter, slice_start_ms, sum(amount)::bigint as used
               from booked group by 1, 2, 3, 4),
           kept as (
               select scope, scope_id, meter, slice_start_ms, used from meter_slices where tenant_id = $1)
           select scope as "scope!", scope_id as "scope_id!", meter as "meter!", slice_start_ms as "slice_start_ms!",
                  coalesce(truth.used, 0) as "expected!", kept.used as "found?"
           from truth full join kept using (scope, scope_id, meter, slice_start_ms)
           where slice_start_ms >= $2 and slice_start_ms > coalesce($4, -9223372036854775808)
             and (split_part(meter, '_', 1) not in ('5h', 'day', 'week') or slice_start_ms >= $5)
             and greatest(coalesce(truth.used, 0), 0) <> coalesce(kept.used, 0)
           order by 1, 2, 3, 4
           limit $6"#,
        tenant_id.0,
        from.0,
        instant(from)?,
        silent_to,
        now.plus_ms(-ROLLING_KEPT_MS).0,
        DIFFERENCES_AT_ONCE,
    )
    .fetch_all(snapshot)
    .await?;
    Ok(rows)
}

/// How many slices hold events that do not tell what they booked.
async fn unproven(
    snapshot: &mut PgConnection,
    tenant_id: TenantId,
    from: UnixMs,
    silent_to: Option<i64>,
    now: UnixMs,
) -> Result<i64, LedgerError> {
    let Some(silent_to) = silent_to else { return Ok(0) };
    let count = sqlx::query_scalar!(
        r#"select count(*) as "count!" from meter_slices
           where tenant_id = $1 and slice_start_ms >= $2 and slice_start_ms <= $3
             and (split_part(meter, '_', 1) not in ('5h', 'day', 'week') or slice_start_ms >= $4)"#,
        tenant_id.0,
        from.0,
        silent_to,
        now.plus_ms(-ROLLING_KEPT_MS).0,
    )
    .fetch_one(snapshot)
    .await?;
    Ok(count)
}

impl Mend {
    /// Sets the slice right if it still is what was seen.
    pub(super) async fn apply(
        &self,
        pool: &PgPool,
        tenant_id: TenantId,
    ) -> Result<bool, LedgerError> {
        let done = match self.found {
            Some(found) => {
                sqlx::query!(
                    r#"update meter_slices set used = $6
                       where (tenant_id, scope, scope_id, meter, slice_start_ms) = ($1, $2, $3, $4, $5)
                         and used = $7"#,
                    tenant_id.0,
                    self.scope,
                    self.scope_id,
                    self.meter,
                    self.slice_start_ms,
                    self.expected,
                    found,
                )
                .execute(pool)
                .await?
            }
            None => {
                sqlx::query!(
                    r#"insert into meter_slices (tenant_id, scope, scope_id, meter, slice_start_ms, used)
                       values ($1, $2, $3, $4, $5, $6)
                       on conflict on constraint meter_slices_pkey do nothing"#,
                    tenant_id.0,
                    self.scope,
                    self.scope_id,
                    self.meter,
                    self.slice_start_ms,
                    self.expected,
                )
                .execute(pool)
                .await?
            }
        };
        Ok(done.rows_affected() == 1)
    }
}
