//! The way to the providers: one pool of connections for each, and the headers that may pass.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use domain::id::ProviderId;
use domain::usage::Dialect;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use secrecy::ExposeSecret;
use serde_json::Value;
use tenants::directory::{Credential, Upstream as Provider};

use crate::dialect::Route;
use crate::error::{FailureKind, UpstreamFailure};

/// Idle connections kept for each provider: enough for bursts, few enough for the file descriptors of a host.
const MAX_IDLE_PER_PROVIDER: usize = 256;
/// How long an idle connection is kept; providers and balancers close theirs after a minute or so.
const IDLE_CONNECTION: Duration = Duration::from_secs(50);
/// The most of an error's body that is read, in bytes: messages are short, and nothing else of it is used.
const MAX_ERROR_BODY_BYTES: usize = 64 * 1024;
/// The most of an error's message that a client is shown, in characters.
const MAX_ERROR_MESSAGE_CHARS: usize = 1_000;

/// Headers of a client that stay here: who it is, how it is connected, and what selects an account of
/// the provider's. The rest of its headers are for the provider.
const KEPT_BACK: [&str; 37] = [
    "host",
    "content-length",
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "expect",
    "accept-encoding",
    "content-encoding",
    "authorization",
    "x-api-key",
    "x-goog-api-key",
    "api-key",
    "cookie",
    "origin",
    "referer",
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-forwarded-port",
    "x-real-ip",
    "via",
    "openai-organization",
    "openai-project",
    "anthropic-workspace-id",
    "anthropic-user-profile-id",
    "x-goog-user-project",
    "idempotency-key",
    "x-request-id",
    "traceparent",
    "tracestate",
];

/// The clients, one for each provider.
#[derive(Debug, Default)]
pub(crate) struct Upstream {
    clients: Mutex<HashMap<ProviderId, (i32, reqwest::Client)>>,
}

impl Upstream {
    /// Sends one request and waits for the head of the answer, at most for the provider's first-byte time.
    pub(crate) async fn send(
        &self,
        provider: &Provider,
        route: &Route,
        upstream_model: &str,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<reqwest::Response, UpstreamFailure> {
        let path = route.upstream_path(upstream_model);
        let url = format!("{}{path}", provider.base_url.trim_end_matches('/'));
        let mut request = self.client(provider)?.post(url).headers(outgoing(headers)).body(body);
        match &provider.credential {
            Credential::None => {}
            Credential::Open(credential) => {
                let (name, value) =
                    credential_header(provider.dialect, credential.expose_secret())?;
                request = request.header(name, value);
            }
            Credential::Shut => return Err(unusable_credential()),
        }
        let limit = millis(provider.timeouts.first_byte_ms);
        match tokio::time::timeout(limit, request.send()).await {
            Err(_) => Err(timed_out()),
            Ok(Err(error)) if error.is_timeout() => Err(timed_out()),
            Ok(Err(error)) => {
                // The error's text names the URL, which is the operator's: it goes to the log alone.
                tracing::warn!(provider = %provider.name, %error, "the provider cannot be reached");
                let message = "the provider cannot be reached";
                Err(UpstreamFailure::new(FailureKind::Unreachable, message))
            }
            Ok(Ok(response)) => Ok(response),
        }
    }

    fn client(&self, provider: &Provider) -> Result<reqwest::Client, UpstreamFailure> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((connect_ms, client)) = clients.get(&provider.id)
            && *connect_ms == provider.timeouts.connect_ms
        {
            return Ok(client.clone());
        }
        let client = reqwest::Client::builder()
            .connect_timeout(millis(provider.timeouts.connect_ms))
            .tcp_nodelay(true)
            .pool_max_idle_per_host(MAX_IDLE_PER_PROVIDER)
            .pool_idle_timeout(IDLE_CONNECTION)
            // A redirect could carry the credential to another host.
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .build()
            .map_err(|error| {
                tracing::error!(provider = %provider.name, %error, "no client for the provider");
                UpstreamFailure::new(FailureKind::Unreachable, "the provider cannot be reached")
            })?;
        clients.insert(provider.id, (provider.timeouts.connect_ms, client.clone()));
        Ok(client)
    }
}

fn unusable_credential() -> UpstreamFailure {
    UpstreamFailure::new(FailureKind::Credential, "the provider's credential is not usable")
}

fn timed_out() -> UpstreamFailure {
    UpstreamFailure::new(FailureKind::TimedOut, "the provider did not answer in time")
}

/// A time-out of a provider's row, which is never negative.
pub(crate) fn millis(ms: i32) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

/// The client's headers, less those that stay here.
fn outgoing(headers: &HeaderMap) -> HeaderMap {
    let mut out = HeaderMap::with_capacity(headers.len() + 2);
    // What a `Connection` header names belongs to that connection alone.
    let connection: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for (name, value) in headers {
        let stays = KEPT_BACK.contains(&name.as_str())
            || name.as_str().starts_with("weir-")
            || connection.contains(name);
        if !stays {
            out.append(name, value.clone());
        }
    }
    // A compressed stream cannot be metered while it passes.
    out.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    out
}

