//! A headless Chromium and its driver: started for one test, and gone with it.

use std::fs::{self, File};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fantoccini::elements::Element;
use fantoccini::{Client, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use nix::sys::signal::{Signal, kill};
use serde_json::{Value, json};

use crate::folder::Folder;
use crate::processes;
use crate::wait::until;

/// How long the driver and the browser may take to start on a busy machine.
const START: Duration = Duration::from_secs(60);
/// How long a page may take until what is looked for stands on it.
pub(crate) const PAGE: Duration = Duration::from_secs(30);

/// Flags for a browser that talks to nobody but the page, in a container and as root.
const FLAGS: [&str; 12] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--disable-default-apps",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
];

/// A browser with one window.
#[derive(Debug)]
pub(crate) struct Browser {
    client: Client,
    /// Where commands go that are not in the standard.
    session: String,
    http: reqwest::Client,
    _driver: Driver,
}

/// The driver's process, and the folder by which its browser's processes are known.
#[derive(Debug)]
struct Driver {
    child: Child,
    folder: Folder,
}

/// A line on the browser's console.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) level: String,
    pub(crate) message: String,
}

impl Browser {
    /// Starts a browser with an empty profile.
    pub(crate) async fn start() -> Self {
        let driver = Driver::start();
        let log = driver.folder.join("driver.log");
        let port = until("chromedriver listens", START, async || {
            let text = fs::read_to_string(&log).unwrap_or_default();
            started_on(&text).ok_or_else(|| format!("it says {text:?}"))
        })
        .await;
        let profile = driver.folder.join("profile");
        let mut flags: Vec<String> = FLAGS.iter().map(|flag| (*flag).to_owned()).collect();
        flags.push(format!("--user-data-dir={}", profile.display()));
        let capabilities = json!({
            "goog:chromeOptions": {"args": flags},
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        });
        let base = format!("http://127.0.0.1:{port}");
        let client = ClientBuilder::new(HttpConnector::new())
            .capabilities(capabilities.as_object().cloned().unwrap_or_default())
            .connect(&base)
            .await
            .unwrap_or_else(|e| panic!("no browser: {e}"));
        let id = client.session_id().await.unwrap().unwrap();
        let session = format!("{base}/session/{id}");
        Self { client, session, http: crate::http::client(), _driver: driver }
    }

    /// Closes the browser.
    pub(crate) async fn close(self) {
        self.client.clone().close().await.unwrap();
    }

    pub(crate) async fn open(&self, url: &str) {
        self.client.goto(url).await.unwrap_or_else(|e| panic!("{url} does not open: {e}"));
    }

