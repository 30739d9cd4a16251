//! One request, top to bottom: identify, read, script, plan, answer.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use serde_json::Value;
use tokio::time::{sleep, timeout};

use crate::control;
use crate::dialect::gemini::Framing;
use crate::dialect::{Dialect, Form, Ids, json_text, models};
use crate::entry::Entry;
use crate::journal::End;
use crate::plan::{Ask, Plan};
use crate::prompt::Prompt;
use crate::refusal::Refusal;
use crate::reply::{Abort, Cue, MAX_SILENCE, Player, Reply};
use crate::route::{self, Route};
use crate::script::{SCRIPT_HEADER, Script};
use crate::simulator::State;
use crate::text::{Hash, mix};

/// Largest request body, as the strictest of the three providers has it.
pub(crate) const MAX_BODY_BYTES: usize = 32 * 1024 * 1024;
/// Time for a request's body to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// What a proxy in front of a provider may answer instead of JSON.
const EDGE_ERROR: &str = "<html><body><h1>upstream connect error</h1></body></html>";

/// A request that was understood.
struct Job {
    ask: Ask,
    form: Box<dyn Form>,
    plan: Plan,
    script: Script,
}

/// Serves one request.
pub(crate) async fn answer(
    state: Arc<State>,
    abort: Abort,
    request: Request<Incoming>,
) -> Response<Reply> {
    let (parts, body) = request.into_parts();
    if parts.uri.path().starts_with("/sim/") {
        return control::answer(&state, &parts, body).await;
    }
    let query = parts.uri.query().unwrap_or_default();
    let route = route::find(&parts.method, parts.uri.path(), query, &parts.headers);
    let mut ids = ids(state.seed, state.gauges.arrive());
    let mut entry = Entry::new(Arc::clone(&state), &parts, &route, &ids);
    if !route.has_body() {
        return without_body(&parts, &route, &ids, entry).await;
    }
    match understand(&state, &parts, body, &route, &mut entry).await {
        Err(refusal) => refuse(&route, &ids, entry, &refusal, None),
        Ok(job) => {
            ids.scripted.clone_from(&job.script.id);
            ids.tier.clone_from(&job.script.tier);
            perform(&state, abort, &route, &ids, entry, job).await
        }
    }
}

/// Names for request number `number`: the same seed gives the same names.
fn ids(seed: u64, number: u64) -> Ids {
    let mut hash = Hash::new(seed);
    hash.add(&number.to_le_bytes());
    let hex = format!("{:016x}", mix(hash.value()));
    Ids { request: format!("req_{hex}"), hex, scripted: None, tier: None }
}

/// Reads everything an answer depends on.
async fn understand(
    state: &State,
    parts: &Parts,
    body: Incoming,
    route: &Route,
    entry: &mut Entry,
) -> Result<Job, Refusal> {
    if entry.is_anonymous() {
        return Err(Refusal::new(401, "You did not provide an API key."));
    }
    if route.dialect() == Dialect::Anthropic && !parts.headers.contains_key("anthropic-version") {
        let message = "anthropic-version: header is required";
        return Err(Refusal::invalid("anthropic-version", message));
    }
    let bytes = receive(body).await?;
    let json: Value = serde_json::from_slice(&bytes)
        .map_err(|error| Refusal::new(400, format!("The body is not valid JSON: {error}")))?;
    drop(bytes);
    let mut prompt = Prompt::new(state.seed);
    let (ask, form) = route
        .read(&json, &mut prompt)
        .unwrap_or_else(|| Err(Refusal::new(404, "This route takes no body.")))?;
    entry.asked(&ask.model, ask.stream);
    let script = script_of(state, &parts.headers, &prompt, route.dialect(), entry)?;
    let plan = Plan::new(&ask, prompt.tokens(), prompt.key(&ask.model), &script);
    Ok(Job { ask, form, plan, script })
}

