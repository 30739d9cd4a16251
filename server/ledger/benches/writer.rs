//! How many events a second the writer writes, against plain inserts of one row per commit.
//!
//! `cargo bench -p ledger`, with `WEIR_TEST_DATABASE_URL` naming a server whose disk is the one that counts.

#![expect(clippy::unwrap_used, reason = "a measurement that cannot go on ends there")]
#![expect(clippy::print_stdout, reason = "the figures are the result")]

use std::str::FromStr;
use std::time::{Duration, Instant};

use domain::admission::Scope;
use domain::id::{KeyId, PlanId, PriceId, ProviderId, RequestId, TenantId};
use domain::money::Nanos;
use domain::usage::{Dialect, Outcome, Usage, UsageSource};
use domain::window::UnixMs;
use ledger::{Attempt, Booking, Ledger, UsageEvent, WriterConfig};
use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use tokio::task::JoinSet;
use tokio_util::task::TaskTracker;

/// Noon of 15 November 2026, UTC.
const NOON: UnixMs = UnixMs(1_794_744_000_000);
const TENANTS: i64 = 50;
const TIME: Duration = Duration::from_secs(8);

fn event(number: i64) -> UsageEvent {
    let tenant = 1 + number % TENANTS;
    let request_id =
        RequestId::from_parts(NOON.0.unsigned_abs(), u128::from(number.unsigned_abs()));
    let booking = |meter: &str, slice_start, amount| Booking {
        scope: Scope::Tenant,
        scope_id: tenant,
        meter: meter.to_owned(),
        slice_start: UnixMs(slice_start),
        amount,
        alert: None,
    };
    UsageEvent {
        request_id,
        tenant_id: TenantId(tenant),
        team_id: None,
        key_id: KeyId(tenant),
        plan_id: PlanId(1),
        provider_id: ProviderId(1),
        dialect: Dialect::Openai,
        route: "/v1/chat/completions".to_owned(),
        model: "flash".to_owned(),
        served_model: Some("flash-002".to_owned()),
        price_id: PriceId(1),
        stream: true,
        admitted_at: NOON,
        ended_at: NOON.plus_ms(250),
        first_byte_ms: Some(90),
        duration_ms: 250,
        outcome: Outcome::Ok,
        http_status: Some(200),
        usage_source: UsageSource::Provider,
        anomaly: None,
        usage: Usage { input: 1_000, output: 200, ..Usage::default() },
        cost: Nanos(180_000),
        charge: Nanos(180_000),
        hold: Nanos(400_000),
        client_request_id: None,
        provider_request_id: Some("chatcmpl-0123456789".to_owned()),
        attempts: vec![Attempt {
            attempt: 1,
            provider_id: ProviderId(1),
            model: "flash-002".to_owned(),
            status: Some(200),
            duration_ms: 240,
            error: None,
            started_at: NOON,
        }],
        bookings: vec![
            booking("month_cost", NOON.0 - 1, 180_000),
            booking("5h_cost", NOON.0 - 2, 180_000),
            booking("week_cost", NOON.0 - 3, 180_000),
        ],
        drift: Vec::new(),
    }
}

async fn pool(url: &str, connections: u32) -> PgPool {
    let options = PgConnectOptions::from_str(url).unwrap();
    PgPoolOptions::new()
        .min_connections(connections)
        .max_connections(connections)
        .connect_with(options)
        .await
        .unwrap()
}

/// One row, one commit, without slices, rollups or postings.
async fn insert_plainly(pool: &PgPool, number: i64) {
    let event = event(number);
    sqlx::query(
        "insert into usage_events (request_id, tenant_id, key_id, plan_id, provider_id, dialect, route, model,
             price_id, stream, admitted_at, ended_at, duration_ms, outcome, usage_source, input, output,
             cost_nanos, charge_nanos, hold_nanos)
         values ($1, $2, $3, 1, 1, 'openai', $4, $5, 1, true, '2026-11-15T12:00:00Z', '2026-11-15T12:00:01Z', 250,
             'ok', 'provider', 1000, 200, 180000, 180000, 400000)",
    )
    .bind(event.request_id.to_string())
    .bind(event.tenant_id.0)
    .bind(event.key_id.0)
    .bind(&event.route)
    .bind(&event.model)
    .execute(pool)
    .await
    .unwrap();
}

/// Runs `work` from so many tasks for a while; says how many were done in a second.
async fn rate<F: Future<Output = ()> + Send>(
    in_flight: i64,
    work: impl Fn(i64) -> F + Clone + Send + 'static,
) -> u64 {
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for task in 0..in_flight {
        let work = work.clone();
        tasks.spawn(async move {
            let mut done = 0;
            while began.elapsed() < TIME {
                work(task * 10_000_000 + done).await;
                done += 1;
            }
            done
        });
    }
    let done: i64 = tasks.join_all().await.into_iter().sum();
    done.unsigned_abs() * 1_000 / u64::try_from(began.elapsed().as_millis()).unwrap()
}

#[tokio::main(flavor = "multi_thread")]
async fn main() {
    let db = testkit::database().await;
    let pool_of_32 = pool(&db.url, 32).await;
    let plain = rate(32, move |number| {
        let pool = pool_of_32.clone();
        async move { insert_plainly(&pool, number).await }
    })
    .await;
    println!("plain inserts, 32 connections: {plain} events/s");
    for in_flight in [1, 8, 64, 512] {
        let db = testkit::database().await;
        let tasks = TaskTracker::new();
        let ledger = Ledger::start(pool(&db.url, 4).await, &tasks, WriterConfig::default());
        let writer = rate(in_flight, move |number| {
            let ledger = ledger.clone();
            async move {
                let _ = ledger.append(event(number)).await.unwrap();
            }
        })
        .await;
        let (events, commits): (i64, i64) =
            sqlx::query_as("select count(*), count(distinct xmin::text) from usage_events")
                .fetch_one(&db.pool)
                .await
                .unwrap();
        let thousandths = commits * 1_000 / events;
        println!(
            "writer, {in_flight} in flight: {writer} events/s, {thousandths} commits per 1000 events"
        );
    }
}
