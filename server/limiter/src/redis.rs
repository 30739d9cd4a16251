//! The engine that keeps its counters in Redis.
//!
//! One script admits and one ends a hold; both repeat `domain::admission` in Lua, in its order and with its names.
//! What Redis does not know it asks the books: a counter that is missing is unknown, not zero. Every method takes the
//! epoch under which the caller may admit, and every script refuses an older one.

mod connection;
mod doubt;
mod ending;
mod levels;
mod reconcile;
mod reply;
mod scripts;
mod second_look;
mod shard;
mod told;
mod wanted;
mod warm_up;
mod wire;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use domain::admission::Meter;
use domain::id::TenantId;
use domain::money::Nanos;
use domain::window::{UnixMs, Zone};
use sqlx::PgPool;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use self::connection::Store;
pub use self::connection::{RedisConfig, RedisUrlError};
use self::doubt::Doubt;
use self::ending::Ended;
pub(crate) use self::levels::Level;
use self::levels::Levels;
use self::reply::{Answer, Reply};
use self::second_look::SecondLook;
use self::shard::Shard;
use self::warm_up::Warmers;
use crate::admission::{Ask, LimiterError, Reading, Verdict};
use crate::hold::{Actual, Hold, alerts};

/// How often one ask may find something to be put right first: cold counters, expired holds, calls that count twice.
const TRIES: usize = 8;

/// Admission through Redis. Clones share everything.
#[derive(Clone)]
pub struct RedisEngine {
    store: Store,
    /// The books, which say what Redis does not know.
    pool: PgPool,
    tasks: TaskTracker,
    warmers: Arc<Warmers>,
    second_look: Arc<SecondLook>,
    levels: Arc<Levels>,
    /// The cut of each owner at which its counters were the same as the books.
    compared: Arc<Mutex<HashMap<Shard, i64>>>,
    /// What the store's clock said, and when: only to guess the month of the next ask.
    clock: Arc<Mutex<Option<(UnixMs, Instant)>>>,
}

impl std::fmt::Debug for RedisEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisEngine").field("store", &self.store).finish_non_exhaustive()
    }
}

impl RedisEngine {
    /// An engine on the Redis of `config`, warmed from the books in `pool`. It connects when it is first asked.
    ///
    /// # Errors
    /// When the address is none of a Redis server.
    pub fn new(
        config: &RedisConfig,
        pool: &PgPool,
        tasks: TaskTracker,
    ) -> Result<Self, RedisUrlError> {
        let (warmers, second_look) = (Arc::default(), Arc::default());
        let (levels, compared, clock) = (Arc::default(), Arc::default(), Arc::default());
        let pool = warm_up::pool(pool);
        let store = Store::new(config)?;
        Ok(Self { store, pool, tasks, warmers, second_look, levels, compared, clock })
    }

    /// Ends the engine's connections to the books.
    pub async fn close(&self) {
        self.pool.close().await;
    }

    /// The levels of buckets, as this process saw them last.
    pub(crate) fn levels(&self) -> Vec<Level> {
        self.levels.all()
    }

    /// Whether Redis answers, and may be trusted with counters: it must not throw keys away.
    ///
    /// # Errors
    /// [`LimiterError::Unavailable`] with the reason.
    pub async fn probe(&self) -> Result<(), LimiterError> {
        self.store.probe().await
    }

    /// Decides on an ask under `epoch`.
    ///
    /// # Errors
    /// When there is no verdict. [`LimiterError::Superseded`] when the epoch is over, [`LimiterError::Lost`] when
    /// counters are gone that were there.
    pub async fn admit(&self, ask: &Ask, epoch: i64) -> Result<Verdict, LimiterError> {
        let doubt = Doubt::new(self, ask, epoch);
        let verdict = self.decide(ask, epoch).await;
        match verdict {
            // Whatever became of a lost answer is taken back: nobody is going to use it.
            Err(LimiterError::Unavailable(_)) => drop(doubt),
            _ => doubt.resolved(),
        }
        verdict
    }

    async fn decide(&self, ask: &Ask, epoch: i64) -> Result<Verdict, LimiterError> {
        wire::check_names(&ask.meters)?;
        let mut hold: Option<Hold> = None;
        let shards = Shard::of(ask.tenant_id, &ask.meters);
        let is_spread = shards.len() > 1;
        for shard in shards {
            let meters = shard.meters(&ask.meters);
            match self.decide_on(&shard, ask, &meters, epoch).await? {
                Decided::Admit(part) => match &mut hold {
                    None => hold = Some(part),
                    Some(hold) => hold.takes.extend(part.takes),
                },
                Decided::Refuse(refusal) => {
                    // What was taken before is given back as if it had never been: a refusal takes nothing.
                    if let Some(hold) = hold {
                        self.undo(&hold, epoch, ask.now).await?;
                    }
                    return Ok(Verdict::Refuse(refusal));
                }
            }
        }
        let Some(mut hold) = hold else { return Err(LimiterError::Stopped) };
        if is_spread {
            wire::in_order_of(&ask.meters, &mut hold.takes);
        }
        hold.alerts = alerts(&hold.takes, &ask.meters);
        Ok(Verdict::Admit(hold))
    }

