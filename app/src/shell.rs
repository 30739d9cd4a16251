//! The document around every page.

use http::request::Parts;
use leptos::config::LeptosOptions;
use leptos::prelude::*;
use leptos_meta::MetaTags;

use crate::policy;
use crate::routes;
use crate::theme::Theme;

/// The document: head, theme, hatches, the app.
///
/// Also sets the page's own headers (policy with the nonce, `no-store`), so that no route can
/// forget them.
#[must_use]
pub fn shell(options: LeptosOptions) -> impl IntoView {
    policy::set_page_headers();
    let theme = use_context::<Parts>().map(|parts| Theme::of(&parts.headers)).unwrap_or_default();
    view! {
        <!DOCTYPE html>
        <html lang="en" data-theme=theme.as_str()>
            <head>
                <meta charset="utf-8"/>
                <meta name="viewport" content="width=device-width, initial-scale=1"/>
                <meta name="robots" content="noindex"/>
                <link rel="stylesheet" href=routes::STYLE_SHEET/>
                <link rel="icon" href=routes::FAVICON type="image/svg+xml"/>
                <HydrationScripts options islands=true/>
                <MetaTags/>
            </head>
            <body>
                {hatches()}
                <crate::App/>
            </body>
        </html>
    }
}

/// Fills that a style sheet cannot define: stripes for what is held or cached. Bars name them by
/// id, once per document.
fn hatches() -> impl IntoView {
    let hatch = |name: &'static str| {
        view! {
            <pattern
                id=format!("hatch-{name}")
                class=format!("hatch {name}")
                width="6"
                height="6"
                patternUnits="userSpaceOnUse"
                patternTransform="rotate(45)"
            >
                <rect class="ground" width="6" height="6"></rect>
                <rect class="stripe" width="3" height="6"></rect>
            </pattern>
        }
    };
    view! {
        <svg class="hatches" width="0" height="0" aria-hidden="true" focusable="false">
            <defs>{["calm", "warn", "danger", "cached"].map(hatch).collect_view()}</defs>
        </svg>
    }
}
