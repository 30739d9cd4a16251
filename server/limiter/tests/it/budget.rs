//! A cap is a cap, whoever asks at the same time.

use std::sync::Arc;

use domain::admission::Reason;
use limiter::{Admission, Verdict};
use tokio::task::JoinSet;

use crate::fixture::{House, again, ask, house, month, usd};

/// Puts `asks` calls of one tenant to four engines at the same time; says how many passed.
async fn admitted_in_parallel(house: &House, tenant: i64, asks: usize) -> usize {
    let engines: Vec<_> = (0..4).map(|_| Arc::new(house.another_engine())).collect();
    let first = ask(tenant, &[month(1_000, 0)], 1, 100);
    let mut calls = JoinSet::new();
    for number in 0..asks {
        let engine = engines[number % engines.len()].clone();
        let ask = again(&first);
        calls.spawn(async move { engine.admit(&ask).await.unwrap() });
    }
    let verdicts = calls.join_all().await;
    verdicts.iter().filter(|verdict| matches!(verdict, Verdict::Admit(_))).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_parallel_calls_on_a_budget_for_ten_pass_ten_times() {
    let house = house().await;
    // The first call of the tenant makes its counters; the thousand find them.
    let warm = ask(1, &[month(1_000, 0)], 1, 100);
    let hold = house.admitted(&warm).await;
    house.release(&hold, crate::fixture::NOON).await;
    assert_eq!(admitted_in_parallel(&house, 1, 1_000).await, 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_first_calls_ever_of_a_tenant_pass_ten_times_as_well() {
    let house = house().await;
    assert_eq!(admitted_in_parallel(&house, 77, 300).await, 10);
    let held: i64 =
        house.engine.held_by_tenant().await.unwrap().iter().map(|(_, held)| held.0).sum();
    assert_eq!(held, 1_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_hundred_holds_on_the_last_ten_dollars_pass_195_times_and_all_come_back() {
    let house = house().await;
    let month = [month(usd("200"), 500)];
    let earlier = ask(7, &month, 1, usd("190"));
    let hold = house.admitted(&earlier).await;
    house.finish(&hold, 1, usd("190"), crate::fixture::NOON).await;

    let small = ask(7, &month, 1, usd("0.1025"));
    let mut calls = JoinSet::new();
    for _ in 0..200 {
        let (engine, ask) = (house.engine.clone(), again(&small));
        calls.spawn(async move { engine.admit(&ask).await.unwrap() });
    }
    let mut holds = Vec::new();
    for verdict in calls.join_all().await {
        match verdict {
            Verdict::Admit(hold) => holds.push(hold),
            Verdict::Refuse(refusal) => assert_eq!(refusal.reason, Reason::BudgetExhausted),
        }
    }
    assert_eq!(holds.len(), 195);
    let full = house.reading(&small, crate::fixture::NOON).await;
    assert_eq!((full.used, full.used + full.held), (usd("190"), usd("209.9875")));
    for hold in &holds {
        house.release(hold, crate::fixture::NOON).await;
    }
    let back = house.reading(&small, crate::fixture::NOON).await;
    assert_eq!((back.used, back.held, back.left()), (usd("190"), 0, usd("20")));
}
