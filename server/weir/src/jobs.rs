//! The timetable: what runs how often, and who does it.

use std::time::Duration;

use anyhow::Context;
use domain::window::UnixMs;
use ledger::reconcile::{self, Audit};
use sqlx::PgPool;
use tenants::session;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::calibration;
use crate::weir::Weir;

/// The timetable. The first run is one period after the start, so that a restart is quiet.
const TIMETABLE: [Job; 12] = [
    Job::each("end expired holds", Duration::from_secs(10), Work::ReapHolds),
    Job::each("note when keys were used", Duration::from_secs(20), Work::WriteLastUsed),
    Job::each("remove expired sessions", Duration::from_secs(600), Work::ExpireSessions),
    Job::each("make partitions ahead", Duration::from_secs(3_600), Work::MakePartitions),
    Job::each("forget old slices", Duration::from_secs(3_600), Work::PruneSlices),
    Job::each("forget past periods", Duration::from_secs(3_600), Work::ForgetPeriods),
    Job::each("take back expired grants", Duration::from_secs(60), Work::ExpireGrants),
    Job::each("compare recent books", Duration::from_secs(60), Work::Compare(Audit::Recent)),
    // Once a day, in portions.
    Job::each("compare all books", Duration::from_secs(60), Work::Compare(Audit::Whole)),
    Job::each("compare counters", Duration::from_secs(60), Work::CompareCounters { all: false }),
    Job::each(
        "compare all counters",
        Duration::from_secs(86_400),
        Work::CompareCounters { all: true },
    ),
    Job::each("keep what was learned", Duration::from_secs(60), Work::KeepCalibration),
];
// The directory compares itself with the database once a minute: see `Directory::run`.

/// How often one run may come back for the next portion: what is left waits for the next period.
const PORTIONS_MAX: usize = 100;
/// How long one run compares books: shorter than the server lets the holder of the job's lock be idle.
const COMPARE_TIME: Duration = Duration::from_secs(8);
/// Locks of jobs are this number plus the job's place in the timetable.
const LOCKS: i64 = 0x7765_6972_1000;

#[derive(Debug, Clone, Copy)]
struct Job {
    name: &'static str,
    every: Duration,
    work: Work,
}

impl Job {
    const fn each(name: &'static str, every: Duration, work: Work) -> Self {
        Self { name, every, work }
    }
}

#[derive(Debug, Clone, Copy)]
enum Work {
    ReapHolds,
    WriteLastUsed,
    KeepCalibration,
    ExpireSessions,
    MakePartitions,
    PruneSlices,
    ForgetPeriods,
    ExpireGrants,
    Compare(Audit),
    CompareCounters { all: bool },
}

impl Work {
    /// Whether one process does it for all: everything but what this process alone knows.
    const fn is_shared(self) -> bool {
        !matches!(self, Self::WriteLastUsed | Self::KeepCalibration)
    }
}

/// Runs the timetable until it is cancelled; work under way is finished first.
pub(crate) async fn run(weir: Weir, cancel: CancellationToken) {
    let lines =
        (LOCKS..).zip(TIMETABLE).map(|(lock, job)| keep(weir.clone(), job, lock, cancel.clone()));
    futures_util::future::join_all(lines).await;
}

async fn keep(weir: Weir, job: Job, lock: i64, cancel: CancellationToken) {
    let mut period = interval(job.every);
    period.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first tick is at once.
    period.tick().await;
    while cancel.run_until_cancelled(period.tick()).await.is_some() {
        let done = if job.work.is_shared() {
            alone(&weir.pool, lock, work(&weir, job.work)).await
        } else {
            work(&weir, job.work).await.map(Some)
        };
        match done {
            Ok(Some(rows)) if rows > 0 => tracing::debug!(job = job.name, rows, "job done"),
            Ok(_) => {}
            Err(error) => {
                metrics::counter!("weir_job_failures_total", "job" => job.name).increment(1);
                tracing::warn!(job = job.name, error = format!("{error:#}"), "job failed");
            }
        }
    }
}

/// Does the work unless another process is at it.
async fn alone(
    pool: &PgPool,
    lock: i64,
    work: impl Future<Output = anyhow::Result<u64>>,
) -> anyhow::Result<Option<u64>> {
    // Of the transaction, not of the session: it is given back whatever happens.
    let mut holder = pool.begin().await?;
    let mine: bool = sqlx::query_scalar("select pg_try_advisory_xact_lock($1)")
        .bind(lock)
        .fetch_one(&mut *holder)
        .await?;
    let done = if mine { work.await.map(Some) } else { Ok(None) };
    // Waited for on every way out: a transaction that is only dropped gives its lock back later.
    // Work that took long has lost the lock by the server's own time-out: it is safe to repeat.
    let _ = holder.rollback().await;
    done
}

