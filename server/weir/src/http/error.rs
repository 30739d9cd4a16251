//! The only place that knows status codes and error bodies, in the words of each dialect.

use std::borrow::Cow;

use axum::body::Body;
use domain::admission::{Reason, Refusal, Scope};
use domain::id::RequestId;
use domain::plan::{DenyMode, Metric};
use domain::usage::Dialect;
use domain::window::UnixMs;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, Response};
use serde_json::{Map, Value, json};

mod code;

pub use code::Code;

/// Weir's request id, in every answer.
pub const WEIR_REQUEST_ID: HeaderName = HeaderName::from_static("weir-request-id");
/// Where OpenAI's SDKs look for the request id.
const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Where Anthropic's SDKs look for it.
const REQUEST_ID: HeaderName = HeaderName::from_static("request-id");
/// What the SDKs obey before their own judgement on retries.
const X_SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");
/// The wait in milliseconds, which the SDKs prefer to the one in whole seconds.
const RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retry-after-ms");
/// Waits longer than this are told but not to be waited out: some SDKs would sleep for days.
const WAIT_S_MAX: i64 = 60;

/// When to come back to a provider's quota that does not say when it lets calls pass again, in milliseconds.
const QUOTA_WAIT_MS: i64 = 1_000;

/// Whose words an error body speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// A provider's.
    Dialect(Dialect),
    /// `application/problem+json`: the admin API, and everything that is no provider's route.
    Problem,
}

impl From<Dialect> for Shape {
    fn from(dialect: Dialect) -> Self {
        Self::Dialect(dialect)
    }
}

/// Who said no.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Weir itself.
    Gateway,
    /// The provider.
    Provider,
}

impl Source {
    const fn word(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::Provider => "provider",
        }
    }
}

/// The figures of the limit that said no.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitFigures {
    /// Whose limit: `tenant`, `team`, `key`, `provider`.
    pub scope: &'static str,
    /// Which one.
    pub meter: String,
    /// In what it counts: `requests`, `tokens`, `nano_usd`.
    pub unit: &'static str,
    /// Where calls stop.
    pub limit: i64,
    /// What is used.
    pub used: i64,
    /// What live calls hold.
    pub held: i64,
    /// What this call would have taken.
    pub wanted: i64,
    /// When the limit starts afresh.
    pub resets_at: Option<UnixMs>,
}

/// One error on its way to a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// What is the matter.
    pub code: Code,
    /// The same in a sentence for a person. Never a prompt, a secret or a store's own words.
    pub message: Cow<'static, str>,
    /// The field of the request that is the matter.
    pub param: Option<Cow<'static, str>>,
    /// Who said no.
    pub source: Source,
    /// The limit that said no.
    pub limit: Option<LimitFigures>,
    /// When to come back, in milliseconds; nothing where coming back does not help.
    pub retry_after_ms: Option<i64>,
}

