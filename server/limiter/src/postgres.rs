//! The engine that keeps its counters in Postgres, beside the books.
//!
//! Every change of a tenant's counters is made under one advisory lock, which ends with its transaction. Admission
//! reads everything it needs in one statement, asks the law, and writes in one statement; ending a hold is one
//! statement in all. Only holds and counters are written without waiting for the disk: they can be rebuilt.

mod admit;
mod answer;
mod counters;
mod expire;
mod give_back;
pub(crate) mod lock;
mod written;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use domain::admission::Meter;
use domain::id::TenantId;
use domain::money::Nanos;
use domain::window::{UnixMs, Zone};
use sqlx::PgPool;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::sleep;
use tokio_util::task::TaskTracker;

use self::answer::Answer;
pub(crate) use self::expire::HOLD_EXPIRED;
use self::give_back::Ending;
use crate::admission::{Admission, Ask, LimiterError, Reading, Verdict};
use crate::gate::Gate;
use crate::hold::{Actual, HOLD_TTL_MS, Hold};

/// How often a statement is tried again that the database broke off, as after a deadlock or a lost connection.
const RETRIES: u32 = 2;
/// The pause before that: enough for the other side of a deadlock to end.
const RETRY_PAUSE: Duration = Duration::from_millis(10);

/// How many connections it may make at least: one to ask with, and one to end with.
const CONNECTIONS_LEAST: u32 = 2;

/// What every session of the engine is set to.
///
/// Its statements are few, run all the time and find every row by its key. The tables are quick to grow: a plan that
/// reads all of one because it is small would still do so when it is large, and planning takes longer than running. Holds and counters can be rebuilt, so nobody waits for the disk; a statement that waits this long for
/// its tenant's lock gives its connection back.
const SESSION: [(&str, &str); 9] = [
    ("enable_seqscan", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
    ("enable_material", "off"),
    ("plan_cache_mode", "force_generic_plan"),
    ("jit", "off"),
    ("synchronous_commit", "off"),
    ("statement_timeout", "10s"),
    ("idle_in_transaction_session_timeout", "10s"),
];

/// Admission through Postgres. Clones share everything.
#[derive(Debug, Clone)]
pub struct PostgresEngine {
    pool: PgPool,
    tasks: TaskTracker,
    /// Where asks wait.
    asks: Arc<Gate>,
    /// Where endings wait: a place that a call gives back must not queue behind those who wait for one.
    endings: Arc<Gate>,
}

impl PostgresEngine {
    /// An engine on the database of `pool`. It makes connections of its own, half as many at most as that pool may,
    /// with settings of their own: its transactions are short, and all processes share what the server allows. Its transactions run on `tasks`, so that a caller that goes away cannot leave one open.
    #[must_use]
    pub fn new(pool: PgPool, tasks: TaskTracker) -> Self {
        let sessions = pool.connect_options().as_ref().clone().options(SESSION);
        let most = pool.options().get_max_connections().div_ceil(2).max(CONNECTIONS_LEAST);
        let pool = pool.options().clone().max_connections(most).connect_lazy_with(sessions);
        Self { pool, tasks, asks: Arc::default(), endings: Arc::default() }
    }

    /// Ends the engine's connections, once what is under way on them is over.
    pub async fn close(&self) {
        self.pool.close().await;
    }

    /// Ends holds of all tenants that have expired, at most one portion, and says how many.
    ///
    /// # Errors
    /// When the store cannot be reached.
    pub async fn reap(&self, now: Option<UnixMs>) -> Result<u64, LimiterError> {
        let engine = self.clone();
        self.on_task(async move { expire::reap(&engine.pool, now).await }).await
    }

    /// Forgets the empty counters of periods long past, at most one portion, and says how many.
    ///
    /// # Errors
    /// When the store cannot be reached.
    pub async fn forget_past_periods(&self, now: Option<UnixMs>) -> Result<u64, LimiterError> {
        expire::forget_past_periods(&self.pool, now).await
    }

    /// Decides on an ask. With an epoch, only while this engine has the authority under it.
    pub(crate) async fn admit_under(
        &self,
        ask: &Ask,
        epoch: Option<i64>,
    ) -> Result<Verdict, LimiterError> {
        let (sender, receiver) = oneshot::channel();
        let (engine, ask) = (self.clone(), ask.clone());
        let runtime = Handle::current();
        self.tasks.spawn(async move {
            let decided = engine.decide(&ask, epoch).await;
            let answer = decided.map(|decided| Answer::new(decided, &engine, runtime, ask.now));
            // Nobody there any more: the answer is dropped, and takes its hold back.
            let _ = sender.send(answer);
        });
        receiver.await.map_err(|_| LimiterError::Stopped)?.map(Answer::claim)
    }

    /// Runs to its end whatever becomes of the caller.
    async fn on_task<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, LimiterError>> + Send + 'static,
    ) -> Result<T, LimiterError> {
        self.tasks.spawn(work).await.map_err(|_| LimiterError::Stopped)?
    }

    /// Ends a hold. Trying again is safe: the second try finds no hold.
    async fn end(
        &self,
        hold: &Hold,
        ending: Ending,
        now: Option<UnixMs>,
    ) -> Result<(), LimiterError> {
        let (engine, hold) = (self.clone(), hold.clone());
        self.on_task(async move {
            let _place = engine.endings.enter(hold.tenant_id).await;
            for _ in 0..RETRIES {
                match give_back::end(&engine.pool, &hold, ending, now).await {
                    Err(error) if is_broken_off(&error) => sleep(RETRY_PAUSE).await,
                    done => return done,
                }
            }
            give_back::end(&engine.pool, &hold, ending, now).await
        })
        .await
    }

    async fn decide(&self, ask: &Ask, epoch: Option<i64>) -> Result<admit::Decided, LimiterError> {
        let _place = self.asks.enter(ask.tenant_id).await;
        for _ in 0..RETRIES {
            match admit::admit(&self.pool, ask, epoch).await {
                // If the lost try did take a hold, the next one finds it.
                Err(error) if is_broken_off(&error) => sleep(RETRY_PAUSE).await,
                done => return done,
            }
        }
        admit::admit(&self.pool, ask, epoch).await
    }
}

