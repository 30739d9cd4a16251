//! The one way into the books.

use std::time::Duration;

use sqlx::PgPool;
use tokio_util::task::TaskTracker;

use crate::error::LedgerError;
use crate::refusal::RefusedCall;
use crate::usage_event::UsageEvent;

/// What became of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Appended {
    /// It is written.
    Fresh,
    /// It was written before: nothing has moved.
    Duplicate,
}

/// How the writer groups events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriterConfig {
    /// The most events in one transaction.
    pub batch_rows: usize,
    /// How long a batch waits for company while other work is under way.
    pub linger: Duration,
}

impl Default for WriterConfig {
    fn default() -> Self {
        Self { batch_rows: 128, linger: Duration::from_millis(4) }
    }
}

/// A handle on the writer. Clones share it; it stops when the last one is gone and all is written.
#[derive(Debug, Clone)]
pub struct Ledger {}

impl Ledger {
    /// Starts the writer's tasks on `tasks`.
    #[must_use]
    pub fn start(pool: PgPool, tasks: &TaskTracker, config: WriterConfig) -> Self {
        let _ = (pool, tasks, config);
        todo!()
    }

    /// Writes an event with everything that goes with it, and returns once that is committed.
    ///
    /// A second event of the same request id moves nothing.
    ///
    /// # Errors
    /// [`LedgerError::Unavailable`] when the database could not be reached for a while: the event may or may not
    /// be written, and appending it again is safe. [`LedgerError::Rejected`] when the event itself cannot be written.
    pub async fn append(&self, event: UsageEvent) -> Result<Appended, LedgerError> {
        let _ = event;
        todo!()
    }

    /// Records a refused call off the hot path. Never waits; beyond its bounds calls are only counted.
    pub fn refused(&self, call: RefusedCall) {
        let _ = call;
        todo!()
    }

    /// How many refused calls were counted and not recorded.
    #[must_use]
    pub fn refusals_dropped(&self) -> u64 {
        todo!()
    }
}
