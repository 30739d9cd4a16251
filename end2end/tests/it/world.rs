//! What an operator sets up before the first call: everything by the admin API of a running Weir.

use serde_json::{Value, json};
use sim::{Sim, SimConfig};
use testkit::{TestDatabase, TestRedis};

use crate::admin::Admin;
use crate::folder::Folder;
use crate::wait::until;
use crate::weir_process::{Said, Weir, run};

/// How long a process may take to hear of a change that another made.
const HEARD: std::time::Duration = std::time::Duration::from_secs(30);
/// Everything the simulator says is drawn from it; the tests read its journal, not its words.
const SIM_SEED: u64 = 7;

/// The deadline of one question to Redis, far above production's 50 ms: a thousand calls at once, on a program without
/// optimisation, are to be decided by the engine that a test is about.
const REDIS_DEADLINE_MS: &str = "5000";

/// Who decides on calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engine {
    Postgres,
    Redis,
}

/// A database, a provider, and a Weir between them.
#[derive(Debug)]
pub(crate) struct World {
    // In this order they end: the program before what it stands on.
    pub(crate) weir: Weir,
    pub(crate) sim: Sim,
    pub(crate) db: TestDatabase,
    /// Where Redis admits.
    redis: Option<TestRedis>,
    pub(crate) admin: Admin,
    http: reqwest::Client,
    data: Folder,
}

/// A tenant with one key.
#[derive(Debug, Clone)]
pub(crate) struct Tenant {
    pub(crate) id: i64,
    pub(crate) key: String,
}

/// What a model costs, in pico-USD per token: input, cached input, short and long cache writes, output, reasoning.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PriceSheet([i64; 6]);

/// Plain models; their names hold nothing that makes the simulator think.
const FLASH: PriceSheet = PriceSheet([100_000, 25_000, 125_000, 200_000, 400_000, 400_000]);
/// Models that think before they answer.
const THINK: PriceSheet =
    PriceSheet([1_250_000, 312_500, 1_562_500, 2_500_000, 10_000_000, 10_000_000]);
/// A model of which every token costs the same: 1,000 nano-USD.
const LEVEL: PriceSheet = PriceSheet([1_000_000; 6]);

/// The price of a model of the tests.
pub(crate) fn prices(model: &str) -> PriceSheet {
    match model.rsplit_once('-') {
        Some((_, "flash")) => FLASH,
        Some((_, "think")) => THINK,
        Some((_, "level")) => LEVEL,
        _ => panic!("no model {model} in the tests"),
    }
}

impl PriceSheet {
    /// What so many tokens of each class cost, in nano-USD, rounded half up.
    pub(crate) fn cost_nanos(&self, tokens: &[i64; 6]) -> i64 {
        let pico: i128 =
            self.0.iter().zip(tokens).map(|(price, n)| i128::from(*price) * i128::from(*n)).sum();
        i64::try_from((pico + 500) / 1_000).unwrap_or(i64::MAX)
    }

    /// As the API takes it: decimal strings in USD per million tokens.
    pub(crate) fn json(&self) -> Value {
        let names = [
            "input",
            "cached_input",
            "cache_write_short",
            "cache_write_long",
            "output",
            "reasoning",
        ];
        let price = |pico: i64| format!("{}.{:06}", pico / 1_000_000, pico % 1_000_000);
        let pairs = names.iter().zip(self.0);
        pairs.map(|(name, pico)| ((*name).to_owned(), Value::from(price(pico)))).collect()
    }
}

impl World {
    /// Starts all, with a provider and priced models for each dialect. Postgres admits.
    pub(crate) async fn start() -> Self {
        Self::start_on(Engine::Postgres).await
    }

    /// The same; this engine admits.
    pub(crate) async fn start_on(engine: Engine) -> Self {
        let http = crate::http::client();
        let db = testkit::database().await;
        let sim = Sim::start(SimConfig { seed: SIM_SEED, ..SimConfig::default() }).await.unwrap();
        let data = Folder::new();
        let redis = (engine == Engine::Redis).then(testkit::redis);
        let weir = serve(&variables(&db, redis.as_ref(), &data), engine).await;
        let admin = Admin::of(&weir);
        let world = Self { weir, sim, db, redis, admin, http, data };
        for dialect in ["openai", "anthropic", "gemini"] {
            let credential = format!("sim-credential-of-{dialect}");
            let provider = world.admin.provider(dialect, &world.sim.base_url(), &credential).await;
            for kind in ["flash", "think", "level"] {
                let name = format!("{dialect}-{kind}");
                world.admin.model(&name, provider, prices(&name).json()).await;
            }
        }
        world
    }

    /// A further process on the same database.
    pub(crate) async fn another_weir(&self) -> Weir {
        serve(&self.variables(), self.engine()).await
    }

    fn engine(&self) -> Engine {
        if self.redis.is_some() { Engine::Redis } else { Engine::Postgres }
    }

    fn variables(&self) -> Vec<(&'static str, String)> {
        variables(&self.db, self.redis.as_ref(), &self.data)
    }

    /// `weir books verify --json`: what it says, and how much is held in all, in nano-USD.
    pub(crate) async fn verify(&self) -> (Said, i64) {
        let said = run(&["books", "verify", "--json"], &borrowed(&self.variables())).await;
        let json: Value = serde_json::from_str(&said.out).unwrap_or_default();
        let tenants = json["tenants"].as_array().unwrap_or_else(|| panic!("{said:?}"));
        let held = tenants.iter().filter_map(|tenant| tenant["held_nanos"].as_i64()).sum();
        (said, held)
    }

