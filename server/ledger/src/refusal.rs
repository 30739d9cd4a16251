//! Calls of a known key that were not forwarded: recorded off the hot path, within bounds.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use domain::admission::Refusal;
use domain::id::{KeyId, RequestId, TenantId};
use domain::window::UnixMs;
use serde::{Deserialize, Serialize};
use sqlx::PgPool;
use time::OffsetDateTime;
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_util::task::TaskTracker;

use crate::error::LedgerError;
use crate::instant::to_time;

/// How many rows a second one tenant's refused calls may write: a storm of one must not crowd out the others.
pub const ROWS_PER_TENANT_AND_SECOND: u32 = 100;
/// How many rows a second all refused calls together may write: they are notes, and must not slow the books.
pub const ROWS_PER_SECOND: u32 = 1_000;
/// How many may wait to be written: two seconds of the highest rate.
const QUEUE_CALLS: usize = 2_000;
/// How many are written at once.
const BATCH_ROWS: usize = 500;
/// How long the writer waits for company: nobody waits for these rows.
const LINGER: Duration = Duration::from_millis(200);
/// How often a batch is tried again before it is only counted.
const RETRIES: u32 = 2;

/// A call that was refused, for the record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedCall {
    /// Names the call.
    pub request_id: RequestId,
    /// Whose key it was.
    pub tenant_id: TenantId,
    /// The key.
    pub key_id: KeyId,
    /// When it was refused.
    pub at: UnixMs,
    /// The route's pattern.
    pub route: String,
    /// The model that the client named, when it was read.
    pub model: Option<String>,
    /// The status that the client got.
    pub status: u16,
    /// The word for why, such as `budget_exhausted`.
    pub code: String,
    /// The limit's figures, when a limit said no.
    pub limit: Option<Refusal>,
    /// The client's own name of the request.
    pub client_request_id: Option<String>,
}

/// Takes refused calls from the hot path.
#[derive(Debug)]
pub(crate) struct RefusalDesk {
    queue: mpsc::Sender<RefusedCall>,
    gate: Mutex<Gate>,
    dropped: std::sync::Arc<AtomicU64>,
}

impl RefusalDesk {
    pub(crate) fn start(pool: PgPool, tasks: &TaskTracker) -> Self {
        let (queue, calls) = mpsc::channel(QUEUE_CALLS);
        let dropped = std::sync::Arc::new(AtomicU64::new(0));
        tasks.spawn(write_all(pool, calls, dropped.clone()));
        Self { queue, gate: Mutex::new(Gate::default()), dropped }
    }

