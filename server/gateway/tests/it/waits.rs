//! Calls that wait for a limit, and the operator's own quota.

use std::time::Duration;

use domain::admission::{Reason, Scope};
use domain::plan::{LimitRule, Metric};
use domain::usage::Dialect;
use tokio::time::{Instant, sleep, timeout};

use crate::owners::{day, refused};
use crate::world::{World, read, roomy};

/// A stream that takes about so many times 20 ms.
fn stream_of(frames: u32) -> String {
    format!("frames={frames};frame_ms=20")
}

#[tokio::test]
async fn a_plan_that_waits_passes_a_call_on_when_the_rate_allows() {
    let rule =
        LimitRule::Bucket { metric: Metric::Requests, rate_milli_per_s: 10_000, capacity: 1 };
    let mut world = World::with(&[roomy(), vec![rule]].concat()).await;
    world.plan_says("deny_mode = 'wait'").await;
    read(world.call(Dialect::Openai, false, "").await.unwrap()).await;
    let later = async {
        sleep(Duration::from_millis(20)).await;
        world.at(world.clock.now().plus_ms(100));
    };
    let (reply, ()) = tokio::join!(world.call(Dialect::Openai, false, ""), later);
    read(reply.unwrap()).await;
    // Where the clock stands still, the wait ends with the plan's patience.
    world.plan_says("max_wait_ms = 250").await;
    let began = Instant::now();
    let no = refused(world.call(Dialect::Openai, false, "").await);
    assert_eq!((no.reason, no.retry_after_s()), (Reason::RateLimited, Some(1)));
    assert!(began.elapsed() >= Duration::from_millis(100), "{:?}", began.elapsed());
    assert_eq!(world.events().await.len(), 2);
    world.assert_settled().await;
}

#[tokio::test]
async fn a_call_waits_for_a_place_and_a_client_that_leaves_waits_no_more() {
    let mut world = World::with(&[roomy(), vec![LimitRule::Lease { limit: 1 }]].concat()).await;
    world.plan_says("deny_mode = 'wait', max_wait_ms = 10000").await;
    let first = world.call(Dialect::Openai, true, &stream_of(20)).await.unwrap();
    let gone = timeout(Duration::from_millis(100), world.call(Dialect::Openai, false, "")).await;
    assert!(gone.is_err(), "it waits");
    let (_, second) = tokio::join!(read(first), world.call(Dialect::Openai, false, ""));
    read(second.unwrap()).await;
    assert_eq!((world.events().await.len(), world.sim.served()), (2, 2));
    world.assert_settled().await;
}

#[tokio::test]
async fn money_that_is_spent_is_not_waited_for() {
    let mut world = World::with(&[day(Metric::Cost, 1)]).await;
    world.plan_says("deny_mode = 'wait', max_wait_ms = 30000").await;
    let began = Instant::now();
    refused(world.call(Dialect::Openai, false, "").await);
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn a_providers_quota_is_shared_waited_for_a_moment_and_named() {
    let world = World::with(&roomy()).await;
    world.quota(&[LimitRule::Lease { limit: 1 }]).await;
    // A short stream is waited for although the plan does not wait.
    let first = world.call(Dialect::Openai, true, &stream_of(10)).await.unwrap();
    let (_, second) = tokio::join!(read(first), world.call(Dialect::Openai, false, ""));
    read(second.unwrap()).await;
    // A long one is not, and other providers have their own.
    let long = world.call(Dialect::Openai, true, &stream_of(200)).await.unwrap();
    let no = refused(world.call(Dialect::Openai, false, "").await);
    assert_eq!((no.scope, no.reason), (Scope::Provider, Reason::ConcurrencyExhausted));
    read(world.call(Dialect::Anthropic, false, "").await.unwrap()).await;
    drop(long);
    world.idle().await;

    world.quota(&[day(Metric::Requests, 1)]).await;
    read(world.call(Dialect::Openai, false, "").await.unwrap()).await;
    world.idle().await;
    let no = refused(world.call(Dialect::Openai, false, "").await);
    assert_eq!((no.scope, no.meter.as_str(), no.used), (Scope::Provider, "day_requests", 1));
    let booked: i64 = sqlx::query_scalar(
        "select used from meter_slices where tenant_id = 0 and scope = 'provider'",
    )
    .fetch_one(world.pool())
    .await
    .unwrap();
    assert_eq!(booked, 1);
    world.assert_settled().await;
}
