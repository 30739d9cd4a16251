//! A process that is killed in the middle of a call loses nothing: the next one writes it into the books.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use gateway::FailPoint;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use reqwest::{Client, Method};
use serde_json::{Value, json};
use sim::{Sim, SimConfig};
use testkit::TestDatabase;

use crate::process::ADMIN_TOKEN;

/// Longer than a start or a stop takes, on a machine that builds at the same time.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the processes of one test share.
struct Stage {
    database: TestDatabase,
    folder: PathBuf,
    sim: Sim,
    client: Client,
}

/// The program, running.
struct Serving {
    child: Child,
    address: String,
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Stage {
    async fn new(name: &str) -> Self {
        // A second test of this process finds the first one's.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = std::env::temp_dir().join(format!("weir-{name}-{}", std::process::id()));
        Self {
            database: testkit::database().await,
            folder,
            sim: Sim::start(SimConfig::default()).await.unwrap(),
            client: Client::builder().no_proxy().build().unwrap(),
        }
    }

    fn serve(&self, fail_point: Option<&str>) -> Serving {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command
            .arg("serve")
            .env_clear()
            .env("DATABASE_URL", &self.database.url)
            .env("WEIR_DATA_DIR", &self.folder)
            .env("WEIR_BIND", "127.0.0.1:0")
            .env("WEIR_METRICS_BIND", "off")
            .env("WEIR_ADMIN_TOKEN", ADMIN_TOKEN)
            .env("WEIR_DRAIN_S", "2")
            .envs(fail_point.map(|name| ("WEIR_FAIL_POINT", name)))
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let address = lines.find_map(|line| {
            let line = line.unwrap();
            let rest = line.strip_prefix("Weir serves http://")?;
            Some(rest.split(' ').next().unwrap().to_owned())
        });
        let mut serving = Serving { child, address: String::new() };
        serving.address = address.expect("it ended before it served");
        serving
    }

    async fn admin(&self, on: &Serving, path: &str, body: Value) -> Value {
        let url = format!("http://{}/admin/api/v1{path}", on.address);
        let request = self.client.request(Method::POST, url).bearer_auth(ADMIN_TOKEN);
        let response = request.body(body.to_string()).send().await.unwrap();
        assert_eq!(response.status(), 201, "{path}");
        serde_json::from_str(&response.text().await.unwrap()).unwrap()
    }

    /// Sets up a provider, a model and a tenant, and gives the tenant's key.
    async fn set_up(&self, on: &Serving) -> String {
        let provider = json!({ "name": "sim", "dialect": "openai",
                               "base_url": self.sim.base_url(), "credential": "sk-sim" });
        let provider = self.admin(on, "/providers", provider).await;
        let routes = json!([{ "provider_id": provider["id"], "upstream_model": "gpt-5-mini" }]);
        let model = json!({ "name": "gpt-5-mini", "class": "flash", "routes": routes });
        let model = self.admin(on, "/models", model).await;
        let price = json!({ "prices": { "input": "0.10", "output": "0.40" } });
        self.admin(on, &format!("/models/{}/prices", model["id"]), price).await;
        let tenant = json!({ "slug": "acme", "name": "ACME", "plan": "pro" });
        let tenant = self.admin(on, "/tenants", tenant).await;
        let path = format!("/tenants/{}/keys", tenant["id"]);
        let key = self.admin(on, &path, json!({ "name": "ci" })).await;
        key["secret"].as_str().unwrap().to_owned()
    }

    /// Makes a call, and says whether its answer came whole.
    async fn call(&self, on: &Serving, key: &str) -> bool {
        let body = json!({ "model": "gpt-5-mini", "stream": true,
                           "messages": [{ "role": "user", "content": "Tell me of weirs." }] });
        let url = format!("http://{}/v1/chat/completions", on.address);
        let request = self.client.post(url).bearer_auth(key).body(body.to_string());
        match request.send().await {
            Ok(response) => response.text().await.is_ok_and(|text| text.contains("[DONE]")),
            Err(_) => false,
        }
    }

    async fn number(&self, sql: &'static str) -> i64 {
        sqlx::query_scalar(sql).fetch_one(&self.database.pool).await.unwrap()
    }

    async fn events(&self) -> i64 {
        self.number("select count(*) from usage_events").await
    }

    async fn holds(&self) -> i64 {
        self.number("select count(*) from holds").await
    }

    async fn until(&self, what: &str, is_so: impl AsyncFn() -> bool) {
        let began = Instant::now();
        while !is_so().await {
            assert!(began.elapsed() < PATIENCE, "{what} does not come");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn calls_on_record(&self) -> usize {
        let mut found = 0;
        let mut folders = vec![self.folder.join("spool")];
        while let Some(folder) = folders.pop() {
            let Ok(entries) = std::fs::read_dir(folder) else { continue };
            for path in entries.map(|entry| entry.unwrap().path()) {
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "spool") {
                    found += 1;
                }
            }
        }
        found
    }
}

impl Serving {
    /// Asks it to stop; it has to end with zero.
    fn stops(mut self) {
        kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), Signal::SIGTERM).unwrap();
        assert_eq!(self.ended(), Some(0));
    }

