//! Writes the history in bulk: events first, and from the very same rows attempts, rollups, slices, postings, balances.
//!
//! Everything is in the caller's transaction: the books are whole, or there are none.

mod copy;
mod events;
mod notes;
mod rollups;

use std::collections::BTreeMap;

use domain::admission::Scope;
use domain::id::TenantId;
use domain::window::UnixMs;
use ledger::slice::owner;
use ledger::{Booking, UsageEvent};
use sqlx::PgConnection;
use time::OffsetDateTime;

use super::SeedError;
use super::demand::DAY_MS;
use super::history::{Crossing, Day};

/// Who is named as the actor of postings that come from events, as in the ledger itself.
const USAGE_ACTOR: &str = "usage";
/// Who is named as the actor of payments.
const PAYMENT_ACTOR: &str = "demo";
const NANOS_PER_MS: i128 = 1_000_000;

/// One slice of a meter.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct SliceKey {
    owner: i64,
    scope: &'static str,
    scope_id: i64,
    meter: String,
    slice_start_ms: i64,
}

/// Sums that are written once, at the end.
#[derive(Debug)]
pub(super) struct Books {
    now: UnixMs,
    slices: BTreeMap<SliceKey, i64>,
    balances: BTreeMap<i64, i64>,
    crossings: Vec<Crossing>,
    /// How many events were written.
    pub(super) events: usize,
    /// How many refused calls were.
    pub(super) refusals: usize,
}

/// Money that a tenant paid for a month that is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Payment {
    pub(super) tenant_id: TenantId,
    /// In nano-USD.
    pub(super) amount: i64,
    pub(super) at: UnixMs,
}

/// The postings of a chunk, and which events belong to which.
#[derive(Debug, Default)]
struct Postings {
    /// Day, tenant (0 for the house), transaction, amount.
    lines: Vec<(UnixMs, i64, i64, i64)>,
    by_day_and_tenant: BTreeMap<(UnixMs, i64), i64>,
}

impl Books {
    /// Books that are written at `now`.
    pub(super) fn open(now: UnixMs) -> Self {
        Self {
            now,
            slices: BTreeMap::new(),
            balances: BTreeMap::new(),
            crossings: Vec::new(),
            events: 0,
            refusals: 0,
        }
    }

    /// Writes some days.
    pub(super) async fn write(
        &mut self,
        db: &mut PgConnection,
        days: Vec<Day>,
    ) -> Result<(), SeedError> {
        let postings = postings(db, &days).await?;
        let rows: Vec<(&UsageEvent, Option<i64>)> = days
            .iter()
            .flat_map(|day| day.events.iter().map(|event| (event, postings.of(day, event))))
            .collect();
        events::copy(db, &rows).await?;
        events::copy_attempts(db, &rows).await?;
        rollups::copy(db, &rows).await?;
        post(db, &postings.lines, self.now).await?;
        notes::insert_drift(db, &rows).await?;
        for (event, _) in &rows {
            self.add(event)?;
        }
        self.events += rows.len();
        for day in days {
            self.refusals += day.refusals.len();
            notes::insert_refusals(db, &day.refusals).await?;
            self.crossings.extend(day.crossings);
        }
        Ok(())
    }

    fn add(&mut self, event: &UsageEvent) -> Result<(), SeedError> {
        let balance = self.balances.entry(event.tenant_id.0).or_default();
        *balance = balance.checked_sub(event.charge.0).ok_or(SeedError::TooLarge)?;
        for booking in event.bookings.iter().filter(|booking| booking.amount != 0) {
            let slice = self.slices.entry(key(event.tenant_id, booking)).or_default();
            *slice = slice.checked_add(booking.amount).ok_or(SeedError::TooLarge)?;
        }
        Ok(())
    }