    /// Checks that the engine that was to decide did so to the end.
    pub(crate) async fn still_decides(&self, weirs: &[&Weir]) {
        for weir in weirs {
            assert_eq!(engine_of(weir).await.as_deref(), Ok(self.engine().name()));
        }
    }

    /// A new tenant on a plan of its own, with one key.
    pub(crate) async fn tenant(&self, slug: &str, rules: &[Value], markup_bps: i64) -> Tenant {
        let plan = self.admin.plan(slug, rules, markup_bps).await;
        let id = self.admin.tenant(slug, plan).await;
        let key = self.admin.key(id, "first").await;
        Tenant { id, key }
    }

    /// Waits until this process has heard of the tenant's key.
    pub(crate) async fn knows(&self, weir: &Weir, tenant: &Tenant) {
        until("the process hears of the new tenant", HEARD, async || {
            let url = weir.url("/v1/models");
            let answer = self.http.get(url).bearer_auth(&tenant.key).send().await.unwrap();
            if answer.status().is_success() { Ok(()) } else { Err(answer.status().to_string()) }
        })
        .await;
    }

    /// A chat call of this name, with a script for the simulator: status and body.
    pub(crate) async fn chat(
        &self,
        key: &str,
        model: &str,
        name: &str,
        script: &str,
    ) -> (u16, Value) {
        self.chat_at(&self.weir, key, model, name, script).await
    }

    /// The same at one of several processes. The prompt is always the same, and so is what it holds.
    pub(crate) async fn chat_at(
        &self,
        weir: &Weir,
        key: &str,
        model: &str,
        name: &str,
        script: &str,
    ) -> (u16, Value) {
        let body = json!({
            "model": model,
            "max_completion_tokens": 64,
            "messages": [{"role": "user", "content": "How high is the water at the weir?"}],
        });
        let request = self.http.post(weir.url("/v1/chat/completions")).bearer_auth(key);
        let request = request
            .header("content-type", "application/json")
            .header("x-request-id", name)
            .header(sim::SCRIPT_HEADER, script)
            .body(body.to_string());
        let answer = request.send().await.unwrap_or_else(|e| panic!("{name}: no answer: {e:?}"));
        let status = answer.status().as_u16();
        let bytes = answer.bytes().await.unwrap_or_else(|e| panic!("{name}: broken: {e:?}"));
        (status, serde_json::from_slice(&bytes).unwrap_or_default())
    }
}

impl Engine {
    const fn name(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Redis => "redis",
        }
    }
}

/// The settings of a process.
fn variables(
    db: &TestDatabase,
    redis: Option<&TestRedis>,
    data: &Folder,
) -> Vec<(&'static str, String)> {
    // Processes on one database share the key that seals credentials, as an operator sees to.
    let folder = data.join("data").display().to_string();
    let mut all = vec![("DATABASE_URL", db.url.clone()), ("WEIR_DATA_DIR", folder)];
    if let Some(redis) = redis {
        all.push(("REDIS_URL", redis.url.clone()));
        // The program puts the colon behind it.
        all.push(("WEIR_REDIS_PREFIX", redis.prefix.trim_end_matches(':').to_owned()));
        all.push(("WEIR_REDIS_DEADLINE_MS", REDIS_DEADLINE_MS.to_owned()));
    }
    all
}

fn borrowed<'a>(variables: &'a [(&'static str, String)]) -> Vec<(&'a str, &'a str)> {
    variables.iter().map(|(name, value)| (*name, value.as_str())).collect()
}

/// Starts a process, and waits until this engine admits.
async fn serve(variables: &[(&'static str, String)], engine: Engine) -> Weir {
    let weir = Weir::serve(&borrowed(variables)).await;
    until("the engine admits", HEARD, async || {
        let now = engine_of(&weir).await?;
        if now == engine.name() { Ok(()) } else { Err(format!("{now} does")) }
    })
    .await;
    weir
}

/// Which engine admits, as the process says.
async fn engine_of(weir: &Weir) -> Result<String, String> {
    let answer = crate::http::client().get(weir.url("/readyz")).send().await;
    let bytes = answer.map_err(|e| e.to_string())?.bytes().await.map_err(|e| e.to_string())?;
    let json: Value = serde_json::from_slice(&bytes).map_err(|e| e.to_string())?;
    json["engine"].as_str().map(ToOwned::to_owned).ok_or_else(|| json.to_string())
}

/// A month's budget, with nothing above it.
pub(crate) fn month_cost(limit_nanos: i64) -> Value {
    json!({"rule": "month", "metric": "cost", "limit": limit_nanos, "overage_bps": 0})
}

pub(crate) fn month_requests(limit: i64) -> Value {
    json!({"rule": "month", "metric": "requests", "limit": limit, "overage_bps": 0})
}

pub(crate) fn week_cost(limit_nanos: i64) -> Value {
    json!({"rule": "window", "metric": "cost", "window": "week", "limit": limit_nanos})
}

pub(crate) fn tokens_5h(limit: i64) -> Value {
    json!({"rule": "window", "metric": "tokens", "window": "5h", "limit": limit})
}

/// A bucket of requests: refilled at so many thousandths a second.
pub(crate) fn rate(milli_per_s: i64, capacity: i64) -> Value {
    json!({"rule": "bucket", "metric": "requests", "rate_milli_per_s": milli_per_s, "capacity": capacity})
}

/// So many calls at the same time.
pub(crate) fn concurrency(limit: i64) -> Value {
    json!({"rule": "lease", "limit": limit})
}