    pub(crate) fn take(&self, call: RefusedCall) {
        // A panic elsewhere cannot leave the gate in a state that would be worse than a wrong count.
        let passes = self
            .gate
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .passes(call.tenant_id, call.at);
        if !passes || self.queue.try_send(call).is_err() {
            count_dropped(&self.dropped, 1);
        }
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

fn count_dropped(dropped: &AtomicU64, calls: u64) {
    dropped.fetch_add(calls, Ordering::Relaxed);
    metrics::counter!("weir_ledger_refusals_dropped_total").increment(calls);
}

/// Counts the rows of the running second. It holds at most as many tenants as rows pass in one second.
#[derive(Debug, Default)]
struct Gate {
    second: i64,
    total: u32,
    by_tenant: HashMap<TenantId, u32>,
}

impl Gate {
    fn passes(&mut self, tenant_id: TenantId, at: UnixMs) -> bool {
        let second = at.0.div_euclid(1_000);
        if second > self.second {
            *self = Self { second, ..Self::default() };
        }
        if self.total >= ROWS_PER_SECOND {
            return false;
        }
        let of_tenant = self.by_tenant.entry(tenant_id).or_insert(0);
        if *of_tenant >= ROWS_PER_TENANT_AND_SECOND {
            return false;
        }
        *of_tenant += 1;
        self.total += 1;
        true
    }
}

async fn write_all(
    pool: PgPool,
    mut calls: mpsc::Receiver<RefusedCall>,
    dropped: std::sync::Arc<AtomicU64>,
) {
    let mut batch = Vec::with_capacity(BATCH_ROWS);
    while calls.recv_many(&mut batch, BATCH_ROWS).await > 0 {
        if !calls.is_closed() && batch.len() < BATCH_ROWS {
            sleep(LINGER).await;
            while batch.len() < BATCH_ROWS
                && let Ok(call) = calls.try_recv()
            {
                batch.push(call);
            }
        }
        if let Err(error) = insert_patiently(&pool, &batch).await {
            tracing::warn!(calls = batch.len(), %error, "refused calls were not recorded");
            count_dropped(&dropped, batch.len() as u64);
        }
        batch.clear();
    }
}

async fn insert_patiently(pool: &PgPool, calls: &[RefusedCall]) -> Result<(), LedgerError> {
    for _ in 0..RETRIES {
        match insert(pool, calls).await {
            Err(LedgerError::Unavailable(_)) => sleep(LINGER).await,
            done => return done,
        }
    }
    insert(pool, calls).await
}

/// One column of figures of the limits that said no.
fn figures(calls: &[RefusedCall], pick: fn(&Refusal) -> i64) -> Vec<Option<i64>> {
    calls.iter().map(|call| call.limit.as_ref().map(pick)).collect()
}

/// A text as PostgreSQL can keep it.
fn without_zero_bytes(text: &str) -> String {
    text.replace('\0', "")
}

/// One statement, so that it needs no transaction of its own.
async fn insert(pool: &PgPool, calls: &[RefusedCall]) -> Result<(), LedgerError> {
    let at = |call: &RefusedCall| to_time(call.at).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let scope = |call: &RefusedCall| call.limit.as_ref().map(|no| no.scope.code().to_owned());
    let meter = |call: &RefusedCall| call.limit.as_ref().map(|no| no.meter.clone());
    sqlx::query!(
        r#"insert into refusals (request_id, tenant_id, key_id, at, route, model, status, code, scope, meter,
               limit_amount, used_amount, held_amount, wanted_amount, client_request_id)
           select * from unnest($1::text[], $2::bigint[], $3::bigint[], $4::timestamptz[], $5::text[],
               $6::text[], $7::int[], $8::text[], $9::text[], $10::text[], $11::bigint[], $12::bigint[],
               $13::bigint[], $14::bigint[], $15::text[])
           on conflict on constraint refusals_pkey do nothing"#,
        &calls.iter().map(|c| c.request_id.to_string()).collect::<Vec<_>>()[..],
        &calls.iter().map(|c| c.tenant_id.0).collect::<Vec<_>>()[..],
        &calls.iter().map(|c| c.key_id.0).collect::<Vec<_>>()[..],
        &calls.iter().map(at).collect::<Vec<_>>()[..],
        &calls.iter().map(|c| without_zero_bytes(&c.route)).collect::<Vec<_>>()[..],
        &calls.iter().map(|c| c.model.as_deref().map(without_zero_bytes)).collect::<Vec<_>>()[..]
            as &[Option<String>],
        &calls.iter().map(|c| i32::from(c.status)).collect::<Vec<_>>()[..],
        &calls.iter().map(|c| c.code.clone()).collect::<Vec<_>>()[..],
        &calls.iter().map(scope).collect::<Vec<_>>()[..] as &[Option<String>],
        &calls.iter().map(meter).collect::<Vec<_>>()[..] as &[Option<String>],
        &figures(calls, |no| no.limit)[..] as &[Option<i64>],
        &figures(calls, |no| no.used)[..] as &[Option<i64>],
        &figures(calls, |no| no.held)[..] as &[Option<i64>],
        &figures(calls, |no| no.wanted)[..] as &[Option<i64>],
        &calls
            .iter()
            .map(|c| c.client_request_id.as_deref().map(without_zero_bytes))
            .collect::<Vec<_>>()[..] as &[Option<String>],
    )
    .execute(pool)
    .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(gate: &mut Gate, tenant: i64, second: i64, calls: u32) -> usize {
        let at = UnixMs(second * 1_000 + 7);
        (0..calls).filter(|_| gate.passes(TenantId(tenant), at)).count()
    }

    #[test]
    fn a_storm_of_one_tenant_writes_a_hundred_rows_a_second_and_the_others_still_write_theirs() {
        let mut gate = Gate::default();
        assert_eq!(passed(&mut gate, 1, 10, 5_000), 100);
        assert_eq!(passed(&mut gate, 2, 10, 30), 30);
        assert_eq!(passed(&mut gate, 1, 11, 5_000), 100);
    }

    #[test]
    fn all_tenants_together_write_a_thousand_rows_a_second() {
        let mut gate = Gate::default();
        let rows: usize = (0..50).map(|tenant| passed(&mut gate, tenant, 10, 90)).sum();
        assert_eq!(rows, 1_000);
        assert!(gate.by_tenant.len() <= 1_000);
    }

    #[test]
    fn a_clock_that_goes_backwards_opens_nothing() {
        let mut gate = Gate::default();
        assert_eq!(passed(&mut gate, 1, 10, 200), 100);
        assert_eq!(passed(&mut gate, 1, 9, 200), 0);
    }
}