async fn work(weir: &Weir, work: Work) -> anyhow::Result<u64> {
    let (pool, now) = (&weir.pool, weir.clock.now());
    // Only a clock that tests set is told to the engine; otherwise it asks the store's own.
    let told = weir.gateway.clock().for_engine();
    match work {
        Work::ReapHolds => portions(|| async { Ok(weir.limiter.reap(told).await?) }).await,
        Work::WriteLastUsed => weir.last_used.write(pool).await.map(|()| 0).context("keys"),
        Work::KeepCalibration => calibration::keep(&weir.gateway, pool).await,
        Work::ExpireSessions => {
            portions(|| async { Ok(session::delete_expired(pool, now).await?) }).await
        }
        Work::MakePartitions => {
            let adopted = adopt_strays(pool).await;
            ledger::partition::ensure_partitions(pool, now).await?;
            adopted
        }
        Work::PruneSlices => {
            portions(|| async { Ok(ledger::retention::prune_slices(pool, now).await?) }).await
        }
        Work::ForgetPeriods => {
            portions(|| async { Ok(weir.limiter.forget_past_periods(told).await?) }).await
        }
        Work::ExpireGrants => portions(|| expire_grants(weir, now)).await,
        Work::Compare(audit) => compare(weir, audit, now).await,
        Work::CompareCounters { all } => Ok(weir.limiter.reconcile(all).await?),
    }
}

/// Finds events that came before their month's partition was made, tells of them, and makes it.
async fn adopt_strays(pool: &PgPool) -> anyhow::Result<u64> {
    let strays = ledger::partition::strays(pool).await?;
    if strays > 0 {
        tracing::error!(strays, "events lie outside the months' partitions");
    }
    let gauge = metrics::gauge!("weir_events_outside_partitions");
    gauge.set(u32::try_from(strays).unwrap_or(u32::MAX));
    let adopted = ledger::partition::adopt_strays(pool).await?;
    if adopted > 0 {
        tracing::warn!(adopted, "they have partitions of their months now");
        gauge.set(0_u32);
    }
    Ok(u64::try_from(adopted).unwrap_or(0))
}

async fn expire_grants(weir: &Weir, now: UnixMs) -> anyhow::Result<u64> {
    let expired = ledger::movement::expire_grants(&weir.pool, now).await?;
    for tenant_id in expired.tenants {
        weir.credit_changed(tenant_id).await;
    }
    Ok(expired.grants)
}

/// Compares books with themselves, and tells of what a person must look at.
async fn compare(weir: &Weir, audit: Audit, now: UnixMs) -> anyhow::Result<u64> {
    let (outcome, _) = reconcile::portion(&weir.pool, audit, COMPARE_TIME, now).await?;
    if outcome.reported > 0 {
        tracing::error!(
            differences = outcome.reported,
            "the books differ: see `weir books verify`"
        );
    }
    for tenant_id in outcome.mended {
        weir.credit_changed(tenant_id).await;
    }
    Ok(outcome.found)
}

/// Repeats work that is done in portions until nothing is left, or it is enough for now.
async fn portions<F>(mut portion: impl FnMut() -> F) -> anyhow::Result<u64>
where
    F: Future<Output = anyhow::Result<u64>>,
{
    let mut rows = 0_u64;
    for _ in 0..PORTIONS_MAX {
        match portion().await? {
            0 => break,
            some => rows = rows.saturating_add(some),
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_job_runs_more_often_than_every_ten_seconds_or_under_anothers_name() {
        for (at, job) in TIMETABLE.iter().enumerate() {
            assert!(job.every >= Duration::from_secs(10), "{}", job.name);
            assert!(TIMETABLE[..at].iter().all(|other| other.name != job.name));
        }
    }

    #[tokio::test]
    async fn a_job_that_another_process_is_at_is_left_alone() {
        let database = testkit::database().await;
        let (here, there) = (&database.pool, database.another_pool());
        let mut other = there.begin().await.unwrap();
        sqlx::query("select pg_advisory_xact_lock($1)")
            .bind(LOCKS)
            .execute(&mut *other)
            .await
            .unwrap();
        assert_eq!(alone(here, LOCKS, async { Ok(1) }).await.unwrap(), None);
        assert_eq!(alone(here, LOCKS + 1, async { Ok(1) }).await.unwrap(), Some(1));
        other.rollback().await.unwrap();
        assert_eq!(alone(here, LOCKS, async { Ok(1) }).await.unwrap(), Some(1));
        // A failed run gives the lock back as well.
        assert!(alone(here, LOCKS, async { anyhow::bail!("no") }).await.is_err());
        assert_eq!(alone(here, LOCKS, async { Ok(1) }).await.unwrap(), Some(1));
    }

    #[tokio::test]
    async fn work_in_portions_ends_when_nothing_is_left_or_it_is_enough() {
        let mut left = 5_u64;
        let rows = portions(|| {
            let portion = left.min(2);
            left -= portion;
            async move { Ok(portion) }
        });
        assert_eq!(rows.await.unwrap(), 5);
        let endless = portions(|| async { Ok(1) }).await.unwrap();
        assert_eq!(endless, u64::try_from(PORTIONS_MAX).unwrap());
    }
}
