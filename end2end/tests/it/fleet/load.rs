//! Calls at an even rate to all processes, some of them streams, some by clients that leave: drawn from a seed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::world::Tenant;

/// Input and output of this model cost the same: a hold is a number of tokens.
pub(crate) const MODEL: &str = "openai-level";
/// What a token of it costs, in nano-USD.
pub(crate) const TOKEN_NANOS: i64 = 1_000;
/// The output bound of each call, in tokens.
pub(crate) const OUTPUT_TOKENS: i64 = 64;
/// Of a hundred calls, so many are streams, and of these so many are left by their client.
const STREAM_PERCENT: u32 = 60;
const LEAVING_PERCENT: u32 = 16;
/// No call takes as long: a client that waits longer has met a hang.
const PATIENCE: Duration = Duration::from_secs(40);
/// Calls under way at the same time: what is more is not offered.
const UNDER_WAY_MAX: usize = 400;
/// How often a client goes to another process when one does not take its connection.
const DOORS_TRIED: usize = 6;
/// How long it waits before that.
const NEXT_DOOR: Duration = Duration::from_millis(100);

/// The tenants of one load, by what limits them. The shares are of a hundred calls.
#[derive(Debug, Clone)]
pub(crate) struct Cast {
    /// Never refused.
    pub(crate) roomy: Tenant,
    /// With money for a number of calls.
    pub(crate) capped: Tenant,
    /// That money, in nano-USD.
    pub(crate) budget_nanos: i64,
    /// With few places at a time.
    pub(crate) narrow: Tenant,
}

const CAPPED_SHARE: u32 = 25;
const NARROW_SHARE: u32 = 10;

impl Cast {
    pub(crate) fn ids(&self) -> [i64; 3] {
        [self.roomy.id, self.capped.id, self.narrow.id]
    }
}

/// Who made a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    Roomy,
    Capped,
    Narrow,
}

/// How the calls of a load are.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// Names all calls, so that journal and events can be told apart from others'.
    pub(crate) name: String,
    pub(crate) seed: u64,
    pub(crate) calls_per_s: u64,
    /// Input tokens that the provider tells, so that a whole call costs what it held.
    pub(crate) tokens_in: i64,
    pub(crate) cast: Cast,
    /// `http://address` of each process.
    pub(crate) doors: Vec<String>,
}

/// What became of a call, as its client saw it.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) name: String,
    pub(crate) who: Who,
    /// Which process was asked last.
    pub(crate) door: usize,
    /// Since the load began.
    pub(crate) began: Duration,
    pub(crate) took: Duration,
    /// 0: no answer.
    pub(crate) status: u16,
    /// The error's code, where one was told.
    pub(crate) code: String,
    /// The answer broke off, and not by the client.
    pub(crate) broken: bool,
    /// The client left.
    pub(crate) left: bool,
}

impl Seen {
    pub(crate) fn is_served(&self) -> bool {
        self.status == 200 && !self.broken
    }

    /// A limit of the tenant's said no.
    pub(crate) fn is_refused(&self) -> bool {
        matches!(self.status, 402 | 429)
    }
}

/// A load that runs.
#[derive(Debug)]
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    began: Instant,
    running: JoinSet<Vec<Seen>>,
}

impl Load {
    pub(crate) fn start(plan: Plan) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut running = JoinSet::new();
        let began = Instant::now();
        running.spawn(make(plan, Arc::clone(&stop), began));
        Self { stop, began, running }
    }

    /// How long it has been running.
    pub(crate) fn age(&self) -> Duration {
        self.began.elapsed()
    }

    /// Makes no more calls, and waits for those under way.
    pub(crate) async fn stop(mut self) -> Vec<Seen> {
        self.stop.store(true, Ordering::SeqCst);
        self.running.join_next().await.unwrap().unwrap()
    }
}

async fn make(plan: Plan, stop: Arc<AtomicBool>, began: Instant) -> Vec<Seen> {
    // A connection for each call: one that waits in a pool dies with its process, and nobody can say then whether a
    // call that was sent over it was begun.
    let http = crate::http::builder().pool_max_idle_per_host(0).build().unwrap();
    let mut dice = StdRng::seed_from_u64(plan.seed);
    let mut calls = JoinSet::new();
    let mut seen = Vec::new();
    let mut tick = interval(Duration::from_micros(1_000_000 / plan.calls_per_s));
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut number = 0;
    while !stop.load(Ordering::SeqCst) {
        tick.tick().await;
        while let Some(call) = calls.try_join_next() {
            seen.push(call.unwrap());
        }
        if calls.len() < UNDER_WAY_MAX {
            let call = Call::draw(&mut dice, &plan, number);
            let (http, doors) = (http.clone(), plan.doors.clone());
            calls.spawn(async move { call.make(&http, &doors, began).await });
            number += 1;
        }
    }
    seen.extend(calls.join_all().await);
    seen
}

