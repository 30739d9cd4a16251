//! Whether the process lives, and whether it may be sent work. Tiny, and never a secret.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde_json::{Value, json};
use sqlx::PgPool;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use crate::cli::version;
use crate::database::{Schema, newest, schema};
use crate::weir::Weir;

/// A database that takes longer to answer cannot be worked with.
const DATABASE_WAIT: Duration = Duration::from_secs(2);

/// How long an answer of the database holds: probes come every second, and a flood of them must not
/// reach it.
const HOLDS: Duration = Duration::from_secs(1);

/// What the database said last.
#[derive(Debug, Default)]
pub struct Probe(Mutex<Option<(Instant, Said)>>);

#[derive(Debug, Clone, Copy)]
struct Said {
    reachable: bool,
    current: bool,
}

impl Probe {
    /// What the database says, or said a moment ago. Who comes while it is asked waits for the same
    /// answer.
    async fn ask(&self, pool: &PgPool) -> Said {
        let mut last = self.0.lock().await;
        if let Some((at, said)) = *last
            && at.elapsed() < HOLDS
        {
            return said;
        }
        let said = match timeout(DATABASE_WAIT, schema(pool)).await {
            Ok(Ok(schema)) => Said { reachable: true, current: schema == Schema::Current },
            Ok(Err(_)) | Err(_) => Said { reachable: false, current: false },
        };
        *last = Some((Instant::now(), said));
        said
    }
}

/// The process lives: it asks nobody.
pub(super) async fn healthz() -> Json<Value> {
    Json(json!({ "status": "ok" }))
}

/// Whether calls may be sent here: the database answers, the schema is this program's, and the
/// process is not stopping.
pub(super) async fn readyz(State(weir): State<Weir>) -> (StatusCode, Json<Value>) {
    let draining = weir.is_draining();
    let Said { reachable, current } = weir.probe.ask(&weir.pool).await;
    let ready = current && !draining;
    let standing = weir.limiter.standing();
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let body = json!({
        "status": if ready { "ready" } else { "not_ready" },
        "database": if reachable { "ok" } else { "unreachable" },
        "schema": if current { "current" } else { "unknown_or_other" },
        "engine": standing.as_ref().map(|standing| standing.mode.code()),
        "degraded": standing.as_ref().is_some_and(|standing| standing.degraded),
        "draining": draining,
    });
    (status, Json(body))
}

/// Which program this is.
pub(super) async fn version_of() -> Json<Value> {
    Json(json!({ "name": "weir", "version": version(), "schema": newest() }))
}
