//! The journal has every request once, whatever became of it.

use std::collections::BTreeSet;
use std::path::PathBuf;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use sim::{End, Served, Sim, SimConfig};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::asks::{chat, gemini, messages, responses};
use crate::wire::{Ask, Ended, only, sim};

/// A file that goes when the test ends.
struct TempFile(PathBuf);

impl TempFile {
    fn new(name: &str) -> Self {
        let file = format!("weir-sim-{name}-{}.ndjson", std::process::id());
        Self(std::env::temp_dir().join(file))
    }

    fn lines(&self) -> Vec<Served> {
        let text = std::fs::read_to_string(&self.0).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        // Nothing to do when the test failed before the file was made.
        let _ = std::fs::remove_file(&self.0);
    }
}

async fn with_file(file: &TempFile) -> Sim {
    let journal = Some(file.0.clone());
    Sim::start(SimConfig { seed: 3, journal, ..SimConfig::default() }).await.unwrap()
}

fn mixed(number: u64) -> Ask {
    let asks = [
        chat(json!({})),
        chat(json!({"stream": true})),
        responses(json!({"stream": true})),
        messages(json!({"stream": true})),
        gemini("streamGenerateContent", json!({})),
        gemini("generateContent", json!({})).script("status=503"),
        messages(json!({"stream": true})).script("reset_after=3"),
        chat(json!({"stream": true})).script("cut_after=2"),
    ];
    let at = usize::try_from(number % asks.len() as u64).unwrap();
    asks[at].clone().header("x-weir-request-id", &format!("call-{number}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_call_of_a_crowd_has_one_line_in_memory_and_in_the_file() {
    const CALLS: u64 = 400;
    let file = TempFile::new("crowd");
    let sim = with_file(&file).await;
    let addr = sim.addr();
    let mut crowd = JoinSet::new();
    for number in 0..CALLS {
        crowd.spawn(async move {
            let answer = mixed(number).answer(addr).await;
            let id = answer.header("x-request-id").or_else(|| answer.header("request-id"));
            (format!("call-{number}"), id.unwrap().to_owned())
        });
    }
    let told: BTreeSet<(String, String)> = crowd.join_all().await.into_iter().collect();
    let kept = sim.journal();
    assert_eq!(kept, file.lines());
    let sequences: Vec<u64> = kept.iter().map(|served| served.sequence).collect();
    assert_eq!(sequences, (1..=CALLS).collect::<Vec<u64>>());
    let noted: BTreeSet<(String, String)> = kept
        .into_iter()
        .map(|served| (served.weir_request_id.unwrap(), served.upstream_request_id))
        .collect();
    assert_eq!(told, noted);
    assert_eq!(sim.stats().open_streams, 0);
}

#[tokio::test]
async fn a_caller_who_leaves_in_the_middle_is_billed_what_was_generated() {
    let sim = sim(1).await;
    for (ask, word) in [
        (chat(json!({"stream": true})), "{\"content\":\""),
        (messages(json!({"stream": true})), "text_delta"),
        (gemini("streamGenerateContent?alt=sse", json!({})), "\"text\""),
    ] {
        let before = sim.served();
        let ask = ask.script("tokens_out=1000;frames=1000;frame_ms=5");
        let mut call = ask.send(sim.addr()).await;
        call.read_until(word).await;
        assert_eq!(sim.stats().open_streams, 1);
        drop(call);
        sim.wait_served(before + 1).await;
        let served = sim.journal().pop().unwrap();
        assert_eq!(served.end, End::ClientGone);
        assert!(served.tokens.output > 0 && served.tokens.output < 1000, "{:?}", served.tokens);
        assert!(served.frames_sent > 0 && served.bytes_sent > 0);
        assert_eq!(sim.stats().open_streams, 0);
        let usage = served.usage.unwrap();
        let stated = ["completion_tokens", "output_tokens", "candidatesTokenCount"];
        assert!(stated.iter().any(|name| usage[*name] == served.tokens.output));
    }
}

#[tokio::test]
async fn a_caller_who_leaves_before_the_head_was_billed_nothing() {
    let sim = sim(1).await;
    let call = chat(json!({})).script("delay_ms=600000").send(sim.addr()).await;
    while sim.stats().arrived == 0 {
        tokio::task::yield_now().await;
    }
    drop(call);
    sim.wait_served(1).await;
    let served = only(&sim);
    assert_eq!((served.end, served.status, served.usage), (End::ClientGone, 0, None));
}

#[tokio::test]
async fn a_stop_lets_short_answers_finish_and_writes_down_the_rest() {
    let file = TempFile::new("stop");
    let sim = with_file(&file).await;
    let addr = sim.addr();
    let mut short = chat(json!({"stream": true})).script("frames=3;frame_ms=50").send(addr).await;
    short.read_until("delta").await;
    let mut long = chat(json!({"stream": true})).script("hang_after=2").send(addr).await;
    long.read_until("delta").await;
    let silent = messages(json!({})).script("hang").send(addr).await;
    while sim.stats().arrived < 3 {
        tokio::task::yield_now().await;
    }
    let (short, ()) = tokio::join!(short.answer(), sim.stop());
    assert_eq!(short.ended, Ended::Clean);
    drop((long, silent));
    let ends: Vec<End> = file.lines().iter().map(|served| served.end).collect();
    assert_eq!(ends, [End::Complete, End::Cut, End::Cut]);
    assert!(TcpStream::connect(addr).await.is_err(), "the door is shut");
}

#[tokio::test]
async fn the_journal_is_read_in_pages_over_http() {
    let sim = sim(1).await;
    for _ in 0..3 {
        chat(json!({})).answer(sim.addr()).await;
    }
    let page = |since: u64| Ask::new("GET", format!("/sim/journal?since={since}"));
    let body = page(1).answer(sim.addr()).await.json();
    let shown: Vec<Served> = serde_json::from_value(body["entries"].clone()).unwrap();
    assert_eq!(shown, sim.journal()[1..]);
    assert_eq!((&body["count"], &body["next"], &body["missed"]), (&json!(3), &json!(3), &json!(0)));
    let body = page(3).answer(sim.addr()).await.json();
    assert_eq!((&body["entries"], &body["next"]), (&json!([]), &json!(3)));
    let stats = Ask::new("GET", "/sim/stats").answer(sim.addr()).await.json();
    assert_eq!((&stats["served"], &stats["open_streams"]), (&json!(3), &json!(0)));
}

#[tokio::test]
async fn a_journal_that_cannot_be_opened_is_an_error() {
    let journal = Some(PathBuf::from("/nonexistent/journal.ndjson"));
    let error = Sim::start(SimConfig { journal, ..SimConfig::default() }).await.unwrap_err();
    assert_eq!(error.to_string(), "cannot open the journal /nonexistent/journal.ndjson");
    let sim = sim(1).await;
    let taken = SimConfig { bind: sim.addr(), ..SimConfig::default() };
    assert!(Sim::start(taken).await.unwrap_err().to_string().starts_with("cannot listen on"));
}

#[tokio::test]
async fn http2_with_prior_knowledge_is_served_and_journaled() {
    let sim = sim(1).await;
    let stream = TcpStream::connect(sim.addr()).await.unwrap();
    let executor = TokioExecutor::new();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(executor, TokioIo::new(stream)).await.unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(connection);
    let mut asked = JoinSet::new();
    for _ in 0..20 {
        sender.ready().await.unwrap();
        let ask = messages(json!({"stream": true}));
        let mut request = http::Request::post(format!("{}{}", sim.base_url(), ask.target));
        for (name, value) in &ask.headers {
            request = request.header(name, value);
        }
        let body = Full::new(Bytes::from(ask.body));
        let answer = sender.send_request(request.body(body).unwrap());
        asked.spawn(async move {
            let bytes = answer.await.unwrap().into_body().collect().await.unwrap().to_bytes();
            assert!(bytes.ends_with(b"{\"type\":\"message_stop\"}\n\n"));
        });
    }
    asked.join_all().await;
    assert_eq!(sim.served(), 20);
    let seen: BTreeSet<String> =
        sim.journal().into_iter().map(|served| served.upstream_request_id).collect();
    assert_eq!(seen.len(), 20);
    let usage: Vec<Option<Value>> = sim.journal().into_iter().map(|one| one.usage).collect();
    assert!(usage.windows(2).all(|two| two[0] == two[1]));
}
