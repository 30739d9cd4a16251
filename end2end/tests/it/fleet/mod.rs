//! Three processes over one database and one Redis, with a provider beside them that keeps a journal of its own.

pub(crate) mod books;
pub(crate) mod fault;
pub(crate) mod line;
pub(crate) mod load;
pub(crate) mod neighbour;
pub(crate) mod postgres;
pub(crate) mod redis;
pub(crate) mod report;
pub(crate) mod run;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;
use sqlx::PgPool;

use self::line::Line;
use self::load::{Cast, OUTPUT_TOKENS, TOKEN_NANOS};
use self::postgres::Postgres;
use self::redis::{Redis, free_port};
use crate::admin::Admin;
use crate::folder::Folder;
use crate::wait::until;
use crate::weir_process::{Said, Weir, run as run_weir};
use crate::world::{PriceSheet, Tenant, concurrency, month_cost, prices, tokens_5h};

/// How many processes.
pub(crate) const PROCESSES: usize = 3;
/// How long an engine may take to take over, at the start too: a lease, and some beats of a busy machine.
const TAKES_OVER: Duration = Duration::from_secs(60);
/// How long a process may take to hear of a new tenant.
const HEARD: Duration = Duration::from_secs(30);
/// The deadline of one question to Redis. 50 ms in production; a machine that runs the provider, the clients, two
/// servers and three processes without optimisation on a few cores needs more.
pub(crate) const REDIS_DEADLINE_MS: &str = "1000";
/// Each process opens this many twice, and ten more: three have to fit into PostgreSQL's usual hundred.
const DATABASE_CONNECTIONS: &str = "8";
/// How long calls may go on after SIGTERM.
const DRAIN_S: &str = "10";
/// More than all calls together can cost, in nano-USD.
pub(crate) const PLENTY: i64 = 1_000_000_000_000;
/// How many calls at a time the narrow tenant has.
pub(crate) const PLACES: i64 = 3;

/// All of it. Processes end before what they stand on.
#[derive(Debug)]
pub(crate) struct Fleet {
    pub(crate) weirs: Vec<Weir>,
    ports: Vec<u16>,
    sim: Weir,
    journal: PathBuf,
    /// The first process's way to Redis.
    pub(crate) line: Line,
    pub(crate) redis: Redis,
    pub(crate) postgres: Postgres,
    pub(crate) pool: PgPool,
    admin: Admin,
    http: reqwest::Client,
    /// What one call holds, and uses, in nano-USD.
    pub(crate) hold_nanos: i64,
    casts: usize,
    data: Folder,
}

impl Fleet {
    /// Starts all, and waits until Redis admits.
    pub(crate) async fn start() -> Self {
        let (redis, postgres) = (Redis::start().await, Postgres::start().await);
        let line = Line::to(redis.port()).await;
        let data = Folder::new();
        let journal = data.join("journal.ndjson");
        let written = journal.display().to_string();
        let sim = Weir::sim(&["--seed", "7", "--journal", &written]).await;
        let http = crate::http::client();
        let pool = postgres.pool();
        let ports: Vec<u16> = (0..PROCESSES).map(|_| free_port()).collect();
        let mut weirs = Vec::new();
        let first = Settings::of(&postgres, &redis, &line, &data, 0).launch(&ports, 0, None);
        weirs.push(first);
        // The first brings the schema; its API is the operator's.
        weirs[0].wait_ready().await;
        let admin = Admin::of(&weirs[0]);
        let mut fleet = Self {
            weirs,
            ports,
            sim,
            journal,
            line,
            redis,
            postgres,
            pool,
            admin,
            http,
            hold_nanos: 0,
            casts: 0,
            data,
        };
        for at in 1..PROCESSES {
            let weir = fleet.launch(at, None);
            fleet.weirs.push(weir);
        }
        let provider = fleet.admin.provider("openai", &fleet.sim.url(""), "sim-credential").await;
        fleet.admin.model(load::MODEL, provider, prices(load::MODEL).json()).await;
        for weir in &mut fleet.weirs {
            weir.wait_ready().await;
        }
        fleet.engine_is("redis").await;
        fleet.hold_nanos = fleet.probe().await;
        fleet
    }

