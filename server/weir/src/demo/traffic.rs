//! Live traffic: a few calls a second through the gateway's own door, as clients of all three dialects make them.
//!
//! What is called is drawn from a seed; when it happens depends on the clock, as it does in life.

mod step;

use std::sync::Arc;
use std::time::Duration;

use domain::usage::Dialect;
use futures_util::StreamExt;
use reqwest::{Client, Response};
use secrecy::ExposeSecret;
use tokio::sync::Semaphore;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use self::step::{Caller, callers};
use self::step::{Mix, Step};

/// So many calls run at once; one that finds no place is left out.
const CALLS_AT_ONCE: usize = 48;
/// The longest a call may take: the simulator's slowest answer is some seconds long.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);
/// How long calls may take to end after the stop.
const LAST_CALLS: Duration = Duration::from_secs(3);
/// What Anthropic's own clients send.
const ANTHROPIC_VERSION: &str = "2023-06-01";

/// Makes calls at `base_url` until `stop`. Ends when its last call has.
///
/// Calls that fail, also because nothing listens, are made no fuss of: they are the gateway's to tell.
pub async fn traffic(base_url: &str, callers: Vec<Caller>, seed: u64, stop: CancellationToken) {
    let client = Client::builder().no_proxy().timeout(CALL_TIMEOUT).build();
    let client = match client {
        Ok(client) => client,
        Err(error) => {
            tracing::error!(%error, "no live traffic");
            return;
        }
    };
    let places = Arc::new(Semaphore::new(CALLS_AT_ONCE));
    let calls = TaskTracker::new();
    let mix = Mix::new(callers, seed);
    for number in 0_u64.. {
        let Some((pause, steps)) = mix.draw(number) else { break };
        if stop.run_until_cancelled(sleep(pause)).await.is_none() {
            break;
        }
        for step in steps {
            let Ok(place) = Arc::clone(&places).try_acquire_owned() else { break };
            let (client, stop) = (client.clone(), stop.clone());
            let url = format!("{base_url}{}", step.path());
            calls.spawn(async move {
                // What it came to stands in the books.
                let _ = stop.run_until_cancelled(make(&client, &url, &step)).await;
                drop(place);
            });
        }
    }
    calls.close();
    if tokio::time::timeout(LAST_CALLS, calls.wait()).await.is_err() {
        tracing::warn!("some live calls did not end in time");
    }
}

/// Makes one call, and reads its answer, or leaves in the middle of it.
async fn make(client: &Client, url: &str, step: &Step) -> Result<(), reqwest::Error> {
    let request = client
        .post(url)
        .header("content-type", "application/json")
        .header("x-request-id", step.name())
        .body(step.body());
    let key = step.key().expose_secret();
    let request = match step.dialect() {
        Dialect::Openai => request.bearer_auth(key),
        Dialect::Anthropic => {
            request.header("x-api-key", key).header("anthropic-version", ANTHROPIC_VERSION)
        }
        Dialect::Gemini => request.header("x-goog-api-key", key),
    };
    let response = request.send().await?;
    read(response, step.leaves_after()).await
}

/// Reads an answer to its end, or only so many pieces of it.
async fn read(response: Response, pieces: Option<usize>) -> Result<(), reqwest::Error> {
    let mut body = response.bytes_stream();
    let mut read = 0;
    while let Some(piece) = body.next().await {
        piece?;
        read += 1;
        if pieces.is_some_and(|pieces| read >= pieces) {
            // The client leaves: the connection is closed under the answer.
            return Ok(());
        }
    }
    Ok(())
}
