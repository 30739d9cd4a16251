//! A small HTTP/1.1 client that tells a clean end from a cut and a cut from a reset.

use std::fmt::Write as _;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use sim::{Served, Sim, SimConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// No answer of a test takes longer, except those that never come.
const PATIENCE: Duration = Duration::from_secs(15);

/// How the bytes of an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// As HTTP wants it.
    Clean,
    /// The connection was closed in the middle.
    Cut,
    /// The connection was reset.
    Reset,
}

/// An answer, read to whatever end it had.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    pub(crate) ended: Ended,
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        header(&self.head, name)
    }

    /// `(event, data)` of every SSE frame; `\r\n` and `\n` both end lines.
    pub(crate) fn events(&self) -> Vec<(String, String)> {
        let text = self.text().replace("\r\n", "\n");
        let frames = text.split("\n\n").filter(|frame| !frame.is_empty());
        frames
            .map(|frame| {
                let field = |name: &str| {
                    let line = frame.lines().find_map(|line| line.strip_prefix(name));
                    line.unwrap_or_default().to_owned()
                };
                (field("event: "), field("data: "))
            })
            .collect()
    }

    /// The JSON of every SSE frame but `[DONE]`.
    pub(crate) fn data(&self) -> Vec<Value> {
        let events = self.events();
        let json = events.iter().filter(|(_, data)| data != "[DONE]");
        json.map(|(_, data)| serde_json::from_str(data).unwrap()).collect()
    }
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| {
        let (key, value) = line.split_once(": ")?;
        key.eq_ignore_ascii_case(name).then_some(value)
    })
}

/// A request that was sent and whose answer is read by hand.
pub(crate) struct Call {
    stream: TcpStream,
    raw: Vec<u8>,
}

/// One request to be sent.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) method: &'static str,
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Ask {
    pub(crate) fn new(method: &'static str, target: impl Into<String>) -> Self {
        Self { method, target: target.into(), headers: Vec::new(), body: String::new() }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn script(self, script: &str) -> Self {
        self.header("x-sim-script", script)
    }

    pub(crate) fn body(mut self, body: &Value) -> Self {
        self.body = body.to_string();
        self
    }

    pub(crate) async fn send(&self, addr: SocketAddr) -> Call {
        let stream = TcpStream::connect(addr).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let mut call = Call { stream, raw: Vec::new() };
        call.write(self).await;
        call
    }

    pub(crate) async fn answer(&self, addr: SocketAddr) -> Answer {
        self.send(addr).await.answer().await
    }
}

impl Call {
    async fn write(&mut self, ask: &Ask) {
        let mut text = format!("{} {} HTTP/1.1\r\nhost: sim\r\n", ask.method, ask.target);
        for (name, value) in &ask.headers {
            write!(text, "{name}: {value}\r\n").unwrap();
        }
        write!(text, "content-length: {}\r\n\r\n{}", ask.body.len(), ask.body).unwrap();
        self.stream.write_all(text.as_bytes()).await.unwrap();
    }

    /// Reads until `marker` has arrived.
    pub(crate) async fn read_until(&mut self, marker: &str) {
        timeout(PATIENCE, async {
            while !contains(&self.raw, marker.as_bytes()) {
                assert_ne!(self.stream.read_buf(&mut self.raw).await.unwrap(), 0, "ended early");
            }
        })
        .await
        .expect("the marker in time");
    }

    /// Reads to the end of the answer.
    pub(crate) async fn answer(mut self) -> Answer {
        timeout(PATIENCE, self.read_answer()).await.expect("an answer in time")
    }

    async fn read_answer(&mut self) -> Answer {
        loop {
            let (answer, whole) = parse(&self.raw);
            if whole {
                return answer;
            }
            let ended = match self.stream.read_buf(&mut self.raw).await {
                Ok(0) => Ended::Cut,
                Ok(_) => continue,
                Err(error) if error.kind() == ErrorKind::ConnectionReset => Ended::Reset,
                Err(error) => panic!("{error}"),
            };
            return Answer { ended, ..parse(&self.raw).0 };
        }
    }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// What has arrived of an answer, and whether that is all of it.
fn parse(raw: &[u8]) -> (Answer, bool) {
    let mut answer =
        Answer { status: 0, head: String::new(), body: Vec::new(), ended: Ended::Clean };
    let Some(at) = raw.windows(4).position(|four| four == b"\r\n\r\n") else {
        return (answer, false);
    };
    answer.head = String::from_utf8(raw[..at].to_vec()).unwrap();
    answer.status = answer.head[9..12].parse().unwrap();
    let mut rest = &raw[at + 4..];
    if let Some(length) = header(&answer.head, "content-length") {
        let length: usize = length.parse().unwrap();
        answer.body = rest[..rest.len().min(length)].to_vec();
        return (answer, rest.len() >= length);
    }
    assert_eq!(header(&answer.head, "transfer-encoding"), Some("chunked"));
    loop {
        let Some(at) = rest.windows(2).position(|two| two == b"\r\n") else {
            return (answer, false);
        };
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..at]).unwrap(), 16).unwrap();
        rest = &rest[at + 2..];
        answer.body.extend_from_slice(&rest[..rest.len().min(size)]);
        if rest.len() < size + 2 {
            return (answer, false);
        }
        rest = &rest[size + 2..];
        if size == 0 {
            return (answer, true);
        }
    }
}

/// A simulator on a free port.
pub(crate) async fn sim(seed: u64) -> Sim {
    Sim::start(SimConfig { seed, ..SimConfig::default() }).await.unwrap()
}

/// The one line the journal has.
pub(crate) fn only(sim: &Sim) -> Served {
    let mut all = sim.journal();
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

/// The last line of the journal.
pub(crate) fn last(sim: &Sim) -> Served {
    sim.journal().pop().unwrap()
}
