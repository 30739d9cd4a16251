//! The providers' official clients, as they are, against the real program.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::fcntl::{Flock, FlockArg};
use serde_json::{Value, json};
use sim::Served;
use tokio::io::AsyncWriteExt;

use crate::environment;
use crate::say::say;
use crate::storm::books::{self, Event};
use crate::wait::until;
use crate::world::{Tenant, World, month_requests, rate};

/// The clients and their exact versions.
const REQUIREMENTS: &str = include_str!("../../sdk/requirements.txt");
/// How long the whole matrix may take; it takes some ten seconds.
const MATRIX: Duration = Duration::from_secs(300);
/// How long an event may take to be written after its answer.
const WRITTEN: Duration = Duration::from_secs(30);
/// Cases of the matrix: a case that is lost must be noticed.
const CASES: usize = 22;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_official_clients_call_stream_list_and_are_refused_in_their_own_words() {
    if environment::without_sdks() {
        say("WEIR_SKIP_SDK=1: the test with the official clients is left out");
        return;
    }
    let python = tokio::task::spawn_blocking(venv).await.unwrap();
    let world = World::start().await;
    let good = world.tenant("good", &[], 0).await;
    let broke = world.tenant("broke", &[month_requests(0)], 0).await;
    // One request, and the next after 1,000 seconds.
    let busy = world.tenant("busy", &[rate(1, 1)], 0).await;
    take_the_only_one(&world, &busy).await;

    let settings = json!({
        "weir": world.weir.url(""),
        "sim": world.sim.base_url(),
        "models": {"openai": "openai-flash", "anthropic": "anthropic-flash", "gemini": "gemini-flash"},
        "keys": {"good": good.key, "bad": wrong_key(), "broke": broke.key, "busy": busy.key},
    });
    let lines = matrix(&python, &settings).await;
    let failed: Vec<&Value> = lines.iter().filter(|line| line["ok"] != true).collect();
    assert!(failed.is_empty(), "{}", failures(&failed));
    assert_eq!(lines.len(), CASES, "cases of the matrix");

    for line in lines.iter().filter(|line| line["request_id"].is_string()) {
        same_figures(&world, line).await;
    }
}

/// What the client was told, what Weir has written down, and what the simulator served: one figure.
async fn same_figures(world: &World, line: &Value) {
    let name = line["case"].as_str().unwrap();
    let request_id = line["request_id"].as_str().unwrap();
    let event: Event = until("the event is written", WRITTEN, async || {
        let events = books::events(&world.db.pool).await;
        let found = events.into_iter().find(|event| event.request_id == request_id);
        found.ok_or_else(|| format!("{name} has no event {request_id}"))
    })
    .await;
    assert_eq!(event.client_request_id.as_deref(), Some(name));
    assert_eq!((event.outcome.as_str(), event.usage_source.as_str()), ("ok", "provider"), "{name}");
    let journal: Vec<Served> = world.sim.journal();
    let served: Vec<&Served> = journal.iter().filter(|s| s.response_id == name).collect();
    assert_eq!(served.len(), 1, "{name} reached the provider once");
    let wanted = (i64::try_from(served[0].tokens.input), i64::try_from(served[0].tokens.output));
    assert_eq!((Ok(event.input), Ok(event.output)), wanted, "{name}: {event:?}");
    for (said, written) in [(&line["input"], event.input), (&line["output"], event.output)] {
        assert!(said.is_null() || said.as_i64() == Some(written), "{name}: {line} {event:?}");
    }
}

/// A call for the only place in the rate.
async fn take_the_only_one(world: &World, busy: &Tenant) {
    let status = world.chat(&busy.key, "openai-flash", "first", "id=first").await.0;
    assert_eq!(status, 200, "the first call of a new tenant passes");
}

/// A key that is well made, and nobody's.
fn wrong_key() -> String {
    format!("weir_sk_{}2C8GjS", "0".repeat(30))
}

fn failures(failed: &[&Value]) -> String {
    let lines = failed.iter().map(|line| {
        format!("{}:\n{}", line["case"], line["detail"].as_str().unwrap_or("no detail"))
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Runs the matrix and gives its lines.
async fn matrix(python: &Path, settings: &Value) -> Vec<Value> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("sdk/matrix.py");
    let mut child = tokio::process::Command::new(python)
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(settings.to_string().as_bytes()).await.unwrap();
    drop(input);
    let ended = tokio::time::timeout(MATRIX, child.wait_with_output()).await;
    let output = ended.expect("the matrix does not end").unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "the matrix broke off: {text}");
    let mut lines: Vec<&str> = text.lines().collect();
    let closing = lines.pop().unwrap_or_default();
    say(&format!("official clients: {closing}"));
    assert!(closing.ends_with(" failed"), "the matrix did not close: {text}");
    lines.into_iter().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A virtual environment with exactly the pinned clients: made once for each set of versions.
fn venv() -> PathBuf {
    let mut hasher = DefaultHasher::new();
    REQUIREMENTS.hash(&mut hasher);
    let folder = environment::target().join(format!("sdk-venv-{:016x}", hasher.finish()));
    let python = folder.join("bin/python");
    let lock = File::create(folder.with_extension("lock")).unwrap();
    // Two test runs at once make it one after the other: the second finds it made.
    let _lock = Flock::lock(lock, FlockArg::LockExclusive).unwrap_or_else(|(_, e)| panic!("{e}"));
    let complete = folder.join("complete");
    if complete.is_file() {
        return python;
    }
    let _ = fs::remove_dir_all(&folder);
    say("fetching the official clients from PyPI, once; this takes half a minute");
    let requirements = Path::new(env!("CARGO_MANIFEST_DIR")).join("sdk/requirements.txt");
    let done = pass(Command::new("python3").args(["-m", "venv"]).arg(&folder))
        && pass(Command::new(&python).args(["-m", "pip", "install", "-r"]).arg(requirements));
    assert!(
        done,
        "the official clients cannot be fetched: this test needs `python3` with `venv`, and PyPI. \
         Set WEIR_SKIP_SDK=1 to leave it out."
    );
    fs::write(complete, "").unwrap();
    python
}

/// Runs a command whose progress is shown.
fn pass(command: &mut Command) -> bool {
    command.stdin(Stdio::null()).status().is_ok_and(|status| status.success())
}
