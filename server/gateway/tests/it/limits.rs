//! Limits hold for calls, not only for verdicts.

use domain::admission::Reason;
use domain::plan::{LimitRule, Metric};
use domain::usage::Dialect;
use futures_util::future::join_all;
use gateway::CallError;

use crate::world::{DIALECTS, World, read, tally};

#[tokio::test]
async fn of_a_thousand_calls_on_a_budget_for_ten_ten_are_forwarded() {
    // A hold is the same for each of these calls; the budget is ten times that.
    let probe = World::with(&crate::world::roomy()).await;
    read(probe.call(Dialect::Openai, false, "").await.unwrap()).await;
    let hold = probe.only_event().await.hold_nanos;
    let rule =
        LimitRule::Month { metric: Metric::Cost, limit: hold * 10, overage_bps: 0, anchor_day: 1 };
    let world = World::with(&[rule]).await;
    // The simulator waits, so that no hold is settled before the last call has its verdict.
    let calls = (0..1_000)
        .map(|_| world.call(Dialect::Openai, false, "delay_ms=8000;tokens_out=1;reasoning=0"));
    let replies = join_all(calls).await;
    let words: Vec<&str> = replies
        .iter()
        .map(|reply| match reply {
            Ok(_) => "ok",
            Err(CallError::Refused(no)) => no.reason.code(),
            Err(_) => "failed",
        })
        .collect();
    let counts = tally(words.into_iter());
    assert_eq!(
        (counts.get("ok"), counts.get("budget_exhausted")),
        (Some(&10), Some(&990)),
        "{counts:?}"
    );
    assert_eq!(world.events().await.len(), 10);
    world.assert_settled().await;
}

#[tokio::test]
async fn a_lease_is_free_again_when_the_client_has_its_answer() {
    let world = World::with(&[LimitRule::Lease { limit: 1 }]).await;
    for dialect in DIALECTS {
        for stream in [false, true] {
            read(world.call(dialect, stream, "").await.unwrap()).await;
        }
    }
    let first = world.call(Dialect::Openai, true, "frames=50;frame_ms=20").await.unwrap();
    let Err(CallError::Refused(no)) = world.call(Dialect::Openai, false, "").await else {
        panic!("two at once");
    };
    assert_eq!((no.reason, no.retry_after_s()), (Reason::ConcurrencyExhausted, Some(1)));
    drop(first);
    world.idle().await;
    read(world.call(Dialect::Openai, false, "").await.unwrap()).await;
}

#[tokio::test]
async fn a_refused_call_reaches_no_provider_and_no_book() {
    let rule = LimitRule::Bucket { metric: Metric::Requests, rate_milli_per_s: 1_000, capacity: 1 };
    let world = World::with(&[rule]).await;
    read(world.call(Dialect::Gemini, false, "").await.unwrap()).await;
    let Err(CallError::Refused(no)) = world.call(Dialect::Gemini, false, "").await else {
        panic!("a second call in the same instant");
    };
    assert_eq!((no.reason, no.retry_after_s()), (Reason::RateLimited, Some(1)));
    assert_eq!((world.events().await.len(), world.sim.served()), (1, 1));
    world.at(world.clock.now().plus_ms(1_000));
    read(world.call(Dialect::Gemini, false, "").await.unwrap()).await;
}
