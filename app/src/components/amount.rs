//! Numbers and instants with their exact value in reach: in `title` for people, in `data-value`
//! and `datetime` for programs.

use leptos::prelude::*;

use crate::words;

/// An amount in a cell or sentence.
pub(crate) fn money(nanos: i64) -> AnyView {
    amount(nanos, words::money(nanos))
}

/// A total.
pub(crate) fn money_total(nanos: i64) -> AnyView {
    amount(nanos, words::money_total(nanos))
}

fn amount(nanos: i64, text: String) -> AnyView {
    view! {
        <span class="num" data-value=nanos title=words::money_exact(nanos)>
            {text}
        </span>
    }
    .into_any()
}

/// A count in full.
pub(crate) fn count(number: i64) -> AnyView {
    view! { <span class="num" data-value=number>{words::count(number)}</span> }.into_any()
}

/// A large count at a glance, in full in the title.
pub(crate) fn compact(number: i64) -> AnyView {
    view! {
        <span class="num" data-value=number title=words::count(number)>
            {words::compact(number)}
        </span>
    }
    .into_any()
}

/// An instant: local in the zone, RFC 3339 in UTC underneath.
pub(crate) fn instant(at_ms: i64, zone: &str, now_ms: i64) -> AnyView {
    let utc = words::rfc3339(at_ms);
    view! {
        <time datetime=utc.clone() title=utc>
            {words::date_time(at_ms, zone, now_ms)}
        </time>
    }
    .into_any()
}

/// The day of an instant; the instant itself is in the title.
pub(crate) fn day(at_ms: i64, zone: &str) -> AnyView {
    let utc = words::rfc3339(at_ms);
    view! {
        <time datetime=utc.clone() title=utc>
            {words::date(at_ms, zone)}
        </time>
    }
    .into_any()
}

/// An instant with how long ago it was; `never` when there was none.
pub(crate) fn instant_ago(at_ms: Option<i64>, zone: &str, now_ms: i64, never: &str) -> AnyView {
    let Some(at_ms) = at_ms else {
        return view! { <span class="muted">{never.to_owned()}</span> }.into_any();
    };
    view! {
        <span>
            {instant(at_ms, zone, now_ms)} " "
            <span class="muted nowrap">{words::ago(at_ms, now_ms)}</span>
        </span>
    }
    .into_any()
}

/// When the figures of a page or panel were read, and the zone of its times.
pub(crate) fn as_of(as_of_ms: i64, zone: &str) -> AnyView {
    view! {
        <span class="as-of" data-testid="as-of">
            "As of "
            {instant(as_of_ms, zone, as_of_ms)}
            " "
            {zone.to_owned()}
        </span>
    }
    .into_any()
}
