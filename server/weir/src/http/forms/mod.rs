//! What people change: every form is checked, done, and answered with another page.

pub(super) mod keys;
pub(super) mod login;
pub(super) mod setup;
pub(super) mod theme;

use app::routes::{error, query, with_query};
use axum::body::Body;
use domain::id::RequestId;
use http::Response;
use tenants::TenantsError;

use super::answer;

/// The longest text that is given back to its form: an address of mail has 254 characters.
const KEPT_BYTES_MAX: usize = 1_000;

/// Back to the form, which says why.
fn refuse(form: &str, code: &str, kept: &[(&str, &str)]) -> Response<Body> {
    let mut pairs = vec![(query::ERROR, code)];
    pairs.extend(kept.iter().filter(|(_, text)| text.len() <= KEPT_BYTES_MAX));
    answer::see(&with_query(form, &pairs))
}

/// Back to the form after a fault of ours; the log tells more under the request's id.
fn fault(form: &str, error: &TenantsError, request_id: RequestId) -> Response<Body> {
    tracing::error!(%error, "a form was not done");
    let id = request_id.to_string();
    refuse(form, error::UNAVAILABLE, &[(query::REQUEST_ID, &id)])
}
