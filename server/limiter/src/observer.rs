//! A look at the counters by somebody who admits nothing: an audit beside a running gateway.

use domain::admission::Meter;
use domain::id::TenantId;
use domain::money::Nanos;
use domain::window::{UnixMs, Zone};
use sqlx::PgPool;

use crate::admission::{Admission, LimiterError, Reading};
use crate::authority::Mode;
use crate::postgres::PostgresEngine;
use crate::redis::RedisEngine;

/// Reads the counters of whichever engine has the authority. It takes no lease and holds nothing.
#[derive(Debug)]
pub struct Observer {
    pool: PgPool,
    postgres: PostgresEngine,
    redis: Option<RedisEngine>,
}

impl Observer {
    /// An observer on the engines of a gateway.
    #[must_use]
    pub const fn new(pool: PgPool, postgres: PostgresEngine, redis: Option<RedisEngine>) -> Self {
        Self { pool, postgres, redis }
    }

    /// Which engine has the authority, and under which epoch.
    ///
    /// # Errors
    /// When the database cannot be reached.
    pub async fn authority(&self) -> Result<(Mode, i64), LimiterError> {
        let row =
            sqlx::query!("select mode, epoch from limiter_authority").fetch_one(&self.pool).await?;
        let mode = if row.mode == Mode::Redis.code() { Mode::Redis } else { Mode::Postgres };
        Ok((mode, row.epoch))
    }

    /// How each meter stands.
    ///
    /// # Errors
    /// When the engine cannot be reached, or has the authority and is not configured here.
    pub async fn readings(
        &self,
        tenant_id: TenantId,
        zone: &Zone,
        meters: &[Meter],
        now: Option<UnixMs>,
    ) -> Result<Vec<Reading>, LimiterError> {
        match self.authority().await? {
            (Mode::Postgres, _) => self.postgres.readings(tenant_id, zone, meters, now).await,
            (Mode::Redis, epoch) => {
                self.redis()?.readings(tenant_id, zone, meters, epoch, now).await
            }
        }
    }

    /// The money that live calls hold, by tenant.
    ///
    /// # Errors
    /// As for [`Self::readings`].
    pub async fn held_by_tenant(&self) -> Result<Vec<(TenantId, Nanos)>, LimiterError> {
        match self.authority().await? {
            (Mode::Postgres, _) => self.postgres.held_by_tenant().await,
            (Mode::Redis, epoch) => self.redis()?.held_by_tenant(epoch).await,
        }
    }

    /// Ends the connections.
    pub async fn close(&self) {
        self.postgres.close().await;
        if let Some(redis) = &self.redis {
            redis.close().await;
        }
    }

    fn redis(&self) -> Result<&RedisEngine, LimiterError> {
        let missing =
            || LimiterError::unavailable("Redis has the authority over the limits: set REDIS_URL");
        self.redis.as_ref().ok_or_else(missing)
    }
}
