//! Sums for the pages by quarter of an hour, kept in the events' transaction.

use std::collections::BTreeMap;

use domain::usage::UsageSource;
use domain::window::rollup_start;
use sqlx::PgConnection;
use time::OffsetDateTime;

use crate::error::LedgerError;
use crate::instant::instant;
use crate::usage_event::UsageEvent;

/// One row of the rollups. The order of the fields is the order in which rows are locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct RollupKey<'a> {
    tenant_id: i64,
    slot_start: OffsetDateTime,
    key_id: i64,
    model: &'a str,
    outcome: &'static str,
    team_id: i64,
}

/// How many sums a row has.
const SUMS: usize = 10;
/// In the order of the columns: requests, estimated, input, `cached_input`, `cache_write`, output, reasoning,
/// `cost_nanos`, `charge_nanos`, `duration_ms`.
type Sums = [i64; SUMS];

fn key(event: &UsageEvent) -> Result<RollupKey<'_>, LedgerError> {
    Ok(RollupKey {
        tenant_id: event.tenant_id.0,
        slot_start: instant(rollup_start(event.admitted_at))?,
        key_id: event.key_id.0,
        model: &event.model,
        outcome: event.outcome.code(),
        team_id: event.team_id.map_or(0, |team| team.0),
    })
}

fn sums(event: &UsageEvent) -> Sums {
    let usage = &event.usage;
    [
        1,
        i64::from(event.usage_source == UsageSource::Estimated),
        usage.input.saturating_add(usage.input_audio),
        usage.cached_input,
        usage.cache_write_short.saturating_add(usage.cache_write_long),
        usage.output.saturating_add(usage.output_audio).saturating_add(usage.output_image),
        usage.reasoning,
        event.cost.0,
        event.charge.0,
        i64::from(event.duration_ms),
    ]
}

/// Adds up per row: a busy key's row is written once for the batch.
fn sum<'a>(events: &[&'a UsageEvent]) -> Result<BTreeMap<RollupKey<'a>, Sums>, LedgerError> {
    let too_large =
        || LedgerError::Rejected("the sums of one quarter of an hour do not fit".into());
    let mut rows: BTreeMap<RollupKey<'a>, Sums> = BTreeMap::new();
    for event in events {
        let row = rows.entry(key(event)?).or_insert([0; SUMS]);
        for (sum, amount) in row.iter_mut().zip(sums(event)) {
            *sum = sum.checked_add(amount).ok_or_else(too_large)?;
        }
    }
    Ok(rows)
}

/// Adds the events to the rollups.
pub(crate) async fn add(
    connection: &mut PgConnection,
    events: &[&UsageEvent],
) -> Result<(), LedgerError> {
    let rows = sum(events)?;
    let column = |at: usize| rows.values().map(|sums| sums[at]).collect::<Vec<i64>>();
    sqlx::query!(
        r#"insert into usage_rollups as r (tenant_id, slot_start, key_id, model, outcome, team_id,
               requests, estimated, input, cached_input, cache_write, output, reasoning,
               cost_nanos, charge_nanos, duration_ms)
           select a.* from unnest($1::bigint[], $2::timestamptz[], $3::bigint[], $4::text[], $5::text[],
                $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[],
                $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[], $16::bigint[])
                as a (tenant_id, slot_start, key_id, model, outcome, team_id)
           -- Every writer takes the rows in this order, so that none waits for another in a circle.
           order by a.tenant_id, a.slot_start, a.key_id, a.model collate "C", a.outcome collate "C",
                    a.team_id
           on conflict on constraint usage_rollups_pkey do update set
               requests = r.requests + excluded.requests, estimated = r.estimated + excluded.estimated,
               input = r.input + excluded.input, cached_input = r.cached_input + excluded.cached_input,
               cache_write = r.cache_write + excluded.cache_write, output = r.output + excluded.output,
               reasoning = r.reasoning + excluded.reasoning,
               cost_nanos = r.cost_nanos + excluded.cost_nanos,
               charge_nanos = r.charge_nanos + excluded.charge_nanos,
               duration_ms = r.duration_ms + excluded.duration_ms"#,
        &rows.keys().map(|k| k.tenant_id).collect::<Vec<_>>()[..],
        &rows.keys().map(|k| k.slot_start).collect::<Vec<_>>()[..],
        &rows.keys().map(|k| k.key_id).collect::<Vec<_>>()[..],
        &rows.keys().map(|k| k.model.to_owned()).collect::<Vec<_>>()[..],
        &rows.keys().map(|k| k.outcome.to_owned()).collect::<Vec<_>>()[..],
        &rows.keys().map(|k| k.team_id).collect::<Vec<_>>()[..],
        &column(0)[..],
        &column(1)[..],
        &column(2)[..],
        &column(3)[..],
        &column(4)[..],
        &column(5)[..],
        &column(6)[..],
        &column(7)[..],
        &column(8)[..],
        &column(9)[..],
    )
    .execute(connection)
    .await?;
    Ok(())
}