struct Call {
    name: String,
    who: Who,
    key: String,
    door: usize,
    streams: bool,
    /// The client reads so many pieces of the answer, and leaves.
    leaves_after: Option<usize>,
    script: String,
}

impl Call {
    fn draw(dice: &mut StdRng, plan: &Plan, number: usize) -> Self {
        let ticket = dice.random_range(0..100);
        let (who, tenant) = if ticket < CAPPED_SHARE {
            (Who::Capped, &plan.cast.capped)
        } else if ticket < CAPPED_SHARE + NARROW_SHARE {
            (Who::Narrow, &plan.cast.narrow)
        } else {
            (Who::Roomy, &plan.cast.roomy)
        };
        let streams = dice.random_range(0..100) < STREAM_PERCENT;
        let leaves = streams && dice.random_range(0..100) < LEAVING_PERCENT;
        // One length for all names: the prompt decides how much is held, and the name is in none of it.
        let name = format!("{}-{number:05}", plan.name);
        let pace = if streams { "frames=8;frame_ms=30" } else { "delay_ms=120" };
        let figures = format!("tokens_in={};tokens_out={OUTPUT_TOKENS}", plan.tokens_in);
        Self {
            script: format!("id={name};{figures};{pace}"),
            name,
            who,
            key: tenant.key.clone(),
            door: dice.random_range(0..plan.doors.len()),
            streams,
            leaves_after: leaves.then(|| dice.random_range(1..6)),
        }
    }

    async fn make(self, http: &reqwest::Client, doors: &[String], load: Instant) -> Seen {
        let began = load.elapsed();
        let mut seen = Seen {
            name: self.name.clone(),
            who: self.who,
            door: self.door,
            began,
            took: Duration::ZERO,
            status: 0,
            code: String::new(),
            broken: true,
            left: false,
        };
        if timeout(PATIENCE, self.ask(http, doors, &mut seen)).await.is_err() {
            "hangs".clone_into(&mut seen.code);
            seen.broken = true;
        }
        seen.took = load.elapsed().saturating_sub(began);
        seen
    }

    async fn ask(&self, http: &reqwest::Client, doors: &[String], seen: &mut Seen) {
        for _ in 0..DOORS_TRIED {
            match self.request(http, &doors[seen.door]).send().await {
                Ok(response) => return self.read(response, seen).await,
                // Nobody was there to begin it: another process may.
                Err(error) if error.is_connect() => {
                    seen.door = (seen.door + 1) % doors.len();
                    tokio::time::sleep(NEXT_DOOR).await;
                }
                Err(error) => {
                    seen.code = format!("{error:?}");
                    return;
                }
            }
        }
        "no door".clone_into(&mut seen.code);
    }

    fn request(&self, http: &reqwest::Client, door: &str) -> reqwest::RequestBuilder {
        let request = http.post(format!("{door}/v1/chat/completions")).bearer_auth(&self.key);
        let request = request.header("content-type", "application/json");
        let request = request.header("x-request-id", &self.name);
        request.header(sim::SCRIPT_HEADER, &self.script).body(body(self.streams).to_string())
    }

    async fn read(&self, response: reqwest::Response, seen: &mut Seen) {
        seen.status = response.status().as_u16();
        let mut pieces = response.bytes_stream();
        let (mut body, mut number) = (Vec::new(), 0);
        while let Some(piece) = pieces.next().await {
            number += 1;
            match piece {
                Ok(piece) => body.extend_from_slice(&piece),
                Err(_) => return,
            }
            if seen.status == 200 && self.leaves_after.is_some_and(|after| number >= after) {
                (seen.left, seen.broken) = (true, false);
                return;
            }
        }
        let text = String::from_utf8_lossy(&body);
        let whole = match self.streams {
            true => text.trim_end().ends_with("data: [DONE]"),
            false => text.contains("finish_reason"),
        };
        seen.broken = seen.status == 200 && !whole;
        if seen.status != 200 || seen.broken {
            seen.code = code(&text);
        }
    }
}

/// The body of every call: what is held depends on it alone, but for the way of the answer.
pub(crate) fn body(streams: bool) -> Value {
    json!({
        "model": MODEL,
        "stream": streams,
        "max_completion_tokens": OUTPUT_TOKENS,
        "messages": [{"role": "user", "content": "How high is the water at the weir?"}],
    })
}

/// The code in an error's body, of a plain answer or of a stream's last event.
fn code(text: &str) -> String {
    let json = text.rsplit("data: ").find_map(|part| serde_json::from_str::<Value>(part).ok());
    let error = json.map(|json| json["error"].clone()).unwrap_or_default();
    error["code"].as_str().map_or_else(|| text.chars().take(80).collect(), ToOwned::to_owned)
}