    fn launch(&self, at: usize, fail_point: Option<&str>) -> Weir {
        let settings = Settings::of(&self.postgres, &self.redis, &self.line, &self.data, at);
        settings.launch(&self.ports, at, fail_point)
    }

    /// Starts a process in the place of one that has ended.
    pub(crate) async fn start_again(&mut self, at: usize, fail_point: Option<&str>) {
        self.weirs[at] = self.launch(at, fail_point);
        self.weirs[at].wait_ready().await;
    }

    pub(crate) fn doors(&self) -> Vec<String> {
        self.ports.iter().map(|port| format!("http://127.0.0.1:{port}")).collect()
    }

    /// Tenants that no load has had before, known to all processes; one has money for so many calls.
    pub(crate) async fn cast(&mut self, capped_calls: i64) -> Cast {
        self.casts += 1;
        let at = self.casts;
        let budget_nanos = capped_calls * self.hold_nanos;
        let roomy = [month_cost(PLENTY), tokens_5h(PLENTY)];
        let cast = Cast {
            budget_nanos,
            roomy: self.tenant(&format!("roomy-{at}"), &roomy).await,
            capped: self.tenant(&format!("capped-{at}"), &[month_cost(budget_nanos)]).await,
            narrow: self
                .tenant(&format!("narrow-{at}"), &[month_cost(PLENTY), concurrency(PLACES)])
                .await,
        };
        for tenant in [&cast.roomy, &cast.capped, &cast.narrow] {
            self.all_know(tenant).await;
        }
        cast
    }

    pub(crate) async fn tenant(&self, slug: &str, rules: &[Value]) -> Tenant {
        let plan = self.admin.plan(slug, rules, 0).await;
        let id = self.admin.tenant(slug, plan).await;
        let key = self.admin.key(id, "first").await;
        Tenant { id, key }
    }

    pub(crate) async fn all_know(&self, tenant: &Tenant) {
        for door in self.doors() {
            until("every process hears of the new tenant", HEARD, async || {
                let asked = self.http.get(format!("{door}/v1/models")).bearer_auth(&tenant.key);
                let status = asked.send().await.map_err(|e| e.to_string())?.status();
                if status.is_success() { Ok(()) } else { Err(status.to_string()) }
            })
            .await;
        }
    }

    /// What one call holds, plain or as a stream.
    async fn probe(&mut self) -> i64 {
        let tenant = self.tenant("probe", &[month_cost(PLENTY)]).await;
        self.all_know(&tenant).await;
        for streams in [false, true] {
            let asked = self.http.post(self.weirs[0].url("/v1/chat/completions"));
            let asked = asked.bearer_auth(&tenant.key).header("content-type", "application/json");
            let answer = asked.body(load::body(streams).to_string()).send().await.unwrap();
            assert_eq!(answer.status(), 200);
            answer.bytes().await.unwrap();
        }
        let holds = until("the probes are in the books", HEARD, async || {
            let holds: Vec<i64> =
                sqlx::query_scalar("select hold_nanos from usage_events where tenant_id = $1")
                    .bind(tenant.id)
                    .fetch_all(&self.pool)
                    .await
                    .unwrap();
            if holds.len() == 2 { Ok(holds) } else { Err(format!("{holds:?}")) }
        })
        .await;
        assert_eq!(holds[0], holds[1], "a stream holds what a plain call does");
        assert!(holds[0] > OUTPUT_TOKENS * TOKEN_NANOS && holds[0] % TOKEN_NANOS == 0, "{holds:?}");
        holds[0]
    }

    /// Input tokens with which a whole call uses what it held.
    pub(crate) fn tokens_in(&self) -> i64 {
        self.hold_nanos / TOKEN_NANOS - OUTPUT_TOKENS
    }

