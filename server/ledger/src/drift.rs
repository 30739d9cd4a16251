//! Numbers that should have been equal, written down before anything is repaired.

use domain::id::{RequestId, TenantId};
use domain::window::UnixMs;
use sqlx::{PgConnection, PgPool};

use crate::error::LedgerError;
use crate::instant::to_ms;
use crate::usage_event::DriftNote;

/// A slice is not the sum of the events' bookings.
pub const SLICE: &str = "slice";
/// A rollup is not the sum of its events.
pub const ROLLUP: &str = "rollup";
/// A counter of an engine is not what the slices say.
pub const COUNTER: &str = "counter";
/// The snapshot of a balance is not the sum of its lines.
pub const BALANCE: &str = "balance";
/// The lines of usage are not the sum of the events' charges.
pub const LEDGER_USAGE: &str = "ledger_usage";
/// The house's lines are not the sum of the events' costs.
pub const LEDGER_COST: &str = "ledger_cost";
/// Events lie outside the months' partitions.
pub const PARTITION_MISSING: &str = "partition_missing";
/// What was estimated before the call is far from what was used.
pub const TOKENS_ESTIMATE: &str = "tokens_estimate";
/// The provider's count is far from what Weir read itself.
pub const PROVIDER_COUNT: &str = "provider_count";

/// Two counts of tokens are far apart when one is this many times the other, ...
const FAR_TIMES: i64 = 4;
/// ... and this many tokens lie between: a short answer is always far off in parts of itself.
const FAR_TOKENS: i64 = 1_000;

/// A note on two counts of tokens, when they are so far apart that somebody should know.
#[must_use]
pub fn far_apart(kind: &str, expected: i64, found: i64, cause: &str) -> Option<DriftNote> {
    let (less, more) = (expected.min(found).max(0), expected.max(found));
    let is_far = more.saturating_sub(less) >= FAR_TOKENS && more >= less.saturating_mul(FAR_TIMES);
    let (kind, cause) = (kind.to_owned(), cause.to_owned());
    is_far.then_some(DriftNote { kind, meter: None, expected, found, cause })
}

/// A difference that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drift {
    /// The row.
    pub id: i64,
    /// Whose.
    pub tenant_id: TenantId,
    /// The call, when it is one's.
    pub request_id: Option<RequestId>,
    /// What differed.
    pub note: DriftNote,
    /// When it was seen.
    pub seen_at: UnixMs,
}

/// A difference that is about to be written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found<'a> {
    /// Whose.
    pub tenant_id: TenantId,
    /// The call, when it is one's.
    pub request_id: Option<RequestId>,
    /// What differed.
    pub note: &'a DriftNote,
}

/// Writes differences down, in the caller's transaction: before what they tell of is repaired.
///
/// # Errors
/// When the database cannot be reached.
pub async fn record(connection: &mut PgConnection, found: &[Found<'_>]) -> Result<(), LedgerError> {
    if found.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        r#"insert into drift (kind, tenant_id, request_id, meter, expected, found, cause)
           select * from unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::bigint[],
                                $6::bigint[], $7::text[])"#,
        &found.iter().map(|f| f.note.kind.clone()).collect::<Vec<_>>()[..],
        &found.iter().map(|f| f.tenant_id.0).collect::<Vec<_>>()[..],
        &found.iter().map(|f| f.request_id.map(|id| id.to_string())).collect::<Vec<_>>()[..]
            as &[Option<String>],
        &found.iter().map(|f| f.note.meter.clone()).collect::<Vec<_>>()[..] as &[Option<String>],
        &found.iter().map(|f| f.note.expected).collect::<Vec<_>>()[..],
        &found.iter().map(|f| f.note.found).collect::<Vec<_>>()[..],
        &found.iter().map(|f| f.note.cause.clone()).collect::<Vec<_>>()[..],
    )
    .execute(connection)
    .await?;
    for difference in found {
        // A transaction that is tried again counts again: the rows are the truth, this is the alarm.
        metrics::counter!("weir_drift_total", "kind" => difference.note.kind.clone()).increment(1);
    }
    Ok(())
}

/// The newest differences, of one tenant or of all; at most `limit`.
///
/// # Errors
/// When the database cannot be reached.
pub async fn list(
    pool: &PgPool,
    tenant_id: Option<TenantId>,
    limit: i64,
) -> Result<Vec<Drift>, LedgerError> {
    let rows = sqlx::query!(
        r#"select id, kind, tenant_id, request_id, meter, expected, found, cause, seen_at
           from drift
           where $1::bigint is null or tenant_id = $1
           order by id desc
           limit $2"#,
        tenant_id.map(|id| id.0),
        limit,
    )
    .fetch_all(pool)
    .await?;
    let drift = rows.into_iter().map(|row| Drift {
        id: row.id,
        tenant_id: TenantId(row.tenant_id),
        request_id: row.request_id.and_then(|id| id.parse().ok()),
        note: DriftNote {
            kind: row.kind,
            meter: row.meter,
            expected: row.expected,
            found: row.found,
            cause: row.cause,
        },
        seen_at: to_ms(row.seen_at),
    });
    Ok(drift.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_far_apart_by_times_and_by_tokens() {
        for (expected, found, is_far) in [
            (0, 999, false),
            (0, 1_000, true),
            (10_000, 2_501, false),
            (10_000, 2_500, true),
            (2_500, 10_000, true),
            (i64::MAX, 5, true),
            (7_000, 7_000, false),
        ] {
            let note = far_apart(TOKENS_ESTIMATE, expected, found, "");
            assert_eq!(note.is_some(), is_far, "{expected} and {found}");
        }
    }
}
