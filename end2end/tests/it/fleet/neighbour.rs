//! One tenant that keeps to its rate beside one that tries a hundred times its own.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::interval;

use super::{Fleet, PLENTY, load};
use crate::world::{Tenant, month_cost, rate};

/// The bad one's rate, in thousandths of a call per second, and how many calls it may make at once.
pub(crate) const RATE_MILLI: i64 = 1_000;
pub(crate) const CAPACITY: i64 = 5;
/// How many calls per second it tries.
const TRIED_PER_S: u32 = 100;

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Neighbours {
    /// How long each of the good one's calls took, without and with the other, sorted; all of them were served.
    pub(crate) quiet: Vec<Duration>,
    pub(crate) noisy: Vec<Duration>,
    /// How many of its calls were not served.
    pub(crate) good_failed: usize,
    /// The bad one's answers by status.
    pub(crate) bad: BTreeMap<u16, i64>,
    /// How long it tried.
    pub(crate) tried: Duration,
}

impl Neighbours {
    /// The most that the bad one's bucket can have let through.
    pub(crate) fn bad_most(&self) -> i64 {
        let refilled = i64::try_from(self.tried.as_millis()).unwrap() * RATE_MILLI / 1_000_000;
        CAPACITY + refilled + 1
    }
}

/// The good one calls `per_s` times a second, first alone, then beside the bad one, each for so long.
pub(crate) async fn compare(fleet: &Fleet, slug: &str, per_s: u32, each: Duration) -> Neighbours {
    let limits = [month_cost(PLENTY), rate(RATE_MILLI * 1_000, 1_000)];
    let good = fleet.tenant(&format!("{slug}-good"), &limits).await;
    let limits = [month_cost(PLENTY), rate(RATE_MILLI, CAPACITY)];
    let bad = fleet.tenant(&format!("{slug}-bad"), &limits).await;
    fleet.all_know(&good).await;
    fleet.all_know(&bad).await;
    let mut seen = Neighbours::default();
    let (quiet, quiet_failed) = served(calls(fleet.doors(), good.clone(), per_s, each).await);
    let began = Instant::now();
    let mut both = JoinSet::new();
    both.spawn(calls(fleet.doors(), bad, TRIED_PER_S, each));
    let (noisy, noisy_failed) = served(calls(fleet.doors(), good, per_s, each).await);
    for (status, _) in both.join_next().await.unwrap().unwrap() {
        *seen.bad.entry(status).or_default() += 1;
    }
    (seen.quiet, seen.noisy, seen.tried) = (quiet, noisy, began.elapsed());
    seen.good_failed = quiet_failed + noisy_failed;
    seen
}

/// The times of those that were served, sorted, and how many were not.
fn served(calls: Vec<(u16, Duration)>) -> (Vec<Duration>, usize) {
    let all = calls.len();
    let mut times: Vec<Duration> =
        calls.into_iter().filter(|(status, _)| *status == 200).map(|(_, took)| took).collect();
    times.sort_unstable();
    let failed = all - times.len();
    (times, failed)
}

/// Calls at an even rate to all processes in turn: status and time of each.
async fn calls(
    doors: Vec<String>,
    tenant: Tenant,
    per_s: u32,
    lasts: Duration,
) -> Vec<(u16, Duration)> {
    let http = crate::http::client();
    let mut tick = interval(Duration::from_secs(1) / per_s);
    let mut running = JoinSet::new();
    for number in 0..u64::from(per_s) * lasts.as_secs() {
        tick.tick().await;
        let door = &doors[usize::try_from(number).unwrap() % doors.len()];
        let asked = http.post(format!("{door}/v1/chat/completions")).bearer_auth(&tenant.key);
        let asked = asked.header("content-type", "application/json");
        let asked = asked.body(load::body(false).to_string());
        running.spawn(async move {
            let began = Instant::now();
            let Ok(answer) = asked.send().await else { return (0, began.elapsed()) };
            let status = answer.status().as_u16();
            let whole = answer.bytes().await.is_ok();
            (if whole { status } else { 0 }, began.elapsed())
        });
    }
    running.join_all().await
}