/// Whether the database broke a statement off that may well pass when it is tried again.
fn is_broken_off(error: &LimiterError) -> bool {
    let LimiterError::Unavailable(source) = error else { return false };
    match source.downcast_ref::<sqlx::Error>() {
        Some(sqlx::Error::Io(_)) => true,
        Some(sqlx::Error::Database(e)) => {
            e.code().is_some_and(|code| matches!(&*code, "40001" | "40P01" | "57P01"))
        }
        _ => false,
    }
}

#[async_trait]
impl Admission for PostgresEngine {
    async fn admit(&self, ask: &Ask) -> Result<Verdict, LimiterError> {
        self.admit_under(ask, None).await
    }

    async fn settle(
        &self,
        hold: &Hold,
        actual: &Actual,
        now: Option<UnixMs>,
    ) -> Result<(), LimiterError> {
        self.end(hold, Ending::Settled(*actual), now).await
    }

    async fn release(&self, hold: &Hold, now: Option<UnixMs>) -> Result<(), LimiterError> {
        self.end(hold, Ending::Unused, now).await
    }

    async fn renew(
        &self,
        hold: &Hold,
        now: Option<UnixMs>,
    ) -> Result<Option<UnixMs>, LimiterError> {
        let until = sqlx::query_scalar!(
            r#"with clock as materialized (
                   select coalesce($2, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now_ms)
               update holds set expires_ms = greatest(expires_ms, clock.now_ms + $3)
               from clock
               where request_id = $1
               returning expires_ms"#,
            hold.request_id.to_string(),
            now.map(|now| now.0),
            HOLD_TTL_MS,
        )
        .fetch_optional(&self.pool)
        .await?;
        Ok(until.map(UnixMs))
    }

    async fn readings(
        &self,
        tenant_id: TenantId,
        zone: &Zone,
        meters: &[Meter],
        now: Option<UnixMs>,
    ) -> Result<Vec<Reading>, LimiterError> {
        let now = lock::clock(&self.pool, now).await?;
        let counted = counters::count(meters, zone, now)?;
        let mut connection = self.pool.acquire().await?;
        let read = counters::read(&mut connection, tenant_id, &counted, None, now).await?;
        Ok(counters::readings(&counted, &read.counters, now))
    }

    async fn held_by_tenant(&self) -> Result<Vec<(TenantId, Nanos)>, LimiterError> {
        let rows = sqlx::query!(
            r#"select tenant_id, sum(charge_nanos)::bigint as "held!" from holds group by tenant_id order by 1"#
        )
        .fetch_all(&self.pool)
        .await?;
        Ok(rows.into_iter().map(|row| (TenantId(row.tenant_id), Nanos(row.held))).collect())
    }
}
