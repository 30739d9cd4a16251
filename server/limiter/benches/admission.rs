//! How many calls a second each engine admits and settles, and what that costs Redis.
//!
//! `cargo bench -p limiter`, with `WEIR_TEST_DATABASE_URL` naming a server whose disk is the one that counts, and
//! `WEIR_TEST_REDIS_URL` one that does nothing else: its figures are of all it did meanwhile.

#![expect(clippy::unwrap_used, reason = "a measurement that cannot go on ends there")]
#![expect(clippy::print_stdout, reason = "the figures are the result")]

use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use domain::admission::{Estimate, Meter, Scope};
use domain::id::{RequestId, TenantId};
use domain::money::Nanos;
use domain::plan::{LimitRule, Metric};
use domain::window::{RollingWindow, Zone};
use limiter::{Actual, Admission, Ask, Hold, PostgresEngine, RedisConfig, RedisEngine, Verdict};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use tokio::task::JoinSet;
use tokio_util::task::TaskTracker;

const TIME: Duration = Duration::from_secs(8);
const IN_FLIGHT: u64 = 64;
const CONNECTIONS: u32 = 16;

/// The six limits of a plan like `pro`, wide enough that every call passes.
fn ask(number: u64, tenant: i64) -> Ask {
    let window = |window| LimitRule::Window { metric: Metric::Cost, window, limit: 1 << 50 };
    let bucket =
        |metric| LimitRule::Bucket { metric, rate_milli_per_s: 1 << 30, capacity: 1 << 30 };
    let rules = [
        bucket(Metric::Requests),
        bucket(Metric::Tokens),
        window(RollingWindow::FiveHours),
        window(RollingWindow::Week),
        LimitRule::Month { metric: Metric::Cost, limit: 1 << 50, overage_bps: 500, anchor_day: 1 },
        LimitRule::Lease { limit: 1 << 40 },
    ];
    let meter = |rule| Meter { scope: Scope::Tenant, scope_id: tenant, rule };
    Ask {
        request_id: RequestId::from_parts(number, u128::from(number)),
        tenant_id: TenantId(tenant),
        zone: Zone::utc(),
        meters: rules.into_iter().map(meter).collect(),
        estimate: Estimate { tokens: 500, charge: Nanos(400_000) },
        now: None,
    }
}

/// Fills the slices of a week, so that a reading reads as much as it ever will.
const HISTORY: &str = "
    insert into meter_slices (tenant_id, scope, scope_id, meter, slice_start_ms, used)
    select t, 'tenant', t, m.meter, n.now_ms - n.now_ms % m.grain - i * m.grain, 1000
    from generate_series(1, $1) as t,
         (select floor(extract(epoch from clock_timestamp()) * 1000)::bigint as now_ms) as n,
         (values ('5h_cost', 300000::bigint, 60), ('week_cost', 3600000::bigint, 168)) as m (meter, grain, slices),
         generate_series(0, 167) as i
    where i < m.slices";

/// The epoch under which Redis has the authority here.
const EPOCH: i64 = 2;

#[derive(Clone)]
enum Engine {
    Postgres(PostgresEngine),
    Redis(RedisEngine),
}

impl Engine {
    async fn admit(&self, ask: &Ask) -> Verdict {
        match self {
            Self::Postgres(engine) => engine.admit(ask).await.unwrap(),
            Self::Redis(engine) => engine.admit(ask, EPOCH).await.unwrap(),
        }
    }

    async fn settle(&self, hold: &Hold, actual: &Actual) {
        match self {
            Self::Postgres(engine) => engine.settle(hold, actual, None).await.unwrap(),
            Self::Redis(engine) => engine.end(hold, Some(actual), EPOCH, None).await.unwrap(),
        }
    }
}

async fn measure_postgres(tenants: i64, settle: bool) -> u64 {
    let db = testkit::database().await;
    let pool = pool(&db.url).await;
    sqlx::query(HISTORY).bind(tenants).execute(&pool).await.unwrap();
    sqlx::query("vacuum analyze").execute(&pool).await.unwrap();
    drive(Engine::Postgres(PostgresEngine::new(pool, TaskTracker::new())), tenants, settle).await
}

/// Calls a second, and microseconds of Redis for each script.
async fn measure_redis(tenants: i64, settle: bool) -> (u64, String) {
    let (db, keys) = (testkit::database().await, testkit::redis());
    let pool = pool(&db.url).await;
    sqlx::query("update limiter_authority set mode = 'redis', epoch = $1")
        .bind(EPOCH)
        .execute(&pool)
        .await
        .unwrap();
    let prefix = keys.prefix.trim_end_matches(':').to_owned();
    let config = RedisConfig { url: keys.url.clone(), prefix, deadline: Duration::from_secs(5) };
    let engine = Engine::Redis(RedisEngine::new(&config, &pool, TaskTracker::new()).unwrap());
    for tenant in 1..=tenants {
        let number = u64::try_from(tenant).unwrap() + (1 << 40);
        engine.admit(&ask(number, tenant)).await;
    }
    let mut connection = keys.client().get_connection().unwrap();
    redis::cmd("CONFIG").arg("RESETSTAT").exec(&mut connection).unwrap();
    let rate = drive(engine, tenants, settle).await;
    let stats: String = redis::cmd("INFO").arg("commandstats").query(&mut connection).unwrap();
    let line = stats.lines().find(|line| line.starts_with("cmdstat_evalsha:")).unwrap().to_owned();
    (rate, line)
}

async fn pool(url: &str) -> sqlx::PgPool {
    let options = PgConnectOptions::from_str(url).unwrap();
    PgPoolOptions::new()
        .min_connections(CONNECTIONS)
        .max_connections(CONNECTIONS)
        .acquire_timeout(Duration::from_secs(60))
        .connect_with(options)
        .await
        .unwrap()
}

async fn drive(engine: Engine, tenants: i64, settle: bool) -> u64 {
    let numbers = std::sync::Arc::new(AtomicU64::new(1));
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..IN_FLIGHT {
        let (engine, numbers) = (engine.clone(), numbers.clone());
        tasks.spawn(async move {
            let mut done = 0_u64;
            while began.elapsed() < TIME {
                let number = numbers.fetch_add(1, Ordering::Relaxed);
                let tenant = 1 + i64::try_from(number).unwrap() % tenants;
                let verdict = engine.admit(&ask(number, tenant)).await;
                if let (true, Verdict::Admit(hold)) = (settle, verdict) {
                    let actual = Actual { tokens: 300, charge: Nanos(200_000) };
                    engine.settle(&hold, &actual).await;
                }
                done += 1;
            }
            done
        });
    }
    let done: u64 = tasks.join_all().await.into_iter().sum();
    done * 1_000 / u64::try_from(began.elapsed().as_millis()).unwrap()
}

#[tokio::main(flavor = "multi_thread")]
async fn main() {
    for tenants in [1, 10, 1_000] {
        let admitted = measure_postgres(tenants, false).await;
        let served = measure_postgres(tenants, true).await;
        println!("Postgres, {tenants} tenants, {IN_FLIGHT} in flight, {CONNECTIONS} connections:");
        println!("  {admitted} admissions/s; {served} calls/s, each admitted and settled");
    }
    for tenants in [1, 10, 1_000, 10_000] {
        let (admitted, of_one) = measure_redis(tenants, false).await;
        let (served, of_both) = measure_redis(tenants, true).await;
        println!("Redis, {tenants} tenants, {IN_FLIGHT} in flight:");
        println!("  {admitted} admissions/s ({of_one})");
        println!("  {served} calls/s, each admitted and settled ({of_both})");
    }
}
