//! What every engine can do, done by the one that has the authority.

use async_trait::async_trait;
use domain::admission::Meter;
use domain::id::TenantId;
use domain::money::Nanos;
use domain::window::{UnixMs, Zone};
use tokio::time::Instant;

use super::{Limiter, SWITCH_WAIT};
use crate::admission::{Admission, Ask, LimiterError, Reading, Verdict};
use crate::authority::Mode;
use crate::hold::{Actual, Hold};

#[async_trait]
impl Admission for Limiter {
    async fn admit(&self, ask: &Ask) -> Result<Verdict, LimiterError> {
        let deadline = Instant::now() + SWITCH_WAIT;
        loop {
            let engine = self.engine(deadline).await?;
            let (mode, epoch) = (engine.mode, engine.seat.epoch);
            let verdict = match (mode, &self.shared.redis) {
                (Mode::Redis, Some(redis)) => redis.admit(ask, epoch).await,
                _ => {
                    // Asks of one tenant wait for each other there, and nobody who publishes has to wait for them:
                    // that engine looks at the epoch itself, and what it holds is published by nature.
                    drop(engine);
                    match self.shared.postgres.admit_under(ask, Some(epoch)).await {
                        Ok(verdict) => {
                            if let Verdict::Admit(hold) = &verdict {
                                self.shared.live.opened(hold, true);
                            }
                            return Ok(verdict);
                        }
                        Err(error) => {
                            if !self.again_after(mode, epoch, &error, deadline).await {
                                return Err(error);
                            }
                            continue;
                        }
                    }
                }
            };
            match verdict {
                // A lease that ended meanwhile makes the verdict void: another engine may have the authority.
                Ok(Verdict::Admit(hold)) if self.usable(*engine.seat).is_none() => {
                    drop(engine);
                    self.end(&hold, None, ask.now).await?;
                }
                Ok(verdict) => {
                    self.answered(mode);
                    if let Verdict::Admit(hold) = &verdict {
                        self.shared.live.opened(hold, false);
                    }
                    return Ok(verdict);
                }
                Err(error) => {
                    if !self.again(engine, &error, deadline).await {
                        return Err(error);
                    }
                }
            }
        }
    }

    async fn settle(
        &self,
        hold: &Hold,
        actual: &Actual,
        now: Option<UnixMs>,
    ) -> Result<(), LimiterError> {
        self.end(hold, Some(actual), now).await
    }

    async fn release(&self, hold: &Hold, now: Option<UnixMs>) -> Result<(), LimiterError> {
        self.end(hold, None, now).await
    }

    async fn renew(
        &self,
        hold: &Hold,
        now: Option<UnixMs>,
    ) -> Result<Option<UnixMs>, LimiterError> {
        let deadline = Instant::now() + SWITCH_WAIT;
        loop {
            let engine = self.engine(deadline).await?;
            let until = match (engine.mode, &self.shared.redis) {
                (Mode::Redis, Some(redis)) => redis.renew(hold, engine.seat.epoch, now).await,
                _ => self.shared.postgres.renew(hold, now).await,
            };
            match until {
                Ok(until) => {
                    if let Some(until) = until {
                        self.shared.live.renewed(hold.request_id, until);
                    }
                    return Ok(until);
                }
                Err(error) => {
                    if !self.again(engine, &error, deadline).await {
                        return Err(error);
                    }
                }
            }
        }
    }

    async fn readings(
        &self,
        tenant_id: TenantId,
        zone: &Zone,
        meters: &[Meter],
        now: Option<UnixMs>,
    ) -> Result<Vec<Reading>, LimiterError> {
        let deadline = Instant::now() + SWITCH_WAIT;
        loop {
            let engine = self.engine(deadline).await?;
            let epoch = engine.seat.epoch;
            let readings = match (engine.mode, &self.shared.redis) {
                (Mode::Redis, Some(redis)) => {
                    redis.readings(tenant_id, zone, meters, epoch, now).await
                }
                _ => self.shared.postgres.readings(tenant_id, zone, meters, now).await,
            };
            match readings {
                Ok(readings) => return Ok(readings),
                Err(error) => {
                    if !self.again(engine, &error, deadline).await {
                        return Err(error);
                    }
                }
            }
        }
    }

    async fn held_by_tenant(&self) -> Result<Vec<(TenantId, Nanos)>, LimiterError> {
        let engine = self.engine(Instant::now() + SWITCH_WAIT).await?;
        match (engine.mode, &self.shared.redis) {
            (Mode::Redis, Some(redis)) => redis.held_by_tenant(engine.seat.epoch).await,
            _ => self.shared.postgres.held_by_tenant().await,
        }
    }
}
