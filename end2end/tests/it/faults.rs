//! The most telling faults, short, in the tests of every day: no event is lost, no limit passed, nothing stays held.
//! All of them, and longer: `cargo xtask faults`.

use std::time::Duration;

use crate::environment;
use crate::fleet::Fleet;
use crate::fleet::fault::Fault;
use crate::fleet::neighbour;
use crate::fleet::run::{Times, run};
use crate::wait::alone;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_dies_under_load_every_call_is_one_event_and_no_limit_is_passed() {
    let _alone = alone().await;
    let seed = environment::seed();
    let mut fleet = Fleet::start().await;
    let faults = [
        Fault::KilledAt("after_connect"),
        Fault::KilledAt("before_commit"),
        Fault::Terminated,
        Fault::RedisKilled,
        Fault::PostgresKilled,
    ];
    for (seed, fault) in (seed..).zip(faults) {
        let report = run(&mut fleet, fault, seed, Times::SHORT).await;
        assert!(report.books.wrong.is_empty(), "{report:#?}");
        assert!(report.books.journal > 0 && report.refused > 0, "it proves nothing: {report:#?}");
    }

    let seen = neighbour::compare(&fleet, "neighbour", 5, Duration::from_secs(3)).await;
    assert_eq!(seen.good_failed, 0, "a tenant is not refused for its neighbour's calls: {seen:?}");
    let passed = seen.bad.get(&200).copied().unwrap_or(0);
    assert!(passed <= seen.bad_most() && passed >= neighbour::CAPACITY, "{seen:?}");
    assert!(seen.bad.keys().all(|status| matches!(status, 200 | 429)), "{seen:?}");
}
