//! The simulator's own routes under `/sim/`: scripts, journal, figures.

use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use serde_json::json;

use crate::dialect::json_text;
use crate::reply::Reply;
use crate::route::query_value;
use crate::script::{MAX_QUEUED, Queueing, Script};
use crate::simulator::State;

/// Entries in one answer of the journal route: about 5 MB.
const MAX_PAGE: usize = 10_000;
/// Largest body of a control request.
const MAX_CONTROL_BYTES: usize = 64 * 1024;

/// Answers a request for one of the simulator's own routes.
pub(crate) async fn answer(state: &State, parts: &Parts, body: Incoming) -> Response<Reply> {
    match (&parts.method, parts.uri.path()) {
        (&Method::GET, "/sim/stats") => said(StatusCode::OK, json_text(&state.stats())),
        (&Method::GET, "/sim/journal") => journal(state, parts),
        (&Method::POST, "/sim/script") => queue(state, body).await,
        (&Method::DELETE, "/sim/script") => {
            state.queue().clear();
            said(StatusCode::OK, json_text(&json!({"queued": 0})))
        }
        _ => refused(StatusCode::NOT_FOUND, "no such route of the simulator"),
    }
}

fn journal(state: &State, parts: &Parts) -> Response<Reply> {
    let since = query_value(parts.uri.query().unwrap_or_default(), "since").unwrap_or("0");
    let Ok(since) = since.parse() else {
        return refused(StatusCode::BAD_REQUEST, "`since` must be a sequence number");
    };
    let entries = state.journal.since(since, MAX_PAGE);
    let next = entries.last().map_or(since, |last| last.sequence);
    // Entries that have left the memory are in the file only; the reader must know of the gap.
    let missed = entries.first().map_or(0, |first| first.sequence - since - 1);
    let count = state.journal.count();
    let body = json!({"count": count, "missed": missed, "next": next, "entries": entries});
    said(StatusCode::OK, json_text(&body))
}

async fn queue(state: &State, body: Incoming) -> Response<Reply> {
    let Ok(bytes) = Limited::new(body, MAX_CONTROL_BYTES).collect().await else {
        return refused(StatusCode::PAYLOAD_TOO_LARGE, "the body is too large");
    };
    let asked: Queueing = match serde_json::from_slice(&bytes.to_bytes()) {
        Ok(asked) => asked,
        Err(error) => return refused(StatusCode::BAD_REQUEST, &error.to_string()),
    };
    if let Err(error) = Script::parse(&asked.script) {
        return refused(StatusCode::BAD_REQUEST, &error.to_string());
    }
    let mut queue = state.queue();
    if !queue.push(asked) {
        let message = format!("{MAX_QUEUED} scripts wait already");
        return refused(StatusCode::TOO_MANY_REQUESTS, &message);
    }
    said(StatusCode::OK, json_text(&json!({"queued": queue.len()})))
}

fn refused(status: StatusCode, message: &str) -> Response<Reply> {
    said(status, json_text(&json!({"error": message})))
}

fn said(status: StatusCode, text: String) -> Response<Reply> {
    let mut response = Response::new(Reply::whole(text));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}
