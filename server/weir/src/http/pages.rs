//! The pages of `app`, with the console in their context.

use std::sync::Arc;

use app::App;
use app::console::Console;
use app::shell;
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use domain::id::RequestId;
use http::request::Parts;
use http::{Method, Response, StatusCode};
use leptos::config::LeptosOptions;
use leptos::prelude::{provide_context, use_context};
use leptos_axum::{AxumRouteListing, LeptosRoutes, generate_route_list};

use crate::console::WeirConsole;
use crate::weir::Weir;

/// The name of the site's files, as the build gives it: `weir.js`, `weir_bg.wasm`, `weir.css`.
const NAME: &str = "weir";

fn options() -> LeptosOptions {
    LeptosOptions::builder().output_name(NAME).site_pkg_dir("pkg").build()
}

/// Every page.
pub(super) fn list() -> Vec<AxumRouteListing> {
    generate_route_list(App)
}

/// The pages as routes.
pub(super) fn router(weir: &Weir, pages: Vec<AxumRouteListing>) -> Router<Weir> {
    let options = options();
    let shell_options = options.clone();
    Router::new()
        .leptos_routes_with_context(&options, pages, context(weir), move || {
            shell(shell_options.clone())
        })
        .with_state(options)
}

/// The page for an address that is none.
pub(super) async fn not_found(weir: Weir, request: Request) -> Response<Body> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return super::answer::sentence(StatusCode::NOT_FOUND, "There is nothing here.");
    }
    let options = options();
    let render =
        leptos_axum::render_app_async_with_context(context(&weir), move || shell(options.clone()));
    render(request).await
}

/// Gives each page its console: it knows the request's id, for the page to show when it fails.
fn context(weir: &Weir) -> impl Fn() + Clone + Send + Sync + 'static {
    let weir = weir.clone();
    move || {
        let request_id = use_context::<Parts>()
            .and_then(|parts| parts.extensions.get::<RequestId>().copied())
            .unwrap_or_else(|| RequestId::from_parts(0, 0));
        let console: Arc<dyn Console> = Arc::new(WeirConsole::new(weir.clone(), request_id));
        provide_context(console);
    }
}
