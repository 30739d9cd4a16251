//! Two engines and one authority: the limiter that everybody else uses.

mod beat;
mod standing;
mod verdicts;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use domain::id::TenantId;
use domain::window::UnixMs;
use sqlx::PgPool;
use tokio::sync::{Notify, RwLock, RwLockReadGuard, Semaphore, watch};
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::task::TaskTracker;

pub use self::standing::Standing;
use crate::admission::{Admission as _, LimiterError};
use crate::authority::{Mode, Replica};
use crate::hold::{Actual, Hold};
use crate::postgres::PostgresEngine;
use crate::redis::RedisEngine;
use crate::registry::Registry;

/// How long a call waits for the engines to change before it is refused: longer than the lease of a process that died.
const SWITCH_WAIT: Duration = Duration::from_secs(4);
/// How long the end of a call waits for an engine. Beyond that its hold ends by itself, with what the books say.
const ENDING_WAIT: Duration = Duration::from_secs(30);
/// How many calls may wait for the engines to change: a second's worth of a busy process. Others are refused at once.
const WAITING: usize = 4_096;
/// How many scripts may fail one after the other before Redis counts as away.
const FAILURES: u32 = 3;
/// The pause before an engine that failed is asked again.
const PAUSE: Duration = Duration::from_millis(10);

/// The parts of a limiter.
#[derive(Debug)]
pub struct Parts {
    /// The database.
    pub pool: PgPool,
    /// The engine in Postgres, always there.
    pub postgres: PostgresEngine,
    /// The engine in Redis, where one is configured.
    pub redis: Option<RedisEngine>,
    /// A name that no other process has, now or later.
    pub replica_id: String,
    /// How long Redis goes on to admit while the database cannot be reached.
    pub without_books: Duration,
    /// Where work runs that must not be broken off.
    pub tasks: TaskTracker,
}

/// Admission by whichever engine has the authority. Clones share everything.
#[derive(Debug, Clone)]
pub struct Limiter {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    postgres: PostgresEngine,
    redis: Option<RedisEngine>,
    replica: Replica,
    /// Read by everything that touches an engine, written by who publishes: so nothing is under way meanwhile.
    seat: RwLock<Seat>,
    /// The same, for those who wait for a change.
    seen: watch::Sender<Seat>,
    /// Until when Redis may be used by the seat. Renewed beside it: a renewal must not wait for what is under way.
    lease_until: Mutex<Option<Instant>>,
    told: watch::Sender<Option<Standing>>,
    live: Registry,
    /// Wakes the beat.
    nudge: Notify,
    failures: AtomicU32,
    waiting: Semaphore,
    tasks: TaskTracker,
}

/// What this process knows of the authority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seat {
    /// Nothing while it changes.
    mode: Option<Mode>,
    epoch: i64,
}

/// The engine of the moment. While it is held, the authority does not change here.
struct Engine<'a> {
    seat: RwLockReadGuard<'a, Seat>,
    mode: Mode,
}