impl Denial {
    /// An error of Weir's own.
    #[must_use]
    pub fn new(code: Code, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code,
            message: message.into(),
            param: None,
            source: Source::Gateway,
            limit: None,
            retry_after_ms: None,
        }
    }

    /// Names the field of the request that is the matter.
    #[must_use]
    pub fn of_field(mut self, param: impl Into<Cow<'static, str>>) -> Self {
        self.param = Some(param.into());
        self
    }

    /// Says that the provider said so.
    #[must_use]
    pub const fn of_provider(mut self) -> Self {
        self.source = Source::Provider;
        self
    }

    /// Says when to come back.
    #[must_use]
    pub const fn retry_after(mut self, ms: i64) -> Self {
        self.retry_after_ms = Some(ms);
        self
    }

    /// A verdict of no, as far as the plan lets it be told.
    #[must_use]
    pub fn of_refusal(refusal: &Refusal, mode: DenyMode) -> Self {
        if refusal.scope == Scope::Provider {
            return Self::of_quota(refusal, mode);
        }
        let code = Code::from(refusal.reason);
        match mode {
            DenyMode::RejectBare => Self::new(code, code.sentence()),
            DenyMode::Reject | DenyMode::Wait => Self {
                limit: Some(LimitFigures::of(refusal)),
                retry_after_ms: refusal.retry_after_ms,
                ..Self::new(code, told(refusal, code))
            },
        }
    }

    /// The operator's own quota at a provider said no. That is no limit of the tenant's, and its figures tell what
    /// others do: they are not for the client.
    fn of_quota(refusal: &Refusal, mode: DenyMode) -> Self {
        if refusal.reason == Reason::ExceedsCapacity {
            let message = "The request is larger than what may be sent to the provider at once.";
            return Self::new(Code::ExceedsCapacity, message);
        }
        let denial = Self::new(Code::ProviderQuota, Code::ProviderQuota.sentence());
        match mode {
            DenyMode::RejectBare => denial,
            DenyMode::Reject | DenyMode::Wait => {
                denial.retry_after(refusal.retry_after_ms.unwrap_or(QUOTA_WAIT_MS))
            }
        }
    }

    /// `Retry-After`: whole seconds, rounded up, at least 1.
    fn retry_after_s(&self) -> Option<i64> {
        self.retry_after_ms.map(|ms| ms.saturating_add(999).div_euclid(1_000).max(1))
    }

    /// Whether an SDK that tries again by itself would do so in vain.
    fn is_final(&self) -> bool {
        match self.retry_after_s() {
            Some(seconds) => seconds > WAIT_S_MAX,
            None => self.code.status().as_u16() == 402,
        }
    }
}

impl LimitFigures {
    fn of(refusal: &Refusal) -> Self {
        Self {
            scope: refusal.scope.code(),
            meter: refusal.meter.clone(),
            unit: match refusal.metric {
                Metric::Requests => "requests",
                Metric::Tokens => "tokens",
                Metric::Cost => "nano_usd",
            },
            limit: refusal.limit,
            used: refusal.used,
            held: refusal.held,
            wanted: refusal.wanted,
            resets_at: refusal.resets_at,
        }
    }
}

/// The sentence about a limit: whose, which, and when it lets calls pass again.
fn told(refusal: &Refusal, code: Code) -> String {
    let sentence = code.sentence();
    let (scope, meter) = (refusal.scope.code(), &refusal.meter);
    let again = match (refusal.retry_after_s(), refusal.resets_at.and_then(rfc3339)) {
        (Some(seconds), _) => format!(" Try again in {seconds} s."),
        (None, Some(instant)) => format!(" It resets at {instant}."),
        (None, None) => String::new(),
    };
    format!("{sentence} The limit is {meter} of the {scope}.{again}")
}

fn rfc3339(at: UnixMs) -> Option<String> {
    jiff::Timestamp::from_millisecond(at.0).ok().map(|instant| instant.to_string())
}

/// The answer that tells `denial` in the words of `shape`.
#[must_use]
pub fn refusal(shape: Shape, request_id: RequestId, denial: &Denial) -> Response<Body> {
    let id = request_id.to_string();
    let status = denial.code.status();
    let (body, content_type) = match shape {
        Shape::Dialect(Dialect::Openai) => (openai(&id, denial), "application/json"),
        Shape::Dialect(Dialect::Anthropic) => (anthropic(&id, denial), "application/json"),
        Shape::Dialect(Dialect::Gemini) => (gemini(&id, denial), "application/json"),
        Shape::Problem => (problem(&id, denial), "application/problem+json"),
    };
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    put_request_id(headers, shape, request_id);
    if let Some(seconds) = denial.retry_after_s() {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        if let Some(ms) = denial.retry_after_ms
            && seconds <= WAIT_S_MAX
        {
            headers.insert(RETRY_AFTER_MS, HeaderValue::from(ms.max(1)));
        }
    }
    if denial.is_final() {
        headers.insert(X_SHOULD_RETRY, HeaderValue::from_static("false"));
    }
    response
}