    pub(crate) async fn path(&self) -> String {
        let url = self.client.current_url().await.unwrap();
        match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        }
    }

    /// The element with this `data-testid`, as soon as it is there.
    pub(crate) async fn find(&self, testid: &str) -> Element {
        self.css(&format!("[data-testid=\"{testid}\"]")).await
    }

    /// The first element that this selector finds, as soon as there is one.
    pub(crate) async fn css(&self, selector: &str) -> Element {
        until(&format!("{selector} is on the page"), PAGE, async || {
            match self.client.find(Locator::Css(selector)).await {
                Ok(element) => Ok(element),
                Err(error) => Err(format!("{error}; the page is {}", self.path().await)),
            }
        })
        .await
    }

    /// Whether the page has such an element now.
    pub(crate) async fn has(&self, testid: &str) -> bool {
        let selector = format!("[data-testid=\"{testid}\"]");
        !self.client.find_all(Locator::Css(&selector)).await.unwrap().is_empty()
    }

    /// Types into a field.
    pub(crate) async fn fill(&self, testid: &str, text: &str) {
        let field = self.find(testid).await;
        field.clear().await.unwrap();
        field.send_keys(text).await.unwrap_or_else(|e| panic!("cannot type into {testid}: {e}"));
    }

    pub(crate) async fn click(&self, testid: &str) {
        let element = self.find(testid).await;
        element.click().await.unwrap_or_else(|e| panic!("cannot click {testid}: {e}"));
    }

    pub(crate) async fn text(&self, testid: &str) -> String {
        self.find(testid).await.text().await.unwrap()
    }

    /// The exact number behind the one that is shown in this element.
    pub(crate) async fn number(&self, testid: &str) -> i64 {
        let selector = format!("[data-testid=\"{testid}\"] [data-value]");
        let value = self.css(&selector).await.attr("data-value").await.unwrap();
        let text = value.unwrap_or_default();
        text.parse().unwrap_or_else(|_| panic!("{testid} has no number: {text:?}"))
    }

    /// Runs a script on the page and gives what it returns.
    pub(crate) async fn run(&self, script: &str) -> Value {
        self.client.execute(script, Vec::new()).await.unwrap_or_else(|e| panic!("{script}: {e}"))
    }

    /// A command of the browser's own protocol.
    pub(crate) async fn devtools(&self, command: &str, parameters: Value) -> Value {
        let body = json!({"cmd": command, "params": parameters});
        self.post("goog/cdp/execute", &body).await
    }

    /// What the console has said since the last look.
    pub(crate) async fn console(&self) -> Vec<Said> {
        let lines = self.post("se/log", &json!({"type": "browser"})).await;
        let text = |line: &Value, name: &str| line[name].as_str().unwrap_or_default().to_owned();
        let all = lines.as_array().cloned().unwrap_or_default();
        all.iter()
            .map(|line| Said { level: text(line, "level"), message: text(line, "message") })
            .collect()
    }

    /// The address of every request since the last look.
    pub(crate) async fn requests(&self) -> Vec<String> {
        let lines = self.post("se/log", &json!({"type": "performance"})).await;
        let all = lines.as_array().cloned().unwrap_or_default();
        let events = all.iter().filter_map(|line| {
            let event: Value = serde_json::from_str(line["message"].as_str()?).ok()?;
            let message = &event["message"];
            let is_request = message["method"] == "Network.requestWillBeSent";
            let url = message["params"]["request"]["url"].as_str();
            is_request.then_some(url).flatten().map(ToOwned::to_owned)
        });
        events.collect()
    }

    /// Gives the page this size, in CSS pixels.
    pub(crate) async fn resize(&self, width: u32, height: u32) {
        let size =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.devtools("Emulation.setDeviceMetricsOverride", size).await;
    }

    /// Makes the system's preference dark or light.
    pub(crate) async fn prefer(&self, scheme: &str) {
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.devtools("Emulation.setEmulatedMedia", features).await;
    }

    /// What is seen of the page, as a PNG.
    pub(crate) async fn picture(&self) -> Vec<u8> {
        self.client.screenshot().await.unwrap()
    }

    async fn post(&self, path: &str, body: &Value) -> Value {
        let url = format!("{}/{path}", self.session);
        let request = self.http.post(&url).header("content-type", "application/json");
        let answer = request.body(body.to_string()).send().await.unwrap();
        let (status, bytes) = (answer.status(), answer.bytes().await.unwrap());
        let said: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        assert!(status.is_success(), "{path} {body}: {said}");
        said["value"].clone()
    }
}

impl Driver {
    fn start() -> Self {
        let folder = Folder::new();
        let file = |name: &str| File::create(folder.join(name)).unwrap();
        let child = Command::new("chromedriver")
            .args(["--port=0", "--allowed-ips=127.0.0.1"])
            .env("HOME", folder.path())
            .stdin(Stdio::null())
            .stdout(file("driver.log"))
            .stderr(file("driver.err"))
            .spawn()
            .unwrap_or_else(|e| {
                panic!("there is no chromedriver: install `chromium` and `chromium-driver`: {e}")
            });
        Self { child, folder }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // A driver that is killed leaves its browser behind, so that one goes first. Whoever has
        // ended meanwhile needs no signal.
        for pid in processes::naming(self.folder.path()) {
            let _ = kill(pid, Signal::SIGKILL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The port in `ChromeDriver was started successfully on port 12345.`
fn started_on(log: &str) -> Option<u16> {
    let (_, after) = log.split_once("started successfully on port ")?;
    after.split_once('.')?.0.parse().ok()
}
