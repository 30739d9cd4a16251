//! Three dialects of API clients, mapped onto one metered call.

mod models;
mod refuse;

use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, Request as HttpRequest, State};
use axum::response::Response;
use bytes::Bytes;
use domain::id::RequestId;
use gateway::{Reply, ReplyBody, Request, Route};
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio_stream::wrappers::ReceiverStream;

use super::caller::Caller;
use super::error::{Code, Denial, Shape, put_request_id};
use crate::weir::Weir;
use refuse::Refused;

pub(super) use models::{list_models, one_model};
pub(super) use refuse::unknown_route;

/// How long a client may take to send its body, in all: the size is bounded, and a slow sender holds memory.
const BODY_TIME: Duration = Duration::from_secs(120);
/// What the tenant was charged, where that is known before the body goes out.
const CHARGE: HeaderName = HeaderName::from_static("weir-charge-nanos");

/// `POST /v1/chat/completions`.
pub(super) async fn openai_chat(
    State(weir): State<Weir>,
    caller: Caller,
    request: HttpRequest,
) -> Response {
    serve(&weir, &caller, Route::OpenaiChat, request).await
}

/// `POST /v1/messages`.
pub(super) async fn anthropic_messages(
    State(weir): State<Weir>,
    caller: Caller,
    request: HttpRequest,
) -> Response {
    serve(&weir, &caller, Route::AnthropicMessages, request).await
}

/// `POST /v1/models/{model}:{verb}` and the same under `/v1beta`.
pub(super) async fn gemini(
    State(weir): State<Weir>,
    caller: Caller,
    Path(name): Path<String>,
    request: HttpRequest,
) -> Response {
    let version = if request.uri().path().starts_with("/v1beta/") { "v1beta" } else { "v1" };
    let Some((model, verb)) = name.rsplit_once(':') else {
        return unknown_route(request).await;
    };
    let model = model.to_owned();
    let route = match verb {
        "generateContent" => Route::GeminiGenerate { version, model },
        "streamGenerateContent" => {
            Route::GeminiStream { version, model, sse: asks_for_sse(request.uri().query()) }
        }
        _ => return unknown_route(request).await,
    };
    serve(&weir, &caller, route, request).await
}

/// Whether the query has `alt=sse`. Any other form is the JSON array, as at the provider.
fn asks_for_sse(query: Option<&str>) -> bool {
    query.is_some_and(|query| query.split('&').any(|pair| pair == "alt=sse"))
}

async fn serve(weir: &Weir, caller: &Caller, route: Route, request: HttpRequest) -> Response {
    let (parts, body) = request.into_parts();
    let refused = Refused { weir, caller, route: route.code() };
    let body = match read_body(weir.config.body_limit_bytes, &parts.headers, body).await {
        Ok(body) => body,
        Err(denial) => return refused.denied(&denial),
    };
    let call = Request {
        id: caller.request_id,
        route,
        headers: parts.headers,
        body,
        client_request_id: caller.client_request_id.clone(),
    };
    match Box::pin(gateway::call(&weir.gateway, &caller.tenant, call)).await {
        Ok(reply) => answer(caller.shape, caller.request_id, reply),
        Err(error) => refused.failed(&error),
    }
}

/// The body, counted as it arrives.
async fn read_body(limit: usize, headers: &HeaderMap, body: Body) -> Result<Bytes, Denial> {
    let encoding = headers.get(CONTENT_ENCODING).map(HeaderValue::as_bytes);
    if !matches!(encoding, None | Some(b"identity")) {
        let message = "send the body uncompressed: it has to be read to be metered";
        return Err(Denial::new(Code::NotSupported, message));
    }
    let reading = Limited::new(body, limit).collect();
    match tokio::time::timeout(BODY_TIME, reading).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let message = format!("the body is larger than {limit} bytes");
            Err(Denial::new(Code::RequestTooLarge, message))
        }
        Ok(Err(_)) => Err(Denial::new(Code::InvalidRequest, "the body broke off")),
        Err(_) => Err(Denial::new(Code::InvalidRequest, "the body did not arrive in time")),
    }
}

fn answer(shape: Shape, request_id: RequestId, reply: Reply) -> Response {
    let body = match reply.body {
        ReplyBody::Whole(bytes) => Body::from(bytes),
        ReplyBody::Stream(frames) => Body::from_stream(ReceiverStream::new(frames)),
    };
    let mut response = Response::new(body);
    // The provider's status is one, or there would be no reply.
    *response.status_mut() = http::StatusCode::from_u16(reply.status).unwrap_or_default();
    *response.headers_mut() = reply.headers;
    let headers = response.headers_mut();
    put_request_id(headers, shape, request_id);
    if let Some(charge) = reply.charge {
        headers.insert(CHARGE, HeaderValue::from(charge.0));
    }
    response
}

/// A JSON answer with the request id where this shape's clients look for it.
fn json_answer(shape: Shape, request_id: RequestId, value: &serde_json::Value) -> Response {
    let mut response = Response::new(Body::from(value.to_string()));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    put_request_id(headers, shape, request_id);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_alt_sse_asks_for_events() {
        assert!(asks_for_sse(Some("key=a&alt=sse")));
        for query in [None, Some("alt=json"), Some("alt=sse2"), Some("xalt=sse")] {
            assert!(!asks_for_sse(query), "{query:?}");
        }
    }
}