impl Limiter {
    /// A limiter that admits nothing until [`Limiter::run`] has found out who has the authority.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let Parts { pool, postgres, redis, replica_id, without_books, tasks } = parts;
        let seat = Seat { mode: None, epoch: 0 };
        let shared = Shared {
            postgres,
            redis,
            replica: Replica { pool, id: replica_id, without_books },
            seat: RwLock::new(seat),
            seen: watch::Sender::new(seat),
            lease_until: Mutex::new(None),
            told: watch::Sender::new(None),
            live: Registry::default(),
            nudge: Notify::new(),
            failures: AtomicU32::new(0),
            waiting: Semaphore::new(WAITING),
            tasks,
        };
        Self { shared: Arc::new(shared) }
    }

    /// How many holds this process has open.
    #[must_use]
    pub fn live_holds(&self) -> usize {
        self.shared.live.len()
    }

    /// What is known of the authority; nothing before the first answer of the database.
    #[must_use]
    pub fn standing(&self) -> Option<Standing> {
        self.shared.told.borrow().clone()
    }

    /// Ends holds that have expired, of all tenants, and says how many.
    ///
    /// # Errors
    /// When no engine can be reached.
    pub async fn reap(&self, now: Option<UnixMs>) -> Result<u64, LimiterError> {
        let engine = self.engine(Instant::now() + SWITCH_WAIT).await?;
        let (mode, epoch) = (engine.mode, engine.seat.epoch);
        // As below: it goes through all owners, and nobody has to wait for that to give the seat up.
        drop(engine);
        match (mode, &self.shared.redis) {
            (Mode::Redis, Some(redis)) => redis.reap(epoch, now).await,
            _ => self.shared.postgres.reap(now).await,
        }
    }

    /// Compares the counters of Redis with the books: of all owners, or of those in which something ended since the
    /// last time. Says how many differed and were put right. The counters in Postgres are the books'.
    ///
    /// # Errors
    /// When no engine can be reached.
    pub async fn reconcile(&self, all: bool) -> Result<u64, LimiterError> {
        let engine = self.engine(Instant::now() + SWITCH_WAIT).await?;
        let (mode, epoch) = (engine.mode, engine.seat.epoch);
        // It takes long, and every step of it looks at the epoch: nobody has to wait for it to give the seat up.
        drop(engine);
        match (mode, &self.shared.redis) {
            (Mode::Redis, Some(redis)) => redis.reconcile(epoch, all).await,
            _ => Ok(0),
        }
    }

    /// Forgets the empty counters of periods long past, at most one portion, and says how many.
    ///
    /// # Errors
    /// When the database cannot be reached.
    pub async fn forget_past_periods(&self, now: Option<UnixMs>) -> Result<u64, LimiterError> {
        self.shared.postgres.forget_past_periods(now).await
    }

    /// Tells the engine what a tenant has paid in, after that has changed in the books.
    ///
    /// # Errors
    /// When the engine cannot be reached: then it learns it from the reconciliation.
    pub async fn credit_changed(&self, tenant_id: TenantId) -> Result<(), LimiterError> {
        let engine = self.engine(Instant::now() + SWITCH_WAIT).await?;
        match (engine.mode, &self.shared.redis) {
            (Mode::Redis, Some(redis)) => redis.credit_changed(tenant_id, engine.seat.epoch).await,
            // The other engine reads the books themselves.
            _ => Ok(()),
        }
    }

    /// Gives the lease back and ends the engines' own connections, once what is under way on them is over. The pool it
    /// was given is the caller's, who has more to write.
    pub async fn close(&self) {
        if let Err(error) = self.shared.replica.leave().await {
            tracing::debug!(%error, "the lease is left to end by itself");
        }
        self.shared.postgres.close().await;
        if let Some(redis) = &self.shared.redis {
            redis.close().await;
        }
    }

    /// The engine of the moment; waits for it until `deadline` while it changes.
    async fn engine(&self, deadline: Instant) -> Result<Engine<'_>, LimiterError> {
        let late = |_| LimiterError::unavailable("no engine has the authority");
        let mut waits = None;
        let mut seen = self.shared.seen.subscribe();
        loop {
            let seat = timeout_at(deadline, self.shared.seat.read()).await.map_err(late)?;
            if let Some(mode) = self.usable(*seat) {
                return Ok(Engine { seat, mode });
            }
            drop(seat);
            if waits.is_none() {
                let place = self.shared.waiting.try_acquire();
                waits = Some(
                    place.map_err(|_| LimiterError::unavailable("too many wait for an engine"))?,
                );
            }
            self.shared.nudge.notify_one();
            // The sender lives as long as this does. A lease that was renewed is news as well.
            let _ = timeout_at(deadline, seen.changed()).await.map_err(late)?;
        }
    }

    /// The engine that a seat allows to use now. Postgres looks at the authority itself.
    fn usable(&self, seat: Seat) -> Option<Mode> {
        match seat.mode? {
            Mode::Postgres => Some(Mode::Postgres),
            Mode::Redis => {
                let until = *self.shared.lease_until.lock().unwrap_or_else(PoisonError::into_inner);
                until.filter(|until| Instant::now() < *until).map(|_| Mode::Redis)
            }
        }
    }

    fn lease(&self, until: Instant) {
        let mut lease = self.shared.lease_until.lock().unwrap_or_else(PoisonError::into_inner);
        *lease = Some(until);
    }

    /// An engine did not answer, or answered that it may not any more. Says whether to ask again.
    async fn again(&self, engine: Engine<'_>, error: &LimiterError, deadline: Instant) -> bool {
        let (mode, epoch) = (engine.mode, engine.seat.epoch);
        drop(engine);
        self.again_after(mode, epoch, error, deadline).await
    }

    /// The same, when the engine was let go already.
    async fn again_after(
        &self,
        mode: Mode,
        epoch: i64,
        error: &LimiterError,
        deadline: Instant,
    ) -> bool {
        match error {
            LimiterError::Superseded => self.wait_for_news(epoch, deadline).await,
            LimiterError::Lost => {
                let lost = "counters were lost";
                if self.shared.replica.change(epoch, Mode::Redis, lost).await.is_err() {
                    return false;
                }
                self.wait_for_news(epoch, deadline).await
            }
            LimiterError::Unavailable(_) if mode == Mode::Redis => {
                let failures =
                    self.shared.failures.fetch_add(1, Ordering::Relaxed).saturating_add(1);
                if failures >= FAILURES {
                    self.wait_for_news(epoch, deadline).await
                } else {
                    sleep(PAUSE).await;
                    Instant::now() < deadline
                }
            }
            _ => false,
        }
    }

    /// Wakes the beat, and waits until this epoch is over or Redis answers again.
    async fn wait_for_news(&self, epoch: i64, deadline: Instant) -> bool {
        let mut seen = self.shared.seen.subscribe();
        self.shared.nudge.notify_one();
        let is_news =
            |seat: &Seat| seat.epoch != epoch || self.shared.failures.load(Ordering::Relaxed) == 0;
        loop {
            if is_news(&seen.borrow_and_update()) {
                return true;
            }
            if timeout_at(deadline, seen.changed()).await.is_err() {
                return false;
            }
        }
    }

    fn answered(&self, mode: Mode) {
        if mode == Mode::Redis && self.shared.failures.load(Ordering::Relaxed) != 0 {
            self.shared.failures.store(0, Ordering::Relaxed);
        }
    }

    async fn end(
        &self,
        hold: &Hold,
        actual: Option<&Actual>,
        now: Option<UnixMs>,
    ) -> Result<(), LimiterError> {
        let deadline = Instant::now() + ENDING_WAIT;
        loop {
            let engine = self.engine(deadline).await?;
            let ended = match (engine.mode, &self.shared.redis) {
                (Mode::Redis, Some(redis)) => redis.end(hold, actual, engine.seat.epoch, now).await,
                _ => match actual {
                    Some(actual) => self.shared.postgres.settle(hold, actual, now).await,
                    None => self.shared.postgres.release(hold, now).await,
                },
            };
            match ended {
                Ok(()) => {
                    self.answered(engine.mode);
                    let is_published = self.shared.live.ended(hold.request_id);
                    if is_published && engine.mode == Mode::Redis {
                        self.withdraw(hold);
                    }
                    return Ok(());
                }
                Err(error) => {
                    if !self.again(engine, &error, deadline).await {
                        self.shared.live.ended(hold.request_id);
                        return Err(error);
                    }
                }
            }
        }
    }

    /// Takes a hold out of the table where it was published. What stays there expires.
    fn withdraw(&self, hold: &Hold) {
        let (limiter, hold) = (self.clone(), hold.clone());
        self.shared.tasks.spawn(async move {
            if let Err(error) = limiter.shared.replica.withdraw(&hold).await {
                tracing::debug!(request_id = %hold.request_id, %error, "a published hold is left to expire");
            }
        });
    }
}
