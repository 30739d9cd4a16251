//! The HTTP side: every route is on this page.

mod admin;
mod answer;
pub mod caller;
pub mod door;
pub mod edge;
pub mod error;
mod form_cookie;
mod forms;
mod headers;
pub mod health;
mod pages;
mod posted;
mod proxy;
mod routes;
mod session;
pub mod shape;
pub mod site;
mod test_clock;

use app::rights::Right;
use app::routes as paths;
use axum::Router;
use http::Method;

pub use admin::openapi;
pub use routes::{Entry, Routes};

use crate::weir::Weir;
use door::Door;

/// The routes of this process.
pub fn router(weir: &Weir) -> Router {
    table(weir).into_router(weir)
}

/// Every route, with who may use it. A route that is not here does not exist.
#[must_use]
pub fn table(weir: &Weir) -> Routes {
    let routes = Routes::new(weir);
    let routes = probes(routes);
    let routes = calls(routes);
    let routes = console(routes);
    admin_api(routes)
}

fn probes(routes: Routes) -> Routes {
    routes
        .on(Method::GET, "/healthz", Door::Open, health::healthz)
        .on(Method::GET, "/readyz", Door::Open, health::readyz)
        .on(Method::GET, "/version", Door::Open, health::version_of)
        .on(Method::POST, "/test/clock", Door::TestClock, test_clock::set)
}

/// Calls of API clients. What is not here is refused by name: nothing reaches a provider unmetered.
fn calls(routes: Routes) -> Routes {
    let (get, post) = (Method::GET, Method::POST);
    let routes = routes
        .on(post.clone(), "/v1/chat/completions", Door::Key, proxy::openai_chat)
        .on(post.clone(), "/v1/messages", Door::Key, proxy::anthropic_messages)
        .on(post.clone(), "/v1/models/{*name}", Door::Key, proxy::gemini)
        .on(post.clone(), "/v1beta/models/{*name}", Door::Key, proxy::gemini)
        .on(get.clone(), "/v1/models", Door::Key, proxy::list_models)
        .on(get.clone(), "/v1beta/models", Door::Key, proxy::list_models)
        .on(get.clone(), "/v1/models/{*name}", Door::Key, proxy::one_model)
        .on(get.clone(), "/v1beta/models/{*name}", Door::Key, proxy::one_model);
    ["/v1/{*rest}", "/v1beta/{*rest}"].into_iter().fold(routes, |routes, rest| {
        routes.on(get.clone(), rest, Door::Open, proxy::unknown_route).on(
            post.clone(),
            rest,
            Door::Open,
            proxy::unknown_route,
        )
    })
}

fn console(routes: Routes) -> Routes {
    let (create, revoke) = (Door::FormWith(Right::CreateKeys), Door::FormWith(Right::RevokeKeys));
    routes
        .pages()
        .on(Method::POST, paths::SETUP, Door::Form, forms::setup::create)
        .on(Method::POST, paths::LOGIN, Door::Form, forms::login::enter)
        .on(Method::POST, paths::LOGOUT, Door::Form, forms::login::leave)
        .on(Method::POST, paths::THEME, Door::Form, forms::theme::choose)
        .on(Method::POST, paths::pattern::TENANT_KEYS, create, forms::keys::create)
        .on(Method::POST, paths::pattern::KEY_REVOKE, revoke, forms::keys::revoke)
        .on(Method::GET, "/pkg/{*file}", Door::Open, routes::asset)
        .on(Method::GET, paths::FAVICON, Door::Open, routes::asset)
}

fn admin_api(routes: Routes) -> Routes {
    use admin::{events, keys, ledger, limits, models, overrides, plans, providers, tenants};
    let (token, get, post) = (Door::AdminToken, Method::GET, Method::POST);
    routes
        .on(Method::GET, "/openapi.json", Door::Open, admin::document)
        .on(get.clone(), "/admin/api/v1/providers", token, providers::list)
        .on(post.clone(), "/admin/api/v1/providers", token, providers::create)
        .on(Method::PUT, "/admin/api/v1/providers/{id}/credential", token, providers::credential)
        .on(Method::PUT, "/admin/api/v1/providers/{id}/quota", token, providers::quota)
        .on(get.clone(), "/admin/api/v1/models", token, models::list)
        .on(post.clone(), "/admin/api/v1/models", token, models::create)
        .on(Method::PUT, "/admin/api/v1/models/{id}/routes", token, models::set_routes)
        .on(get.clone(), "/admin/api/v1/models/{id}/prices", token, models::list_prices)
        .on(post.clone(), "/admin/api/v1/models/{id}/prices", token, models::add_price)
        .on(get.clone(), "/admin/api/v1/plans", token, plans::list)
        .on(post.clone(), "/admin/api/v1/plans", token, plans::create)
        .on(get.clone(), "/admin/api/v1/tenants", token, tenants::list)
        .on(post.clone(), "/admin/api/v1/tenants", token, tenants::create)
        .on(get.clone(), "/admin/api/v1/tenants/{id}", token, tenants::one)
        .on(Method::PATCH, "/admin/api/v1/tenants/{id}", token, tenants::change)
        .on(get.clone(), "/admin/api/v1/tenants/{id}/keys", token, keys::list)
        .on(post, "/admin/api/v1/tenants/{id}/keys", token, keys::create)
        .on(Method::DELETE, "/admin/api/v1/tenants/{id}/keys/{key_id}", token, keys::revoke)
        .on(get.clone(), "/admin/api/v1/tenants/{id}/ledger", token, ledger::list)
        .on(Method::POST, "/admin/api/v1/tenants/{id}/ledger", token, ledger::create)
        .on(get.clone(), "/admin/api/v1/tenants/{id}/limits", token, limits::list)
        .on(get.clone(), "/admin/api/v1/tenants/{id}/limit_overrides", token, overrides::list)
        .on(Method::POST, "/admin/api/v1/tenants/{id}/limit_overrides", token, overrides::set)
        .on(
            Method::POST,
            "/admin/api/v1/tenants/{id}/limit_overrides/{meter}/end",
            token,
            overrides::end,
        )
        .on(get.clone(), "/admin/api/v1/events", token, events::list)
        .on(get.clone(), "/admin/api/v1/events/{request_id}", token, events::one)
        .on(get, "/admin/api/v1/refusals/{request_id}", token, events::refusal)
}
