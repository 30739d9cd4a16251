//! Prometheus metrics, on a listener of their own: they are the operator's, not the clients'.

use std::net::SocketAddr;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use anyhow::Context;
use axum::body::Body;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response, StatusCode};
use hyper::body::Incoming;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tokio::net::TcpListener;
use tokio::time::sleep;
use tokio_util::task::TaskTracker;

use crate::failure::Failure;
use crate::listen::{self, FIRST_HEAD, Handler, Limits, Stop};
use crate::weir::Weir;

/// Scrapers come one at a time; more connections than this are something else.
const CONNECTIONS_MAX: usize = 16;
/// How long a scraper's connection stays open: longer than the usual period of 15 s to a minute.
const KEEP_ALIVE: Duration = Duration::from_secs(90);
/// How often measurements are summed up: some megabytes of them at the highest rate.
const SUM_UP_EVERY: Duration = Duration::from_secs(5);
/// The form of the answer.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Starts the listener, where one is wanted.
///
/// # Errors
/// [`Failure::Missing`] when the address cannot be listened on.
pub(crate) async fn start(weir: &Weir, tasks: &TaskTracker, stop: &Stop) -> Result<(), Failure> {
    let Some(address) = weir.config.metrics_bind else { return Ok(()) };
    let handle = recorder()?;
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot serve metrics on {address}; `--metrics-bind off`?"))
        .map_err(Failure::Missing)?;
    let limits = Limits {
        first_head: FIRST_HEAD,
        keep_alive: KEEP_ALIVE,
        connections: CONNECTIONS_MAX,
        per_address: CONNECTIONS_MAX,
    };
    tasks.spawn(keep_up(handle.clone(), stop.clone()));
    tasks.spawn(listen::serve(listener, Page { handle }, limits, stop.clone()));
    Ok(())
}

/// Sums up what was measured, so that it does not pile up while nobody asks.
async fn keep_up(handle: PrometheusHandle, stop: Stop) {
    while stop.soft.run_until_cancelled(sleep(SUM_UP_EVERY)).await.is_some() {
        handle.run_upkeep();
    }
}

/// The recorder of this process. A process has one, however often it is started in tests.
fn recorder() -> Result<PrometheusHandle, Failure> {
    static RECORDER: OnceLock<PrometheusHandle> = OnceLock::new();
    static STARTING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(handle) = RECORDER.get() {
        return Ok(handle.clone());
    }
    let handle = PrometheusBuilder::new()
        .install_recorder()
        .context("cannot collect metrics")
        .map_err(Failure::Failed)?;
    Ok(RECORDER.get_or_init(|| handle).clone())
}

/// Answers `GET /metrics`.
#[derive(Clone)]
struct Page {
    handle: PrometheusHandle,
}

impl Handler for Page {
    async fn handle(&self, _: SocketAddr, request: Request<Incoming>) -> Response<Body> {
        let mut response = Response::new(Body::empty());
        if request.uri().path() == "/metrics" && request.method() == http::Method::GET {
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(TEXT));
            *response.body_mut() = Body::from(self.handle.render());
        } else {
            *response.status_mut() = StatusCode::NOT_FOUND;
        }
        response
    }
}
