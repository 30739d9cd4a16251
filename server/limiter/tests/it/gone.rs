//! Callers that go away at any moment.

use std::time::Duration;

use limiter::Admission;
use tokio::time::timeout;

use crate::fixture::{House, Kind, NOON, again, ask, month};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_caller_that_goes_away_leaves_no_transaction_open_and_no_broken_connection() {
    let house = House::on(Kind::Postgres).await;
    let call = ask(1, &[month(1_000_000, 0)], 1, 10);
    let mut left = 0;
    for wait_us in 0..150_u64 {
        let patience = Duration::from_micros(wait_us * 30);
        let ask = again(&call);
        match timeout(patience, house.engine.admit(&ask)).await {
            Ok(verdict) => {
                let hold = crate::fixture::admitted(verdict.unwrap());
                left += i32::from(
                    timeout(patience, house.engine.release(&hold, Some(NOON))).await.is_err(),
                );
            }
            Err(_) => left += 1,
        }
    }
    assert!(left > 0, "every caller waited: the test has shown nothing");
    // Every connection of the engine is asked once more, several at a time.
    let calls = (0..40).map(|_| {
        let (engine, ask) = (house.engine.clone(), again(&call));
        house.tasks.spawn(async move { engine.admit(&ask).await.unwrap() })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap();
    }
    let (pool, tasks) = (house.db.pool.clone(), house.tasks.clone());
    drop(house.ledger);
    tasks.close();
    tasks.wait().await;
    let open: i64 = sqlx::query_scalar(
        "select count(*) from pg_stat_activity
         where datname = current_database() and state like 'idle in transaction%'",
    )
    .fetch_one(&pool)
    .await
    .unwrap();
    assert_eq!(open, 0, "{left} callers had gone away");
}
