//! The one way into the books: many calls share one commit.
//!
//! A collector gathers events into batches and hands each to a lane, which is a transaction on a task of its own.
//! It is quick when there is little to do and patient when there is much:
//!
//! - nothing under way and nobody expected: the first event goes at once;
//! - otherwise a batch goes when it is full, when as many have come as were waiting or being written a moment
//!   ago, or when it has waited for the linger time;
//! - the second lane is for overload: it takes full batches only, since two half batches are twice the commits.

use std::sync::Arc;
use std::time::Duration;

use sqlx::PgPool;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};
use tokio_util::task::TaskTracker;

use crate::entry::Entry;
use crate::error::LedgerError;
use crate::lane::{self, Job};
use crate::refusal::{RefusalDesk, RefusedCall};
use crate::usage_event::UsageEvent;

/// How many events may wait for a batch: some tenth of a second of the highest rate. Appending waits beyond it.
const QUEUE_EVENTS: usize = 2_048;
/// How many transactions may run at the same time.
const LANES: usize = 2;

/// What became of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Appended {
    /// It is written.
    Fresh,
    /// It was written before, if only by an earlier try whose answer was lost: nothing has moved.
    Duplicate,
}

/// How the writer groups events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriterConfig {
    /// The most events in one transaction.
    pub batch_rows: usize,
    /// How long a batch waits for company that is expected.
    pub linger: Duration,
    /// How long a batch is tried again while the database fails: long enough for a failover. After that its events
    /// go back to their callers, who keep them.
    pub patience: Duration,
}

impl Default for WriterConfig {
    fn default() -> Self {
        let (linger, patience) = (Duration::from_millis(4), Duration::from_secs(10));
        Self { batch_rows: 128, linger, patience }
    }
}

/// A handle on the writer. Clones share it; it stops when the last one is gone and all is written.
#[derive(Debug, Clone)]
pub struct Ledger {
    jobs: mpsc::Sender<Job>,
    refusals: Arc<RefusalDesk>,
}

impl Ledger {
    /// Starts the writer's tasks on `tasks`. To stop them, drop every handle and await the tracker.
    #[must_use]
    pub fn start(pool: PgPool, tasks: &TaskTracker, config: WriterConfig) -> Self {
        let (jobs, queue) = mpsc::channel(QUEUE_EVENTS);
        let refusals = Arc::new(RefusalDesk::start(pool.clone(), tasks));
        tasks.spawn(Collector::new(pool, tasks.clone(), config).run(queue));
        Self { jobs, refusals }
    }

    /// Writes an event with everything that goes with it, and returns once that is committed.
    ///
    /// A second event of the same request id moves nothing. Once the event is queued, it is written even if the
    /// caller goes away; when that fails, it is tried again only while somebody waits.
    ///
    /// # Errors
    /// [`LedgerError::Unavailable`] when the database could not be reached for a while: the event may or may not
    /// be written, and appending it again is safe. [`LedgerError::Rejected`] when the event itself cannot be written.
    pub async fn append(&self, event: UsageEvent) -> Result<Appended, LedgerError> {
        let entry = Entry::new(event)?;
        let (answer, answered) = oneshot::channel();
        self.jobs.send(Job { entry, answer }).await.map_err(|_| LedgerError::Stopped)?;
        answered.await.map_err(|_| LedgerError::Stopped)?
    }

    /// Records a refused call off the hot path. Never waits; beyond its bounds calls are only counted.
    pub fn refused(&self, call: RefusedCall) {
        self.refusals.take(call);
    }

    /// How many refused calls were counted and not recorded.
    #[must_use]
    pub fn refusals_dropped(&self) -> u64 {
        self.refusals.dropped()
    }
}

/// Gathers events into batches.
struct Collector {
    pool: PgPool,
    tasks: TaskTracker,
    config: WriterConfig,
    batch: Vec<Job>,
    /// Transactions that are under way.
    busy: usize,
    /// How many events the next batch may hope for: as many as were waiting or being written when the last
    /// transaction ended. Their callers come back with the next one, or do not.
    expected: usize,
    /// From when the batch has waited: its first event, or the end of the last transaction.
    since: Instant,
    ended: mpsc::UnboundedSender<usize>,
    /// Bounded by the number of lanes: each sends once when it ends.
    endings: mpsc::UnboundedReceiver<usize>,
}

impl Collector {
    fn new(pool: PgPool, tasks: TaskTracker, config: WriterConfig) -> Self {
        let (ended, endings) = mpsc::unbounded_channel();
        let batch = Vec::with_capacity(config.batch_rows);
        let since = Instant::now();
        Self { pool, tasks, config, batch, busy: 0, expected: 1, since, ended, endings }
    }

    async fn run(mut self, mut queue: mpsc::Receiver<Job>) {
        let mut open = true;
        while open || !self.batch.is_empty() {
            if self.is_ripe(open) {
                self.hand_over();
                continue;
            }
            let room = self.config.batch_rows.saturating_sub(self.batch.len());
            let before = self.batch.len();
            let due = self.since + self.config.linger;
            tokio::select! {
                biased;
                Some(rows) = self.endings.recv() => self.lane_ended(rows),
                came = queue.recv_many(&mut self.batch, room), if open && room > 0 => {
                    open = came > 0;
                    self.events_came(before);
                }
                () = sleep_until(due), if self.busy == 0 && !self.batch.is_empty() => self.expected = 0,
            }
        }
    }

    fn is_full(&self) -> bool {
        self.batch.len() >= self.config.batch_rows
    }

    fn is_ripe(&self, open: bool) -> bool {
        let company = self.batch.len() >= self.expected || !open;
        !self.batch.is_empty()
            && match self.busy {
                0 => company || self.is_full(),
                busy => busy < LANES && self.is_full(),
            }
    }

    fn events_came(&mut self, before: usize) {
        if before > 0 || self.busy > 0 {
            return;
        }
        let now = Instant::now();
        if now.duration_since(self.since) > self.config.linger {
            // After a pause nobody is expected.
            self.expected = 1;
        }
        self.since = now;
    }

    fn lane_ended(&mut self, rows: usize) {
        self.busy = self.busy.saturating_sub(1);
        self.expected = rows.saturating_add(self.batch.len()).min(self.config.batch_rows);
        self.since = Instant::now();
    }

    fn hand_over(&mut self) {
        let jobs = std::mem::replace(&mut self.batch, Vec::with_capacity(self.config.batch_rows));
        self.busy = self.busy.saturating_add(1);
        let ending = Ending { rows: jobs.len(), ended: self.ended.clone() };
        let (pool, patience) = (self.pool.clone(), self.config.patience);
        self.tasks.spawn(async move {
            lane::write(&pool, jobs, patience).await;
            drop(ending);
        });
    }
}

/// Tells the collector that a lane is free, even when its task was torn down.
struct Ending {
    rows: usize,
    ended: mpsc::UnboundedSender<usize>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        // The collector may have stopped already: then nobody needs to know.
        let _ = self.ended.send(self.rows);
    }
}
