//! Every page on one page.

use leptos::prelude::*;
use leptos_meta::provide_meta_context;
use leptos_router::components::{Route, Router, Routes};
use leptos_router::{SsrMode, path};

use crate::pages::account::{login_page, setup_page};
use crate::pages::admin::{
    key_created_page, key_revoke_page, overview_page, tenant_page, tenants_page,
};
use crate::pages::error::not_found_page;
use crate::pages::home::home_page;
use crate::pages::tenant::portal_page;

/// The site. Each page is rendered whole before it is sent ([`SsrMode::Async`]), so that it works
/// without scripts and its status is known.
#[component]
pub fn App() -> impl IntoView {
    provide_meta_context();
    let whole = SsrMode::Async;
    view! {
        <Router>
            <Routes fallback=not_found_page>
                <Route path=path!("/") view=home_page ssr=whole.clone()/>
                <Route path=path!("/setup") view=setup_page ssr=whole.clone()/>
                <Route path=path!("/login") view=login_page ssr=whole.clone()/>
                <Route path=path!("/admin") view=overview_page ssr=whole.clone()/>
                <Route path=path!("/admin/tenants") view=tenants_page ssr=whole.clone()/>
                <Route path=path!("/admin/tenants/:slug") view=tenant_page ssr=whole.clone()/>
                <Route
                    path=path!("/admin/tenants/:slug/keys/:id/created")
                    view=key_created_page
                    ssr=whole.clone()
                />
                <Route
                    path=path!("/admin/tenants/:slug/keys/:id/revoke")
                    view=key_revoke_page
                    ssr=whole.clone()
                />
                <Route path=path!("/t/:slug") view=portal_page ssr=whole/>
            </Routes>
        </Router>
    }
}
