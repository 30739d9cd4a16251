#![doc = include_str!("../README.md")]

mod bill;
mod booking;
mod calibration;
mod call;
mod clock;
mod dialect;
mod error;
mod estimate;
mod fail_point;
mod finish;
mod json;
mod json_array;
mod meter;
mod queue;
mod recovery;
mod reply;
mod settling;
mod sse;
mod upstream;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ledger::Ledger;
use ledger::spool::{Spool, SpoolError};
use limiter::Admission;
use tenants::directory::Directory;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use queue::Queue;
use settling::Settling;

pub use calibration::Calibration;
pub use call::{Request, call};
pub use clock::Clock;
pub use dialect::Route;
pub use dialect::models::{
    ListedModel, anthropic_list, anthropic_one, gemini_list, gemini_one, openai_list, openai_one,
};
pub use error::{CallError, FailureKind, UpstreamFailure};
pub use fail_point::{FailPoint, FailPoints};
pub use recovery::Recovered;
pub use reply::{Broken, Reply, ReplyBody};

/// What a gateway is put together from.
#[derive(Clone)]
pub struct Parts {
    /// The snapshot of who may call what.
    pub directory: Arc<Directory>,
    /// The engine of admission.
    pub limiter: Arc<dyn Admission>,
    /// The books.
    pub ledger: Ledger,
    /// Where calls are on record until they are in the books.
    pub spool: Spool,
    /// Calls run here until their end is on record.
    pub tasks: TaskTracker,
    /// And here until they are in the books and settled.
    pub booking: TaskTracker,
    /// Cancelled, it ends the calls that still run as interrupted.
    pub cut: CancellationToken,
    /// Cancelled, it leaves what waits for the books on record, for the next process.
    pub halt: CancellationToken,
    /// The time.
    pub clock: Clock,
    /// Where tests end the process.
    pub fail_points: FailPoints,
}

/// All that a call needs; a cheap handle.
#[derive(Clone)]
pub struct Gateway {
    directory: Arc<Directory>,
    limiter: Arc<dyn Admission>,
    ledger: Ledger,
    spool: Spool,
    upstream: Arc<upstream::Upstream>,
    tasks: TaskTracker,
    booking: TaskTracker,
    settling: Arc<Settling>,
    queue: Arc<Queue>,
    calibration: Arc<Calibration>,
    cut: CancellationToken,
    halt: CancellationToken,
    clock: Clock,
    fail_points: FailPoints,
    /// Whether the spool takes no call: told once when that begins, and once when it ends.
    shut: Arc<AtomicBool>,
}

impl std::fmt::Debug for Gateway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gateway").field("open_calls", &self.tasks.len()).finish_non_exhaustive()
    }
}

impl Gateway {
    /// Puts the parts together.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let Parts { directory, limiter, ledger, spool, tasks, booking, cut, halt, .. } = parts;
        Self {
            directory,
            limiter,
            ledger,
            spool,
            upstream: Arc::default(),
            tasks,
            booking,
            settling: Arc::default(),
            queue: Arc::default(),
            calibration: Arc::default(),
            cut,
            halt,
            clock: parts.clock,
            fail_points: parts.fail_points,
            shut: Arc::default(),
        }
    }

    /// Where calls are on record.
    #[must_use]
    pub const fn spool(&self) -> &Spool {
        &self.spool
    }

    /// The snapshot of who may call what.
    #[must_use]
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// The engine of admission.
    #[must_use]
    pub fn limiter(&self) -> &dyn Admission {
        &*self.limiter
    }

    /// The books.
    #[must_use]
    pub const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The clock of this process.
    #[must_use]
    pub const fn clock(&self) -> &Clock {
        &self.clock
    }

    /// What was learned of the models' tokens.
    #[must_use]
    pub fn calibration(&self) -> &Calibration {
        &self.calibration
    }

    /// How many calls are running, those included whose client has left.
    #[must_use]
    pub fn open_calls(&self) -> usize {
        self.tasks.len()
    }

    /// Waits until every call that is over is in the books and settled.
    pub async fn flushed(&self) {
        self.settling.all_settled().await;
    }

    /// Notes that the spool took a call, and says in the log when it did not before.
    fn opened(&self) {
        if self.shut.swap(false, Ordering::Relaxed) {
            tracing::warn!("the spool takes calls again");
        }
    }

    /// Notes that the spool takes no call, and says in the log when it did before.
    fn shut(&self, error: &SpoolError) -> CallError {
        if !self.shut.swap(true, Ordering::Relaxed) {
            let depth = self.spool.depth();
            tracing::error!(%error, ?depth, "no call is taken");
        }
        CallError::from(error)
    }

    fn count_spool(&self) {
        let depth = self.spool.depth();
        let count = |calls: usize| u32::try_from(calls).unwrap_or(u32::MAX);
        metrics::gauge!("weir_spool_calls").set(count(depth.calls));
        metrics::gauge!("weir_spool_waiting").set(count(depth.waiting));
        metrics::gauge!("weir_spool_kib")
            .set(u32::try_from(depth.bytes / 1_024).unwrap_or(u32::MAX));
    }
}
