//! A batch on its way into the books: tried again when the database fails, split when an event does.

use std::collections::HashSet;
use std::time::Duration;

use domain::id::RequestId;
use sqlx::PgPool;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

use crate::batch;
use crate::entry::Entry;
use crate::error::LedgerError;
use crate::writer::Appended;

/// The first pause; each is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// The longest pause: a database that is back is found within this time.
const LONGEST_PAUSE: Duration = Duration::from_secs(3);

/// An event whose caller waits.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) entry: Entry,
    pub(crate) answer: oneshot::Sender<Result<Appended, LedgerError>>,
}

/// Writes a batch and answers every caller.
pub(crate) async fn write(pool: &PgPool, jobs: Vec<Job>, patience: Duration) {
    let mut parts = vec![jobs];
    while let Some(mut part) = parts.pop() {
        match commit_patiently(pool, &part, patience).await {
            Ok(fresh) => answer(part, fresh),
            Err(LedgerError::Rejected(_)) if part.len() > 1 => {
                // One event is at fault and the others must not suffer: halve until it stands alone.
                let half = part.split_off(part.len() / 2);
                parts.extend([half, part]);
            }
            Err(error) => refuse(part, &error),
        }
    }
}

fn answer(jobs: Vec<Job>, mut fresh: HashSet<RequestId>) {
    for job in jobs {
        // Of two with one id in this batch, the first was written.
        let is_fresh = fresh.remove(&job.entry.event.request_id);
        let appended = if is_fresh { Appended::Fresh } else { Appended::Duplicate };
        // A caller that went away needs no answer: the event is written.
        let _ = job.answer.send(Ok(appended));
    }
}

fn refuse(jobs: Vec<Job>, error: &LedgerError) {
    match error {
        LedgerError::Rejected(_) => {
            tracing::error!(events = jobs.len(), %error, "events were not written");
        }
        LedgerError::Unavailable(_) | LedgerError::Stopped => {
            tracing::warn!(events = jobs.len(), %error, "events go back to their callers, who keep them");
        }
    }
    metrics::counter!("weir_ledger_events_failed_total").increment(jobs.len() as u64);
    for job in jobs {
        let _ = job.answer.send(Err(error.clone()));
    }
}

/// Commits, and tries again while the database is at fault, until the patience ends or nobody waits any more: who went
/// away has its events on record. A try whose answer was lost is found by the next one: its events are there already.
async fn commit_patiently(
    pool: &PgPool,
    jobs: &[Job],
    patience: Duration,
) -> Result<HashSet<RequestId>, LedgerError> {
    let entries: Vec<&Entry> = jobs.iter().map(|job| &job.entry).collect();
    let is_wanted = || jobs.iter().any(|job| !job.answer.is_closed());
    let until = Instant::now() + patience;
    let mut pause = FIRST_PAUSE;
    loop {
        match commit_measured(pool, &entries).await {
            Err(LedgerError::Unavailable(error))
                if Instant::now() + pause < until && is_wanted() =>
            {
                tracing::warn!(events = entries.len(), %error, "the books did not answer: trying again");
                metrics::counter!("weir_ledger_batch_retries_total").increment(1);
                sleep(pause).await;
                pause = LONGEST_PAUSE.min(pause * 2);
            }
            done => return done,
        }
    }
}

async fn commit_measured(
    pool: &PgPool,
    entries: &[&Entry],
) -> Result<HashSet<RequestId>, LedgerError> {
    let began = Instant::now();
    let fresh = batch::commit(pool, entries).await?;
    metrics::histogram!("weir_ledger_commit_seconds").record(began.elapsed());
    metrics::histogram!("weir_ledger_batch_rows")
        .record(u32::try_from(entries.len()).unwrap_or(u32::MAX));
    Ok(fresh)
}
