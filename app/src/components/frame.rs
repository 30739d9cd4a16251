//! The frames around pages: operators, tenants, and people who are not signed in.

use leptos::prelude::*;
use leptos_meta::Title;

use super::icon::{Icon, icon};
use super::{menu, status};
use crate::console::{Role, Viewer};
use crate::markup::escape;
use crate::pages::request::Asked;
use crate::pages::sheet::Sheet;
use crate::rights::Right;
use crate::routes;
use crate::views::{EngineMode, Instance};

/// For whom a page is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Audience {
    /// The people who run this instance.
    Operators,
    /// The members of one tenant.
    Members,
}

/// Which entry of the navigation a page belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// The operators' overview.
    Overview,
    /// Tenants and all that belongs to one.
    Tenants,
    /// A tenant's own overview.
    Portal,
}

impl Place {
    pub(crate) const fn audience(self) -> Audience {
        match self {
            Self::Overview | Self::Tenants => Audience::Operators,
            Self::Portal => Audience::Members,
        }
    }

    const fn right(self) -> Right {
        match self {
            Self::Overview => Right::SeeOverview,
            Self::Tenants => Right::SeeTenants,
            Self::Portal => Right::SeePortal,
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Self::Overview | Self::Portal => "Overview",
            Self::Tenants => "Tenants",
        }
    }

    const fn icon(self) -> Icon {
        match self {
            Self::Overview | Self::Portal => Icon::Overview,
            Self::Tenants => Icon::Tenants,
        }
    }

    fn path(self, viewer: &Viewer) -> String {
        match self {
            Self::Overview => routes::ADMIN.to_owned(),
            Self::Tenants => routes::ADMIN_TENANTS.to_owned(),
            Self::Portal => viewer.home(),
        }
    }
}

/// The navigation: groups with their entries. An entry without the right is not there.
const GROUPS: [(Audience, &str, &[Place]); 3] = [
    (Audience::Operators, "Watch", &[Place::Overview]),
    (Audience::Operators, "Customers", &[Place::Tenants]),
    (Audience::Members, "Usage", &[Place::Portal]),
];

/// A sheet for a signed-in person.
pub(crate) fn full_frame(place: Place, asked: &Asked, sheet: Sheet) -> AnyView {
    let instance = asked.instance.as_ref();
    let product = product_name(place.audience(), &asked.viewer, instance);
    view! {
        {window_title(&sheet.title, &product)}
        <a class="skip" href="#main">"Skip to content"</a>
        <div class="frame">
            <header class="top">
                <a class="brand" href=asked.viewer.home() data-testid="home">
                    {mark()}
                    <span>"Weir"</span>
                </a>
                <span class="instance" data-testid="instance-name">{product.clone()}</span>
                <span class="spring"></span>
                {(place.audience() == Audience::Operators).then(|| status::health(instance))}
                {menu::account_menu(asked)}
            </header>
            {navigation(place, &asked.viewer)}
            <main id="main" tabindex="-1">
                {demo_banner(instance)}
                {(place.audience() == Audience::Operators).then(|| fallback_banner(instance))}
                {page_head(sheet.crumbs, sheet.title, sheet.head)}
                {sheet.body}
            </main>
        </div>
    }
    .into_any()
}

/// A sheet for people who are not signed in: one column in the middle.
pub(crate) fn bare_frame(sheet: Sheet, home: Option<String>) -> AnyView {
    let home = home.unwrap_or_else(|| routes::LOGIN.to_owned());
    view! {
        {window_title(&sheet.title, "Weir")}
        <main id="main" class="bare" tabindex="-1">
            <a class="brand" href=home data-testid="home">
                {mark()}
                <span>"Weir"</span>
            </a>
            <div class="panel sheet">
                <h1>{sheet.title}</h1>
                {sheet.body}
            </div>
        </main>
    }
    .into_any()
}

