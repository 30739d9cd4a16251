//! Sums for the pages by quarter of an hour. A quarter of an hour lies in one day, so no row is written twice.

use std::collections::BTreeMap;

use domain::usage::UsageSource;
use domain::window::{UnixMs, rollup_start};
use ledger::UsageEvent;
use sqlx::PgConnection;

use super::copy::Rows;
use super::events::Row;
use crate::seed::SeedError;

const ROLLUPS: &str = "copy usage_rollups (tenant_id, slot_start, key_id, model, outcome, team_id, requests, \
    estimated, input, cached_input, cache_write, output, reasoning, cost_nanos, charge_nanos, duration_ms) \
    from stdin (format binary)";
const ROLLUP_COLUMNS: i16 = 16;

/// Tenant, quarter of an hour, key, model, outcome, team.
type RollupKey<'a> = (i64, UnixMs, i64, &'a str, &'static str, i64);
/// How many sums a row has.
const SUMS: usize = 10;
/// In the order of the columns: requests, estimated, input, cached input, cache writes, output, reasoning, cost, charge,
/// duration.
type Sums = [i64; SUMS];

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

fn sum<'a>(rows: &[Row<'a>]) -> Result<BTreeMap<RollupKey<'a>, Sums>, SeedError> {
    let mut rollups: BTreeMap<RollupKey<'a>, Sums> = BTreeMap::new();
    for (event, _) in rows {
        let key = (
            event.tenant_id.0,
            rollup_start(event.admitted_at),
            event.key_id.0,
            event.model.as_str(),
            event.outcome.code(),
            event.team_id.map_or(0, |team| team.0),
        );
        let row = rollups.entry(key).or_insert([0; SUMS]);
        for (sum, amount) in row.iter_mut().zip(sums(event)) {
            *sum = sum.checked_add(amount).ok_or(SeedError::TooLarge)?;
        }
    }
    Ok(rollups)
}

/// Writes the sums.
pub(super) async fn copy(db: &mut PgConnection, rows: &[Row<'_>]) -> Result<(), SeedError> {
    let rollups = sum(rows)?;
    let mut copy = Rows::of(ROLLUP_COLUMNS, rollups.len());
    for ((tenant_id, slot, key_id, model, outcome, team_id), sums) in rollups {
        copy.row().big(tenant_id).instant(slot).big(key_id).text(model).text(outcome).big(team_id);
        for sum in sums {
            copy.big(sum);
        }
    }
    copy.copy(db, ROLLUPS).await
}
