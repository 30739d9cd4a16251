//! Plain answers of the console's forms: to another page, or a sentence.

use app::rights::Right;
use app::routes::{self, field, with_query};
use axum::body::Body;
use domain::id::RequestId;
use http::header::{CONTENT_TYPE, LOCATION, REFERER};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};

/// "See the other page": the only redirect there is.
pub(super) fn see(path: &str) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    // Paths are made by `routes`, which encodes what is not ASCII; the root is always one.
    let location = HeaderValue::try_from(path).unwrap_or(HeaderValue::from_static("/"));
    *response.status_mut() = StatusCode::SEE_OTHER;
    response.headers_mut().insert(LOCATION, location);
    response
}

/// A sentence with a status, for what no page of ours would send.
pub(super) fn sentence(status: StatusCode, text: &str) -> Response<Body> {
    let mut response = Response::new(Body::from(format!("{text}\n")));
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, plain);
    response
}

/// The role lacks a right. The pages do not offer what would be refused, so no form is behind this.
pub(super) fn forbidden(right: Right, request_id: RequestId) -> Response<Body> {
    let (words, holders) = (right.words(), right.holders());
    let text = format!(
        "Your role does not include the right to {words}. It can be granted by {holders}.\n\
         Request id {request_id}"
    );
    sentence(StatusCode::FORBIDDEN, &text)
}

/// Nobody is signed in: to the sign-in page, and from there back to the page that was meant.
pub(super) fn to_sign_in<B>(request: &Request<B>) -> Response<Body> {
    let next = match *request.method() {
        Method::GET | Method::HEAD => request.uri().path_and_query().map(ToString::to_string),
        // After signing in a post cannot be repeated, but its form can be shown again.
        _ => referring_page(request.headers()),
    };
    see(&with_query(routes::LOGIN, &[(field::NEXT, next.as_deref().unwrap_or_default())]))
}

/// The own page that a form was posted from, as far as the browser tells.
pub(super) fn referring_page(headers: &HeaderMap) -> Option<String> {
    let referer: Uri = headers.get(REFERER)?.to_str().ok()?.parse().ok()?;
    let path = referer.path_and_query()?.as_str();
    routes::own_path(path).map(ToOwned::to_owned)
}
