//! What nobody settles ends by itself, and is written down.

use domain::plan::LimitRule;
use limiter::{Admission, HOLD_TTL_MS};

use crate::fixture::{House, Kind, NOON, again_at, ask, month};

async fn noted(house: &House) -> Vec<(String, Option<domain::id::RequestId>, i64)> {
    let drift = ledger::drift::list(&house.db.pool, None, 100).await.unwrap();
    drift.into_iter().map(|d| (d.note.kind, d.request_id, d.note.expected)).collect()
}

in_all_engines!(an_expired_hold_is_released_by_the_next_ask_of_its_tenant_and_written_down);
async fn an_expired_hold_is_released_by_the_next_ask_of_its_tenant_and_written_down(house: House) {
    let call = ask(1, &[month(100, 0), LimitRule::Lease { limit: 1 }], 1, 100);
    let lost = house.admitted(&call).await;
    let last = NOON.plus_ms(HOLD_TTL_MS - 1);
    house.refused(&again_at(&call, last)).await;
    let hold = house.admitted(&again_at(&call, last.plus_ms(1))).await;
    assert_eq!(noted(&house).await, [("hold_expired".to_owned(), Some(lost.request_id), 100)]);
    // Whoever says now what it used is believed: it counts as used, and once. Its hold is gone.
    house.finish(&lost, 1, 70, last.plus_ms(2)).await;
    house.finish(&lost, 1, 70, last.plus_ms(2)).await;
    let reading = house.reading(&call, last.plus_ms(2)).await;
    assert_eq!((reading.used, reading.held), (70, 100));
    house.release(&hold, last.plus_ms(2)).await;
    assert_eq!(house.reading(&call, last.plus_ms(2)).await.held, 0);
}

in_all_engines!(a_refusal_keeps_what_had_expired_before_it);
async fn a_refusal_keeps_what_had_expired_before_it(house: House) {
    let call = ask(1, &[month(100, 0)], 1, 60);
    house.admitted(&call).await;
    let later = NOON.plus_ms(HOLD_TTL_MS);
    let large = limiter::Ask {
        estimate: domain::admission::Estimate { tokens: 1, charge: domain::money::Nanos(101) },
        ..again_at(&call, later)
    };
    let refusal = house.refused(&large).await;
    assert_eq!((refusal.held, noted(&house).await.len()), (0, 1));
    assert_eq!(house.reading(&call, later).await.held, 0);
}

in_all_engines!(a_request_that_asks_again_after_its_hold_expired_gets_a_new_one);
async fn a_request_that_asks_again_after_its_hold_expired_gets_a_new_one(house: House) {
    let call = ask(1, &[month(100, 0)], 1, 60);
    let lost = house.admitted(&call).await;
    let later = NOON.plus_ms(HOLD_TTL_MS);
    let hold = house.admitted(&limiter::Ask { now: Some(later), ..call.clone() }).await;
    assert_eq!((hold.request_id, hold.admitted_at), (lost.request_id, later));
    assert_eq!(house.reading(&call, later).await.held, 60);
}

in_all_engines!(the_reaper_ends_expired_holds_of_all_tenants_and_leaves_the_renewed_ones);
async fn the_reaper_ends_expired_holds_of_all_tenants_and_leaves_the_renewed_ones(house: House) {
    let mut holds = Vec::new();
    for tenant in 1..=3 {
        let call = ask(tenant, &[month(100, 0), LimitRule::Lease { limit: 2 }], 1, 40);
        holds.push(house.admitted(&call).await);
        holds.push(house.admitted(&again_at(&call, NOON)).await);
    }
    let later = NOON.plus_ms(HOLD_TTL_MS);
    house.engine.renew(&holds[0], Some(later)).await.unwrap();
    assert_eq!(house.engine.reap(Some(later)).await.unwrap(), 5);
    assert_eq!(house.engine.reap(Some(later)).await.unwrap(), 0);
    let held = house.engine.held_by_tenant().await.unwrap();
    assert_eq!(held, [(holds[0].tenant_id, domain::money::Nanos(40))]);
    let reading = house.readings(&ask(1, &[LimitRule::Lease { limit: 2 }], 1, 1), later).await;
    assert_eq!((reading[0].held, noted(&house).await.len()), (1, 5));
}

#[tokio::test]
async fn counters_of_past_periods_are_forgotten_when_nothing_is_held_in_them() {
    let house = House::on(Kind::Postgres).await;
    let call = ask(1, &[month(100, 0)], 1, 40);
    let ended = house.admitted(&call).await;
    house.release(&ended, NOON).await;
    let other = ask(2, &[month(100, 0)], 1, 40);
    house.admitted(&other).await;
    let later = NOON.plus_ms(100 * 24 * 3_600_000);
    assert_eq!(house.engine.forget_past_periods(Some(NOON)).await.unwrap(), 0);
    assert_eq!(house.engine.forget_past_periods(Some(later)).await.unwrap(), 1);
    let left: Vec<i64> = sqlx::query_scalar("select tenant_id from meter_states")
        .fetch_all(&house.db.pool)
        .await
        .unwrap();
    assert_eq!(left, [2]);
}

in_all_engines!(a_written_call_that_nobody_settled_counts_as_used_when_its_hold_expires);
async fn a_written_call_that_nobody_settled_counts_as_used_when_its_hold_expires(house: House) {
    let rules = [month(100, 0), crate::fixture::bucket(domain::plan::Metric::Tokens, 0, 1_000)];
    let call = ask(1, &rules, 500, 60);
    let hold = house.admitted(&call).await;
    house.ledger.append(crate::fixture::event(&hold, 800, 50)).await.unwrap();
    let later = NOON.plus_ms(HOLD_TTL_MS);
    assert_eq!(house.engine.reap(Some(later)).await.unwrap(), 1);
    let readings = house.readings(&call, later).await;
    let figures: Vec<_> = readings.iter().map(|r| (r.level, r.used, r.held)).collect();
    assert_eq!(figures, [(None, 50, 0), (Some(200), 0, 0)]);
    assert_eq!(noted(&house).await, [], "nothing was lost, so there is nothing to note");
}
