//! Partitions ahead, slices behind.

use domain::usage::Usage;
use domain::window::UnixMs;
use ledger::LedgerError;
use ledger::partition::{adopt_strays, ensure_partitions, strays};
use ledger::report::find_event;
use ledger::retention::prune_slices;
use tokio::task::JoinSet;

use crate::fixture::{HOUR, MONTH, NOON, booking, books, event, event_at};

/// 15 January 2031, UTC.
pub(crate) const FAR: UnixMs = UnixMs(1_926_201_600_000);

async fn partitions(pool: &sqlx::PgPool) -> Vec<String> {
    sqlx::query_scalar("select relname::text from pg_class where relname ~ '^usage_events_2031_' and relkind = 'r' order by 1")
        .fetch_all(pool)
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn partitions_are_made_two_months_ahead_once_however_many_make_them() {
    let books = books().await;
    let mut makers = JoinSet::new();
    for _ in 0..4 {
        let pool = books.db.another_pool();
        makers.spawn(async move { ensure_partitions(&pool, FAR).await });
    }
    for made in makers.join_all().await {
        made.unwrap();
    }
    let expected = ["usage_events_2031_01", "usage_events_2031_02", "usage_events_2031_03"];
    assert_eq!(partitions(books.pool()).await, expected);
    books.append_all([event_at(1, 5, FAR)]).await;
    assert_eq!(strays(books.pool()).await.unwrap(), 0);
}

#[tokio::test]
async fn an_event_without_a_partition_is_kept_and_counted_as_a_stray() {
    let books = books().await;
    books.append_all([event_at(1, 5, FAR)]).await;
    assert_eq!(strays(books.pool()).await.unwrap(), 1);
    let late = ensure_partitions(books.pool(), FAR).await;
    assert!(matches!(late, Err(LedgerError::Rejected(_))), "{late:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_month_that_began_without_its_partition_is_told_and_gets_one_while_calls_go_on() {
    let books = books().await;
    let pool = books.pool();
    const MONTH_MS: i64 = 31 * 24 * HOUR;
    let strays_of =
        [FAR, FAR.plus_ms(HOUR), FAR.plus_ms(3 * MONTH_MS)].map(|at| event_at(1, 5, at));
    books.append_all(strays_of.clone()).await;
    let before = crate::fixture::rows(pool).await;
    let mut calls = JoinSet::new();
    for number in 0..60 {
        let ledger = books.ledger.clone();
        calls.spawn(async move {
            ledger.append(event_at(2, 5, FAR.plus_ms(number))).await.unwrap();
        });
    }
    adopt_strays(pool).await.unwrap();
    calls.join_all().await;
    // Those that came in between are adopted by the next run.
    adopt_strays(pool).await.unwrap();
    assert_eq!(strays(pool).await.unwrap(), 0);
    assert_eq!(adopt_strays(pool).await.unwrap(), 0);
    ensure_partitions(pool, FAR).await.unwrap();
    // Nothing was changed on the way, and the alarm stands in the books.
    let after = crate::fixture::rows(pool).await;
    assert!(before.iter().all(|row| after.contains(row)));
    for event in strays_of {
        assert!(find_event(pool, event.request_id).await.unwrap().is_some());
    }
    let drift = ledger::drift::list(pool, None, 10).await.unwrap();
    assert!(drift.iter().all(|drift| drift.note.kind == ledger::drift::PARTITION_MISSING));
    assert!((1..=2).contains(&drift.len()) && drift[drift.len() - 1].note.found >= 3, "{drift:?}");
    crate::fixture::agreed(pool).await;
    let code = sqlx::raw_sql("delete from usage_events_2031_01").execute(pool).await;
    assert!(code.is_err(), "an adopted event can be deleted");
    let code = sqlx::raw_sql("truncate usage_events_2031_04").execute(pool).await;
    assert!(code.is_err(), "an adopted month can be truncated");
}

#[tokio::test]
async fn slices_that_no_window_sees_are_forgotten_and_months_are_kept() {
    let books = books().await;
    let mut event = event(1, 5);
    event.usage = Usage::default();
    for (meter, age_hours) in [
        ("5h_cost", 24 * 15),
        ("day_tokens", 24 * 15),
        ("week_cost", 24 * 13),
        ("month_cost", 24 * 400),
    ] {
        let mut old = booking(1, 3);
        old.meter = meter.to_owned();
        old.slice_start = NOON.plus_ms(-age_hours * HOUR);
        event.bookings.push(old);
    }
    books.append_all([event]).await;
    assert_eq!(prune_slices(books.pool(), NOON).await.unwrap(), 2);
    assert_eq!(prune_slices(books.pool(), NOON).await.unwrap(), 0);
    let left: Vec<(String, i64)> =
        sqlx::query_as("select meter, slice_start_ms from meter_slices order by 1, 2 desc")
            .fetch_all(books.pool())
            .await
            .unwrap();
    let names: Vec<_> = left.iter().map(|(meter, _)| &**meter).collect();
    assert_eq!((names, left[0].1), (vec!["month_cost", "month_cost", "week_cost"], MONTH.0));
}