fn credential_header(
    dialect: Dialect,
    credential: &str,
) -> Result<(HeaderName, HeaderValue), UpstreamFailure> {
    let (name, text) = match dialect {
        Dialect::Openai => (header::AUTHORIZATION, format!("Bearer {credential}")),
        Dialect::Anthropic => (HeaderName::from_static("x-api-key"), credential.to_owned()),
        Dialect::Gemini => (HeaderName::from_static("x-goog-api-key"), credential.to_owned()),
    };
    let mut value = HeaderValue::from_str(&text).map_err(|_| unusable_credential())?;
    value.set_sensitive(true);
    Ok((name, value))
}

/// Reads an answer that is an error and says what it means for the client.
pub(crate) async fn failure(
    mut response: reqwest::Response,
    provider: &Provider,
) -> UpstreamFailure {
    let status = response.status().as_u16();
    let header_wait = retry_after(response.headers());
    let idle = millis(provider.timeouts.idle_ms);
    let mut body = Vec::new();
    while body.len() < MAX_ERROR_BODY_BYTES {
        match tokio::time::timeout(idle, response.chunk()).await {
            Ok(Ok(Some(chunk))) => body.extend_from_slice(&chunk),
            _ => break,
        }
    }
    body.truncate(MAX_ERROR_BODY_BYTES);
    let told: Value = serde_json::from_slice(&body).unwrap_or_default();
    let told = told.get(0).unwrap_or(&told);
    let message = scrub(told["error"]["message"].as_str().unwrap_or_default(), provider);
    let retry_after_s = header_wait.or_else(|| retry_info(told));
    let kind = match status {
        401 | 403 => FailureKind::Credential,
        429 => FailureKind::RateLimited,
        400..=499 => FailureKind::Rejected(status),
        _ => FailureKind::Failed(status),
    };
    let message = match kind {
        // What a provider says about the operator's account is none of the tenant's business.
        FailureKind::Credential => "the provider refused the gateway's credential".to_owned(),
        _ if message.is_empty() => format!("the provider answered with status {status}"),
        _ => message,
    };
    UpstreamFailure { kind, message, retry_after_s }
}

/// Takes the operator's credential and address out of a text.
fn scrub(text: &str, provider: &Provider) -> String {
    let mut clean: String = text.chars().take(MAX_ERROR_MESSAGE_CHARS).collect();
    if let Credential::Open(credential) = &provider.credential {
        let secret = credential.expose_secret();
        if !secret.is_empty() {
            clean = clean.replace(secret, "[redacted]");
        }
    }
    if !provider.base_url.is_empty() {
        clean = clean.replace(provider.base_url.trim_end_matches('/'), "[provider]");
    }
    clean
}

/// `Retry-After` in seconds, rounded up; `retry-after-ms` is the finer of the two.
fn retry_after(headers: &HeaderMap) -> Option<i64> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    if let Some(ms) = text("retry-after-ms").and_then(|text| text.trim().parse::<i64>().ok()) {
        return Some(ms.max(0).saturating_add(999) / 1_000);
    }
    text("retry-after").and_then(seconds)
}

/// A duration such as `2`, `36.43` or `36.43s`, rounded up to whole seconds.
fn seconds(text: &str) -> Option<i64> {
    let number = text.trim().trim_end_matches('s');
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    if !part.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let whole: i64 = whole.parse().ok().filter(|n| *n >= 0)?;
    Some(whole.saturating_add(i64::from(part.bytes().any(|b| b != b'0'))))
}

/// The delay of Gemini's `RetryInfo`.
fn retry_info(told: &Value) -> Option<i64> {
    let details = told["error"]["details"].as_array()?;
    details.iter().find_map(|detail| seconds(detail["retryDelay"].as_str()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_names_the_client_or_an_account_goes_out() {
        let mut headers = HeaderMap::new();
        for name in KEPT_BACK.into_iter().chain(["weir-x", "x-hop"]) {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static("secret"));
        }
        headers.insert("connection", HeaderValue::from_static("close, X-Hop"));
        headers.insert("anthropic-beta", HeaderValue::from_static("a"));
        let out = outgoing(&headers);
        let names: Vec<&str> = out.keys().map(HeaderName::as_str).collect();
        assert_eq!(names, ["anthropic-beta", "accept-encoding"]);
        assert_eq!(out["accept-encoding"], "identity");
    }

    #[test]
    fn every_way_of_naming_a_wait_is_rounded_up_to_seconds() {
        assert_eq!(
            (seconds("2"), seconds("36.43s"), seconds("36.000s")),
            (Some(2), Some(37), Some(36))
        );
        assert_eq!((seconds("soon"), seconds("-1"), seconds("1.x")), (None, None, None));
        let mut headers = HeaderMap::new();
        headers.insert("Retry-After", HeaderValue::from_static("7"));
        assert_eq!(retry_after(&headers), Some(7));
        headers.insert("retry-after-ms", HeaderValue::from_static("1200"));
        assert_eq!(retry_after(&headers), Some(2));
        let info = serde_json::json!({"error": {"details": [{"a": 1}, {"retryDelay": "0.5s"}]}});
        assert_eq!(retry_info(&info), Some(1));
    }
}
