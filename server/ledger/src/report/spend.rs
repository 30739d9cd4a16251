//! Who spent how much.

use domain::id::{KeyId, TenantId};
use domain::money::Nanos;
use domain::window::{CalendarError, UnixMs, Zone};
use sqlx::PgPool;
use time::OffsetDateTime;

use crate::error::LedgerError;
use crate::instant::instant;

/// The most days that one report may span: a leap year, and a day for the edges.
const MAX_DAYS: usize = 367;

/// A tenant and the month that is asked for, in its own calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TenantPeriod {
    /// Whose.
    pub tenant_id: TenantId,
    /// The first instant of the period.
    pub from: UnixMs,
    /// The first instant after it.
    pub to: UnixMs,
}

/// What a tenant has been charged in a period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TenantSpend {
    /// Whose.
    pub tenant_id: TenantId,
    /// The sum of the charges of ended calls.
    pub settled: Nanos,
}

/// What one model cost on one local day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DaySpend {
    /// The first instant of the day.
    pub day_start: UnixMs,
    /// The model that clients named.
    pub model: String,
    /// Calls.
    pub requests: i64,
    /// What tenants are charged.
    pub charge: Nanos,
}

/// What was spent with one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeySpend {
    /// The key.
    pub key_id: KeyId,
    /// Calls.
    pub requests: i64,
    /// What the tenant is charged.
    pub charge: Nanos,
}

/// What each tenant was charged in its own period: from the month slice, or from the rollups where there is none.
///
/// # Errors
/// When the database cannot be reached.
pub async fn spend_by_tenant(
    pool: &PgPool,
    periods: &[TenantPeriod],
) -> Result<Vec<TenantSpend>, LedgerError> {
    let starts = periods.iter().map(|p| instant(p.from)).collect::<Result<Vec<_>, _>>()?;
    let ends = periods.iter().map(|p| instant(p.to)).collect::<Result<Vec<_>, _>>()?;
    let rows = sqlx::query!(
        r#"select p.tenant_id as "tenant_id!",
                  coalesce(
                      s.used,
                      (select sum(r.charge_nanos)::bigint from usage_rollups r
                       where r.tenant_id = p.tenant_id and r.slot_start >= p.starts and r.slot_start < p.ends),
                      0) as "settled!"
           from unnest($1::bigint[], $2::bigint[], $3::timestamptz[], $4::timestamptz[])
                as p (tenant_id, start_ms, starts, ends)
           left join meter_slices s on s.tenant_id = p.tenant_id and s.scope = 'tenant'
                and s.scope_id = p.tenant_id and s.meter = 'month_cost' and s.slice_start_ms = p.start_ms"#,
        &periods.iter().map(|p| p.tenant_id.0).collect::<Vec<_>>()[..],
        &periods.iter().map(|p| p.from.0).collect::<Vec<_>>()[..],
        &starts[..],
        &ends[..],
    )
    .fetch_all(pool)
    .await?;
    let spend = rows
        .into_iter()
        .map(|row| TenantSpend { tenant_id: TenantId(row.tenant_id), settled: Nanos(row.settled) });
    Ok(spend.collect())
}

/// Charges by local day and model, of one tenant or of all, oldest day first. Days without a call are left out.
/// The first day may be a part of one: it begins at `from`.
///
/// # Errors
/// When the database cannot be reached, or the days are outside the calendar or more than a year.
pub async fn tenant_days(
    pool: &PgPool,
    tenant_id: Option<TenantId>,
    from: UnixMs,
    to: UnixMs,
    zone: &Zone,
) -> Result<Vec<DaySpend>, LedgerError> {
    let days = day_starts(from, to, zone)?;
    let borders = days.iter().map(|day| instant(*day)).collect::<Result<Vec<_>, _>>()?;
    let (from, to) = (instant(from)?, instant(to)?);
    let rows = match tenant_id {
        Some(tenant) => days_of_one(pool, tenant, from, to, &borders).await?,
        None => days_of_all(pool, from, to, &borders).await?,
    };
    let spend = rows.into_iter().filter_map(|row| {
        let at = usize::try_from(row.day.checked_sub(1)?).ok()?;
        Some(DaySpend {
            day_start: *days.get(at)?,
            model: row.model,
            requests: row.requests,
            charge: Nanos(row.charge_nanos),
        })
    });
    Ok(spend.collect())
}

