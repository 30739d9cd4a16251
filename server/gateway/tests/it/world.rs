//! A gateway with everything real around it but the provider.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::id::{PlanId, RequestId, TenantId};
use domain::plan::LimitRule;
use domain::usage::Dialect;
use domain::window::UnixMs;
use gateway::{CallError, Clock, FailPoints, Gateway, Parts, Reply, ReplyBody, Request, Route};
use http::{HeaderMap, HeaderName, HeaderValue};
use ledger::spool::{Spool, SpoolConfig};
use ledger::{Ledger, WriterConfig};
use limiter::{Admission, PostgresEngine};
use secrecy::SecretString;
use serde_json::{Value, json};
use sim::{Sim, SimConfig};
use sqlx::PgPool;
use tenants::api_key::{ApiKeySecret, NewKey};
use tenants::context::TenantContext;
use tenants::directory::{Changed, Directory};
use tenants::provider_key::Sealer;
use testkit::{TestClock, TestDatabase, fixtures};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A gateway, its tenant, its simulator and its books.
pub(crate) struct World {
    pub(crate) gateway: Gateway,
    pub(crate) tenant: TenantContext,
    pub(crate) sim: Sim,
    pub(crate) database: TestDatabase,
    pub(crate) clock: TestClock,
    pub(crate) cut: CancellationToken,
    /// Leaves what waits for the books on record, as a death does.
    pub(crate) halt: CancellationToken,
    pub(crate) spool: Root,
    calls: TaskTracker,
    booking: TaskTracker,
    next_id: std::sync::atomic::AtomicU64,
}

/// One row of the books, as the tests look at it.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub(crate) struct EventRow {
    pub(crate) outcome: String,
    pub(crate) http_status: Option<i32>,
    pub(crate) usage_source: String,
    pub(crate) anomaly: Option<String>,
    pub(crate) input: i64,
    pub(crate) output: i64,
    pub(crate) reasoning: i64,
    pub(crate) cost_nanos: i64,
    pub(crate) charge_nanos: i64,
    pub(crate) hold_nanos: i64,
    pub(crate) provider_request_id: Option<String>,
}

/// The folder of a spool, which ends with the test.
pub(crate) struct Root(pub(crate) PathBuf);

