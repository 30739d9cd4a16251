//! One fault from its load to the comparison of all accounts.

use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::time::sleep;

use super::books::{self, Books, lines_of};
use super::fault::Fault;
use super::load::{Cast, Load, Plan, Seen, Who};
use super::report::Report;
use super::{Fleet, PROCESSES};
use crate::wait::until;

/// How long the provider may take to end what it began.
const PROVIDER_ENDS: Duration = Duration::from_secs(60);
/// How long holds may take to be over when no call is made any more.
const HOLDS_END: Duration = Duration::from_secs(60);
/// The same where some are left to their time to live, which is a quarter of an hour: all others are over by then.
const OTHERS_END: Duration = Duration::from_secs(10);
/// How often the holds are looked at.
const LOOK: Duration = Duration::from_millis(300);

/// How long what lasts, and how many calls are made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    pub(crate) before_ms: (u64, u64),
    pub(crate) lasts: Duration,
    pub(crate) after: Duration,
    pub(crate) calls_per_s: u64,
    /// How many calls the capped tenant's money is for: fewer than it tries.
    pub(crate) capped_calls: i64,
}

impl Times {
    /// For the tests of every day.
    pub(crate) const SHORT: Self = Self {
        before_ms: (800, 1_600),
        lasts: Duration::from_secs(2),
        after: Duration::from_millis(800),
        calls_per_s: 30,
        capped_calls: 12,
    };
}

/// Makes a load, lets the fault strike, and compares all accounts.
pub(crate) async fn run(fleet: &mut Fleet, fault: Fault, seed: u64, times: Times) -> Report {
    let mut dice = StdRng::seed_from_u64(seed);
    let began = Instant::now();
    fault.prepare(fleet, &mut dice).await;
    fleet.engine_is("redis").await;
    let cast = fleet.cast(times.capped_calls).await;
    let name = format!("{}-{}", fault.id().to_lowercase(), cast.roomy.id);
    let load = Load::start(Plan {
        name: name.clone(),
        seed,
        calls_per_s: times.calls_per_s,
        tokens_in: fleet.tokens_in(),
        cast: cast.clone(),
        doors: fleet.doors(),
    });
    sleep(Duration::from_millis(dice.random_range(times.before_ms.0..times.before_ms.1))).await;
    let struck = load.age();
    let word = fault.strike(fleet, &mut dice, times.lasts).await;
    let lasted = load.age().saturating_sub(struck);
    let back_after = fleet.engine_is("redis").await;
    let back = load.age();
    sleep(times.after).await;
    let mut seen = load.stop().await;
    seen.sort_by_key(|call| call.began);
    let stopped = Instant::now();
    until("the provider is idle", PROVIDER_ENDS, async || fleet.provider_is_idle().await).await;
    let held = holds_end(fleet, fault, &cast).await;
    let holds_zero = stopped.elapsed();
    let mut books = books::compare(fleet, &name, &cast, &seen).await;
    leftover(fault, fleet, held, &seen, &mut books);
    availability(fault, &seen, back, &mut books.wrong);
    let report = Report {
        fault,
        seed,
        word,
        offered: seen.len(),
        admitted: seen.iter().filter(|call| call.status == 200).count(),
        refused: seen.iter().filter(|call| call.is_refused()).count(),
        failures: Report::failures(&seen),
        lasted,
        back_after,
        away_fleet: longest_gap(&seen, None),
        away_process: (0..PROCESSES)
            .map(|at| longest_gap(&seen, Some(at)))
            .max()
            .unwrap_or_default(),
        slowest: slowest(&seen),
        holds_zero,
        held_calls: held / fleet.hold_nanos,
        books,
        took: began.elapsed(),
    };
    report.say();
    report
}

/// Waits until nothing is held; gives what is left to its time to live, in nano-USD.
async fn holds_end(fleet: &Fleet, fault: Fault, cast: &Cast) -> i64 {
    let limit = if fault.leaves_holds() { OTHERS_END } else { HOLDS_END };
    let began = Instant::now();
    loop {
        let (said, json) = fleet.verify().await;
        let lines = lines_of(&json, cast);
        let held: i64 = lines.iter().filter_map(|line| line["held_nanos"].as_i64()).sum();
        let all = lines.len() == cast.ids().len();
        if (all && held == 0) || began.elapsed() > limit {
            assert!(all, "the books have {} of the tenants: {said:?}", lines.len());
            return held;
        }
        sleep(LOOK).await;
    }
}

/// A hold may be left only by a call whose process was killed between its admission and its record: nobody else
/// knows of it.
fn leftover(fault: Fault, fleet: &Fleet, held_nanos: i64, seen: &[Seen], books: &mut Books) {
    let lost =
        seen.iter().filter(|call| call.status == 0 && !books.named.contains(&call.name)).count();
    let lost = i64::try_from(lost).unwrap_or(i64::MAX);
    if held_nanos > 0 && (!fault.leaves_holds() || held_nanos > lost * fleet.hold_nanos) {
        books.wrong.push(format!(
            "{held_nanos} nano-USD are held, and {lost} calls were lost with their process"
        ));
    }
}

/// When all is back, no call fails any more.
fn availability(fault: Fault, seen: &[Seen], back: Duration, wrong: &mut Vec<String>) {
    let from = if fault.is_unnoticed() { Duration::ZERO } else { back };
    let failed =
        |call: &&Seen| call.began >= from && !call.is_refused() && !call.is_served() && !call.left;
    let failed: Vec<&Seen> = seen.iter().filter(failed).collect();
    if let Some(first) = failed.first() {
        wrong.push(format!("{} calls failed that were not to, such as {first:?}", failed.len()));
    }
}

fn slowest(seen: &[Seen]) -> Duration {
    let served = seen.iter().filter(|call| call.is_served());
    served.map(|call| call.took).max().unwrap_or_default()
}

/// The longest time in which calls of a tenant that is never refused were made and none was served: at one process,
/// or at all.
fn longest_gap(seen: &[Seen], door: Option<usize>) -> Duration {
    let (mut longest, mut failing_since) = (Duration::ZERO, None);
    let ours = |call: &&Seen| call.who == Who::Roomy && door.is_none_or(|door| call.door == door);
    for call in seen.iter().filter(ours) {
        if call.is_served() || call.left {
            if let Some(since) = failing_since.take() {
                longest = longest.max(call.began.saturating_sub(since));
            }
        } else {
            failing_since.get_or_insert(call.began);
        }
    }
    longest
}
