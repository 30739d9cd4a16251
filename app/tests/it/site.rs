//! The site as a router, the way the server mounts it.

use crate::fake::{Fake, Scene};
use app::console::{Console, Csrf, Role, Viewer};
use app::rights::TenantRole;
use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use leptos::config::LeptosOptions;
use leptos::prelude::provide_context;
use leptos_axum::{LeptosRoutes, generate_route_list, render_app_async_with_context};
use std::sync::Arc;

pub(crate) const CSRF: &str = "csrf-of-this-session";

/// The person of that name; `nobody` is not signed in.
pub(crate) fn person(name: &str) -> Option<Viewer> {
    let role = match name {
        "owner" => Role::Owner,
        "finance" => Role::Finance,
        "support" => Role::Support,
        "viewer" => Role::Viewer,
        "member" | "billing" => Role::TenantMember {
            slug: "acme".to_owned(),
            name: "Acme".to_owned(),
            role: if name == "member" { TenantRole::Admin } else { TenantRole::Billing },
        },
        _ => return None,
    };
    Some(Viewer { user_id: 7, email: format!("{name}@weir.example"), role })
}

/// All pages over `fake`, for `viewer`.
pub(crate) fn router(scene: Scene, viewer: Option<Viewer>) -> Router {
    let console: Arc<dyn Console> = Arc::new(Fake::new(scene));
    let options = LeptosOptions::builder().output_name("weir").site_pkg_dir("pkg").build();
    let routes = generate_route_list(app::App);
    let provide = move || provide_context::<Arc<dyn Console>>(console.clone());
    let not_found = {
        let options = options.clone();
        render_app_async_with_context(provide.clone(), move || app::shell(options.clone()))
    };
    let pages = {
        let options = options.clone();
        move || app::shell(options.clone())
    };
    Router::new()
        .leptos_routes_with_context(&options, routes, provide, pages)
        .fallback(not_found)
        .layer(from_fn(move |mut request: Request, next: Next| {
            if let Some(viewer) = viewer.clone() {
                request.extensions_mut().insert(viewer);
            }
            request.extensions_mut().insert(Csrf(CSRF.to_owned()));
            next.run(request)
        }))
        .with_state(options)
}
