//! The operators' overview: is money safe, what is it spent on, who needs me.

use leptos::prelude::*;

use super::{mix, spend};
use crate::components::amount::{as_of, compact, money_total};
use crate::components::icon::{Icon, icon};
use crate::components::panel::{Panel, bad_parameters, error_box};
use crate::components::{days, frame::Place};
use crate::console::ConsoleError;
use crate::pages::request::{Asked, Query};
use crate::pages::sheet::{Sheet, sheet_page};
use crate::rights::Right;
use crate::routes::{self, query};
use crate::views::{
    DaysPanel, MixMetric, MixPanel, Month, SpendOrder, SpendPanel, TenantStatus, TrafficRange,
};
use crate::words;

/// How many months the month filter offers: a year and the running one.
const MONTHS_OFFERED: usize = 13;

/// What the URL asks for; defaults are left out of links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct View {
    pub(super) month: Option<Month>,
    pub(super) range: TrafficRange,
    pub(super) metric: MixMetric,
    pub(super) order: SpendOrder,
}

impl View {
    fn read(asked: &Query) -> (Self, Vec<(&'static str, String)>) {
        let mut bad = Vec::new();
        let view = Self {
            month: asked.parsed(query::MONTH, Month::parse, &mut bad),
            range: asked.parsed(query::RANGE, TrafficRange::parse, &mut bad).unwrap_or_default(),
            metric: asked.parsed(query::METRIC, MixMetric::parse, &mut bad).unwrap_or_default(),
            order: asked.parsed(query::ORDER, SpendOrder::parse, &mut bad).unwrap_or_default(),
        };
        (view, bad)
    }

    /// The address of this view.
    pub(super) fn url(self) -> String {
        let month = self.month.map(|month| month.to_string()).unwrap_or_default();
        let unless = |default: bool, text: &'static str| if default { "" } else { text };
        routes::with_query(
            routes::ADMIN,
            &[
                (query::MONTH, month.as_str()),
                (query::RANGE, unless(self.range == TrafficRange::default(), self.range.as_str())),
                (query::METRIC, unless(self.metric == MixMetric::default(), self.metric.as_str())),
                (query::ORDER, unless(self.order == SpendOrder::default(), self.order.as_str())),
            ],
        )
    }
}

/// The page.
pub(crate) fn overview_page() -> AnyView {
    sheet_page(Place::Overview, Right::SeeOverview, overview)
}

async fn overview(asked: Asked) -> Result<Sheet, ConsoleError> {
    let (view, bad) = View::read(&asked.query);
    let (console, viewer) = (&asked.console, &asked.viewer);
    // Asked together: the page is as slow as its slowest panel, and each fails alone.
    let (spend, mix, days) = futures_util::join!(
        console.spend(viewer, view.month, view.order),
        console.model_mix(viewer, view.range),
        console.spend_by_day(viewer, None, view.month),
    );
    let head = view! {
        {filters(view, &asked)}
        {spend.as_ref().ok().map(|panel| as_of(panel.as_of_ms, &panel.zone))}
    };
    let body = view! {
        {bad_parameters(&bad)}
        {spend.as_ref().ok().filter(|panel| panel.tenants > 0).map(attention)}
        {stats(spend.as_ref().ok(), mix.as_ref().ok(), view)}
        <div class="panels">
            {spend::panel(&spend, view, &asked)}
            {mix::panel(&mix, view, &asked)}
        </div>
        {days_panel(&days, &asked)}
    };
    Ok(Sheet {
        title: "Overview".to_owned(),
        crumbs: Vec::new(),
        head: Some(head.into_any()),
        body: body.into_any(),
    })
}

/// Month and traffic window as a GET form; every other choice rides along.
fn filters(view: View, asked: &Asked) -> AnyView {
    let now_ms = asked.instance.as_ref().map(|instance| instance.now_ms);
    let months = months_until(now_ms, view.month);
    let months = months.into_iter().map(|month| {
        view! {
            <option value=month.to_string() selected=view.month == Some(month)>
                {words::month_name(month)}
            </option>
        }
    });
    let ranges = TrafficRange::ALL.map(|range| {
        view! {
            <option value=range.as_str() selected=range == view.range>
                {format!("Last {}", range.words())}
            </option>
        }
    });
    let kept = [
        (query::METRIC, view.metric.as_str(), view.metric == MixMetric::default()),
        (query::ORDER, view.order.as_str(), view.order == SpendOrder::default()),
    ];
    let kept = kept.into_iter().filter(|(.., default)| !default).map(|(name, value, _)| {
        view! { <input type="hidden" name=name value=value/> }
    });
    view! {
        <form method="get" action=routes::ADMIN class="filters" data-testid="overview-filters">
            <label>
                <span>"Month"</span>
                <select name=query::MONTH data-testid="month">
                    <option value="" selected=view.month.is_none()>
                        "This month"
                    </option>
                    {months.collect_view()}
                </select>
            </label>
            <label>
                <span>"Traffic"</span>
                <select name=query::RANGE data-testid="range">
                    {ranges.collect_view()}
                </select>
            </label>
            {kept.collect_view()}
            <button class="button" data-testid="apply">"Apply"</button>
        </form>
    }
    .into_any()
}

/// The months before the running one, and the chosen one when it lies further back.
fn months_until(now_ms: Option<i64>, chosen: Option<Month>) -> Vec<Month> {
    let running = now_ms.map(words::rfc3339);
    let running = running.and_then(|text| Month::parse(text.get(..7)?));
    let mut months: Vec<Month> = std::iter::successors(running, |month| Some(month.previous()))
        .take(MONTHS_OFFERED)
        .collect();
    if let Some(chosen) = chosen
        && !months.contains(&chosen)
    {
        months.push(chosen);
    }
    months
}

/// One line per fact that wants somebody's attention, with a link to the tenants it is about.
fn attention(panel: &SpendPanel) -> AnyView {
    let to = |status: TenantStatus| {
        routes::with_query(routes::ADMIN_TENANTS, &[(query::STATUS, status.as_str())])
    };
    let facts = [
        (panel.tenants_at_cap, "at their cap", "at its cap", "danger", TenantStatus::Refused),
        (panel.tenants_over_80, "over 80 %", "over 80 %", "warn", TenantStatus::Over80),
    ];
    let lines: Vec<AnyView> = facts
        .into_iter()
        .filter(|(number, ..)| *number > 0)
        .map(|(number, many, one, tone, status)| {
            let what = if number == 1 { one } else { many };
            let sentence = format!("{} {what}", words::plural(number, "tenant", "tenants"));
            view! {
                <li class=tone>
                    {icon(if tone == "danger" { Icon::Stop } else { Icon::Warning })}
                    <a href=to(status) data-testid=format!("attention-{}", status.as_str())>
                        {sentence}
                    </a>
                </li>
            }
            .into_any()
        })
        .collect();
    if lines.is_empty() {
        return view! {
            <p class="attention clear" data-testid="all-clear">
                {icon(Icon::Check)}
                {format!("No tenant is over 80 % of its cap. {} checked.", words::plural(panel.tenants, "tenant", "tenants"))}
            </p>
        }
        .into_any();
    }
    view! {
        <ul class="attention" aria-label="Needs attention" data-testid="attention">
            {lines}
        </ul>
    }
    .into_any()
}

/// Four figures at a glance; one that could not be read says so in its panel.
fn stats(spend: Option<&SpendPanel>, mix: Option<&MixPanel>, view: View) -> AnyView {
    let spend_stats = spend.map(|panel| {
        let month = words::month_short(panel.month);
        let held = view! {
            "+ "
            {money_total(panel.total_held_nanos)}
            " held"
        };
        view! {
            {stat(format!("Spend in {month}"), money_total(panel.total_settled_nanos), held.into_any(), "stat-spend")}
        }
    });
    let mix_stats = mix.map(|panel| {
        let sum = |value: fn(&crate::views::MixRow) -> i64| {
            panel.rows.iter().fold(0_i64, |sum, row| sum.saturating_add(value(row)))
        };
        let requests = sum(|row| row.requests);
        let charge = sum(|row| row.charge_nanos);
        let tokens = sum(mix::tokens);
        let range = || format!("last {}", view.range.words());
        view! {
            {stat("Requests".to_owned(), compact(requests), range().into_any(), "stat-requests")}
            {stat("Tokens".to_owned(), compact(tokens), range().into_any(), "stat-tokens")}
            {stat("Charged".to_owned(), money_total(charge), range().into_any(), "stat-charged")}
        }
    });
    view! { <dl class="stats">{spend_stats} {mix_stats}</dl> }.into_any()
}

fn stat(name: String, value: AnyView, beside: AnyView, testid: &'static str) -> AnyView {
    view! {
        <div class="stat">
            <dt>{name}</dt>
            <dd data-testid=testid>{value}</dd>
            <dd class="beside">{beside}</dd>
        </div>
    }
    .into_any()
}

fn days_panel(days: &Result<DaysPanel, ConsoleError>, asked: &Asked) -> AnyView {
    let (title, body) = match days {
        Ok(panel) => (
            format!("Spend by day, {}", words::month_name(panel.month)),
            days::figure("spend-days", panel),
        ),
        Err(error) => ("Spend by day".to_owned(), error_box(error, asked)),
    };
    Panel { id: "days", title, covers: None, tools: None, body }.view()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_left_out_of_the_address() {
        assert_eq!(View::default().url(), "/admin");
        let view = View {
            month: Month::parse("2026-10"),
            range: TrafficRange::Days7,
            metric: MixMetric::Cost,
            order: SpendOrder::Cap,
        };
        assert_eq!(view.url(), "/admin?month=2026-10&range=7d&metric=cost&order=cap");
    }

    #[test]
    fn what_is_not_understood_is_named_and_defaulted() {
        let asked = Query::of(&[("month", "2026-13"), ("range", "7d"), ("metric", "gold")]);
        let (view, bad) = View::read(&asked);
        assert_eq!(view, View { range: TrafficRange::Days7, ..View::default() });
        assert_eq!(bad, [("month", "2026-13".to_owned()), ("metric", "gold".to_owned())]);
    }

    #[test]
    fn a_year_of_months_is_offered_and_the_chosen_one_stays() {
        let november = 1_796_000_000_000;
        let months = months_until(Some(november), Month::parse("2020-01"));
        assert_eq!(months.len(), MONTHS_OFFERED + 1);
        assert_eq!(months[0].to_string(), "2026-11");
        assert_eq!(months[12].to_string(), "2025-11");
        assert_eq!(months[13].to_string(), "2020-01");
    }
}
