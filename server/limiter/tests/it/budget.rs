//! A cap is a cap, whoever asks at the same time.

use std::sync::Arc;

use domain::admission::Reason;
use domain::plan::{LimitRule, Metric};
use limiter::{Admission, Verdict};
use tokio::task::JoinSet;

use crate::fixture::{House, NOON, again, ask, event, month, usd};

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

in_all_engines!(a_thousand_parallel_calls_on_a_budget_for_ten_pass_ten_times);
async fn a_thousand_parallel_calls_on_a_budget_for_ten_pass_ten_times(house: House) {
    // The first call of the tenant makes its counters; the thousand find them.
    let warm = ask(1, &[month(1_000, 0)], 1, 100);
    let hold = house.admitted(&warm).await;
    house.release(&hold, NOON).await;
    assert_eq!(admitted_in_parallel(&house, 1, 1_000).await, 10);
}

in_all_engines!(the_first_calls_ever_of_a_tenant_pass_ten_times_as_well);
async fn the_first_calls_ever_of_a_tenant_pass_ten_times_as_well(house: House) {
    assert_eq!(admitted_in_parallel(&house, 77, 300).await, 10);
    let held: i64 =
        house.engine.held_by_tenant().await.unwrap().iter().map(|(_, held)| held.0).sum();
    assert_eq!(held, 1_000);
}

in_all_engines!(two_hundred_holds_on_the_last_ten_dollars_pass_195_times_and_all_come_back);
async fn two_hundred_holds_on_the_last_ten_dollars_pass_195_times_and_all_come_back(house: House) {
    let month = [month(usd("200"), 500)];
    let earlier = ask(7, &month, 1, usd("190"));
    let hold = house.admitted(&earlier).await;
    house.finish(&hold, 1, usd("190"), NOON).await;

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
    let full = house.reading(&small, NOON).await;
    assert_eq!((full.used, full.used + full.held), (usd("190"), usd("209.9875")));
    for hold in &holds {
        house.release(hold, NOON).await;
    }
    let back = house.reading(&small, NOON).await;
    assert_eq!((back.used, back.held, back.left()), (usd("190"), 0, usd("20")));
}

// Calls that use exactly what they hold, each written and then settled late.
in_all_engines!(
    ten_calls_pass_on_a_budget_for_ten_although_events_are_written_before_holds_are_settled
);
async fn ten_calls_pass_on_a_budget_for_ten_although_events_are_written_before_holds_are_settled(
    house: House,
) {
    let first = ask(1, &[month(1_000, 0)], 1, 100);
    let mut calls = JoinSet::new();
    for number in 0..200 {
        let (engine, ledger) = (house.another_engine_every(number), house.ledger.clone());
        let ask = again(&first);
        calls.spawn(async move {
            let Verdict::Admit(hold) = engine.admit(&ask).await.unwrap() else { return None };
            ledger.append(event(&hold, 1, 100)).await.unwrap();
            Some(hold)
        });
    }
    let holds: Vec<_> = calls.join_all().await.into_iter().flatten().collect();
    assert_eq!(holds.len(), 10);
    for hold in &holds {
        house.settle(hold, 1, 100, NOON).await;
    }
    let reading = house.reading(&first, NOON).await;
    assert_eq!((reading.used, reading.held), (1_000, 0));
}

in_all_engines!(a_call_that_is_written_and_not_yet_settled_does_not_stand_in_the_way);
async fn a_call_that_is_written_and_not_yet_settled_does_not_stand_in_the_way(house: House) {
    let lease = LimitRule::Lease { limit: 1 };
    let tokens = LimitRule::Bucket { metric: Metric::Tokens, rate_milli_per_s: 0, capacity: 1_000 };
    let call = ask(1, &[month(100, 0), lease, tokens], 300, 60);
    let written = house.admitted(&call).await;
    assert_eq!(house.refused(&again(&call)).await.held, 60);
    house.ledger.append(event(&written, 200, 40)).await.unwrap();
    house.admitted(&again(&call)).await;
    let readings = house.readings(&call, NOON).await;
    let figures: Vec<_> = readings.iter().map(|r| (r.level, r.used, r.held)).collect();
    assert_eq!(figures, [(None, 40, 60), (None, 0, 1), (Some(500), 0, 0)]);
    // The call's own end comes late and changes nothing.
    let before = house.counters().await;
    house.settle(&written, 200, 40, NOON).await;
    assert_eq!(house.counters().await, before);
}
