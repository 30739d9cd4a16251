//! The rate of tokens is honest: what was estimated too high comes back, what was too low is owed.

use domain::plan::{LimitRule, Metric};
use domain::usage::Dialect;
use futures_util::future::join_all;

use crate::world::{World, roomy};

const CAPACITY: i64 = 6_000;
/// The output bound of the calls, which no estimate is below.
const OUTPUT_BOUND: i64 = 500;

#[tokio::test]
async fn a_bucket_of_tokens_gives_no_more_than_it_has_whatever_runs_at_once() {
    let rule =
        LimitRule::Bucket { metric: Metric::Tokens, rate_milli_per_s: 1, capacity: CAPACITY };
    let world = World::with(&[rule]).await;
    // The clock stands still: nothing is refilled. Most calls use far less than they set aside, one far more.
    let mut rounds = 0;
    loop {
        let script = |number: i32| {
            let tokens_in = if number == 0 && rounds == 0 { 1_500 } else { 20 };
            format!("tokens_in={tokens_in};tokens_out=100;reasoning=0")
        };
        let scripts: Vec<String> = (0..10).map(script).collect();
        let replies =
            join_all(scripts.iter().map(|script| world.call(Dialect::Openai, false, script))).await;
        world.idle().await;
        rounds += 1;
        if replies.iter().all(Result::is_err) {
            break;
        }
        assert!(rounds < 50, "it never ends");
    }
    let events = world.events().await;
    let actual: Vec<i64> = events.iter().map(|event| event.input + event.output).collect();
    let used: i64 = actual.iter().sum();
    let above: i64 = actual.iter().map(|actual| (actual - OUTPUT_BOUND).max(0)).sum();
    assert_eq!(above, 1_600 - OUTPUT_BOUND);
    assert!(used <= CAPACITY + above, "{used} of {CAPACITY} and {above}");
    // What was set aside and not used came back: the bucket is used up to one call's estimate.
    assert!(used >= CAPACITY - 2 * OUTPUT_BOUND, "{used}");
    assert!(rounds > 3, "not all was taken at once");
}

#[tokio::test]
async fn a_providers_strange_counts_move_the_estimate_within_bounds_and_the_hold_not_at_all() {
    let world = World::with(&roomy()).await;
    let snapshot = world.gateway.directory().snapshot();
    let model = snapshot.model("openai-flash").unwrap().id;
    let figure = || world.gateway.calibration().milli_bytes_per_token(model);
    assert_eq!(figure(), 4_000);
    for _ in 0..40 {
        // A few words that are said to be most of a million tokens.
        let script = "tokens_in=900000;tokens_out=10;reasoning=0";
        world.call(Dialect::Openai, false, script).await.unwrap();
    }
    let events = world.events().await;
    assert!((1_000..2_500).contains(&figure()), "{}", figure());
    assert!(events.iter().all(|event| event.hold_nanos == events[0].hold_nanos));
    let fresh = world.gateway.calibration().fresh();
    assert_eq!((fresh.len(), fresh[0].calls), (1, 40));
    // A count that cannot be is not learned from.
    let before = figure();
    let script = "tokens_in=9000000000;tokens_out=10;reasoning=0";
    world.call(Dialect::Openai, false, script).await.unwrap();
    world.idle().await;
    assert_eq!(figure(), before);
}
