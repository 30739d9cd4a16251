//! Rollups against their events.

use domain::id::TenantId;
use domain::window::UnixMs;
use sqlx::{PgConnection, PgPool};
use time::OffsetDateTime;

use super::{Compared, DIFFERENCES_AT_ONCE, Difference};
use crate::drift;
use crate::error::LedgerError;
use crate::instant::{instant, to_ms};
use crate::usage_event::DriftNote;

/// The sums of a row, money first: the first that differs is the one that is told.
const COLUMNS: [&str; 10] = [
    "charge_nanos",
    "cost_nanos",
    "requests",
    "input",
    "cached_input",
    "cache_write",
    "output",
    "reasoning",
    "estimated",
    "duration_ms",
];

/// A row as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mend {
    slot_start: OffsetDateTime,
    key_id: i64,
    model: String,
    outcome: String,
    team_id: i64,
    /// Nothing when there are no such events.
    expected: Option<Vec<i64>>,
    /// Nothing when there was no row.
    found: Option<Vec<i64>>,
}

/// Compares every row whose quarter of an hour begins at `from` or later.
pub(super) async fn compare(
    snapshot: &mut PgConnection,
    tenant_id: TenantId,
    from: UnixMs,
    compared: &mut Compared,
) -> Result<(), LedgerError> {
    let rows = sqlx::query_as!(
        Mend,
        r#"with truth as (
               select date_bin('15 minutes', admitted_at, '1970-01-01 00:00:00+00') as slot_start, key_id, model,
                      outcome, coalesce(team_id, 0) as team_id,
                      array[sum(charge_nanos), sum(cost_nanos), count(*), sum(input + input_audio),
                            sum(cached_input), sum(cache_write_short + cache_write_long),
                            sum(output + output_audio + output_image), sum(reasoning),
                            count(*) filter (where usage_source = 'estimated'), sum(duration_ms)]::bigint[] as sums
               from usage_events
               where tenant_id = $1 and admitted_at >= $2
               group by 1, 2, 3, 4, 5),
           kept as (
               select slot_start, key_id, model, outcome, team_id,
                      array[charge_nanos, cost_nanos, requests, input, cached_input, cache_write, output, reasoning,
                            estimated, duration_ms] as sums
               from usage_rollups
               where tenant_id = $1 and slot_start >= $2)
           select slot_start as "slot_start!", key_id as "key_id!", model as "model!", outcome as "outcome!",
                  team_id as "team_id!", truth.sums as "expected?", kept.sums as "found?"
           from truth full join kept using (slot_start, key_id, model, outcome, team_id)
           where truth.sums is distinct from kept.sums
           order by 1, 2, 3, 4, 5
           limit $3"#,
        tenant_id.0,
        instant(from)?,
        DIFFERENCES_AT_ONCE,
    )
    .fetch_all(snapshot)
    .await?;
    compared.differences.extend(rows.into_iter().map(|mend| Difference {
        tenant_id,
        note: mend.note(),
        mend: Some(super::Mend::Rollup(Box::new(mend))),
    }));
    Ok(())
}

impl Mend {
    /// The first sum that differs, and where.
    fn note(&self) -> DriftNote {
        let of = |sums: &Option<Vec<i64>>, at: usize| {
            sums.as_ref().and_then(|sums| sums.get(at)).copied().unwrap_or(0)
        };
        let differs = |at: &usize| of(&self.expected, *at) != of(&self.found, *at);
        let at = (0..COLUMNS.len()).find(differs).unwrap_or(0);
        DriftNote {
            kind: drift::ROLLUP.to_owned(),
            meter: COLUMNS.get(at).map(|name| (*name).to_owned()),
            expected: of(&self.expected, at),
            found: of(&self.found, at),
            cause: format!(
                "quarter of an hour from {} ms, key {}, model {}, {}: the events say otherwise",
                to_ms(self.slot_start).0,
                self.key_id,
                self.model,
                self.outcome
            ),
        }
    }

    /// Sets the row right if it still is what was seen.
    pub(super) async fn apply(
        &self,
        pool: &PgPool,
        tenant_id: TenantId,
    ) -> Result<bool, LedgerError> {
        let done = match (&self.expected, &self.found) {
            (Some(expected), None) => self.insert(pool, tenant_id, expected).await?,
            (Some(expected), Some(found)) => self.update(pool, tenant_id, expected, found).await?,
            (None, Some(found)) => self.delete(pool, tenant_id, found).await?,
            (None, None) => 0,
        };
        Ok(done == 1)
    }

    async fn insert(
        &self,
        pool: &PgPool,
        tenant_id: TenantId,
        expected: &[i64],
    ) -> Result<u64, LedgerError> {
        let done = sqlx::query!(
            r#"insert into usage_rollups (tenant_id, slot_start, key_id, model, outcome, team_id, charge_nanos,
                   cost_nanos, requests, input, cached_input, cache_write, output, reasoning, estimated, duration_ms)
               select $1, $2, $3, $4, $5, $6, s[1], s[2], s[3], s[4], s[5], s[6], s[7], s[8], s[9], s[10]
               from (values ($7::bigint[])) as of (s)
               on conflict on constraint usage_rollups_pkey do nothing"#,
            tenant_id.0,
            self.slot_start,
            self.key_id,
            self.model,
            self.outcome,
            self.team_id,
            expected,
        )
        .execute(pool)
        .await?;
        Ok(done.rows_affected())
    }

    async fn update(
        &self,
        pool: &PgPool,
        tenant_id: TenantId,
        expected: &[i64],
        found: &[i64],
    ) -> Result<u64, LedgerError> {
        let done = sqlx::query!(
            r#"update usage_rollups set charge_nanos = s[1], cost_nanos = s[2], requests = s[3], input = s[4],
                   cached_input = s[5], cache_write = s[6], output = s[7], reasoning = s[8], estimated = s[9],
                   duration_ms = s[10]
               from (values ($7::bigint[])) as of (s)
               where (tenant_id, slot_start, key_id, model, outcome, team_id) = ($1, $2, $3, $4, $5, $6)
                 and array[charge_nanos, cost_nanos, requests, input, cached_input, cache_write, output, reasoning,
                           estimated, duration_ms] = $8::bigint[]"#,
            tenant_id.0,
            self.slot_start,
            self.key_id,
            self.model,
            self.outcome,
            self.team_id,
            expected,
            found,
        )
        .execute(pool)
        .await?;
        Ok(done.rows_affected())
    }

    /// A row without events is no fact: it goes.
    async fn delete(
        &self,
        pool: &PgPool,
        tenant_id: TenantId,
        found: &[i64],
    ) -> Result<u64, LedgerError> {
        let done = sqlx::query!(
            r#"delete from usage_rollups
               where (tenant_id, slot_start, key_id, model, outcome, team_id) = ($1, $2, $3, $4, $5, $6)
                 and array[charge_nanos, cost_nanos, requests, input, cached_input, cache_write, output, reasoning,
                           estimated, duration_ms] = $7::bigint[]"#,
            tenant_id.0,
            self.slot_start,
            self.key_id,
            self.model,
            self.outcome,
            self.team_id,
            found,
        )
        .execute(pool)
        .await?;
        Ok(done.rows_affected())
    }
}
