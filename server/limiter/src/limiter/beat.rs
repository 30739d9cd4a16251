//! The beat: the lease, the probe of Redis, and every change of the authority.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{FAILURES, Limiter, Seat, Standing};
use crate::admission::LimiterError;
use crate::authority::{LEASE, Mode, Rule};

/// How often the lease is renewed: some may fail before it ends.
const BEAT: Duration = Duration::from_millis(500);
/// How often while the authority changes and others are waited for.
const QUICK_BEAT: Duration = Duration::from_millis(25);
/// How long the database may take for one step of the beat: less than a lease.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often Redis must answer in a row before it is trusted again.
const ANSWERS: u32 = 3;

/// What the beat remembers from one to the next.
#[derive(Debug, Default)]
struct Memory {
    /// How often Redis has answered in a row.
    answers: u32,
    probed_at: Option<Instant>,
    database_started: Option<String>,
    /// When the database answered last, and the row it gave.
    last: Option<(Instant, Rule)>,
}

impl Limiter {
    /// Keeps the lease, and follows or makes the changes of the authority, until it is cancelled.
    pub async fn run(&self, cancel: CancellationToken) {
        let mut memory = Memory::default();
        loop {
            let pause = self.beat(&mut memory).await;
            let pause = async {
                tokio::select! {
                    () = sleep(pause) => {}
                    // Not more often than quickly, however many calls wait.
                    () = async { tokio::join!(self.shared.nudge.notified(), sleep(QUICK_BEAT)); } => {}
                }
            };
            if cancel.run_until_cancelled(pause).await.is_none() {
                return;
            }
        }
    }

    /// One beat; says how long to wait for the next.
    async fn beat(&self, memory: &mut Memory) -> Duration {
        self.probe(memory).await;
        let published = self.shared.seat.read().await.epoch;
        let redis_answers = memory.answers >= ANSWERS || (published == 0 && memory.answers > 0);
        let renewed = self.shared.replica.renew(published, redis_answers);
        match in_time(renewed).await {
            Ok(rule) => {
                memory.last = Some((Instant::now(), rule.clone()));
                match self.follow(memory, &rule).await {
                    Ok(true) => BEAT,
                    Ok(false) => QUICK_BEAT,
                    Err(error) => {
                        tracing::warn!(%error, "the authority over the limits is not settled");
                        QUICK_BEAT
                    }
                }
            }
            Err(error) => {
                tracing::warn!(%error, "the lease on the limits is not renewed");
                self.go_on_without_books(memory).await;
                BEAT
            }
        }
    }

    /// Follows the row. Says whether all is settled.
    async fn follow(&self, memory: &mut Memory, rule: &Rule) -> Result<bool, LimiterError> {
        let replica = &self.shared.replica;
        let seat = *self.shared.seat.read().await;
        if seat.epoch != rule.epoch {
            let is_late = rule.ready && seat.epoch != 0 && self.shared.live.len() > 0;
            self.publish(rule).await?;
            if is_late {
                // The others went on without these holds: all have to look again.
                let late = "a process published its holds late";
                replica.change(rule.epoch, rule.mode, late).await?;
                return Ok(false);
            }
        }
        if !rule.ready && !replica.make_ready(rule.epoch).await? {
            self.tell(rule, false);
            return Ok(false);
        }
        self.take_seat(rule).await;
        self.tell(rule, true);
        if !rule.ready {
            return Ok(false);
        }
        self.change_if_needed(memory, rule).await
    }

    /// Asks for a change where one is due. Says whether none was.
    async fn change_if_needed(
        &self,
        memory: &mut Memory,
        rule: &Rule,
    ) -> Result<bool, LimiterError> {
        let replica = &self.shared.replica;
        let started = memory.database_started.replace(rule.database_started.clone());
        let changed = match rule.mode {
            Mode::Redis if self.shared.redis.is_none() => {
                replica.change(rule.epoch, Mode::Postgres, "a process has no Redis").await?
            }
            Mode::Redis if memory.answers == 0 => {
                let away = "a process cannot reach Redis";
                replica.change(rule.epoch, Mode::Postgres, away).await?
            }
            // Holds are written without waiting for the disk: a server that fell may have lost some.
            Mode::Postgres if started.is_some_and(|before| before != rule.database_started) => {
                let restarted = "the database was started anew";
                replica.change(rule.epoch, Mode::Postgres, restarted).await?
            }
            Mode::Postgres if memory.answers >= ANSWERS => replica.change_back(rule).await?,
            Mode::Redis | Mode::Postgres => false,
        };
        Ok(!changed)
    }