/// The instants at which the local days of a stretch begin.
fn day_starts(from: UnixMs, to: UnixMs, zone: &Zone) -> Result<Vec<UnixMs>, LedgerError> {
    let outside = |_: CalendarError| LedgerError::Rejected("a day is outside the calendar".into());
    let mut starts = Vec::new();
    let mut begins = from;
    let mut day = zone.day_of(from).map_err(outside)?;
    while begins < to {
        if starts.len() == MAX_DAYS {
            return Err(LedgerError::Rejected("more than a year of days".to_owned()));
        }
        starts.push(begins);
        day = day.tomorrow().map_err(|_| outside(CalendarError::OutOfRange))?;
        begins = zone.start_of(day).map_err(outside)?;
    }
    Ok(starts)
}

struct DayRow {
    /// Which day, from 1.
    day: i32,
    model: String,
    requests: i64,
    charge_nanos: i64,
}

async fn days_of_one(
    pool: &PgPool,
    tenant_id: TenantId,
    from: OffsetDateTime,
    to: OffsetDateTime,
    borders: &[OffsetDateTime],
) -> Result<Vec<DayRow>, LedgerError> {
    let rows = sqlx::query_as!(
        DayRow,
        r#"select width_bucket(slot_start, $4::timestamptz[]) as "day!", model,
                  sum(requests)::bigint as "requests!", sum(charge_nanos)::bigint as "charge_nanos!"
           from usage_rollups
           where tenant_id = $1 and slot_start >= $2 and slot_start < $3
           group by 1, 2
           order by 1, 4 desc, 2"#,
        tenant_id.0,
        from,
        to,
        borders,
    )
    .fetch_all(pool)
    .await?;
    Ok(rows)
}

async fn days_of_all(
    pool: &PgPool,
    from: OffsetDateTime,
    to: OffsetDateTime,
    borders: &[OffsetDateTime],
) -> Result<Vec<DayRow>, LedgerError> {
    let rows = sqlx::query_as!(
        DayRow,
        r#"select width_bucket(slot_start, $3::timestamptz[]) as "day!", model,
                  sum(requests)::bigint as "requests!", sum(charge_nanos)::bigint as "charge_nanos!"
           from usage_rollups
           where slot_start >= $1 and slot_start < $2
           group by 1, 2
           order by 1, 4 desc, 2"#,
        from,
        to,
        borders,
    )
    .fetch_all(pool)
    .await?;
    Ok(rows)
}

/// What was spent with each key of a tenant; keys without a call are left out.
/// Both instants are on a quarter of an hour.
///
/// # Errors
/// When the database cannot be reached.
pub async fn key_spend(
    pool: &PgPool,
    tenant_id: TenantId,
    from: UnixMs,
    to: UnixMs,
) -> Result<Vec<KeySpend>, LedgerError> {
    let rows = sqlx::query!(
        r#"select key_id, sum(requests)::bigint as "requests!", sum(charge_nanos)::bigint as "charge!"
           from usage_rollups
           where tenant_id = $1 and slot_start >= $2 and slot_start < $3
           group by key_id
           order by key_id"#,
        tenant_id.0,
        instant(from)?,
        instant(to)?,
    )
    .fetch_all(pool)
    .await?;
    let spend = rows.into_iter().map(|row| KeySpend {
        key_id: KeyId(row.key_id),
        requests: row.requests,
        charge: Nanos(row.charge),
    });
    Ok(spend.collect())
}
