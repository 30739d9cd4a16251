//! Money of a month: the bar, and the sentence that says the same.

use leptos::prelude::*;

use super::amount::{instant, money_total};
use crate::charts::{BudgetBar, Tone, budget_bar};
use crate::views::Budget;
use crate::words;

/// The bar of one line in a table; a dash where there is no cap to measure on.
pub(crate) fn line(
    settled_nanos: i64,
    held_nanos: i64,
    cap_nanos: Option<i64>,
    elapsed_permille: Option<i64>,
) -> AnyView {
    let Some(cap_nanos) = cap_nanos.filter(|cap| *cap > 0) else {
        return view! { <span class="muted">"no cap"</span> }.into_any();
    };
    let label = format!(
        "{} settled and {} held of {}",
        words::money_total(settled_nanos),
        words::money_total(held_nanos),
        words::money_total(cap_nanos)
    );
    let svg =
        budget_bar(&BudgetBar { settled_nanos, held_nanos, cap_nanos, elapsed_permille, label });
    view! { <div class="bar-cell" inner_html=svg></div> }.into_any()
}

/// Percent of the cap, with the tone of the bar.
pub(crate) fn percent(taken_nanos: i64, cap_nanos: Option<i64>) -> AnyView {
    let Some(cap) = cap_nanos.filter(|cap| *cap > 0) else {
        return view! { <span class="muted">"–"</span> }.into_any();
    };
    let tone = Tone::of(taken_nanos, cap_nanos).class();
    view! { <span class=format!("num tone {tone}")>{words::part_percent(taken_nanos, cap)}</span> }
        .into_any()
}

/// The legend of the bars.
pub(crate) fn legend() -> AnyView {
    view! {
        <ul class="legend" aria-label="Legend">
            <li>
                <span class="key settled"></span>
                "settled"
            </li>
            <li>
                <span class="key held"></span>
                "held for running calls"
            </li>
            <li>
                <span class="key mark80"></span>
                "80 % and cap"
            </li>
            <li>
                <span class="key elapsed"></span>
                "part of the month that has passed"
            </li>
        </ul>
    }
    .into_any()
}

/// The whole budget of a tenant: bar, amounts, reset, and what happens at the cap.
pub(crate) fn full(budget: &Budget, zone: &str, as_of_ms: i64) -> AnyView {
    let taken_nanos = budget.settled_nanos.saturating_add(budget.held_nanos);
    let bar = budget.cap_nanos.filter(|cap| *cap > 0).map(|_| {
        line(
            budget.settled_nanos,
            budget.held_nanos,
            budget.cap_nanos,
            Some(budget.elapsed_permille),
        )
    });
    let of_cap = budget.cap_nanos.map(|cap| {
        let left = cap.saturating_sub(taken_nanos).max(0);
        view! {
            {figure("Left", money_total(left), "budget-left")}
            {figure("Cap", money_total(cap), "budget-cap")}
            {figure("Used", percent(taken_nanos, budget.cap_nanos), "budget-percent")}
        }
    });
    view! {
        <div class="budget-full">
            {bar}
            <dl class="figures">
                {figure("Settled", money_total(budget.settled_nanos), "budget-settled")}
                {figure("Held", money_total(budget.held_nanos), "budget-held")} {of_cap}
            </dl>
            <p class="muted">{consequence(budget)} " " {reset(budget, zone, as_of_ms)}</p>
        </div>
    }
    .into_any()
}

fn figure(name: &'static str, value: AnyView, testid: &'static str) -> AnyView {
    view! {
        <div>
            <dt>{name}</dt>
            <dd data-testid=testid>{value}</dd>
        </div>
    }
    .into_any()
}

/// What happens at the cap, in one sentence.
fn consequence(budget: &Budget) -> String {
    match (budget.cap_nanos, budget.hard_stop_nanos) {
        (Some(cap), Some(stop)) if stop > cap => {
            format!("Calls are refused at {}, the cap with its overage.", words::money_total(stop))
        }
        (Some(cap), _) => format!("Calls are refused at {}.", words::money_total(cap)),
        (None, _) => "The plan has no cap: spend never refuses a call.".to_owned(),
    }
}

fn reset(budget: &Budget, zone: &str, as_of_ms: i64) -> AnyView {
    if budget.elapsed_permille >= 1_000 {
        return view! { "This month is over." }.into_any();
    }
    view! {
        "The month resets "
        {instant(budget.resets_ms, zone, as_of_ms)}
        " "
        {zone.to_owned()}
        ", "
        {words::until(budget.resets_ms, as_of_ms)}
        "."
    }
    .into_any()
}
