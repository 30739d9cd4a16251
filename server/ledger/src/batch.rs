//! One transaction: events, and with each that is new its attempts, slices, alerts, rollups, postings and notes.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use domain::id::{RequestId, TenantId};
use domain::money::Nanos;
use sqlx::{PgConnection, PgPool};
use time::OffsetDateTime;

use crate::booked;
use crate::drift::{self, Found};
use crate::entry::Entry;
use crate::error::LedgerError;
use crate::usage_event::{Attempt, UsageEvent};
use crate::{posting, rollup, slice};

/// A batch takes milliseconds; one that hangs on a lock or a dying server ends here and is tried again. Its
/// statements are the same each time, and planning the long ones takes longer than running them.
const BEGIN: &str = "begin; set local statement_timeout = '15s'; \
                     set local idle_in_transaction_session_timeout = '15s'; \
                     set local plan_cache_mode = force_generic_plan";

/// Writes the entries in one transaction, and says which of them are new.
///
/// Of several entries with one request id the first counts. An entry that is not new moves nothing.
pub(crate) async fn commit(
    pool: &PgPool,
    entries: &[&Entry],
) -> Result<HashSet<RequestId>, LedgerError> {
    let mut sorted: Vec<&Entry> = entries.to_vec();
    sorted.sort_by_key(|entry| entry.event.request_id);
    sorted.dedup_by_key(|entry| entry.event.request_id);

    let mut transaction = pool.begin_with(BEGIN).await?;
    let connection = &mut *transaction;
    let written = insert_events(connection, &sorted).await?;
    sorted.retain(|entry| written.fresh.contains(&entry.event.request_id));
    if !sorted.is_empty() {
        let events: Vec<&UsageEvent> = sorted.iter().map(|entry| &entry.event).collect();
        insert_attempts(connection, &sorted).await?;
        slice::add(connection, &events).await?;
        rollup::add(connection, &events).await?;
        posting::post(connection, &events, &written.transactions).await?;
        drift::record(connection, &notes(&events)).await?;
    }
    transaction.commit().await?;
    Ok(written.fresh)
}

/// What inserting the events told.
struct Written {
    fresh: HashSet<RequestId>,
    /// The ledger's transaction of each tenant that is charged.
    transactions: BTreeMap<TenantId, i64>,
}

async fn insert_events(
    connection: &mut PgConnection,
    entries: &[&Entry],
) -> Result<Written, LedgerError> {
    let charged: BTreeSet<i64> = entries
        .iter()
        .filter(|entry| entry.event.charge != Nanos::ZERO)
        .map(|entry| entry.event.tenant_id.0)
        .collect();
    let charged: Vec<i64> = charged.into_iter().collect();
    let rows = insert_event_rows(connection, entries, &charged).await?;
    let mut fresh = HashSet::with_capacity(rows.len());
    let mut transactions = BTreeMap::new();
    for row in rows {
        fresh.insert(row.request_id.parse().map_err(|_| LedgerError::unreadable("usage_events"))?);
        if let Some(transaction) = row.ledger_transaction {
            transactions.insert(TenantId(row.tenant_id), transaction);
        }
    }
    Ok(Written { fresh, transactions })
}

struct EventRow {
    request_id: String,
    tenant_id: i64,
    ledger_transaction: Option<i64>,
}

/// One column of the batch.
fn column<T>(entries: &[&Entry], pick: impl Fn(&UsageEvent) -> T) -> Vec<T> {
    entries.iter().map(|entry| pick(&entry.event)).collect()
}