impl Root {
    fn new() -> Self {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = format!("weir-gateway-{}-{number}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What is not as usual in a world.
#[derive(Default)]
pub(crate) struct Twist {
    pub(crate) fail_points: FailPoints,
    /// Changes the spool's set-up.
    pub(crate) spool: Option<fn(&mut SpoolConfig)>,
}

/// Limits that nothing in a test comes near.
pub(crate) fn roomy() -> Vec<LimitRule> {
    vec![LimitRule::Month {
        metric: domain::plan::Metric::Cost,
        limit: 1_000_000_000_000,
        overage_bps: 0,
        anchor_day: 1,
    }]
}

impl World {
    pub(crate) async fn with(rules: &[LimitRule]) -> Self {
        Self::twisted(rules, Twist::default()).await
    }

    pub(crate) async fn twisted(rules: &[LimitRule], twist: Twist) -> Self {
        let sim = Sim::start(SimConfig::default()).await.unwrap();
        // The provider's TLS is never used on loopback, but the client wants a provider of cryptography.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let database = testkit::database().await;
        let pool = database.pool.clone();
        let clock = TestClock::default();
        let plan: PlanId = fixtures::plan(&pool, "test", rules).await;
        let tenant: TenantId = fixtures::tenant(&pool, "acme", plan).await;
        let catalog = fixtures::catalog(&pool, &sim.base_url()).await;
        let secret = world_key(&pool, tenant).await;
        let sealer = sealer();
        for offer in [&catalog.openai, &catalog.anthropic, &catalog.gemini] {
            let credential = SecretString::from("sk-of-the-operator");
            tenants::catalog::set_credential(&pool, &sealer, offer.provider, Some(&credential))
                .await
                .unwrap();
        }
        let directory = Arc::new(Directory::load(&pool, sealer).await.unwrap());
        let context =
            tenants::context::identify(&directory.snapshot(), &secret, clock.now()).unwrap();
        let ledger = Ledger::start(pool.clone(), &TaskTracker::new(), WriterConfig::default());
        let limiter: Arc<dyn Admission> =
            Arc::new(PostgresEngine::new(pool.clone(), TaskTracker::new()));
        let spool = Root::new();
        let mut config = SpoolConfig::new(spool.0.clone());
        twist.spool.into_iter().for_each(|change| change(&mut config));
        let [calls, booking] = [(); 2].map(|()| TaskTracker::new());
        let [cut, halt] = [(); 2].map(|()| CancellationToken::new());
        let gateway = Gateway::new(Parts {
            directory,
            limiter,
            ledger,
            spool: Spool::start(config).unwrap(),
            tasks: calls.clone(),
            booking: booking.clone(),
            cut: cut.clone(),
            halt: halt.clone(),
            clock: Clock::set_by_hand(clock.reader()),
            fail_points: twist.fail_points,
        });
        let next_id = std::sync::atomic::AtomicU64::new(1);
        Self {
            gateway,
            tenant: context,
            sim,
            database,
            clock,
            cut,
            halt,
            spool,
            calls,
            booking,
            next_id,
        }
    }

    /// Ends the gateway as a death does: what is not in the books is left on record. Its successor has the same books,
    /// and no calls of its own yet.
    pub(crate) async fn dies(&mut self) {
        self.halt.cancel();
        self.idle().await;
        self.halt = CancellationToken::new();
        let pool = self.pool().clone();
        let limiter: Arc<dyn Admission> =
            Arc::new(PostgresEngine::new(pool.clone(), TaskTracker::new()));
        self.gateway = Gateway::new(Parts {
            directory: Arc::new(Directory::load(&pool, sealer()).await.unwrap()),
            limiter,
            ledger: Ledger::start(pool, &TaskTracker::new(), WriterConfig::default()),
            spool: Spool::start(SpoolConfig::new(self.spool.0.clone())).unwrap(),
            tasks: self.calls.clone(),
            booking: self.booking.clone(),
            cut: self.cut.clone(),
            halt: self.halt.clone(),
            clock: Clock::set_by_hand(self.clock.reader()),
            fail_points: FailPoints::default(),
        });
    }

    /// Takes the books away: what is to be written into them fails until they are back. Admission goes on.
    pub(crate) async fn books_are_away(&self) {
        self.alter("alter table usage_events rename to usage_events_away").await;
    }

    pub(crate) async fn books_are_back(&self) {
        self.alter("alter table usage_events_away rename to usage_events").await;
    }

    async fn alter(&self, sql: &'static str) {
        sqlx::query(sql).execute(self.pool()).await.unwrap();
    }

    pub(crate) fn pool(&self) -> &PgPool {
        &self.database.pool
    }

    /// Makes the gateway see what the test changed in the catalogue.
    pub(crate) async fn changed(&self, sql: &'static str) {
        sqlx::query(sql).execute(self.pool()).await.unwrap();
        self.gateway.directory().refresh(self.pool(), &[Changed::Catalog]).await.unwrap();
    }

    /// Makes a call in the dialect; `script` tells the simulator what to do.
    pub(crate) async fn call(
        &self,
        dialect: Dialect,
        stream: bool,
        script: &str,
    ) -> Result<Reply, CallError> {
        self.call_with(route(dialect, stream), body(dialect, stream), script).await
    }

    pub(crate) async fn call_with(
        &self,
        route: Route,
        body: Value,
        script: &str,
    ) -> Result<Reply, CallError> {
        let mut headers = HeaderMap::new();
        headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
        if !script.is_empty() {
            let value = HeaderValue::from_str(script).unwrap();
            headers.insert(HeaderName::from_static("x-sim-script"), value);
        }
        let number = self.next_id.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let now = self.clock.now();
        let request = Request {
            id: RequestId::from_parts(now.0.unsigned_abs(), u128::from(number)),
            route,
            headers,
            body: Bytes::from(body.to_string()),
            client_request_id: None,
        };
        gateway::call(&self.gateway, &self.tenant, request).await
    }

    /// Waits until no call is running any more, and all that is over is in the books, or left on record.
    pub(crate) async fn idle(&self) {
        for tasks in [&self.calls, &self.booking] {
            tasks.close();
            tokio::time::timeout(Duration::from_secs(20), tasks.wait()).await.unwrap();
            tasks.reopen();
        }
    }

    /// Waits until the simulator is in the middle of so many streams.
    pub(crate) async fn sim_has_open_streams(&self, count: u64) {
        let wait = async {
            while self.sim.stats().open_streams < count {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), wait).await.unwrap();
    }

    pub(crate) async fn events(&self) -> Vec<EventRow> {
        self.idle().await;
        sqlx::query_as(
            "select outcome, http_status, usage_source, anomaly, input, output, reasoning, cost_nanos, charge_nanos, hold_nanos, provider_request_id
             from usage_events order by request_id",
        )
        .fetch_all(self.pool())
        .await
        .unwrap()
    }

    /// The single event that there has to be, with nothing held any more and the books in balance.
    pub(crate) async fn only_event(&self) -> EventRow {
        let mut events = self.events().await;
        assert_eq!(events.len(), 1, "{events:?}");
        self.assert_settled().await;
        events.remove(0)
    }

    /// Nothing is held, and events, slices, rollups and ledger say the same.
    pub(crate) async fn assert_settled(&self) {
        self.idle().await;
        let holds: i64 =
            sqlx::query_scalar("select count(*) from holds").fetch_one(self.pool()).await.unwrap();
        let held: i64 =
            sqlx::query_scalar("select coalesce(sum(held), 0)::bigint from meter_states")
                .fetch_one(self.pool())
                .await
                .unwrap();
        assert_eq!((holds, held), (0, 0));
        let sums: (i64, i64, i64, i64) = sqlx::query_as(
            "select (select coalesce(sum(charge_nanos), 0)::bigint from usage_events),
                    (select coalesce(sum(used), 0)::bigint from meter_slices where meter = 'month_cost'),
                    (select coalesce(sum(charge_nanos), 0)::bigint from usage_rollups),
                    (select coalesce(sum(amount_nanos), 0)::bigint from balance_ledger where account = 'usage')",
        )
        .fetch_one(self.pool())
        .await
        .unwrap();
        assert_eq!(
            (sums.0, sums.0, sums.0),
            (sums.1, sums.2, sums.3),
            "events, slices, rollups, ledger"
        );
    }

    /// Moves the clock.
    pub(crate) fn at(&self, now: UnixMs) {
        self.clock.set(now);
    }
}

fn sealer() -> Arc<Sealer> {
    Arc::new(Sealer::from_key(Box::new([7; 32]).into()))
}

async fn world_key(pool: &PgPool, tenant: TenantId) -> String {
    let secret = ApiKeySecret::generate();
    let new =
        NewKey { tenant, team: None, name: "test".to_owned(), rules: Vec::new(), expires_at: None };
    tenants::api_key::create(pool, &new, &secret).await.unwrap();
    secret.expose().to_owned()
}

pub(crate) const DIALECTS: [Dialect; 3] = [Dialect::Openai, Dialect::Anthropic, Dialect::Gemini];

pub(crate) fn route(dialect: Dialect, stream: bool) -> Route {
    let (version, model) = ("v1beta", "gemini-flash".to_owned());
    match dialect {
        Dialect::Openai => Route::OpenaiChat,
        Dialect::Anthropic => Route::AnthropicMessages,
        Dialect::Gemini if stream => Route::GeminiStream { version, model, sse: true },
        Dialect::Gemini => Route::GeminiGenerate { version, model },
    }
}

pub(crate) fn body(dialect: Dialect, stream: bool) -> Value {
    let messages = json!([{"role": "user", "content": "Say something about rivers."}]);
    match dialect {
        Dialect::Openai => {
            json!({"model": "openai-flash", "messages": messages, "stream": stream, "max_tokens": 500})
        }
        Dialect::Anthropic => {
            json!({"model": "anthropic-flash", "messages": messages, "stream": stream, "max_tokens": 500})
        }
        Dialect::Gemini => json!({
            "contents": [{"role": "user", "parts": [{"text": "Say something about rivers."}]}],
            "generationConfig": {"maxOutputTokens": 500},
        }),
    }
}

/// Reads a reply to its end; says whether it broke.
pub(crate) async fn read(reply: Reply) -> (Vec<u8>, bool) {
    match reply.body {
        ReplyBody::Whole(bytes) => (bytes.to_vec(), false),
        ReplyBody::Stream(mut frames) => {
            let mut all = Vec::new();
            while let Some(frame) = frames.recv().await {
                match frame {
                    Ok(bytes) => all.extend_from_slice(&bytes),
                    Err(_) => return (all, true),
                }
            }
            (all, false)
        }
    }
}

/// How often each word occurs.
pub(crate) fn tally<'a>(words: impl Iterator<Item = &'a str>) -> BTreeMap<&'a str, usize> {
    let mut counts = BTreeMap::new();
    for word in words {
        *counts.entry(word).or_insert(0) += 1;
    }
    counts
}
