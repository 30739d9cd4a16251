//! Whether the process lives, and whether it may be sent work. Tiny, and never a secret.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::cli::version;
use crate::database::{Schema, newest, schema};
use crate::weir::Weir;

/// A database that takes longer to answer cannot be worked with.
const DATABASE_WAIT: Duration = Duration::from_secs(2);

/// The process lives: it asks nobody.
pub(super) async fn healthz() -> Json<Value> {
    Json(json!({ "status": "ok" }))
}

/// Whether calls may be sent here: the database answers, the schema is this program's, and the
/// process is not stopping.
pub(super) async fn readyz(State(weir): State<Weir>) -> (StatusCode, Json<Value>) {
    let draining = weir.is_draining();
    let schema = timeout(DATABASE_WAIT, schema(&weir.pool)).await;
    let (database, current) = match &schema {
        Ok(Ok(schema)) => ("ok", *schema == Schema::Current),
        Ok(Err(_)) | Err(_) => ("unreachable", false),
    };
    let ready = current && !draining;
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let body = json!({
        "status": if ready { "ready" } else { "not_ready" },
        "database": database,
        "schema": if current { "current" } else { "unknown_or_other" },
        "engine": "postgres",
        "degraded": false,
        "draining": draining,
    });
    (status, Json(body))
}

/// Which program this is.
pub(super) async fn version_of() -> Json<Value> {
    Json(json!({ "name": "weir", "version": version(), "schema": newest() }))
}
