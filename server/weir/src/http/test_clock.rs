//! The clock of tests: `{"now_ms": …}`, `{"now": "2026-11-30T00:00:00Z"}` or `{"advance_ms": …}`.

use axum::body::Body;
use axum::extract::State;
use axum::response::IntoResponse;
use axum::{Extension, Json};
use domain::id::RequestId;
use domain::window::UnixMs;
use http::Response;
use serde::Deserialize;
use serde_json::json;

use super::error::{Code, Denial, Shape, refusal};
use crate::weir::Weir;

/// What a test asks for: one of the three.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wish {
    now: Option<String>,
    now_ms: Option<i64>,
    advance_ms: Option<i64>,
}

/// Sets or moves the clock, and says what it shows.
pub(super) async fn set(
    State(weir): State<Weir>,
    Extension(request_id): Extension<RequestId>,
    Json(wish): Json<Wish>,
) -> Response<Body> {
    let now = wish.now.as_deref().map(|text| text.parse::<jiff::Timestamp>());
    match (now, wish.now_ms, wish.advance_ms) {
        (Some(Ok(now)), None, None) => weir.clock.set(UnixMs(now.as_millisecond())),
        (None, Some(now_ms), None) => weir.clock.set(UnixMs(now_ms)),
        (None, None, Some(ms)) => weir.clock.advance(ms),
        _ => {
            let message = "send one of now (RFC 3339), now_ms and advance_ms";
            let denial = Denial::new(Code::InvalidRequest, message);
            return refusal(Shape::Problem, request_id, &denial);
        }
    }
    Json(json!({ "now_ms": weir.clock.now().0 })).into_response()
}