    async fn decide_on(
        &self,
        shard: &Shard,
        ask: &Ask,
        meters: &[Meter],
        epoch: i64,
    ) -> Result<Decided, LimiterError> {
        let (mut look_for_expired, mut looked) = (true, false);
        for _ in 0..TRIES {
            let asked_at = Instant::now();
            let guess = self.guess(ask.now).await?;
            let command = wire::admit(shard, ask, meters, epoch, look_for_expired, guess)?;
            let mut reply = self.store.eval(&scripts::ADMIT, shard, &command).await?;
            match reply.answer()? {
                Answer::Admit => {
                    let (hold, levels) = told::hold_taken(ask, meters, &mut reply)?;
                    levels.into_iter().for_each(|level| self.levels.saw(level));
                    self.remember(hold.admitted_at);
                    return Ok(Decided::Admit(hold));
                }
                Answer::Kept => return Ok(Decided::Admit(told::hold_kept(ask, &mut reply)?)),
                Answer::Refuse => {
                    let (refusal, in_the_way) = told::refusal(ask, meters, &mut reply)?;
                    if !looked && !in_the_way.is_empty() {
                        // Nobody is refused for a call that counts twice, as written and as held.
                        looked = true;
                        let ended =
                            self.look_again(shard, &in_the_way, epoch, ask.now, asked_at).await;
                        if ended > 0 {
                            look_for_expired = false;
                            continue;
                        }
                    }
                    return Ok(Decided::Refuse(refusal));
                }
                Answer::Expired => {
                    let expired = reply.pairs()?;
                    self.end_expired(shard, &expired, epoch, ask.now).await?;
                    look_for_expired = false;
                }
                Answer::Cold => self.warm_shard(shard, meters, &ask.zone, epoch, ask.now).await?,
                Answer::Unknown => {
                    let unknown = wire::at(meters, &reply.numbers()?);
                    self.warm_meters(shard, &unknown, &ask.zone, epoch, ask.now).await?;
                }
                Answer::Stale => return Err(LimiterError::Superseded),
                Answer::Done | Answer::Stands | Answer::Audit | Answer::Lost => {
                    return Err(reply.unexpected());
                }
            }
        }
        Err(LimiterError::unavailable("the counters do not come to rest"))
    }

    /// Ends a hold with what was used, or with nothing. One that is gone stays gone.
    ///
    /// # Errors
    /// When Redis cannot be reached, or the epoch is over.
    pub async fn end(
        &self,
        hold: &Hold,
        actual: Option<&Actual>,
        epoch: i64,
        now: Option<UnixMs>,
    ) -> Result<(), LimiterError> {
        let ended = Ended::new(hold.request_id, actual.copied());
        for shard in Shard::of_takes(hold.tenant_id, &hold.takes) {
            self.end_on(&shard, &[ended], false, epoch, now).await?;
        }
        Ok(())
    }

    /// Makes a hold live on, and says until when; nothing when it is no longer there.
    ///
    /// # Errors
    /// When Redis cannot be reached, or the epoch is over.
    pub async fn renew(
        &self,
        hold: &Hold,
        epoch: i64,
        now: Option<UnixMs>,
    ) -> Result<Option<UnixMs>, LimiterError> {
        let mut until = None;
        for shard in Shard::of_takes(hold.tenant_id, &hold.takes) {
            let command = wire::renew(hold.request_id, epoch, now);
            let mut reply = self.eval_warm(&scripts::RENEW, &shard, &command, epoch, now).await?;
            until = until.or(reply.numbers()?.first().map(|ms| UnixMs(*ms)));
        }
        Ok(until)
    }

    /// How each meter stands.
    ///
    /// # Errors
    /// When Redis cannot be reached, or the epoch is over.
    pub async fn readings(
        &self,
        tenant_id: TenantId,
        zone: &Zone,
        meters: &[Meter],
        epoch: i64,
        now: Option<UnixMs>,
    ) -> Result<Vec<Reading>, LimiterError> {
        wire::check_names(meters)?;
        let mut readings = Vec::with_capacity(meters.len());
        for shard in Shard::of(tenant_id, meters) {
            let own = shard.meters(meters);
            readings.extend(self.readings_of(&shard, zone, &own, epoch, now).await?.1);
        }
        wire::readings_in_order_of(meters, &mut readings);
        Ok(readings)
    }

