//! What happens to every request before and after its route: it gets an id, a line in the log, and
//! an answer even if its handler panics.

use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use domain::id::RequestId;
use futures_util::FutureExt;
use http::{HeaderValue, Request, Response, StatusCode};
use hyper::body::Incoming;
use tower::Service;
use tracing::Instrument;

use super::error::{Code, Denial, WEIR_REQUEST_ID, refusal};
use super::shape::shape_of;
use crate::clock::Clock;
use crate::listen::Handler;

/// The address at the other end of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer(pub SocketAddr);

/// Put into an answer's extensions by a handler that writes the request's log line itself.
#[derive(Debug, Clone, Copy)]
pub struct Logged;

/// The routes, and what surrounds them.
#[derive(Clone, Debug)]
pub struct Edge {
    router: Router,
    clock: Clock,
}

impl Edge {
    /// Surrounds `router`.
    #[must_use]
    pub const fn new(router: Router, clock: Clock) -> Self {
        Self { router, clock }
    }
}

/// A fresh request id: its time is the clock's, so that ids sort as calls came.
#[must_use]
pub fn fresh_request_id(clock: &Clock) -> RequestId {
    let now_ms = u64::try_from(clock.now().0).unwrap_or(0);
    RequestId::from_parts(now_ms, rand::random())
}

impl Handler for Edge {
    async fn handle(&self, peer: SocketAddr, mut request: Request<Incoming>) -> Response<Body> {
        let request_id = fresh_request_id(&self.clock);
        let shape = shape_of(request.uri().path(), request.headers());
        let line = Line::of(&request);
        let extensions = request.extensions_mut();
        extensions.insert(request_id);
        extensions.insert(Peer(peer));
        let span = tracing::info_span!("request", %request_id);
        // The router is always ready.
        let answer = AssertUnwindSafe(self.router.clone().call(request)).catch_unwind();
        let mut response = match answer.instrument(span.clone()).await {
            Ok(Ok(response)) => response,
            Ok(Err(never)) => match never {},
            Err(_) => {
                span.in_scope(|| tracing::error!("a handler panicked"));
                refusal(shape, request_id, &Denial::new(Code::Internal, Code::Internal.sentence()))
            }
        };
        if !response.headers().contains_key(WEIR_REQUEST_ID)
            && let Ok(value) = HeaderValue::try_from(request_id.to_string())
        {
            response.headers_mut().insert(WEIR_REQUEST_ID, value);
        }
        span.in_scope(|| line.write(&response));
        response
    }
}

/// The log line of a request. Never the query: keys may stand in it.
struct Line {
    method: http::Method,
    path: String,
    began: Instant,
}

impl Line {
    fn of<B>(request: &Request<B>) -> Self {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        Self { method, path, began: Instant::now() }
    }

    fn write(self, response: &Response<Body>) {
        let status = response.status();
        metrics::counter!("weir_http_responses_total", "class" => class(status)).increment(1);
        if response.extensions().get::<Logged>().is_some() {
            return;
        }
        let (method, path, status) = (self.method.as_str(), self.path.as_str(), status.as_u16());
        let ms = whole_ms(self.began.elapsed());
        // Probes come every second and tell nothing.
        if matches!(path, "/healthz" | "/readyz") {
            tracing::debug!(method, path, status, ms, "answered");
        } else {
            tracing::info!(method, path, status, ms, "answered");
        }
    }
}

fn whole_ms(elapsed: Duration) -> u64 {
    u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
}

const fn class(status: StatusCode) -> &'static str {
    match status.as_u16() {
        0..=299 => "2xx",
        300..=399 => "3xx",
        400..=499 => "4xx",
        _ => "5xx",
    }
}