    /// What each tenant used of its budget in each month: tenant, the month's first instant, nano-USD.
    pub(super) fn months(&self) -> impl Iterator<Item = (TenantId, UnixMs, i64)> + '_ {
        self.slices
            .iter()
            .filter(|(key, _)| key.scope == Scope::Tenant.code() && key.meter == "month_cost")
            .map(|(key, used)| (TenantId(key.scope_id), UnixMs(key.slice_start_ms), *used))
    }

    /// Writes payments, and then the sums of everything.
    pub(super) async fn close(
        mut self,
        db: &mut PgConnection,
        payments: &[Payment],
    ) -> Result<(), SeedError> {
        for payment in payments {
            let balance = self.balances.entry(payment.tenant_id.0).or_default();
            *balance = balance.checked_add(payment.amount).ok_or(SeedError::TooLarge)?;
        }
        pay(db, payments).await?;
        insert_slices(db, &self.slices).await?;
        insert_balances(db, &self.balances).await?;
        self.crossings.sort_by_key(|crossing| (crossing.at, crossing.request_id));
        notes::insert_alerts(db, &self.crossings).await
    }
}

impl Postings {
    /// The transaction that an event is part of.
    fn of(&self, day: &Day, event: &UsageEvent) -> Option<i64> {
        let charged = event.charge.0 != 0;
        let of_tenant = self.by_day_and_tenant.get(&(day.start, event.tenant_id.0));
        of_tenant.copied().filter(|_| charged)
    }
}

fn key(tenant_id: TenantId, booking: &Booking) -> SliceKey {
    SliceKey {
        owner: owner(tenant_id, booking.scope).0,
        scope: booking.scope.code(),
        scope_id: booking.scope_id,
        meter: booking.meter.clone(),
        slice_start_ms: booking.slice_start.0,
    }
}

/// The instant as the database takes it.
pub(super) fn to_time(at: UnixMs) -> Result<OffsetDateTime, SeedError> {
    let nanos = i128::from(at.0) * NANOS_PER_MS;
    OffsetDateTime::from_unix_timestamp_nanos(nanos).map_err(|_| SeedError::TooLarge)
}

/// Adds up what each tenant is charged, and what the house pays, on each day, and numbers the transactions.
async fn postings(db: &mut PgConnection, days: &[Day]) -> Result<Postings, SeedError> {
    /// The house, among tenants whose ids begin at 1.
    const HOUSE: i64 = 0;
    let mut sums: BTreeMap<(UnixMs, i64), i64> = BTreeMap::new();
    for (day, event) in days.iter().flat_map(|day| day.events.iter().map(move |e| (day, e))) {
        for (account, amount) in [(event.tenant_id.0, event.charge.0), (HOUSE, event.cost.0)] {
            let sum = sums.entry((day.start, account)).or_default();
            *sum = sum.checked_add(amount).ok_or(SeedError::TooLarge)?;
        }
    }
    sums.retain(|_, sum| *sum != 0);
    let transactions = transactions(db, sums.len()).await?;
    let mut postings = Postings::default();
    for (((day, account), sum), transaction) in sums.into_iter().zip(transactions) {
        postings.lines.push((day, account, transaction, sum));
        postings.by_day_and_tenant.insert((day, account), transaction);
    }
    Ok(postings)
}

async fn transactions(db: &mut PgConnection, count: usize) -> Result<Vec<i64>, SeedError> {
    let count = i64::try_from(count).map_err(|_| SeedError::TooLarge)?;
    let ids = sqlx::query_scalar!(
        r#"select nextval('ledger_transaction_seq') as "id!" from generate_series(1, $1::bigint)"#,
        count,
    )
    .fetch_all(db)
    .await?;
    Ok(ids)
}

