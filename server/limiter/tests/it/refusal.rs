//! A refusal tells its figures and takes nothing.

use std::time::Duration;

use domain::admission::Reason;
use domain::money::Nanos;
use domain::plan::{LimitRule, Metric};
use domain::window::RollingWindow;
use ledger::balance::{Movement, top_up};
use limiter::{Admission, LimiterError, PostgresEngine};
use sqlx::postgres::PgPoolOptions;
use tokio_util::task::TaskTracker;

use crate::fixture::{House, Kind, NOON, again, again_at, ask, bucket, month, usd};

in_all_engines!(a_refusal_changes_nothing);
async fn a_refusal_changes_nothing(house: House) {
    let rules = [
        bucket(Metric::Requests, 1_000, 10),
        bucket(Metric::Tokens, 1_000, 1_000),
        LimitRule::Window { metric: Metric::Tokens, window: RollingWindow::Day, limit: 10_000 },
        LimitRule::Lease { limit: 5 },
        month(100, 0),
    ];
    let first = ask(1, &rules, 10, 60);
    house.admitted(&first).await;
    let before = house.counters().await;
    let refusal = house.refused(&again_at(&first, NOON.plus_ms(5_000))).await;
    assert_eq!(
        (refusal.reason, refusal.limit, refusal.used, refusal.held, refusal.wanted),
        (Reason::BudgetExhausted, 100, 0, 60, 60)
    );
    assert!(refusal.resets_at.is_some() && refusal.retry_after_ms.is_none());
    assert_eq!(house.counters().await, before);
}

#[tokio::test]
async fn the_first_refusal_of_a_tenant_leaves_no_row() {
    let house = House::on(Kind::Postgres).await;
    house.refused(&ask(1, &[LimitRule::Lease { limit: 0 }, month(10, 0)], 1, 11)).await;
    assert_eq!(house.counters().await, Vec::<String>::new());
}

in_all_engines!(a_prepaid_tenant_spends_what_it_paid_in_and_not_more);
async fn a_prepaid_tenant_spends_what_it_paid_in_and_not_more(house: House) {
    let call = ask(1, &[LimitRule::Balance], 1, usd("3"));
    assert_eq!(house.refused(&call).await.reason, Reason::BalanceExhausted);
    let paid = Movement {
        tenant_id: call.tenant_id,
        amount: Nanos(usd("10")),
        actor: "test",
        reason: "paid in",
    };
    top_up(&house.db.pool, paid).await.unwrap();
    house.engine.credit_changed(call.tenant_id).await;
    for _ in 0..2 {
        let hold = house.admitted(&again(&call)).await;
        house.finish(&hold, 1, usd("3"), NOON).await;
    }
    let third = house.admitted(&again(&call)).await;
    let refusal = house.refused(&again(&call)).await;
    assert_eq!((refusal.limit, refusal.used, refusal.held), (usd("10"), usd("6"), usd("3")));
    house.release(&third, NOON).await;
    let reading = house.reading(&call, NOON).await;
    assert_eq!((reading.limit, reading.used, reading.left()), (usd("10"), usd("6"), usd("4")));
}

in_all_engines!(waiting_as_long_as_a_rolling_window_says_is_enough);
async fn waiting_as_long_as_a_rolling_window_says_is_enough(house: House) {
    let window =
        LimitRule::Window { metric: Metric::Cost, window: RollingWindow::FiveHours, limit: 100 };
    let call = ask(1, &[window], 1, 60);
    let hold = house.admitted(&call).await;
    house.finish(&hold, 1, 60, NOON).await;
    let refusal = house.refused(&again(&call)).await;
    let wait = refusal.retry_after_ms.unwrap();
    assert_eq!((refusal.reason, refusal.used), (Reason::WindowExhausted, 60));
    let early = again_at(&call, NOON.plus_ms(wait - 1));
    assert_eq!(house.refused(&early).await.reason, Reason::WindowExhausted);
    house.admitted(&again_at(&call, NOON.plus_ms(wait))).await;
}

in_all_engines!(two_limits_on_one_counter_are_an_error_and_not_an_admission);
async fn two_limits_on_one_counter_are_an_error_and_not_an_admission(house: House) {
    let twice = ask(1, &[month(10, 0), month(20, 0)], 1, 1);
    let verdict = house.engine.admit(&twice).await;
    assert!(matches!(verdict, Err(LimiterError::SharedCounter("month_cost"))), "{verdict:?}");
}

#[tokio::test]
async fn an_engine_without_its_store_gives_no_verdict() {
    let nowhere = PgPoolOptions::new()
        .acquire_timeout(Duration::from_millis(50))
        .connect_lazy("postgres://nobody@127.0.0.1:1/none")
        .unwrap();
    let engine = PostgresEngine::new(nowhere, TaskTracker::new());
    let verdict = engine.admit(&ask(1, &[month(10, 0)], 1, 1)).await;
    assert!(matches!(verdict, Err(LimiterError::Unavailable(_))), "{verdict:?}");
}
