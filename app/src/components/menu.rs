//! The account menu: who is signed in, theme, sign out. Plain forms.

use leptos::prelude::*;

use super::form::csrf_field;
use crate::console::Role;
use crate::pages::request::Asked;
use crate::rights::TenantRole;
use crate::routes::{self, field};
use crate::theme::Theme;
use http::request::Parts;

/// The menu at the right end of the top bar.
pub(crate) fn account_menu(asked: &Asked) -> AnyView {
    let email = asked.viewer.email.clone();
    let initial = email.chars().next().map_or_else(String::new, |c| c.to_uppercase().to_string());
    view! {
        <details class="menu">
            <summary aria-label=format!("Account of {email}") data-testid="account-menu">
                <span class="avatar" aria-hidden="true">{initial}</span>
                <span class="menu-name">{email.clone()}</span>
            </summary>
            <div class="menu-sheet">
                <p class="menu-who">
                    <strong>{email}</strong>
                    <span class="muted">{role_words(&asked.viewer.role)}</span>
                </p>
                {theme_form(&asked.url)}
                <form method="post" action=routes::LOGOUT>
                    {csrf_field()}
                    <button class="button wide" data-testid="sign-out">"Sign out"</button>
                </form>
            </div>
        </details>
    }
    .into_any()
}

fn theme_form(url: &str) -> AnyView {
    let now = use_context::<Parts>().map(|parts| Theme::of(&parts.headers)).unwrap_or_default();
    let buttons = Theme::ALL.map(|theme| {
        let word = match theme {
            Theme::System => "System",
            Theme::Light => "Light",
            Theme::Dark => "Dark",
        };
        view! {
            <button
                name=field::THEME
                value=theme.as_str()
                aria-pressed=if theme == now { "true" } else { "false" }
                data-testid=format!("theme-{}", theme.as_str())
            >
                {word}
            </button>
        }
    });
    view! {
        <form method="post" action=routes::THEME class="theme">
            {csrf_field()}
            <input type="hidden" name=field::BACK value=url.to_owned()/>
            <fieldset>
                <legend>"Theme"</legend>
                <div class="switch">{buttons.collect_view()}</div>
            </fieldset>
        </form>
    }
    .into_any()
}

const fn role_words(role: &Role) -> &'static str {
    match role {
        Role::Owner => "Owner",
        Role::Admin => "Admin",
        Role::Finance => "Finance",
        Role::Support => "Support",
        Role::Viewer => "Viewer",
        Role::TenantMember { role, .. } => match role {
            TenantRole::Owner => "Tenant owner",
            TenantRole::Admin => "Tenant admin",
            TenantRole::Billing => "Tenant billing",
            TenantRole::Dev => "Tenant developer",
            TenantRole::Viewer => "Tenant viewer",
        },
    }
}
