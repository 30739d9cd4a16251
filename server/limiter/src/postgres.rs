//! The engine that keeps its counters in Postgres, beside the books.

use async_trait::async_trait;
use domain::admission::Meter;
use domain::id::TenantId;
use domain::money::Nanos;
use domain::window::{UnixMs, Zone};
use sqlx::PgPool;
use tokio_util::task::TaskTracker;

use crate::admission::{Admission, Ask, LimiterError, Reading, Verdict};
use crate::hold::{Actual, Hold};

/// Admission through Postgres. Clones share the pool.
#[derive(Debug, Clone)]
pub struct PostgresEngine {
    pool: PgPool,
    tasks: TaskTracker,
}

impl PostgresEngine {
    /// An engine on this pool; its transactions run on `tasks`.
    #[must_use]
    pub const fn new(pool: PgPool, tasks: TaskTracker) -> Self {
        Self { pool, tasks }
    }

    /// Ends holds of all tenants that have expired, at most one portion, and says how many.
    ///
    /// # Errors
    /// When the store cannot be reached.
    pub async fn reap(&self, now: Option<UnixMs>) -> Result<u64, LimiterError> {
        let _ = (&self.pool, &self.tasks, now);
        todo!()
    }

    /// Forgets the empty counters of periods long past, at most one portion, and says how many.
    ///
    /// # Errors
    /// When the store cannot be reached.
    pub async fn forget_past_periods(&self, now: Option<UnixMs>) -> Result<u64, LimiterError> {
        let _ = now;
        todo!()
    }
}

#[async_trait]
impl Admission for PostgresEngine {
    async fn admit(&self, ask: &Ask) -> Result<Verdict, LimiterError> {
        let _ = ask;
        todo!()
    }

    async fn settle(
        &self,
        hold: &Hold,
        actual: &Actual,
        now: Option<UnixMs>,
    ) -> Result<(), LimiterError> {
        let _ = (hold, actual, now);
        todo!()
    }

    async fn release(&self, hold: &Hold, now: Option<UnixMs>) -> Result<(), LimiterError> {
        let _ = (hold, now);
        todo!()
    }

    async fn renew(
        &self,
        hold: &Hold,
        now: Option<UnixMs>,
    ) -> Result<Option<UnixMs>, LimiterError> {
        let _ = (hold, now);
        todo!()
    }

    async fn readings(
        &self,
        tenant_id: TenantId,
        zone: &Zone,
        meters: &[Meter],
        now: Option<UnixMs>,
    ) -> Result<Vec<Reading>, LimiterError> {
        let _ = (tenant_id, zone, meters, now);
        todo!()
    }

    async fn held_by_tenant(&self) -> Result<Vec<(TenantId, Nanos)>, LimiterError> {
        todo!()
    }
}
