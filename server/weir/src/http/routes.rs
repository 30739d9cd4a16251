//! How a route is added: with its door, which stands in front of it from then on.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::handler::Handler;
use axum::middleware::{Next, from_fn, from_fn_with_state};
use http::{Method, Response, StatusCode};

use super::door::{Door, request_id};
use super::error::{Code, Denial, Shape, refusal};
use super::headers::Shield;
use super::session::{self, Side};
use super::shape::{is_of_calls, shape_of};
use super::{answer, pages};
use crate::weir::Weir;

/// One route, as it was declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The method.
    pub method: Method,
    /// The path, with its parameters in braces.
    pub path: String,
    /// Who may use it.
    pub door: Door,
}

/// Routes as they are collected.
#[derive(Debug)]
pub struct Routes {
    weir: Weir,
    entries: Vec<Entry>,
    /// Calls of API clients: nothing is put around them, they are the hot path.
    calls: Router<Weir>,
    /// What needs no session.
    plain: Router<Weir>,
    /// Pages and forms.
    console: Router<Weir>,
}

impl Routes {
    pub(super) fn new(weir: &Weir) -> Self {
        Self {
            weir: weir.clone(),
            entries: Vec::new(),
            calls: Router::new(),
            plain: Router::new(),
            console: Router::new(),
        }
    }

    /// Adds a route behind its door.
    #[must_use]
    pub(super) fn on<H, T>(mut self, method: Method, path: &str, door: Door, handler: H) -> Self
    where
        H: Handler<T, Weir>,
        T: 'static,
    {
        let route = door.guard(&method, handler, &self.weir);
        let group = match door {
            Door::Key => &mut self.calls,
            door if door.is_of_console() => &mut self.console,
            _ => &mut self.plain,
        };
        *group = std::mem::take(group).route(path, route);
        self.entries.push(Entry { method, path: path.to_owned(), door });
        self
    }

    /// Adds every page of the site.
    #[must_use]
    pub(super) fn pages(mut self) -> Self {
        let pages = pages::list();
        let entry =
            |path: &str| Entry { method: Method::GET, path: path.to_owned(), door: Door::Page };
        self.entries.extend(pages.iter().map(|page| entry(page.path())));
        self.console = self.console.merge(pages::router(&self.weir, pages));
        self
    }

    /// Every route, in the order in which they were added.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The router: whatever is not in the list is nothing.
    pub(super) fn into_router(self, weir: &Weir) -> Router {
        let shield = Arc::new(Shield::new(weir.public_url.is_https()));
        let shielded = from_fn_with_state(shield, put_shield);
        let nowhere = in_console(weir, Router::new().fallback(nowhere)).layer(shielded.clone());
        let (plain, console) = (self.plain, in_console(weir, self.console));
        Router::new()
            .merge(plain.merge(console).layer(shielded))
            .merge(self.calls)
            .method_not_allowed_fallback(wrong_method)
            .fallback_service(nowhere.with_state(weir.clone()))
            .with_state(weir.clone())
    }
}

/// Puts sessions around routes; the last layer is the first to see a request.
fn in_console(weir: &Weir, routes: Router<Weir>) -> Router<Weir> {
    routes
        .layer(from_fn_with_state(weir.clone(), session::who_asks))
        .layer(session::layer(weir, Side::Tenants))
        .layer(from_fn(session::put_aside))
        .layer(session::layer(weir, Side::Operators))
}

async fn put_shield(
    State(shield): State<Arc<Shield>>,
    request: Request,
    next: Next,
) -> Response<Body> {
    let mut response = next.run(request).await;
    shield.put(response.headers_mut());
    response
}

/// What is behind no path: the page that says so, or the same in the words of an API.
async fn nowhere(State(weir): State<Weir>, request: Request) -> Response<Body> {
    let path = request.uri().path();
    if is_of_calls(path) || path.starts_with("/admin/api") {
        let shape = shape_of(path, request.headers());
        let message = format!("There is no route {} {path}.", request.method());
        let denial = Denial::new(Code::NotFound, message);
        return refusal(shape, request_id(&request), &denial);
    }
    pages::not_found(weir, request).await
}

/// A path that is there, and a method that is not.
async fn wrong_method(request: Request) -> Response<Body> {
    let path = request.uri().path();
    let shape = shape_of(path, request.headers());
    if shape == Shape::Problem && !path.starts_with("/admin/api") {
        let text = "This address does not take this method.";
        return answer::sentence(StatusCode::METHOD_NOT_ALLOWED, text);
    }
    let denial = Denial::new(Code::MethodNotAllowed, Code::MethodNotAllowed.sentence());
    refusal(shape, request_id(&request), &denial)
}

/// A file of the site.
pub(super) async fn asset(State(weir): State<Weir>, request: Request) -> Response<Body> {
    let path = request.uri().path().trim_start_matches('/');
    let found = weir.site.answer(path, request.headers());
    found.unwrap_or_else(|| answer::sentence(StatusCode::NOT_FOUND, "There is no such file."))
}
