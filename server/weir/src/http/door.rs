//! Who may use a route. A route cannot be added without saying so, and what it says is kept by a
//! guard in front of its handler.

use app::console::Viewer;
use app::rights::Right;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::handler::Handler;
use axum::middleware::{Next, from_fn_with_state};
use axum::routing::{MethodFilter, MethodRouter, on};
use domain::id::RequestId;
use http::header::AUTHORIZATION;
use http::{HeaderMap, Method, Response};
use secrecy::ExposeSecret;
use subtle::ConstantTimeEq;

use super::answer;
use super::edge::Peer;
use super::error::{Code, Denial, Shape, refusal};
use crate::weir::Weir;

/// Who may use a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Door {
    /// Everybody: nothing here is anybody's.
    Open,
    /// Who presents an API key. The handler takes a [`Caller`](super::caller::Caller), which is
    /// the guard.
    Key,
    /// Who presents the admin token.
    AdminToken,
    /// Everybody may ask for the page; what it shows is asked of the console, which checks.
    Page,
    /// Everybody may post the form, if it came from our own page.
    Form,
    /// Operators with this right, by a form from our own page.
    FormWith(Right),
    /// Whoever is on this machine, while tests set the clock; otherwise there is no such route.
    TestClock,
}

impl Door {
    /// Whether a browser's session is looked at.
    pub(super) const fn is_of_console(self) -> bool {
        matches!(self, Self::Page | Self::Form | Self::FormWith(_))
    }

    /// `handler` behind this door.
    pub(super) fn guard<H, T>(self, method: &Method, handler: H, weir: &Weir) -> MethodRouter<Weir>
    where
        H: Handler<T, Weir>,
        T: 'static,
    {
        let filter = MethodFilter::try_from(method.clone()).unwrap_or(MethodFilter::GET);
        let route = on(filter, handler);
        match self {
            Self::Open | Self::Key | Self::Page | Self::Form => route,
            Self::AdminToken => route.layer(from_fn_with_state(weir.clone(), admin_token)),
            Self::TestClock => route.layer(from_fn_with_state(weir.clone(), test_clock)),
            Self::FormWith(right) => route.layer(from_fn_with_state(right, with_right)),
        }
    }
}

async fn admin_token(State(weir): State<Weir>, request: Request, next: Next) -> Response<Body> {
    let known = weir.config.admin_token.as_ref().zip(bearer(request.headers()));
    let fits = known.is_some_and(|(token, sent)| {
        // Their lengths may differ and be known; nothing else may.
        token.expose_secret().as_bytes().ct_eq(sent.as_bytes()).into()
    });
    if fits {
        return next.run(request).await;
    }
    let message = match weir.config.admin_token {
        Some(_) => "Send the admin token as `Authorization: Bearer weir_admin_…`.",
        None => "No admin token is set: set WEIR_ADMIN_TOKEN or WEIR_ADMIN_TOKEN_FILE.",
    };
    let denial = Denial::new(Code::AdminTokenInvalid, message);
    refusal(Shape::Problem, request_id(&request), &denial)
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

async fn test_clock(State(weir): State<Weir>, request: Request, next: Next) -> Response<Body> {
    let local =
        request.extensions().get::<Peer>().is_some_and(|Peer(peer)| peer.ip().is_loopback());
    if weir.config.test_clock && local {
        return next.run(request).await;
    }
    let denial = Denial::new(Code::NotFound, Code::NotFound.sentence());
    refusal(Shape::Problem, request_id(&request), &denial)
}

async fn with_right(State(right): State<Right>, request: Request, next: Next) -> Response<Body> {
    match request.extensions().get::<Viewer>() {
        Some(viewer) if viewer.may(right) => next.run(request).await,
        Some(_) => answer::forbidden(right, request_id(&request)),
        None => answer::to_sign_in(&request),
    }
}

/// The id of a request; the edge gives every request one.
pub(super) fn request_id<B>(request: &http::Request<B>) -> RequestId {
    let known = request.extensions().get::<RequestId>();
    known.copied().unwrap_or_else(|| RequestId::from_parts(0, 0))
}
