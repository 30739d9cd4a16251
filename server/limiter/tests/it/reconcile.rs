//! Counters in Redis beside the books.

use domain::money::Nanos;
use domain::plan::{LimitRule, Metric};
use domain::window::RollingWindow;
use ledger::balance::{Movement, top_up};
use limiter::{Admission, Verdict};

use crate::engine::EPOCH;
use crate::fixture::{Engine, House, Kind, NOON, again, ask, month};

fn limits() -> Vec<LimitRule> {
    vec![
        month(1_000_000, 0),
        LimitRule::Window { metric: Metric::Cost, window: RollingWindow::Day, limit: 1_000_000 },
        LimitRule::Balance,
        LimitRule::Lease { limit: 1_000 },
    ]
}

async fn reconcile(house: &House, all: bool) -> u64 {
    let Engine::Redis(engine) = &house.engine else { panic!("no Redis") };
    engine.reconcile(EPOCH, all).await.unwrap()
}

/// Changes a counter behind the engine's back.
fn spoil(house: &House, field: &str, by: i64) {
    let keys = house.keys.as_ref().unwrap();
    let key = format!("{}1:{{1}}:counters", keys.prefix);
    let mut connection = keys.client().get_connection().unwrap();
    redis::cmd("HINCRBY").arg(key).arg(field).arg(by).exec(&mut connection).unwrap();
}

async fn noted(house: &House) -> Vec<(String, i64, i64)> {
    let drift = ledger::drift::list(&house.db.pool, None, 100).await.unwrap();
    let mut noted: Vec<_> = drift
        .into_iter()
        .map(|d| (d.note.meter.unwrap_or_default(), d.note.expected, d.note.found))
        .collect();
    noted.sort();
    noted
}

#[tokio::test]
async fn a_counter_that_differs_is_written_down_and_put_right() {
    let house = House::on(Kind::Redis).await;
    let call = ask(1, &limits(), 10, 50);
    let paid = Movement {
        tenant_id: call.tenant_id,
        amount: Nanos(5_000),
        actor: "test",
        reason: "paid in",
    };
    top_up(&house.db.pool, paid).await.unwrap();
    let done = house.admitted(&call).await;
    house.finish(&done, 10, 40, NOON).await;
    house.admitted(&again(&call)).await;
    let right = house.readings(&call, NOON).await;
    assert_eq!(reconcile(&house, true).await, 0);

    let period = domain::window::month_period(NOON, &call.zone, 1).unwrap().start.0;
    let hour = NOON.0 - NOON.0.rem_euclid(3_600_000);
    spoil(&house, &format!("tenant/1/month_cost/{period}"), -7);
    spoil(&house, &format!("tenant/1/day_cost/{hour}"), 5);
    spoil(&house, "tenant/1/day_cost/used", 5);
    spoil(&house, "tenant/1/balance/credited", 100);
    spoil(&house, "tenant/1/concurrency/held", 3);
    assert_eq!(reconcile(&house, true).await, 5);
    assert_eq!(house.readings(&call, NOON).await, right);
    let expected = [
        ("tenant/1/balance/credited".to_owned(), 5_000, 5_100),
        ("tenant/1/concurrency/held".to_owned(), 1, 4),
        (format!("tenant/1/day_cost/{hour}"), 40, 45),
        ("tenant/1/day_cost/used".to_owned(), 40, 45),
        (format!("tenant/1/month_cost/{period}"), 40, 33),
    ];
    assert_eq!(noted(&house).await, expected);
    assert_eq!(reconcile(&house, true).await, 0);
}

#[tokio::test]
async fn an_owner_in_which_nothing_ended_is_left_alone_until_the_night() {
    let house = House::on(Kind::Redis).await;
    let call = ask(1, &limits()[..1], 10, 50);
    let done = house.admitted(&call).await;
    house.finish(&done, 10, 40, NOON).await;
    assert_eq!(reconcile(&house, false).await, 0);
    let period = domain::window::month_period(NOON, &call.zone, 1).unwrap().start.0;
    spoil(&house, &format!("tenant/1/month_cost/{period}"), 1);
    assert_eq!(reconcile(&house, false).await, 0);
    assert_eq!(reconcile(&house, true).await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_that_reconcile_while_calls_end_see_no_difference() {
    let house = House::on(Kind::Redis).await;
    let call = ask(1, &[month(1_000_000, 0)], 10, 50);
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..60 {
        let (engine, ledger, ask) = (house.engine.clone(), house.ledger.clone(), again(&call));
        calls.spawn(async move {
            let Verdict::Admit(hold) = engine.admit(&ask).await.unwrap() else { return };
            ledger.append(crate::fixture::event(&hold, 10, 40)).await.unwrap();
            tokio::task::yield_now().await;
            let actual = limiter::Actual { tokens: 10, charge: Nanos(40) };
            engine.settle(&hold, &actual, Some(NOON)).await.unwrap();
        });
    }
    while !calls.is_empty() {
        let both = futures_util::future::join(reconcile(&house, true), reconcile(&house, true));
        assert_eq!(both.await, (0, 0));
        while calls.try_join_next().is_some() {}
    }
    assert_eq!(noted(&house).await, []);
    assert_eq!(house.reading(&call, NOON).await.used, 60 * 40);
}
