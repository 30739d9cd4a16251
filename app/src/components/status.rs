//! Statuses as badges: always a word, the colour only repeats it.

use leptos::prelude::*;

use crate::views::{CallOutcome, EngineMode, Instance, KeyStatus, TenantStatus};

/// A badge. `tone` is `ok`, `warn`, `danger` or `quiet`.
pub(crate) fn badge(
    tone: &'static str,
    word: &'static str,
    title: Option<&'static str>,
) -> AnyView {
    view! { <span class=format!("badge {tone}") title=title>{word}</span> }.into_any()
}

/// How a tenant stands.
pub(crate) fn tenant(status: TenantStatus) -> AnyView {
    let (tone, word) = tenant_words(status);
    badge(tone, word, None)
}

/// Tone and word of a tenant's status.
pub(crate) const fn tenant_words(status: TenantStatus) -> (&'static str, &'static str) {
    match status {
        TenantStatus::Active => ("ok", "Active"),
        TenantStatus::Over80 => ("warn", "Over 80 %"),
        TenantStatus::Refused => ("danger", "At its cap"),
        TenantStatus::Suspended => ("danger", "Suspended"),
        TenantStatus::Archived => ("quiet", "Archived"),
    }
}

/// How a key stands.
pub(crate) fn key(status: KeyStatus) -> AnyView {
    let (tone, word) = match status {
        KeyStatus::Active => ("ok", "Active"),
        KeyStatus::Expiring => ("warn", "Expiring"),
        KeyStatus::Disabled => ("quiet", "Disabled"),
        KeyStatus::Expired => ("quiet", "Expired"),
        KeyStatus::Revoked => ("quiet", "Revoked"),
    };
    badge(tone, word, None)
}

/// How a call ended.
pub(crate) fn outcome(outcome: CallOutcome) -> AnyView {
    let (tone, word, title) = match outcome {
        CallOutcome::Completed => ("ok", "Completed", None),
        CallOutcome::ProviderFailed => {
            ("danger", "Provider failed", Some("The provider answered with an error"))
        }
        CallOutcome::TimedOut => {
            ("danger", "Timed out", Some("The provider did not answer in time"))
        }
        CallOutcome::ClientGone => {
            ("warn", "Client gone", Some("The client closed the connection before the end"))
        }
        CallOutcome::Interrupted => {
            ("warn", "Interrupted", Some("The gateway stopped in the middle of the answer"))
        }
        CallOutcome::Orphaned => {
            ("warn", "Orphaned", Some("Found open after a crash and closed by estimate"))
        }
    };
    badge(tone, word, title)
}

/// Whether the instance works as configured.
pub(crate) fn health(instance: Option<&Instance>) -> AnyView {
    let (tone, word, title) = match instance.map(|instance| instance.engine) {
        Some(EngineMode::Redis) => ("ok", "Healthy", Some("Redis admits the calls")),
        Some(EngineMode::Postgres) => ("ok", "Healthy", Some("PostgreSQL admits the calls")),
        Some(EngineMode::PostgresFallback) => (
            "warn",
            "Degraded: PostgreSQL admits",
            Some("Redis does not answer; PostgreSQL admits the calls by the same rules"),
        ),
        None => ("danger", "State unknown", Some("The server could not read its own state")),
    };
    view! {
        <span class=format!("pill {tone}") title=title data-testid="health">
            <span class="dot" aria-hidden="true"></span>
            {word}
        </span>
    }
    .into_any()
}