async fn receive(body: Incoming) -> Result<Bytes, Refusal> {
    match timeout(BODY_TIMEOUT, Limited::new(body, MAX_BODY_BYTES).collect()).await {
        Ok(Ok(whole)) => Ok(whole.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            Err(Refusal::new(413, format!("The body is larger than {MAX_BODY_BYTES} bytes.")))
        }
        Ok(Err(_)) => Err(Refusal::new(400, "The body ended before its time.")),
        Err(_) => Err(Refusal::new(408, "The body took too long.")),
    }
}

/// The script of a request: its header, else its prompt, else the queue.
fn script_of(
    state: &State,
    headers: &HeaderMap,
    prompt: &Prompt,
    dialect: Dialect,
    entry: &mut Entry,
) -> Result<Script, Refusal> {
    let header = headers.get(SCRIPT_HEADER).and_then(|value| value.to_str().ok());
    let queued = || state.queue().take(dialect);
    let text = header.or_else(|| prompt.script()).map(str::to_owned).or_else(queued);
    let Some(text) = text else { return Ok(Script::default()) };
    entry.scripted(text.trim());
    let script = Script::parse(&text);
    script.map_err(|error| Refusal::new(400, format!("{SCRIPT_HEADER}: {error}")))
}

/// Plays a job.
async fn perform(
    state: &State,
    abort: Abort,
    route: &Route,
    ids: &Ids,
    mut entry: Entry,
    job: Job,
) -> Response<Reply> {
    let Job { ask, form, plan, script } = job;
    let pause = script.delay.unwrap_or(state.pace.first_byte);
    if !pause.is_zero() {
        sleep(pause).await;
    }
    if script.hang {
        entry.silent();
        sleep(MAX_SILENCE).await;
        return refuse(route, ids, entry, &Refusal::new(504, "The silence is over."), None);
    }
    if script.status.is_some() && script.error_after.is_none() {
        let refusal = Refusal::scripted(&script, 500);
        let body = script.garbage_after.map(|_| EDGE_ERROR);
        return refuse(route, ids, entry, &refusal, body);
    }
    if script.error_after.is_some() && !ask.stream {
        // An answer that is not a stream has no frame to fail in: it is a 200 that holds an error.
        let refusal = Refusal::scripted(&script, usual_error(route));
        return error_in_200(route, ids, entry, &refusal);
    }
    let answer = form.answer(plan, ids, script.breaks_the_body());
    let mut response = Response::new(Reply::Whole(None));
    dress(response.headers_mut(), route.dialect(), ids, answer.content_type);
    if answer.length.is_none() {
        let no_cache = HeaderValue::from_static("no-cache");
        response.headers_mut().insert(header::CACHE_CONTROL, no_cache);
    }
    entry.answering(200, &answer.id);
    let cue = Cue {
        plan,
        script,
        abort,
        request_id: ids.request.clone(),
        usual_error: usual_error(route),
        gap: state.pace.frame,
    };
    *response.body_mut() = Reply::Played(Box::new(Player::new(answer, cue, entry)));
    response
}

/// The status of an error that comes after a 200, when the script names none.
const fn usual_error(route: &Route) -> u16 {
    match route.dialect() {
        Dialect::Openai => 500,
        Dialect::Anthropic => 529,
        Dialect::Gemini => 503,
    }
}

/// The model routes and what leads nowhere.
async fn without_body(
    parts: &Parts,
    route: &Route,
    ids: &Ids,
    mut entry: Entry,
) -> Response<Reply> {
    let header = parts.headers.get(SCRIPT_HEADER).and_then(|value| value.to_str().ok());
    let script = match header.map(Script::parse).transpose() {
        Ok(script) => script.unwrap_or_default(),
        Err(error) => {
            let refusal = Refusal::new(400, format!("{SCRIPT_HEADER}: {error}"));
            return refuse(route, ids, entry, &refusal, None);
        }
    };
    if let Some(pause) = script.delay {
        sleep(pause).await;
    }
    let shown = match route {
        _ if entry.is_anonymous() => Err(Refusal::new(401, "You did not provide an API key.")),
        _ if script.status.is_some() => Err(Refusal::scripted(&script, 500)),
        Route::Models(dialect) => Ok(models::list(*dialect)),
        Route::Model(dialect, id) => models::one(*dialect, id).ok_or_else(|| Refusal {
            param: Some("model"),
            ..Refusal::new(404, format!("The model `{id}` does not exist."))
        }),
        _ => {
            let line = format!("Invalid URL ({} {})", parts.method, parts.uri.path());
            Err(Refusal::new(404, line))
        }
    };
    match shown {
        Err(refusal) => refuse(route, ids, entry, &refusal, None),
        Ok(value) => {
            entry.answering(200, "");
            whole(route, ids, entry, StatusCode::OK, json_text(&value), End::Complete)
        }
    }
}