async fn insert_event_rows(
    connection: &mut PgConnection,
    entries: &[&Entry],
    charged: &[i64],
) -> Result<Vec<EventRow>, LedgerError> {
    let of = |pick: fn(&UsageEvent) -> i64| column(entries, pick);
    let rows = sqlx::query_as!(
        EventRow,
        r#"with posted as materialized (
               select t.tenant_id, nextval('ledger_transaction_seq') as id
               from unnest($35::bigint[]) as t (tenant_id))
           insert into usage_events (request_id, tenant_id, team_id, key_id, plan_id, provider_id, dialect,
               route, model, served_model, price_id, stream, admitted_at, ended_at, first_byte_ms, duration_ms,
               outcome, http_status, usage_source, anomaly, input, cached_input, cache_write_short,
               cache_write_long, input_audio, output, reasoning, output_audio, output_image, cost_nanos,
               charge_nanos, hold_nanos, client_request_id, provider_request_id, bookings, ledger_transaction)
           select e.*, posted.id
           from unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[],
               $7::text[], $8::text[], $9::text[], $10::text[], $11::bigint[], $12::boolean[],
               $13::timestamptz[], $14::timestamptz[], $15::int[], $16::int[], $17::text[], $18::int[],
               $19::text[], $20::text[], $21::bigint[], $22::bigint[], $23::bigint[], $24::bigint[],
               $25::bigint[], $26::bigint[], $27::bigint[], $28::bigint[], $29::bigint[], $30::bigint[],
               $31::bigint[], $32::bigint[], $33::text[], $34::text[], $36::text[])
               as e (request_id, tenant_id, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w,
                     x, y, z, aa, cost_nanos, charge_nanos)
           left join posted on posted.tenant_id = e.tenant_id and e.charge_nanos <> 0
           -- Every writer takes the ids in this order, so that none waits for another in a circle.
           order by e.request_id collate "C"
           on conflict on constraint usage_events_pkey do nothing
           returning request_id, tenant_id, ledger_transaction"#,
        &column(entries, |e| e.request_id.to_string())[..],
        &of(|e| e.tenant_id.0)[..],
        &column(entries, |e| e.team_id.map(|id| id.0))[..] as &[Option<i64>],
        &of(|e| e.key_id.0)[..],
        &of(|e| e.plan_id.0)[..],
        &of(|e| e.provider_id.0)[..],
        &column(entries, |e| e.dialect.code().to_owned())[..],
        &column(entries, |e| e.route.clone())[..],
        &column(entries, |e| e.model.clone())[..],
        &column(entries, |e| e.served_model.clone())[..] as &[Option<String>],
        &of(|e| e.price_id.0)[..],
        &column(entries, |e| e.stream)[..],
        &entries.iter().map(|e| e.admitted_at).collect::<Vec<_>>()[..],
        &entries.iter().map(|e| e.ended_at).collect::<Vec<_>>()[..],
        &column(entries, |e| e.first_byte_ms)[..] as &[Option<i32>],
        &column(entries, |e| e.duration_ms)[..],
        &column(entries, |e| e.outcome.code().to_owned())[..],
        &column(entries, |e| e.http_status.map(i32::from))[..] as &[Option<i32>],
        &column(entries, |e| e.usage_source.code().to_owned())[..],
        &column(entries, |e| e.anomaly.clone())[..] as &[Option<String>],
        &of(|e| e.usage.input)[..],
        &of(|e| e.usage.cached_input)[..],
        &of(|e| e.usage.cache_write_short)[..],
        &of(|e| e.usage.cache_write_long)[..],
        &of(|e| e.usage.input_audio)[..],
        &of(|e| e.usage.output)[..],
        &of(|e| e.usage.reasoning)[..],
        &of(|e| e.usage.output_audio)[..],
        &of(|e| e.usage.output_image)[..],
        &of(|e| e.cost.0)[..],
        &of(|e| e.charge.0)[..],
        &of(|e| e.hold.0)[..],
        &column(entries, |e| e.client_request_id.clone())[..] as &[Option<String>],
        &column(entries, |e| e.provider_request_id.clone())[..] as &[Option<String>],
        charged,
        &column(entries, |e| booked::written(&e.bookings))[..],
    )
    .fetch_all(connection)
    .await?;
    Ok(rows)
}

async fn insert_attempts(
    connection: &mut PgConnection,
    entries: &[&Entry],
) -> Result<(), LedgerError> {
    let attempts: Vec<(RequestId, &Attempt, OffsetDateTime)> = entries
        .iter()
        .flat_map(|entry| {
            let started = entry.attempts_started.iter().copied();
            let id = entry.event.request_id;
            entry.event.attempts.iter().zip(started).map(move |(attempt, at)| (id, attempt, at))
        })
        .collect();
    if attempts.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        r#"insert into attempts (request_id, attempt, provider_id, model, status, duration_ms, error, started_at)
           select * from unnest($1::text[], $2::int[], $3::bigint[], $4::text[], $5::int[], $6::int[],
                                $7::text[], $8::timestamptz[])"#,
        &attempts.iter().map(|(id, ..)| id.to_string()).collect::<Vec<_>>()[..],
        &attempts.iter().map(|(_, a, _)| a.attempt).collect::<Vec<_>>()[..],
        &attempts.iter().map(|(_, a, _)| a.provider_id.0).collect::<Vec<_>>()[..],
        &attempts.iter().map(|(_, a, _)| a.model.clone()).collect::<Vec<_>>()[..],
        &attempts.iter().map(|(_, a, _)| a.status.map(i32::from)).collect::<Vec<_>>()[..]
            as &[Option<i32>],
        &attempts.iter().map(|(_, a, _)| a.duration_ms).collect::<Vec<_>>()[..],
        &attempts.iter().map(|(_, a, _)| a.error.clone()).collect::<Vec<_>>()[..]
            as &[Option<String>],
        &attempts.iter().map(|(.., at)| *at).collect::<Vec<_>>()[..],
    )
    .execute(connection)
    .await?;
    Ok(())
}

fn notes<'a>(events: &[&'a UsageEvent]) -> Vec<Found<'a>> {
    let of_event = |event: &&'a UsageEvent| {
        let (tenant_id, request_id) = (event.tenant_id, Some(event.request_id));
        event.drift.iter().map(move |note| Found { tenant_id, request_id, note })
    };
    events.iter().flat_map(of_event).collect()
}
