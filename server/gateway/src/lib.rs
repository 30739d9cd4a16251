#![doc = include_str!("../README.md")]

mod bill;
mod call;
mod clock;
mod dialect;
mod error;
mod estimate;
mod finish;
mod json;
mod json_array;
mod meter;
mod reply;
mod sse;
mod upstream;

use std::sync::Arc;

use ledger::Ledger;
use limiter::Admission;
use tenants::directory::Directory;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use call::{Request, call};
pub use clock::Clock;
pub use dialect::Route;
pub use dialect::models::{
    ListedModel, anthropic_list, anthropic_one, gemini_list, gemini_one, openai_list, openai_one,
};
pub use error::{CallError, FailureKind, UpstreamFailure};
pub use reply::{Broken, Reply, ReplyBody};

/// All that a call needs; a cheap handle.
#[derive(Clone)]
pub struct Gateway {
    directory: Arc<Directory>,
    limiter: Arc<dyn Admission>,
    ledger: Ledger,
    upstream: Arc<upstream::Upstream>,
    tasks: TaskTracker,
    cut: CancellationToken,
    clock: Clock,
}

impl std::fmt::Debug for Gateway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gateway").field("open_calls", &self.tasks.len()).finish_non_exhaustive()
    }
}

impl Gateway {
    /// Puts the parts together. Calls run on `tasks`; when `cut` is cancelled, those that still run end as
    /// interrupted and are settled.
    #[must_use]
    pub fn new(
        directory: Arc<Directory>,
        limiter: Arc<dyn Admission>,
        ledger: Ledger,
        tasks: TaskTracker,
        cut: CancellationToken,
        clock: Clock,
    ) -> Self {
        Self { directory, limiter, ledger, upstream: Arc::default(), tasks, cut, clock }
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

    /// How many calls are running, those included whose client has left.
    #[must_use]
    pub fn open_calls(&self) -> usize {
        self.tasks.len()
    }
}
