//! A thousand calls at once on a budget for ten: ten pass, in one process and in three, by either engine.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;

use crate::storm::books;
use crate::wait::{alone, until};
use crate::weir_process::Weir;
use crate::world::{Engine, Tenant, World, month_cost};

/// How many calls, all at once.
const CALLS: usize = 1_000;
/// How many of them the budget is for.
const BUDGET_FOR: usize = 10;
/// The output bound of each call, in tokens.
const CAP: i64 = 64;
/// Input and output of this model cost the same, so that a hold is a number of tokens: 1,000 nano-USD each.
const MODEL: &str = "openai-level";
const TOKEN_NANOS: i64 = 1_000;
/// How long the last events may take to be written.
const WRITTEN: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_thousand_calls_at_once_on_a_budget_for_ten_postgres_lets_ten_pass() {
    let _alone = alone().await;
    let world = World::start().await;
    exactly_ten_pass(&world, &[&world.weir]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_processes_on_one_database_admit_ten_together() {
    let _alone = alone().await;
    let world = World::start().await;
    let (second, third) = (world.another_weir().await, world.another_weir().await);
    exactly_ten_pass(&world, &[&world.weir, &second, &third]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_lets_ten_pass_of_one_process_and_of_three_together() {
    let _alone = alone().await;
    let world = World::start_on(Engine::Redis).await;
    exactly_ten_pass(&world, &[&world.weir]).await;
    let (second, third) = (world.another_weir().await, world.another_weir().await);
    exactly_ten_pass(&world, &[&world.weir, &second, &third]).await;
}

async fn exactly_ten_pass(world: &World, weirs: &[&Weir]) {
    let hold_nanos = hold_of_one_call(world).await;
    // What is really used is what was held, so that no call makes room for another by ending early.
    let tokens_in = hold_nanos / TOKEN_NANOS - CAP;
    let script = format!("tokens_in={tokens_in};tokens_out={CAP}");
    let budget = i64::try_from(BUDGET_FOR).unwrap() * hold_nanos;
    // Never seen before: its first calls ever are these thousand.
    let slug = format!("ten-by-{}", weirs.len());
    let tenant = world.tenant(&slug, &[month_cost(budget)], 0).await;
    for weir in weirs {
        world.knows(weir, &tenant).await;
    }

    let calls = (0..CALLS).map(|at| {
        let (weir, script, key) = (weirs[at % weirs.len()], &script, &tenant.key);
        // One length for all names: the prompt decides how much is held.
        async move { world.chat_at(weir, key, MODEL, &format!("budget-{at:04}"), script).await }
    });
    let mut statuses: BTreeMap<u16, usize> = BTreeMap::new();
    for (status, body) in join_all(calls).await {
        if status != 200 {
            assert_eq!(body["error"]["code"], "budget_exhausted", "{body}");
        }
        *statuses.entry(status).or_default() += 1;
    }
    let wanted = BTreeMap::from([(200, BUDGET_FOR), (402, CALLS - BUDGET_FOR)]);
    assert_eq!(statuses, wanted, "exactly the calls that the budget is for pass");
    world.still_decides(weirs).await;
    booked(world, &tenant, budget).await;
}

/// What one of the thousand calls will hold: found out by one like it, of another tenant.
async fn hold_of_one_call(world: &World) -> i64 {
    let slug = format!("probe-{}", world.admin.tenants().await.len());
    let probe = world.tenant(&slug, &[], 0).await;
    let (status, body) = world.chat(&probe.key, MODEL, "budget-none", "id=probe").await;
    assert_eq!(status, 200, "{body}");
    let events = until("the probe's event is written", WRITTEN, async || {
        let mut events = books::events(&world.db.pool).await;
        events.retain(|event| event.tenant_id == probe.id);
        if events.is_empty() { Err("no event".to_owned()) } else { Ok(events) }
    })
    .await;
    let hold_nanos = events[0].hold_nanos;
    assert!(hold_nanos > CAP * TOKEN_NANOS && hold_nanos % TOKEN_NANOS == 0, "{:?}", events[0]);
    hold_nanos
}

/// The budget is used to its last nano-USD, ten times the same, and nothing is held.
async fn booked(world: &World, tenant: &Tenant, budget: i64) {
    let charges = until("ten events are written", WRITTEN, async || {
        let events = books::events(&world.db.pool).await;
        let ours = events.iter().filter(|event| event.tenant_id == tenant.id);
        let charges: Vec<i64> = ours.map(|event| event.charge_nanos).collect();
        let held = books::held(&world.db.pool).await;
        if charges.len() < BUDGET_FOR || held != (0, 0) {
            return Err(format!("{} events, {held:?} held", charges.len()));
        }
        // What Redis holds too, and whether all places say the same.
        let (said, held) = world.verify().await;
        if held == 0 && said.code == Some(0) { Ok(charges) } else { Err(format!("{said:?}")) }
    })
    .await;
    assert_eq!(charges.len(), BUDGET_FOR);
    assert_eq!(charges.iter().sum::<i64>(), budget);
}