    /// What `/readyz` of each process says: its status, and the engine.
    pub(crate) async fn standing(&self) -> Vec<(u16, String)> {
        let mut all = Vec::new();
        for door in self.doors() {
            let told = async {
                let answer = self.http.get(format!("{door}/readyz")).send().await.ok()?;
                let status = answer.status().as_u16();
                let json: Value = serde_json::from_slice(&answer.bytes().await.ok()?).ok()?;
                Some((status, json["engine"].as_str().unwrap_or("none").to_owned()))
            };
            all.push(told.await.unwrap_or_else(|| (0, "away".to_owned())));
        }
        all
    }

    /// Waits until every process is ready and says that this engine admits; gives the seconds that took.
    pub(crate) async fn engine_is(&self, engine: &str) -> Duration {
        let began = Instant::now();
        until("every process is ready on the same engine", TAKES_OVER, async || {
            let standing = self.standing().await;
            let all = standing.iter().all(|(status, name)| *status == 200 && name == engine);
            if all { Ok(()) } else { Err(format!("{standing:?}, not {engine}")) }
        })
        .await;
        began.elapsed()
    }

    /// `weir books verify --json`, as an operator calls it.
    pub(crate) async fn verify(&self) -> (Said, Value) {
        let settings = Settings::of(&self.postgres, &self.redis, &self.line, &self.data, 1);
        let said = run_weir(&["books", "verify", "--json"], &settings.variables()).await;
        let json = serde_json::from_str(&said.out).unwrap_or_default();
        (said, json)
    }

    /// The journal's lines so far, of calls of this load.
    pub(crate) fn journal(&self, name: &str) -> Vec<sim::Served> {
        let text = std::fs::read_to_string(&self.journal).unwrap_or_default();
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        let ours = format!("id={name}-");
        lines
            .filter(|served: &sim::Served| {
                served.script.as_deref().is_some_and(|script| script.starts_with(&ours))
            })
            .collect()
    }

    /// Whether all requests that reached the provider are in its journal.
    pub(crate) async fn provider_is_idle(&self) -> Result<(), String> {
        let answer = self.http.get(self.sim.url("/sim/stats")).send().await;
        let bytes = answer.map_err(|e| e.to_string())?.bytes().await.map_err(|e| e.to_string())?;
        let json: Value = serde_json::from_slice(&bytes).map_err(|e| e.to_string())?;
        if json["arrived"] == json["served"] { Ok(()) } else { Err(json.to_string()) }
    }

    /// The price of the only model.
    pub(crate) fn prices() -> PriceSheet {
        prices(load::MODEL)
    }
}

/// The settings of one process.
struct Settings(Vec<(&'static str, String)>);

impl Settings {
    fn of(postgres: &Postgres, redis: &Redis, line: &Line, data: &Folder, at: usize) -> Self {
        let redis = match at {
            0 => format!("redis://{}", line.address()),
            _ => format!("redis://127.0.0.1:{}", redis.port()),
        };
        let spool = data.join(&format!("spool-{at}")).display().to_string();
        Self(vec![
            ("DATABASE_URL", postgres.url()),
            ("REDIS_URL", redis),
            ("WEIR_REDIS_DEADLINE_MS", REDIS_DEADLINE_MS.to_owned()),
            // Processes on one database share the key that seals credentials, as an operator sees to; each has a
            // spool of its own, as on machines of their own.
            ("WEIR_DATA_DIR", data.join("data").display().to_string()),
            ("WEIR_SPOOL_DIR", spool),
            ("WEIR_DATABASE_CONNECTIONS", DATABASE_CONNECTIONS.to_owned()),
            ("WEIR_DRAIN_S", DRAIN_S.to_owned()),
        ])
    }

    fn variables(&self) -> Vec<(&str, &str)> {
        self.0.iter().map(|(name, value)| (*name, value.as_str())).collect()
    }

    fn launch(&self, ports: &[u16], at: usize, fail_point: Option<&str>) -> Weir {
        let bind = format!("127.0.0.1:{}", ports[at]);
        let mut variables = self.variables();
        variables.push(("WEIR_BIND", &bind));
        variables.extend(fail_point.map(|point| ("WEIR_FAIL_POINT", point)));
        Weir::launch_serve(&variables)
    }
}