    /// The readings of one shard's meters, and the cut at which they were taken: a number that every ending moves.
    async fn readings_of(
        &self,
        shard: &Shard,
        zone: &Zone,
        meters: &[Meter],
        epoch: i64,
        now: Option<UnixMs>,
    ) -> Result<(i64, Vec<Reading>), LimiterError> {
        for _ in 0..TRIES {
            let guess = self.guess(now).await?;
            let command = wire::readings(zone, meters, epoch, now, guess)?;
            let mut reply = self.store.eval(&scripts::READINGS, shard, &command).await?;
            match reply.answer()? {
                Answer::Stands => return told::readings_read(meters, &mut reply),
                Answer::Cold => self.warm_shard(shard, meters, zone, epoch, now).await?,
                Answer::Unknown => {
                    let unknown = wire::at(meters, &reply.numbers()?);
                    self.warm_meters(shard, &unknown, zone, epoch, now).await?;
                }
                Answer::Stale => return Err(LimiterError::Superseded),
                _ => return Err(reply.unexpected()),
            }
        }
        Err(LimiterError::unavailable("the counters do not come to rest"))
    }

    /// The money that live calls hold, by tenant.
    ///
    /// # Errors
    /// When Redis or the books cannot be reached.
    pub async fn held_by_tenant(&self, epoch: i64) -> Result<Vec<(TenantId, Nanos)>, LimiterError> {
        let mut held = Vec::new();
        for shard in self.warm_shards(epoch).await? {
            let Some(tenant_id) = shard.tenant() else { continue };
            let charge = self.store.charge_held(&shard, epoch).await?;
            if charge > 0 {
                held.push((tenant_id, Nanos(charge)));
            }
        }
        Ok(held)
    }

    /// Ends holds of all tenants that have expired, and says how many.
    ///
    /// # Errors
    /// When Redis or the books cannot be reached, or the epoch is over.
    pub async fn reap(&self, epoch: i64, now: Option<UnixMs>) -> Result<u64, LimiterError> {
        let mut reaped = 0_u64;
        for shard in self.warm_shards(epoch).await? {
            reaped = reaped.saturating_add(self.reap_shard(&shard, epoch, now).await?);
        }
        Ok(reaped)
    }

    /// Runs a script that wants warm counters, warming them first where they are cold. No meter is asked for: what
    /// live holds took from is warmed with them.
    async fn eval_warm(
        &self,
        script: &scripts::Script,
        shard: &Shard,
        command: &[Vec<u8>],
        epoch: i64,
        now: Option<UnixMs>,
    ) -> Result<Reply, LimiterError> {
        for _ in 0..TRIES {
            let mut reply = self.store.eval(script, shard, command).await?;
            match reply.answer()? {
                Answer::Done => return Ok(reply),
                Answer::Cold => self.warm_shard(shard, &[], &Zone::utc(), epoch, now).await?,
                Answer::Stale => return Err(LimiterError::Superseded),
                _ => return Err(reply.unexpected()),
            }
        }
        Err(LimiterError::unavailable("the counters do not come to rest"))
    }

    /// An instant near the store's: it decides which months an ask names.
    async fn guess(&self, told: Option<UnixMs>) -> Result<UnixMs, LimiterError> {
        if let Some(now) = told {
            return Ok(now);
        }
        if let Some((at, seen)) = *self.clock.lock().unwrap_or_else(PoisonError::into_inner) {
            let passed = i64::try_from(seen.elapsed().as_millis()).unwrap_or(i64::MAX);
            return Ok(at.plus_ms(passed));
        }
        let now = self.store.time().await?;
        self.remember(now);
        Ok(now)
    }

    fn is_compared(&self, shard: &Shard, cut: i64) -> bool {
        let compared = self.compared.lock().unwrap_or_else(PoisonError::into_inner);
        compared.get(shard) == Some(&cut)
    }

    /// As large as the owners that are warm.
    fn compared(&self, shard: &Shard, cut: i64) {
        self.compared.lock().unwrap_or_else(PoisonError::into_inner).insert(*shard, cut);
    }

    fn remember(&self, now: UnixMs) {
        *self.clock.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, Instant::now()));
    }
}

/// What one shard says.
enum Decided {
    Admit(Hold),
    Refuse(domain::admission::Refusal),
}
