//! Error pages: what happened, what to do, the request id when there is one, and a way back.

use http::StatusCode;
use leptos::prelude::*;

use super::request::{Asked, set_status};
use super::sheet::Sheet;
use crate::components::frame::bare_frame;
use crate::console::{ConsoleError, viewer};
use crate::routes;

/// The page for every address that is none.
pub(crate) fn not_found_page() -> AnyView {
    let home = viewer().map(|viewer| viewer.home());
    bare_frame(error_sheet(&ConsoleError::NotFound, None), home)
}

/// The sheet that says what went wrong; also sets the status.
pub(crate) fn error_sheet(error: &ConsoleError, asked: Option<&Asked>) -> Sheet {
    let (status, title, said, request_id) = match error {
        ConsoleError::NotFound => (
            StatusCode::NOT_FOUND,
            "Not found",
            "There is no page at this address, or it is not yours to see.".to_owned(),
            None,
        ),
        ConsoleError::Forbidden { right } => (
            StatusCode::FORBIDDEN,
            "Not allowed",
            format!(
                "Your role does not include the right to {}. It can be granted by {}.",
                right.words(),
                right.holders()
            ),
            None,
        ),
        ConsoleError::SignedOut => (
            StatusCode::UNAUTHORIZED,
            "Signed out",
            "Your session has ended. Sign in again to go on.".to_owned(),
            None,
        ),
        ConsoleError::TooSlow { request_id } => (
            StatusCode::SERVICE_UNAVAILABLE,
            "Too slow",
            "The figures took longer than this page waits for them. Nothing was changed."
                .to_owned(),
            Some(request_id.clone()),
        ),
        ConsoleError::Unavailable { request_id } => (
            StatusCode::INTERNAL_SERVER_ERROR,
            "Something is broken here",
            "A part of the server did not answer. Nothing was changed.".to_owned(),
            Some(request_id.clone()),
        ),
    };
    set_status(status);
    let retry = request_id.is_some().then(|| asked.map(|asked| asked.url.clone())).flatten();
    let home = asked.map_or_else(|| routes::LOGIN.to_owned(), |asked| asked.viewer.home());
    let body = view! {
        <div class="error-page" data-testid="error-page">
            <p class="error-code">{status.as_u16()}</p>
            <p>{said}</p>
            {request_id
                .map(|id| {
                    view! {
                        <p class="muted">
                            "Request id " <code class="id" data-testid="request-id">{id}</code>
                        </p>
                    }
                })}
            <p class="actions">
                {retry
                    .map(|url| {
                        view! {
                            <a class="button primary" href=url data-testid="retry">
                                "Try again"
                            </a>
                        }
                    })} <a class="button" href=home data-testid="go-home">
                    "Go to the start page"
                </a>
            </p>
        </div>
    };
    Sheet { title: title.to_owned(), crumbs: Vec::new(), head: None, body: body.into_any() }
}
