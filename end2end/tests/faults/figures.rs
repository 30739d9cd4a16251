//! Figures that are no fault: the noisy neighbour, and what a call costs Redis.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::fleet::neighbour::{self, Neighbours};
use crate::fleet::{Fleet, PLENTY, load};
use crate::say::say;
use crate::world::{month_cost, month_requests};

/// How long the neighbours are watched, without and with the noise.
const WATCHED: Duration = Duration::from_secs(40);
/// How often a second the good one calls: enough for a 99th percentile in that time.
const GOOD_PER_S: u32 = 5;
/// How many calls of each kind Redis is watched for.
const CALLS: u64 = 300;
/// How long the last settlement takes at most, which nobody waits for.
const SETTLED: Duration = Duration::from_secs(2);

/// Measures all, and gives it as Markdown, with whether it is as it has to be.
pub(crate) async fn measure() -> (String, bool) {
    let fleet = Fleet::start().await;
    let neighbours = neighbour::compare(&fleet, "neighbour", GOOD_PER_S, WATCHED).await;
    let (redis, cheap) = redis(&fleet).await;
    let (quiet, noisy) = (percentile(&neighbours.quiet), percentile(&neighbours.noisy));
    let passed = neighbours.bad.get(&200).copied().unwrap_or(0);
    let slower = noisy.as_micros() * 100 / quiet.as_micros().max(1);
    let text = format!(
        "\n## Noisy neighbour\n\nOne tenant calls {GOOD_PER_S} times a second, beside one with a rate of {} a second \
         that tries 100: {} + {} of its calls were served and {} not; its 99th percentile was {:?} alone and {:?} \
         beside, {}.{:02} ×. The other's answers by status in {} s: {:?}; at most {} could pass.\n{redis}",
        neighbour::RATE_MILLI / 1_000,
        neighbours.quiet.len(),
        neighbours.noisy.len(),
        neighbours.good_failed,
        quiet,
        noisy,
        slower / 100,
        slower % 100,
        neighbours.tried.as_secs(),
        neighbours.bad,
        neighbours.bad_most(),
    );
    say(&text);
    (text, cheap && is_fair(&neighbours, passed))
}

fn is_fair(neighbours: &Neighbours, passed: i64) -> bool {
    neighbours.good_failed == 0 && passed <= neighbours.bad_most()
}

fn percentile(sorted: &[Duration]) -> Duration {
    sorted.get(sorted.len() * 99 / 100).or_else(|| sorted.last()).copied().unwrap_or_default()
}

/// Calls of Redis for each kind of call, by its own counters.
async fn redis(fleet: &Fleet) -> (String, bool) {
    let served =
        fleet.tenant("figures-served", &[month_cost(PLENTY), month_requests(PLENTY)]).await;
    let denied = fleet.tenant("figures-denied", &[month_cost(1)]).await;
    fleet.all_know(&served).await;
    fleet.all_know(&denied).await;
    let mut rows = String::new();
    let mut cheap = true;
    let kinds = [
        ("served", &served.key, 200, 2),
        ("refused", &denied.key, 0, 1),
        ("no such key", &"weir_none".to_owned(), 401, 0),
    ];
    for (kind, key, status, most) in kinds {
        // The first has the tenant's counters warmed up.
        calls(fleet, key, status, 1).await;
        sleep(SETTLED).await;
        let (before, began) = (scripts(fleet), Instant::now());
        calls(fleet, key, status, CALLS).await;
        sleep(SETTLED).await;
        let (after, took) = (scripts(fleet), began.elapsed());
        // The processes ask Redis whether it is there, calls or none: as often as now, without calls.
        sleep(took).await;
        let idle = scripts(fleet).0 - after.0;
        let made = (after.0 - before.0).saturating_sub(idle);
        let micros = after.1 - before.1;
        // What the jobs of each minute run cannot be told apart; a script more for each call would be ten times that.
        cheap &= made <= most * CALLS + CALLS / 10;
        let each = micros.checked_div(after.0 - before.0).unwrap_or(0);
        rows.push_str(&format!(
            "| {kind} | {CALLS} | {made} | {}.{:02} | {each} µs |\n",
            made / CALLS,
            made % CALLS * 100 / CALLS
        ));
    }
    let head = "\n## Redis\n\n| calls | number | scripts run for them | per call | Redis's time per script |\n|---|--:|--:|--:|--:|\n";
    (format!("{head}{rows}"), cheap)
}

async fn calls(fleet: &Fleet, key: &str, status: u16, number: u64) {
    let http = crate::http::client();
    let doors = fleet.doors();
    for at in 0..number {
        let door = &doors[usize::try_from(at).unwrap() % doors.len()];
        let asked = http.post(format!("{door}/v1/chat/completions")).bearer_auth(key);
        let asked = asked.header("content-type", "application/json");
        let answer = asked.body(load::body(false).to_string()).send().await.unwrap();
        let got = answer.status().as_u16();
        assert!(if status == 0 { (400..500).contains(&got) } else { got == status }, "{got}");
        answer.bytes().await.unwrap();
    }
}

/// How many scripts were run so far, and how many microseconds they took.
fn scripts(fleet: &Fleet) -> (u64, u64) {
    let (by_name, in_full) = (fleet.redis.calls("evalsha"), fleet.redis.calls("eval"));
    (by_name.0 + in_full.0, by_name.1 + in_full.1)
}
