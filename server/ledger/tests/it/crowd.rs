//! Many writers on the same rows.

use domain::admission::Scope;
use domain::id::{KeyId, TeamId};
use domain::usage::Outcome;
use domain::window::UnixMs;
use ledger::{Ledger, UsageEvent, WriterConfig};
use sqlx::Connection;
use tokio::task::JoinSet;
use tokio_util::task::TaskTracker;

use crate::fixture::{NOON, agreed, booking, count, event_at};

const APPENDERS: u64 = 8;
const EVENTS_EACH: u64 = 250;

/// Splitmix64: a sequence that looks random and is the same each time.
fn mixed(seed: u64) -> u64 {
    let mut z = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn picked(seed: u64, of: u64) -> i64 {
    i64::try_from(mixed(seed) % of).unwrap()
}

/// Most calls are one hot tenant's; its bookings come in any order.
fn any_event(seed: u64) -> UsageEvent {
    let tenant = if picked(seed, 4) < 3 { 1 } else { 2 + picked(seed + 1, 20) };
    let at = UnixMs(NOON.0 + picked(seed + 2, 4) * 900_000);
    let mut event = event_at(tenant, 10 + picked(seed + 3, 90), at);
    event.key_id = KeyId(tenant * 10 + picked(seed + 4, 5));
    event.team_id = (picked(seed + 5, 2) == 0).then_some(TeamId(tenant));
    event.model = ["flash", "pro", "nano"][usize::try_from(picked(seed + 6, 3)).unwrap()].into();
    event.outcome = Outcome::ALL[usize::try_from(picked(seed + 7, 7)).unwrap()];
    for slice in 0..4 {
        let mut rolling = booking(tenant, 1 + slice);
        rolling.meter = "5h_requests".to_owned();
        rolling.slice_start = UnixMs(NOON.0 + picked(seed + 8, 6) * 300_000);
        (rolling.scope, rolling.scope_id) = (Scope::Key, event.key_id.0);
        event.bookings.push(rolling);
    }
    let turn = usize::try_from(picked(seed + 9, 5)).unwrap();
    event.bookings.rotate_left(turn);
    event
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn eight_writers_on_a_hot_tenant_never_wait_in_a_circle() {
    let db = testkit::database().await;
    let tasks = TaskTracker::new();
    // Small batches, so that many transactions are open at the same time.
    let config = WriterConfig { batch_rows: 12, ..WriterConfig::default() };
    let pools: Vec<_> = (0..APPENDERS).map(|_| db.another_pool()).collect();
    let mut appends = JoinSet::new();
    for (number, pool) in (0..APPENDERS).zip(&pools) {
        let ledger = Ledger::start(pool.clone(), &tasks, config);
        for seed in 0..EVENTS_EACH {
            let (ledger, event) = (ledger.clone(), any_event(number * 1_000 + seed));
            appends.spawn(async move { ledger.append(event).await.unwrap() });
        }
    }
    appends.join_all().await;
    tasks.close();
    tasks.wait().await;
    // A backend tells its statistics when it ends.
    for pool in pools {
        pool.close().await;
    }
    let events = i64::try_from(APPENDERS * EVENTS_EACH).unwrap();
    assert_eq!(count(&db.pool, "usage_events").await, events);
    agreed(&db.pool).await;
    db.pool.close().await;
    let mut last = sqlx::PgConnection::connect(&db.url).await.unwrap();
    let (commits, deadlocks): (i64, i64) = sqlx::query_as(
        "select xact_commit, deadlocks from pg_stat_database where datname = current_database()",
    )
    .fetch_one(&mut last)
    .await
    .unwrap();
    assert!(commits > events / 12, "the statistics have not come: {commits} commits");
    assert_eq!(deadlocks, 0);
}
