//! A panel and the states it can be in.

use leptos::prelude::*;

use super::icon::{Icon, icon};
use crate::console::ConsoleError;
use crate::pages::request::Asked;
use crate::routes;

/// A panel with a heading, what its figures cover, its tools, and what it shows.
pub(crate) struct Panel {
    /// Unique on the page; also its `data-testid`.
    pub(crate) id: &'static str,
    /// The heading.
    pub(crate) title: String,
    /// What the figures cover: range and zone.
    pub(crate) covers: Option<AnyView>,
    /// Switches and links beside the heading.
    pub(crate) tools: Option<AnyView>,
    /// What is shown.
    pub(crate) body: AnyView,
}

impl Panel {
    /// The panel as a section with its own heading.
    pub(crate) fn view(self) -> AnyView {
        let heading = format!("{}-heading", self.id);
        view! {
            <section class="panel" id=self.id data-testid=self.id aria-labelledby=heading>
                <header class="panel-head">
                    <h2 id=heading.clone()>{self.title}</h2>
                    {self.covers.map(|covers| view! { <p class="covers">{covers}</p> })}
                    {self.tools.map(|tools| view! { <div class="panel-tools">{tools}</div> })}
                </header>
                <div class="panel-body">{self.body}</div>
            </section>
        }
        .into_any()
    }
}

/// What a panel shows when its question was not answered: the other panels keep working.
pub(crate) fn error_box(error: &ConsoleError, asked: &Asked) -> AnyView {
    let (said, request_id) = match error {
        ConsoleError::TooSlow { request_id } => {
            ("This took longer than the page waits for it.".to_owned(), Some(request_id.clone()))
        }
        ConsoleError::Unavailable { request_id } => {
            ("These figures could not be read.".to_owned(), Some(request_id.clone()))
        }
        ConsoleError::Forbidden { right } => (
            format!("You may not {}. This can be granted by {}.", right.words(), right.holders()),
            None,
        ),
        ConsoleError::NotFound => ("There is nothing here.".to_owned(), None),
        ConsoleError::SignedOut => ("Your session has ended.".to_owned(), None),
    };
    let retry = request_id.is_some().then(|| {
        let url = asked.url.clone();
        view! { <a class="button small" href=url data-testid="retry">"Try again"</a> }
    });
    view! {
        <div class="state error" role="status" data-testid="panel-error">
            {icon(Icon::Warning)}
            <div>
                <p>{said}</p>
                {request_id
                    .map(|id| {
                        view! { <p class="muted">"Request id " <code class="id">{id}</code></p> }
                    })}
            </div>
            {retry}
        </div>
    }
    .into_any()
}

/// What a panel shows when nothing has happened yet: what will appear, and the next step.
pub(crate) fn empty(said: &str, next: Option<AnyView>) -> AnyView {
    view! {
        <div class="state empty" data-testid="panel-empty">
            <p>{said.to_owned()}</p>
            {next}
        </div>
    }
    .into_any()
}

/// The next step where there is no tenant yet.
pub(crate) fn first_tenant() -> AnyView {
    view! {
        <p>
            "There is no tenant yet. Make the first one with " <code>"weir tenant create"</code>
            ", or look around with " <code>"weir demo"</code> "."
        </p>
    }
    .into_any()
}

/// A switch between views of the same figures: links, so that it works without scripts and each
/// choice has an address.
pub(crate) fn switch(label: &'static str, choices: Vec<(&'static str, String, bool)>) -> AnyView {
    let links = choices.into_iter().map(|(name, href, chosen)| {
        let testid = format!("switch-{}", name.to_lowercase().replace([' ', '%'], "-"));
        view! {
            <a href=href data-testid=testid aria-current=chosen.then_some("true")>
                {name}
            </a>
        }
    });
    view! {
        <nav class="switch" aria-label=label>
            {links.collect_view()}
        </nav>
    }
    .into_any()
}

/// A note over the page about parameters that were not understood.
pub(crate) fn bad_parameters(bad: &[(&'static str, String)]) -> Option<AnyView> {
    if bad.is_empty() {
        return None;
    }
    let lines = bad.iter().map(|(name, value)| {
        let shown: String = value.chars().take(routes::NAME_MAX_CHARS).collect();
        view! {
            <p>
                "This page does not know "
                <code>{format!("{name}={shown}")}</code>
                " and shows its default instead."
            </p>
        }
    });
    let lines = lines.collect_view();
    Some(
        view! {
            <div class="notice warn" role="status" data-testid="bad-parameter">
                {icon(Icon::Warning)}
                <div>{lines}</div>
            </div>
        }
        .into_any(),
    )
}
