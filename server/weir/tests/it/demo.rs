//! The demonstration's live traffic, through the door that every client uses.

use std::time::Duration;

use ledger::books;
use sim::{Sim, SimConfig};
use sqlx::PgPool;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use weir::demo::{callers, traffic};
use weir::key_file;
use weir::seed::{self, DemoSecrets};

use crate::process::TestWeir;

/// Calls of each dialect, plain and streamed, and one that was refused for its tenant's budget.
const ENOUGH: &str = "select (select count(distinct (dialect, stream)) from usage_events
                              where client_request_id like 'demo-%') = 6
                         and exists (select from refusals where client_request_id like 'demo-%' and status = 402)";
/// With three calls a second they are there in some seconds on a quiet machine.
const PATIENCE: Duration = Duration::from_secs(60);

async fn until_true(pool: &PgPool, sql: &'static str) {
    let asked = async {
        while !sqlx::query_scalar::<_, bool>(sql).fetch_one(pool).await.unwrap() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(PATIENCE, asked).await.unwrap_or_else(|_| panic!("never true: {sql}"));
}

async fn count(pool: &PgPool, sql: &'static str) -> i64 {
    sqlx::query_scalar(sql).fetch_one(pool).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_live_call_is_in_the_books_or_refused_by_name() {
    let weir = TestWeir::start().await;
    let sim = Sim::start(SimConfig::default()).await.unwrap();
    let (pool, secrets) = (weir.pool().clone(), DemoSecrets::generate());
    let sealer = key_file::sealer(&weir.weir().config).unwrap();
    let now = weir.weir().clock.now();
    seed::demo(&pool, &sealer, &secrets, now, &sim.base_url(), |_| {}).await.unwrap();

    let (stop, calling) = (CancellationToken::new(), TaskTracker::new());
    let (url, callers, until) = (weir.url(""), callers(&secrets), stop.clone());
    calling.spawn(async move { traffic(&url, callers, 1, until).await });
    until_true(&pool, ENOUGH).await;
    stop.cancel();
    calling.close();
    calling.wait().await;

    // A client that has left is read on for: its call ends when its answer does.
    until_true(&pool, "select not exists (select from holds)").await;
    assert!(books::verify(&pool, None).await.unwrap().iter().all(books::BookLine::agrees));
    assert!(books::verify_house(&pool).await.unwrap().agrees());
    let forwarded = "select count(*) from usage_events where client_request_id like 'demo-%'";
    let served = i64::try_from(sim.served()).unwrap();
    assert_eq!(count(&pool, forwarded).await, served);
    weir.end().await;
    sim.stop().await;
}
