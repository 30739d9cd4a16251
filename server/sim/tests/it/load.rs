//! Ten thousand open streams.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde_json::json;
use sim::{End, Sim, SimConfig};
use tokio::task::JoinSet;

use crate::asks::chat;
use crate::wire::Call;

/// What must fit.
const STREAMS: u64 = 10_000;
/// Descriptors for everything else in this process.
const SPARE_FDS: u64 = 400;
/// Streams opened at a time.
const BATCH: u64 = 250;
/// Loopback addresses to call, so that the client's ports are not the limit.
const ADDRESSES: u64 = 8;

/// How many streams this process may hold, both ends of each.
fn streams_allowed() -> u64 {
    let wanted = STREAMS * 2 + SPARE_FDS;
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    if soft < wanted {
        // Only root may go beyond the hard limit; the rest of us take what there is.
        let raised = setrlimit(Resource::RLIMIT_NOFILE, wanted, hard.max(wanted));
        if raised.is_err() {
            setrlimit(Resource::RLIMIT_NOFILE, hard.min(wanted), hard).unwrap();
        }
    }
    let (soft, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    ((soft.saturating_sub(SPARE_FDS)) / 2).min(STREAMS)
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

async fn open(addr: SocketAddr) -> Call {
    let ask = chat(json!({"stream": true})).script("tokens_out=400;frames=100;hang_after=4");
    let mut call = ask.send(addr).await;
    call.read_until("content").await;
    call
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_streams_stay_open_at_once() {
    let streams = streams_allowed();
    let bind = SocketAddr::from(([0, 0, 0, 0], 0));
    let sim = Sim::start(SimConfig { bind, ..SimConfig::default() }).await.unwrap();
    let port = sim.addr().port();
    let before = resident_kib();
    let started = Instant::now();
    let mut calls = Vec::new();
    let mut opened = 0;
    while opened < streams {
        let mut batch = JoinSet::new();
        for number in opened..(opened + BATCH).min(streams) {
            let host = u8::try_from(1 + number % ADDRESSES).unwrap();
            batch.spawn(open((IpAddr::V4(Ipv4Addr::new(127, 0, 0, host)), port).into()));
        }
        opened += batch.len() as u64;
        calls.extend(batch.join_all().await);
    }
    let opening = started.elapsed();
    let kib = resident_kib().saturating_sub(before);
    assert_eq!(sim.stats().open_streams, streams);

    let asked = Instant::now();
    let answer = chat(json!({})).answer((Ipv4Addr::LOCALHOST, port).into()).await;
    let latency = asked.elapsed();
    assert_eq!(answer.status, 200);
    assert!(latency < Duration::from_secs(1), "one more call took {latency:?}");

    let leaving = Instant::now();
    drop(calls);
    sim.wait_served(streams + 1).await;
    let left = leaving.elapsed();
    println!(
        "{streams} open streams: opened in {opening:?}, {} B resident each (both ends), \
         one more call {latency:?}, all gone in {left:?}",
        kib * 1024 / streams
    );
    assert_eq!(sim.stats().open_streams, 0);
    assert_eq!(sim.stats().peak_open_streams, streams);
    let hung = sim.journal().iter().filter(|served| served.end == End::Hang).count() as u64;
    assert_eq!(hung, streams);
    assert!(kib * 1024 / streams < 64 * 1024, "{kib} KiB for {streams} streams");
}