    /// The exit code once it has ended; nothing when a signal ended it.
    fn ended(&mut self) -> Option<i32> {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(began.elapsed() < PATIENCE, "it does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_killed_at_any_place_leaves_one_event_for_each_call() {
    let stage = Stage::new("killed").await;
    let first = stage.serve(None);
    let key = stage.set_up(&first).await;
    first.stops();
    let (mut events, mut holds) = (0, 0);
    // The last leaves its hold to its time to live: nothing was forwarded, and nothing is on record.
    for place in FailPoint::ALL.into_iter().rev() {
        let mut killed = stage.serve(Some(place.name()));
        // From the commit on the client has its answer before the process dies.
        stage.call(&killed, &key).await;
        assert_eq!(killed.ended(), None, "{place:?}: it was not killed");
        drop(killed);
        match place {
            FailPoint::AfterAdmit => holds += 1,
            _ => events += 1,
        }
        let next = stage.serve(None);
        stage.until("the recovery", async || stage.events().await == events).await;
        stage.until("the settlement", async || stage.holds().await == holds).await;
        next.stops();
        assert_eq!((stage.events().await, stage.holds().await), (events, holds), "{place:?}");
        assert_eq!(stage.calls_on_record(), 0, "{place:?}");
    }
    let orphaned =
        stage.number("select count(*) from usage_events where outcome = 'orphaned'").await;
    assert_eq!(orphaned, 3, "after open, after connect, after the first frame");
    let sums = "select (select sum(charge_nanos) from usage_events)::bigint
                     - (select sum(amount_nanos) from balance_ledger where account = 'usage')::bigint";
    assert_eq!(stage.number(sums).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_while_the_books_are_away_leaves_the_calls_for_the_next_start() {
    let stage = Stage::new("stopped").await;
    let serving = stage.serve(None);
    let key = stage.set_up(&serving).await;
    let rename = "alter table usage_events rename to usage_events_away";
    sqlx::query(rename).execute(&stage.database.pool).await.unwrap();
    for _ in 0..3 {
        assert!(stage.call(&serving, &key).await, "a client does not wait for the books");
    }
    serving.stops();
    assert!(stage.calls_on_record() > 0);
    let back = "alter table usage_events_away rename to usage_events";
    sqlx::query(back).execute(&stage.database.pool).await.unwrap();
    assert_eq!(stage.events().await, 0);
    let next = stage.serve(None);
    stage.until("the recovery", async || stage.events().await == 3).await;
    stage.until("the settlement", async || stage.holds().await == 0).await;
    next.stops();
    assert_eq!(stage.calls_on_record(), 0);
}
