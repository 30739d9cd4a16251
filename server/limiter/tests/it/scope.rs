//! Whose limit it is.

use domain::admission::{Meter, Scope};
use domain::plan::LimitRule;
use limiter::Ask;
use tokio::task::JoinSet;

use crate::fixture::{House, NOON, again, ask, month};
use limiter::{Admission, Verdict};

/// An ask under the tenant's limit, its team's and its key's.
fn hierarchical(tenant: i64, caps: [i64; 3], charge: i64) -> Ask {
    let mut call = ask(tenant, &[month(caps[0], 0)], 1, charge);
    call.meters.push(Meter { scope: Scope::Team, scope_id: 20, rule: month(caps[1], 0) });
    call.meters.push(Meter { scope: Scope::Key, scope_id: 30, rule: month(caps[2], 0) });
    call
}

in_all_engines!(the_limit_that_binds_is_named);
async fn the_limit_that_binds_is_named(house: House) {
    for (caps, scope) in
        [([5, 9, 9], Scope::Tenant), ([9, 5, 9], Scope::Team), ([9, 9, 5], Scope::Key)]
    {
        let refusal = house.refused(&hierarchical(1, caps, 6)).await;
        assert_eq!((refusal.scope, refusal.limit, refusal.wanted), (scope, 5, 6));
    }
}

in_all_engines!(a_call_is_booked_in_each_scope);
async fn a_call_is_booked_in_each_scope(house: House) {
    let call = hierarchical(1, [100, 50, 20], 10);
    let hold = house.admitted(&call).await;
    house.finish(&hold, 1, 8, NOON).await;
    let readings = house.readings(&call, NOON).await;
    let left: Vec<_> = readings.iter().map(|r| (r.scope, r.used, r.left())).collect();
    assert_eq!(left, [(Scope::Tenant, 8, 92), (Scope::Team, 8, 42), (Scope::Key, 8, 12)]);
}

/// An ask under a quota that all tenants share.
fn shared(tenant: i64) -> Ask {
    let mut call = ask(tenant, &[month(1_000, 0)], 1, 1);
    let rule = LimitRule::Lease { limit: 10 };
    call.meters.push(Meter { scope: Scope::Provider, scope_id: 5, rule });
    call
}

async fn admitted_of_many_tenants(house: &House) -> Vec<limiter::Hold> {
    let mut calls = JoinSet::new();
    for number in 0..100 {
        let (engine, ask) = (house.another_engine_every(number), shared(1 + number % 7));
        calls.spawn(async move { engine.admit(&ask).await.unwrap() });
    }
    let verdicts = calls.join_all().await;
    verdicts
        .into_iter()
        .filter_map(|verdict| match verdict {
            Verdict::Admit(hold) => Some(hold),
            Verdict::Refuse(_) => None,
        })
        .collect()
}

in_all_engines!(a_providers_quota_holds_over_all_tenants_and_comes_back);
async fn a_providers_quota_holds_over_all_tenants_and_comes_back(house: House) {
    let holds = admitted_of_many_tenants(&house).await;
    assert_eq!(holds.len(), 10);
    for hold in &holds {
        house.release(hold, NOON).await;
    }
    let readings = house.readings(&shared(99), NOON).await;
    assert_eq!((readings[1].scope, readings[1].left()), (Scope::Provider, 10));
    house.admitted(&again(&shared(99))).await;
}