    /// Publishes what is open here, with nothing under way, and stops until the new epoch is ready.
    async fn publish(&self, rule: &Rule) -> Result<(), LimiterError> {
        let mut seat = self.shared.seat.write().await;
        seat.mode = None;
        let holds = self.shared.live.all();
        let levels = self.shared.redis.as_ref().map(|redis| redis.levels()).unwrap_or_default();
        self.shared.replica.publish(rule.epoch, &holds, &levels).await?;
        self.shared.live.published();
        seat.epoch = rule.epoch;
        self.shared.seen.send_replace(*seat);
        tracing::info!(
            epoch = rule.epoch,
            mode = rule.mode.code(),
            holds = holds.len(),
            cause = rule.cause,
            "the limits change hands: open holds are published"
        );
        Ok(())
    }

    /// The row is ready: its engine admits from here on, until the lease is over.
    async fn take_seat(&self, rule: &Rule) {
        self.lease(rule.lease_until);
        let next = Seat { mode: Some(rule.mode), epoch: rule.epoch };
        // Only a change waits for what is under way; a renewed lease is news to those who wait for one.
        let is_news = *self.shared.seat.read().await != next;
        if is_news {
            *self.shared.seat.write().await = next;
        }
        self.shared.seen.send_replace(next);
        if is_news {
            let degraded = self.is_degraded(rule.mode);
            metrics::gauge!("weir_limiter_redis").set(if rule.mode == Mode::Redis {
                1.0
            } else {
                0.0
            });
            if degraded {
                metrics::counter!("weir_limiter_degradations_total").increment(1);
                tracing::warn!(cause = rule.cause, "Postgres admits, though Redis is configured");
            } else {
                tracing::info!(
                    mode = rule.mode.code(),
                    epoch = rule.epoch,
                    "the limits are in these hands"
                );
            }
        }
    }

    /// The database does not answer. Redis goes on for a while, since nobody can take the authority from it meanwhile
    /// but through the same database.
    async fn go_on_without_books(&self, memory: &Memory) {
        let Some((at, rule)) = &memory.last else { return };
        if rule.mode != Mode::Redis || !rule.ready {
            return;
        }
        let lease_until = *at + self.shared.replica.without_books.max(LEASE);
        let seat = *self.shared.seat.read().await;
        if seat.mode == Some(Mode::Redis) && seat.epoch == rule.epoch {
            self.lease(lease_until);
            self.shared.seen.send_replace(seat);
        }
    }

    /// Asks Redis whether it is there: at every beat while it is not trusted, else only when scripts have failed.
    async fn probe(&self, memory: &mut Memory) {
        let Some(redis) = &self.shared.redis else { return };
        let failures = self.shared.failures.load(Ordering::Relaxed);
        let is_due = memory.probed_at.is_none_or(|at| at.elapsed() >= BEAT / 2);
        if !(is_due || failures >= FAILURES) {
            return;
        }
        memory.probed_at = Some(Instant::now());
        match redis.probe().await {
            Ok(()) => {
                memory.answers = memory.answers.saturating_add(1);
                if failures >= FAILURES {
                    self.shared.failures.store(0, Ordering::Relaxed);
                    self.shared.seen.send_modify(|_| {});
                }
            }
            Err(error) => {
                if memory.answers > 0 {
                    tracing::warn!(%error, "Redis cannot be used");
                }
                memory.answers = 0;
            }
        }
    }

    fn is_degraded(&self, mode: Mode) -> bool {
        mode == Mode::Postgres && self.shared.redis.is_some()
    }

    fn tell(&self, rule: &Rule, ready: bool) {
        self.shared.told.send_replace(Some(Standing {
            mode: rule.mode,
            epoch: rule.epoch,
            ready,
            degraded: self.is_degraded(rule.mode),
            cause: rule.cause.clone(),
            age: rule.age,
        }));
    }
}

async fn in_time<T>(
    step: impl Future<Output = Result<T, LimiterError>>,
) -> Result<T, LimiterError> {
    timeout(PATIENCE, step)
        .await
        .unwrap_or_else(|_| Err(LimiterError::unavailable("the database takes too long")))
}
