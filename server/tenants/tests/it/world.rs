//! What most tests begin with: a tenant on a plan, and a directory that is running.

use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::id::{KeyId, PlanId, TeamId, TenantId};
use domain::window::UnixMs;
use secrecy::SecretBox;
use sqlx::PgPool;
use tenants::api_key::{self, ApiKeySecret, NewKey};
use tenants::context::{Denied, TenantContext, identify};
use tenants::directory::Directory;
use tenants::provider_key::Sealer;
use testkit::{TestClock, TestDatabase, fixtures};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How soon a change is to be seen by every process.
pub(crate) const SEEN_WITHIN: Duration = Duration::from_secs(1);

pub(crate) struct World {
    // Dropped before the database, which would otherwise pull the floor from under them.
    pub(crate) running: Vec<Running>,
    pub(crate) pool: PgPool,
    pub(crate) clock: TestClock,
    pub(crate) plans: fixtures::Plans,
    pub(crate) tenant: TenantId,
    pub(crate) database: TestDatabase,
}

/// A directory that listens, as one process has it.
pub(crate) struct Running {
    cancel: CancellationToken,
    tasks: TaskTracker,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.cancel.cancel();
        self.tasks.close();
    }
}

pub(crate) fn sealer(byte: u8) -> Arc<Sealer> {
    Arc::new(Sealer::from_key(SecretBox::new(Box::new([byte; 32]))))
}

impl World {
    pub(crate) async fn new() -> Self {
        let database = testkit::database().await;
        let pool = database.pool.clone();
        let plans = fixtures::plans(&pool).await;
        let tenant = fixtures::tenant(&pool, "acme", plans.starter).await;
        let clock = TestClock::default();
        Self { running: Vec::new(), pool, clock, plans, tenant, database }
    }

    pub(crate) fn now(&self) -> UnixMs {
        self.clock.now()
    }

    /// A key of the tenant, without limits of its own.
    pub(crate) async fn key(&self) -> (KeyId, ApiKeySecret) {
        self.key_with(|_| ()).await
    }

    pub(crate) async fn key_with(&self, change: impl FnOnce(&mut NewKey)) -> (KeyId, ApiKeySecret) {
        let mut new = NewKey {
            tenant: self.tenant,
            team: None,
            name: "backend".to_owned(),
            rules: Vec::new(),
            expires_at: None,
        };
        change(&mut new);
        let secret = ApiKeySecret::generate();
        (api_key::create(&self.pool, &new, &secret).await.unwrap(), secret)
    }

    pub(crate) async fn load(&self) -> Arc<Directory> {
        Arc::new(Directory::load(&self.pool, sealer(1)).await.unwrap())
    }

    /// A further process: its own pool, its own directory, listening.
    pub(crate) async fn process(&mut self) -> Arc<Directory> {
        let pool = self.database.another_pool();
        let directory = Arc::new(Directory::load(&pool, sealer(1)).await.unwrap());
        let (cancel, tasks) = (CancellationToken::new(), TaskTracker::new());
        let (task, token) = (Arc::clone(&directory), cancel.clone());
        tasks.spawn(async move { task.run(pool, token).await });
        self.running.push(Running { cancel, tasks });
        directory
    }

    pub(crate) fn identify(
        &self,
        directory: &Directory,
        secret: &ApiKeySecret,
    ) -> Result<TenantContext, Denied> {
        identify(&directory.snapshot(), secret.expose(), self.now())
    }

    pub(crate) async fn new_tenant(&self, slug: &str, plan: PlanId) -> TenantId {
        fixtures::tenant(&self.pool, slug, plan).await
    }

    pub(crate) async fn team(&self, name: &str) -> TeamId {
        fixtures::team(&self.pool, self.tenant, name, &[]).await
    }
}

/// Waits until something is so, and says how long that took.
pub(crate) async fn until(what: &str, mut so: impl FnMut() -> bool) -> Duration {
    let began = Instant::now();
    // A bound for the test as a whole, far above what any promise says.
    let bound = Duration::from_secs(20);
    while !so() {
        assert!(began.elapsed() < bound, "not within {bound:?}: {what}");
        tokio::task::yield_now().await;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    began.elapsed()
}