/// Puts the request id where clients of this shape look for it.
pub fn put_request_id(headers: &mut HeaderMap, shape: Shape, request_id: RequestId) {
    // Crockford's digits are always a header value.
    let Ok(value) = HeaderValue::try_from(request_id.to_string()) else { return };
    match shape {
        Shape::Dialect(Dialect::Openai) => drop(headers.insert(X_REQUEST_ID, value.clone())),
        Shape::Dialect(Dialect::Anthropic) => drop(headers.insert(REQUEST_ID, value.clone())),
        Shape::Dialect(Dialect::Gemini) | Shape::Problem => {}
    }
    headers.insert(WEIR_REQUEST_ID, value);
}

/// What Weir adds to the error of every dialect.
fn facts(id: &str, denial: &Denial) -> Map<String, Value> {
    let mut facts = Map::new();
    facts.insert("request_id".into(), id.into());
    facts.insert("source".into(), denial.source.word().into());
    if let Some(limit) = &denial.limit {
        facts.insert("scope".into(), limit.scope.into());
        facts.insert("meter".into(), limit.meter.as_str().into());
        facts.insert("unit".into(), limit.unit.into());
        facts.insert("limit".into(), limit.limit.into());
        facts.insert("used".into(), limit.used.into());
        facts.insert("held".into(), limit.held.into());
        facts.insert("wanted".into(), limit.wanted.into());
        facts.insert("resets_at".into(), limit.resets_at.and_then(rfc3339).into());
    }
    facts
}

fn openai(id: &str, denial: &Denial) -> Value {
    let mut error = facts(id, denial);
    error.insert("message".into(), denial.message.as_ref().into());
    error.insert("type".into(), denial.code.openai_type().into());
    error.insert("param".into(), denial.param.as_deref().into());
    error.insert("code".into(), denial.code.word().into());
    json!({ "error": error })
}

fn anthropic(id: &str, denial: &Denial) -> Value {
    let mut error = facts(id, denial);
    error.insert("type".into(), denial.code.anthropic_type().into());
    error.insert("message".into(), denial.message.as_ref().into());
    error.insert("code".into(), denial.code.word().into());
    if let Some(param) = &denial.param {
        error.insert("param".into(), param.as_ref().into());
    }
    json!({ "type": "error", "error": error, "request_id": id })
}

fn gemini(id: &str, denial: &Denial) -> Value {
    let mut error = facts(id, denial);
    let mut details = vec![json!({
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": denial.code.word().to_ascii_uppercase(),
        "domain": "weir",
        "metadata": { "request_id": id },
    })];
    if let Some(seconds) = denial.retry_after_s() {
        details.push(json!({
            "@type": "type.googleapis.com/google.rpc.RetryInfo",
            "retryDelay": format!("{seconds}s"),
        }));
    }
    if let Some(param) = &denial.param {
        details.push(json!({
            "@type": "type.googleapis.com/google.rpc.BadRequest",
            "fieldViolations": [{ "field": param, "description": denial.message }],
        }));
    }
    error.insert("code".into(), denial.code.status().as_u16().into());
    error.insert("message".into(), denial.message.as_ref().into());
    error.insert("status".into(), denial.code.gemini_status().into());
    error.insert("details".into(), details.into());
    json!({ "error": error })
}

fn problem(id: &str, denial: &Denial) -> Value {
    let mut problem = facts(id, denial);
    problem.insert("type".into(), format!("urn:weir:error:{}", denial.code.word()).into());
    problem.insert("title".into(), denial.code.sentence().into());
    problem.insert("status".into(), denial.code.status().as_u16().into());
    problem.insert("code".into(), denial.code.word().into());
    problem.insert("detail".into(), denial.message.as_ref().into());
    if let Some(param) = &denial.param {
        problem.insert("param".into(), param.as_ref().into());
    }
    Value::Object(problem)
}

#[cfg(test)]
mod tests;