/// One pair for each tenant and day, and one for the house and day. They are dated at the day's end.
async fn post(
    db: &mut PgConnection,
    lines: &[(UnixMs, i64, i64, i64)],
    now: UnixMs,
) -> Result<(), SeedError> {
    let end_of = |day: UnixMs| day.plus_ms(DAY_MS - 1).min(now);
    let at = lines.iter().map(|(day, ..)| to_time(end_of(*day))).collect::<Result<Vec<_>, _>>()?;
    sqlx::query!(
        r#"insert into balance_ledger (transaction_id, line, tenant_id, account, kind, amount_nanos, actor, at)
           select p.transaction_id, l.line, nullif(p.tenant_id, 0), l.account, 'usage', l.sign * p.amount, $5,
                  p.at
           from unnest($1::timestamptz[], $2::bigint[], $3::bigint[], $4::bigint[])
                as p (at, tenant_id, transaction_id, amount)
           join (values (true, 1, 'balance', -1), (true, 2, 'usage', 1),
                        (false, 1, 'provider_cost', 1), (false, 2, 'provider_payable', -1))
                as l (of_tenant, line, account, sign) on l.of_tenant = (p.tenant_id <> 0)
           order by p.transaction_id, l.line"#,
        &at[..],
        &lines.iter().map(|(_, tenant, ..)| *tenant).collect::<Vec<_>>()[..],
        &lines.iter().map(|(.., transaction, _)| *transaction).collect::<Vec<_>>()[..],
        &lines.iter().map(|(.., amount)| *amount).collect::<Vec<_>>()[..],
        USAGE_ACTOR,
    )
    .execute(db)
    .await?;
    Ok(())
}

/// One pair for each payment.
async fn pay(db: &mut PgConnection, payments: &[Payment]) -> Result<(), SeedError> {
    let transactions = transactions(db, payments.len()).await?;
    let at = payments.iter().map(|p| to_time(p.at)).collect::<Result<Vec<_>, _>>()?;
    sqlx::query!(
        r#"insert into balance_ledger
               (transaction_id, line, tenant_id, account, kind, amount_nanos, reason, actor, at)
           select p.transaction_id, l.line, p.tenant_id, l.account, 'top_up', l.sign * p.amount,
                  'payment of the month before', $5, p.at
           from unnest($1::timestamptz[], $2::bigint[], $3::bigint[], $4::bigint[])
                as p (at, tenant_id, transaction_id, amount)
           cross join (values (1, 'balance', 1), (2, 'credit', -1)) as l (line, account, sign)"#,
        &at[..],
        &payments.iter().map(|p| p.tenant_id.0).collect::<Vec<_>>()[..],
        &transactions[..],
        &payments.iter().map(|p| p.amount).collect::<Vec<_>>()[..],
        PAYMENT_ACTOR,
    )
    .execute(db)
    .await?;
    Ok(())
}

async fn insert_slices(
    db: &mut PgConnection,
    slices: &BTreeMap<SliceKey, i64>,
) -> Result<(), SeedError> {
    sqlx::query!(
        r#"insert into meter_slices (tenant_id, scope, scope_id, meter, slice_start_ms, used)
           select * from unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[], $5::bigint[], $6::bigint[])"#,
        &slices.keys().map(|k| k.owner).collect::<Vec<_>>()[..],
        &slices.keys().map(|k| k.scope.to_owned()).collect::<Vec<_>>()[..],
        &slices.keys().map(|k| k.scope_id).collect::<Vec<_>>()[..],
        &slices.keys().map(|k| k.meter.clone()).collect::<Vec<_>>()[..],
        &slices.keys().map(|k| k.slice_start_ms).collect::<Vec<_>>()[..],
        &slices.values().copied().collect::<Vec<_>>()[..],
    )
    .execute(db)
    .await?;
    Ok(())
}

async fn insert_balances(
    db: &mut PgConnection,
    balances: &BTreeMap<i64, i64>,
) -> Result<(), SeedError> {
    sqlx::query!(
        "insert into balances (tenant_id, balance_nanos) select * from unnest($1::bigint[], $2::bigint[])",
        &balances.keys().copied().collect::<Vec<_>>()[..],
        &balances.values().copied().collect::<Vec<_>>()[..],
    )
    .execute(db)
    .await?;
    Ok(())
}
