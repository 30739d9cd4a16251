//! Either engine, behind one face.

use std::time::Duration;

use async_trait::async_trait;
use domain::admission::Meter;
use domain::id::TenantId;
use domain::money::Nanos;
use domain::window::{UnixMs, Zone};
use limiter::{
    Actual, Admission, Ask, Hold, LimiterError, PostgresEngine, Reading, RedisConfig, RedisEngine,
    Verdict,
};
use sqlx::PgPool;
use tokio_util::task::TaskTracker;

/// The epoch under which Redis has the authority in these tests.
pub(crate) const EPOCH: i64 = 2;
/// Far longer than in production: these tests ask what is right on a crowded machine, not how fast.
pub(crate) const DEADLINE: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Postgres,
    Redis,
    Cluster,
}

#[derive(Debug, Clone)]
pub(crate) enum Engine {
    Postgres(PostgresEngine),
    Redis(RedisEngine),
}

impl Engine {
    pub(crate) fn new(pool: &PgPool, redis: Option<&RedisConfig>, tasks: &TaskTracker) -> Self {
        match redis {
            None => Self::Postgres(PostgresEngine::new(pool.clone(), tasks.clone())),
            Some(config) => Self::Redis(RedisEngine::new(config, pool, tasks.clone()).unwrap()),
        }
    }

    pub(crate) async fn reap(&self, now: Option<UnixMs>) -> Result<u64, LimiterError> {
        match self {
            Self::Postgres(engine) => engine.reap(now).await,
            Self::Redis(engine) => engine.reap(EPOCH, now).await,
        }
    }

    /// Tells the engine that money was paid in.
    pub(crate) async fn credit_changed(&self, tenant_id: TenantId) {
        if let Self::Redis(engine) = self {
            engine.credit_changed(tenant_id, EPOCH).await.unwrap();
        }
    }

    pub(crate) async fn forget_past_periods(
        &self,
        now: Option<UnixMs>,
    ) -> Result<u64, LimiterError> {
        match self {
            Self::Postgres(engine) => engine.forget_past_periods(now).await,
            Self::Redis(_) => Ok(0),
        }
    }
}

#[async_trait]
impl Admission for Engine {
    async fn admit(&self, ask: &Ask) -> Result<Verdict, LimiterError> {
        match self {
            Self::Postgres(engine) => engine.admit(ask).await,
            Self::Redis(engine) => engine.admit(ask, EPOCH).await,
        }
    }

    async fn settle(
        &self,
        hold: &Hold,
        actual: &Actual,
        now: Option<UnixMs>,
    ) -> Result<(), LimiterError> {
        match self {
            Self::Postgres(engine) => engine.settle(hold, actual, now).await,
            Self::Redis(engine) => engine.end(hold, Some(actual), EPOCH, now).await,
        }
    }

    async fn release(&self, hold: &Hold, now: Option<UnixMs>) -> Result<(), LimiterError> {
        match self {
            Self::Postgres(engine) => engine.release(hold, now).await,
            Self::Redis(engine) => engine.end(hold, None, EPOCH, now).await,
        }
    }

    async fn renew(
        &self,
        hold: &Hold,
        now: Option<UnixMs>,
    ) -> Result<Option<UnixMs>, LimiterError> {
        match self {
            Self::Postgres(engine) => engine.renew(hold, now).await,
            Self::Redis(engine) => engine.renew(hold, EPOCH, now).await,
        }
    }

    async fn readings(
        &self,
        tenant_id: TenantId,
        zone: &Zone,
        meters: &[Meter],
        now: Option<UnixMs>,
    ) -> Result<Vec<Reading>, LimiterError> {
        match self {
            Self::Postgres(engine) => engine.readings(tenant_id, zone, meters, now).await,
            Self::Redis(engine) => engine.readings(tenant_id, zone, meters, EPOCH, now).await,
        }
    }

    async fn held_by_tenant(&self) -> Result<Vec<(TenantId, Nanos)>, LimiterError> {
        match self {
            Self::Postgres(engine) => engine.held_by_tenant().await,
            Self::Redis(engine) => engine.held_by_tenant(EPOCH).await,
        }
    }
}
