//! A running simulator: started, asked, stopped.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::journal::{Journal, Served};
use crate::listen;
use crate::script::Queue;

/// How long open answers may go on after a stop was asked for.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// How fast answers come when no script says otherwise. Zero for both is the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// Before the headers.
    pub first_byte: Duration,
    /// Before every frame but the first.
    pub frame: Duration,
}

/// What a simulator needs to know.
#[derive(Clone)]
pub struct SimConfig {
    /// Where to listen; port 0 picks a free one.
    pub bind: SocketAddr,
    /// Everything generated is drawn from it.
    pub seed: u64,
    /// A file that gets one JSON line per request, appended.
    pub journal: Option<PathBuf>,
    /// How fast answers come.
    pub pace: Pace,
    /// Unix milliseconds, for the journal only: answers do not depend on the time.
    pub now_ms: fn() -> u64,
}

impl Default for SimConfig {
    /// A free port on loopback, seed 0, no file, no pauses, the wall clock.
    fn default() -> Self {
        Self {
            bind: SocketAddr::from(([127, 0, 0, 1], 0)),
            seed: 0,
            journal: None,
            pace: Pace::default(),
            now_ms: wall_clock_ms,
        }
    }
}

impl fmt::Debug for SimConfig {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("SimConfig")
            .field("bind", &self.bind)
            .field("seed", &self.seed)
            .field("journal", &self.journal)
            .field("pace", &self.pace)
            .finish_non_exhaustive()
    }
}

#[expect(clippy::disallowed_methods, reason = "the edge: every other use goes through SimConfig")]
fn wall_clock_ms() -> u64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
}

/// Why a simulator did not start.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// The address cannot be listened on.
    #[error("cannot listen on {addr}")]
    Bind {
        /// The address asked for.
        addr: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The journal file cannot be opened for appending.
    #[error("cannot open the journal {path}")]
    Journal {
        /// The file asked for.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Figures of the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// Streams whose head was sent and whose end was not.
    pub open_streams: u64,
    /// The most that were ever open at once.
    pub peak_open_streams: u64,
    /// TCP connections.
    pub open_connections: u64,
    /// Requests that arrived for the providers' routes.
    pub arrived: u64,
    /// Requests that ended, which is the length of the journal.
    pub served: u64,
    /// Journal lines the file did not take.
    pub journal_write_errors: u64,
    /// Scripts waiting for a request.
    pub queued_scripts: u64,
}

/// Counters shared by all connections.
#[derive(Debug, Default)]
pub(crate) struct Gauges {
    open_streams: AtomicU64,
    peak_open_streams: AtomicU64,
    pub(crate) open_connections: AtomicU64,
    arrived: AtomicU64,
}

impl Gauges {
    pub(crate) fn stream_opened(&self) {
        let open = self.open_streams.fetch_add(1, Ordering::Relaxed) + 1;
        self.peak_open_streams.fetch_max(open, Ordering::Relaxed);
    }

    pub(crate) fn stream_closed(&self) {
        self.open_streams.fetch_sub(1, Ordering::Relaxed);
    }

    /// Number of the request that has just arrived, from 0.
    pub(crate) fn arrive(&self) -> u64 {
        self.arrived.fetch_add(1, Ordering::Relaxed)
    }
}

/// What every request needs.
pub(crate) struct State {
    pub(crate) seed: u64,
    pub(crate) pace: Pace,
    pub(crate) now_ms: fn() -> u64,
    pub(crate) journal: Journal,
    pub(crate) gauges: Gauges,
    queue: Mutex<Queue>,
    /// No new work.
    pub(crate) stop: CancellationToken,
    /// No work at all.
    pub(crate) stop_hard: CancellationToken,
    pub(crate) tasks: TaskTracker,
}

impl State {
    pub(crate) fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn stats(&self) -> Stats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Stats {
            open_streams: read(&self.gauges.open_streams),
            peak_open_streams: read(&self.gauges.peak_open_streams),
            open_connections: read(&self.gauges.open_connections),
            arrived: read(&self.gauges.arrived),
            served: self.journal.count(),
            journal_write_errors: self.journal.write_errors(),
            queued_scripts: self.queue().len() as u64,
        }
    }
}

/// A running simulator. Dropping it stops it without waiting.
pub struct Sim {
    addr: SocketAddr,
    state: Arc<State>,
}

impl Sim {
    /// Listens and serves until stopped.
    ///
    /// # Errors
    /// The address or the journal file cannot be used.
    pub async fn start(config: SimConfig) -> Result<Self, SimError> {
        let journal = Journal::open(config.journal.as_deref()).map_err(|source| {
            SimError::Journal { path: config.journal.clone().unwrap_or_default(), source }
        })?;
        let bind = |source| SimError::Bind { addr: config.bind, source };
        let listener = listen::bind(config.bind).map_err(bind)?;
        let addr = listener.local_addr().map_err(bind)?;
        let state = Arc::new(State {
            seed: config.seed,
            pace: config.pace,
            now_ms: config.now_ms,
            journal,
            gauges: Gauges::default(),
            queue: Mutex::default(),
            stop: CancellationToken::new(),
            stop_hard: CancellationToken::new(),
            tasks: TaskTracker::new(),
        });
        state.tasks.spawn(listen::accept(listener, Arc::clone(&state)));
        tracing::info!(%addr, seed = config.seed, "provider simulator listens");
        Ok(Self { addr, state })
    }

    /// Where it listens.
    #[must_use]
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// `http://address`, without a slash at the end. An address that means "all" is given as
    /// loopback, which can be dialled.
    #[must_use]
    pub fn base_url(&self) -> String {
        let mut addr = self.addr;
        if addr.ip().is_unspecified() {
            addr.set_ip(if addr.is_ipv4() {
                [127, 0, 0, 1].into()
            } else {
                std::net::Ipv6Addr::LOCALHOST.into()
            });
        }
        format!("http://{addr}")
    }

    /// The last [`crate::MAX_ENTRIES_IN_MEMORY`] entries, in order of ending.
    #[must_use]
    pub fn journal(&self) -> Vec<Served> {
        self.state.journal.since(0, usize::MAX)
    }

    /// How many requests have ended.
    #[must_use]
    pub fn served(&self) -> u64 {
        self.state.journal.count()
    }

    /// Waits until at least `count` requests have ended: a caller that leaves ends its request a
    /// moment later. Waits for ever when they never do.
    pub async fn wait_served(&self, count: u64) {
        self.state.journal.reached(count).await;
    }

    /// Figures of the moment.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.state.stats()
    }

    /// Takes no new requests, lets open answers go on for two seconds, ends the rest, and returns
    /// when every request is in the journal.
    pub async fn stop(self) {
        self.state.stop.cancel();
        self.state.tasks.close();
        if timeout(STOP_GRACE, self.state.tasks.wait()).await.is_err() {
            self.state.stop_hard.cancel();
            self.state.tasks.wait().await;
        }
    }
}

impl fmt::Debug for Sim {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Sim").field("addr", &self.addr).finish_non_exhaustive()
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        self.state.stop.cancel();
        self.state.stop_hard.cancel();
    }
}

/// Runs a simulator until `shutdown` is ready, then stops it.
///
/// # Errors
/// It could not start.
pub async fn serve(
    config: SimConfig,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), SimError> {
    let sim = Sim::start(config).await?;
    shutdown.await;
    sim.stop().await;
    Ok(())
}