/// Answers with an error status, and with `body` in place of the dialect's own when given.
fn refuse(
    route: &Route,
    ids: &Ids,
    mut entry: Entry,
    refusal: &Refusal,
    body: Option<&str>,
) -> Response<Reply> {
    let text = body.map_or_else(|| error_body(route, ids, refusal), str::to_owned);
    entry.answering(refusal.status, "");
    let status = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = whole(route, ids, entry, status, text, End::ErrorStatus);
    let headers = response.headers_mut();
    if body.is_some() {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html"));
    }
    // Gemini states the delay in the body only.
    let delay = refusal.retry_after.as_ref().filter(|_| route.dialect() != Dialect::Gemini);
    for (name, text) in
        [(header::RETRY_AFTER, delay), (header::LOCATION, refusal.location.as_ref())]
    {
        if let Some(value) = text.and_then(|text| HeaderValue::from_str(text).ok()) {
            headers.insert(name, value);
        }
    }
    response
}

fn error_in_200(route: &Route, ids: &Ids, mut entry: Entry, refusal: &Refusal) -> Response<Reply> {
    entry.answering(200, "");
    let text = error_body(route, ids, refusal);
    whole(route, ids, entry, StatusCode::OK, text, End::ErrorFrame)
}

fn error_body(route: &Route, ids: &Ids, refusal: &Refusal) -> String {
    let text = refusal.body(route.dialect(), &ids.request);
    // Where a stream of array elements was asked for, the error is the array's only element.
    if matches!(route, Route::Generate(_, Framing::Array)) { format!("[{text}]") } else { text }
}

/// A JSON answer of known bytes, with its line in the journal.
fn whole(
    route: &Route,
    ids: &Ids,
    mut entry: Entry,
    status: StatusCode,
    text: String,
    end: End,
) -> Response<Reply> {
    entry.sent_bytes(text.len());
    entry.sent_frame(false);
    entry.finish(end);
    let mut response = Response::new(Reply::whole(text));
    *response.status_mut() = status;
    dress(response.headers_mut(), route.dialect(), ids, "application/json");
    response
}

/// The headers a provider of `dialect` sends.
fn dress(headers: &mut HeaderMap, dialect: Dialect, ids: &Ids, content_type: &'static str) {
    let usual: &[(&'static str, &'static str)] = match dialect {
        Dialect::Openai => &[
            ("openai-organization", "sim-org"),
            ("openai-processing-ms", "7"),
            ("openai-version", "2020-10-01"),
            ("x-ratelimit-limit-requests", "10000"),
            ("x-ratelimit-remaining-requests", "9999"),
            ("x-ratelimit-reset-requests", "6ms"),
        ],
        Dialect::Anthropic => &[
            ("anthropic-organization-id", "sim-org"),
            ("anthropic-ratelimit-requests-limit", "4000"),
            ("anthropic-ratelimit-requests-remaining", "3999"),
            ("anthropic-ratelimit-requests-reset", "2026-11-29T00:00:00Z"),
        ],
        Dialect::Gemini => &[],
    };
    for (name, value) in usual {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    if dialect == Dialect::Gemini {
        let tier = HeaderValue::from_str(ids.tier.as_deref().unwrap_or("standard"));
        if let Ok(tier) = tier {
            headers.insert(HeaderName::from_static("x-gemini-service-tier"), tier);
        }
    }
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    let name = if dialect == Dialect::Anthropic { "request-id" } else { "x-request-id" };
    if let Ok(value) = HeaderValue::from_str(&ids.request) {
        headers.insert(HeaderName::from_static(name), value);
    }
}
