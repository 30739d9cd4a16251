//! The clients of the storm: most read their answer, some leave at a random byte.

use std::time::Duration;

use futures_util::StreamExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::calls::{Call, Leaves};

/// No call of the storm takes as long: all faults are quick, and the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(120);

/// What a client got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    /// 0 when the connection broke before the head.
    pub(crate) status: u16,
    /// Weir's own name of the call.
    pub(crate) request_id: String,
    pub(crate) body: Vec<u8>,
    /// The connection broke before the answer's end.
    pub(crate) broken: bool,
}

impl Answer {
    const fn none() -> Self {
        Self { status: 0, request_id: String::new(), body: Vec::new(), broken: true }
    }
}

/// Makes one call; no answer for a client that leaves.
pub(crate) async fn make(
    client: &reqwest::Client,
    host: &str,
    key: &str,
    call: &Call,
) -> Option<Answer> {
    let calling = async {
        match call.leaves {
            Leaves::Never => Some(read(client, host, key, call).await),
            Leaves::InRequest(_) | Leaves::InAnswer { .. } => {
                leave(host, key, call).await;
                None
            }
        }
    };
    let name = &call.name;
    tokio::time::timeout(PATIENCE, calling)
        .await
        .unwrap_or_else(|_| panic!("{name} is not over after {} s: {call:?}", PATIENCE.as_secs()))
}

async fn read(client: &reqwest::Client, host: &str, key: &str, call: &Call) -> Answer {
    let mut request = client.post(format!("http://{host}{}", call.path)).body(call.body.clone());
    for (name, value) in call.headers(key) {
        request = request.header(name, value);
    }
    let response = match request.send().await {
        Ok(response) => response,
        // A stream that breaks at once may take its head with it.
        Err(_) if call.form.streams() && call.streams_badly() => return Answer::none(),
        Err(e) => panic!("{}: no answer: {e:?}", call.name),
    };
    let status = response.status().as_u16();
    let id = response.headers().get("weir-request-id").and_then(|id| id.to_str().ok());
    let request_id = id.unwrap_or_else(|| panic!("{}: no request id", call.name)).to_owned();
    let mut body = Vec::new();
    let mut broken = false;
    let mut frames = response.bytes_stream();
    while let Some(frame) = frames.next().await {
        match frame {
            Ok(frame) => body.extend_from_slice(&frame),
            Err(_) => {
                broken = true;
                break;
            }
        }
    }
    Answer { status, request_id, body, broken }
}

/// Leaves at a byte of the request or of the answer.
async fn leave(host: &str, key: &str, call: &Call) {
    let bytes = call.bytes(key, host);
    let mut stream = TcpStream::connect(host).await.unwrap_or_else(|e| panic!("no door: {e}"));
    let (sent, mut left, reset) = match call.leaves {
        Leaves::InRequest(at) => (at.min(bytes.len()), 0, true),
        Leaves::InAnswer { bytes: at, reset } => (bytes.len(), at, reset),
        Leaves::Never => (bytes.len(), usize::MAX, false),
    };
    // A gateway that has refused may close before it has read all: then there is nothing to leave.
    if stream.write_all(&bytes[..sent]).await.is_err() {
        return;
    }
    let mut buffer = [0; 1_024];
    while left > 0 {
        let room = left.min(buffer.len());
        match stream.read(&mut buffer[..room]).await {
            Ok(0) | Err(_) => break,
            Ok(read) => left -= read,
        }
    }
    if reset {
        // Where it cannot be reset it is closed, which is the other way to leave.
        let _ = stream.set_zero_linger();
    }
}