/// The title of the window. leptos_meta writes it into the head as it is, markup and all, and names
/// of tenants are in it: it is escaped here.
fn window_title(page: &str, product: &str) -> AnyView {
    view! { <Title text=escape(&format!("{page} · {product}"))/> }.into_any()
}

fn product_name(audience: Audience, viewer: &Viewer, instance: Option<&Instance>) -> String {
    match (audience, &viewer.role) {
        (Audience::Members, Role::TenantMember { name, .. }) => name.clone(),
        _ => instance.map_or_else(|| "Weir".to_owned(), |instance| instance.name.clone()),
    }
}

fn navigation(place: Place, viewer: &Viewer) -> AnyView {
    let groups = GROUPS.into_iter().filter(|(audience, ..)| *audience == place.audience());
    let groups = groups.map(|(_, name, places)| {
        let entries = places.iter().filter(|entry| viewer.may(entry.right())).map(|entry| {
            let testid = format!("nav-{}", entry.words().to_lowercase());
            view! {
                <li>
                    <a
                        href=entry.path(viewer)
                        aria-current=(*entry == place).then_some("page")
                        data-testid=testid
                    >
                        {icon(entry.icon())}
                        <span>{entry.words()}</span>
                    </a>
                </li>
            }
        });
        let entries = entries.collect_view();
        view! {
            <div class="nav-group">
                <p class="nav-title">{name}</p>
                <ul>{entries}</ul>
            </div>
        }
    });
    let groups = groups.collect_view();
    view! {
        <nav class="side" aria-label="Main">
            {groups}
        </nav>
    }
    .into_any()
}

fn page_head(crumbs: Vec<(String, String)>, title: String, head: Option<AnyView>) -> AnyView {
    let trail = (!crumbs.is_empty()).then(|| {
        let links = crumbs.into_iter().map(|(words, path)| {
            view! {
                <li>
                    <a href=path data-testid="crumb">{words}</a>
                    {icon(Icon::Chevron)}
                </li>
            }
        });
        let links = links.collect_view();
        view! {
            <nav class="crumbs" aria-label="Breadcrumb">
                <ol>{links}</ol>
            </nav>
        }
    });
    view! {
        <div class="page-head">
            <div>{trail} <h1>{title}</h1></div>
            {head.map(|head| view! { <div class="page-tools">{head}</div> })}
        </div>
    }
    .into_any()
}

fn demo_banner(instance: Option<&Instance>) -> Option<AnyView> {
    instance.filter(|instance| instance.demo).map(|_| {
        view! {
            <p class="notice demo" role="note" data-testid="demo-banner">
                <strong>"Demo data."</strong>
                " Tenants and calls on this page are made up; the provider is simulated."
            </p>
        }
        .into_any()
    })
}

/// Operators see on every page that the second choice admits: limits hold, and calls take longer.
fn fallback_banner(instance: Option<&Instance>) -> Option<AnyView> {
    let is_fallback = |instance: &&Instance| instance.engine == EngineMode::PostgresFallback;
    instance.filter(is_fallback).map(|_| {
        view! {
            <p class="notice warn" role="status" data-testid="fallback-banner">
                <strong>"Redis does not answer."</strong>
                " PostgreSQL admits the calls: every limit holds, and each call takes some milliseconds longer. \
                 Weir goes back to Redis by itself once every process reaches it."
            </p>
        }
        .into_any()
    })
}

/// The mark: a weir seen from the side, three steps of water.
fn mark() -> AnyView {
    view! {
        <svg class="mark" viewBox="0 0 20 20" width="20" height="20" aria-hidden="true">
            <path d="M2 5c2-1.6 4-1.6 6 0s4 1.6 6 0 3-1.4 4-.8"></path>
            <path d="M2 10.2c2-1.6 4-1.6 6 0s4 1.6 6 0 3-1.4 4-.8"></path>
            <path d="M2 15.4c2-1.6 4-1.6 6 0s4 1.6 6 0 3-1.4 4-.8"></path>
        </svg>
    }
    .into_any()
}
