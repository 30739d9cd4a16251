//! Panel 1: spend by tenant, measured on each tenant's cap.

use leptos::prelude::*;

use super::overview::View;
use crate::components::amount::money_total;
use crate::components::budget;
use crate::components::panel::{Panel, empty, error_box, first_tenant, switch};
use crate::console::ConsoleError;
use crate::pages::request::Asked;
use crate::routes::{self, query};
use crate::views::{SpendOrder, SpendPanel, SpendRow};
use crate::words;

/// The panel.
pub(super) fn panel(
    spend: &Result<SpendPanel, ConsoleError>,
    view: View,
    asked: &Asked,
) -> AnyView {
    let orders = SpendOrder::ALL.map(|order| {
        let name = match order {
            SpendOrder::Spend => "Spend",
            SpendOrder::Cap => "% of cap",
        };
        (name, View { order, ..view }.url(), order == view.order)
    });
    let (covers, body) = match spend {
        Ok(panel) => {
            let covers = format!("{}, {}", words::month_name(panel.month), panel.zone);
            (Some(covers.into_any()), figures(panel, view))
        }
        Err(error) => (None, error_box(error, asked)),
    };
    Panel {
        id: "spend",
        title: "Spend by tenant".to_owned(),
        covers,
        tools: Some(switch("Order", orders.to_vec())),
        body,
    }
    .view()
}

fn figures(panel: &SpendPanel, view: View) -> AnyView {
    if panel.tenants == 0 {
        return empty("What each tenant spends shows here.", Some(first_tenant()));
    }
    let rows = panel.rows.iter().map(|row| spend_row(row, view)).collect_view();
    view! {
        <div class="table-wrap">
            <table class="cards bars spend" data-testid="spend-table">
                <caption class="visually-hidden">
                    {format!("Spend by tenant, {}, {}", words::month_name(panel.month), panel.zone)}
                </caption>
                <thead>
                    <tr>
                        <th scope="col">"Tenant"</th>
                        <th scope="col" class="wide">
                            "On the cap"
                        </th>
                        <th scope="col" class="right">
                            "Used"
                        </th>
                        <th scope="col" class="right">
                            "Settled"
                        </th>
                        <th scope="col" class="right">
                            "Held"
                        </th>
                        <th scope="col" class="right">
                            "Cap"
                        </th>
                    </tr>
                </thead>
                <tbody>{rows}</tbody>
                <tfoot>{totals(panel)}</tfoot>
            </table>
        </div>
        <div class="panel-foot">
            {budget::legend()}
            <a href=routes::ADMIN_TENANTS data-testid="all-tenants">
                {format!("All tenants ({})", words::count(panel.tenants))}
            </a>
        </div>
    }
    .into_any()
}

fn spend_row(row: &SpendRow, view: View) -> AnyView {
    let month = view.month.map(|month| month.to_string()).unwrap_or_default();
    let href =
        routes::with_query(&routes::tenant(&row.tenant_slug), &[(query::MONTH, month.as_str())]);
    let taken_nanos = row.settled_nanos.saturating_add(row.held_nanos);
    let cap = match row.cap_nanos {
        Some(cap) => money_total(cap),
        None => view! { <span class="muted">"none"</span> }.into_any(),
    };
    view! {
        <tr data-testid="spend-row">
            <th scope="row" data-label="Tenant">
                <span class="who">
                    <a href=href title=row.tenant_name.clone() data-testid="spend-tenant">
                        {row.tenant_name.clone()}
                    </a>
                    <span class="plan">{row.plan.clone()}</span>
                </span>
            </th>
            <td data-label="On the cap" class="wide">
                {budget::line(
                    row.settled_nanos,
                    row.held_nanos,
                    row.cap_nanos,
                    Some(row.elapsed_permille),
                )}
            </td>
            <td data-label="Used" class="right">
                {budget::percent(taken_nanos, row.cap_nanos)}
            </td>
            <td data-label="Settled" class="right">
                {money_total(row.settled_nanos)}
            </td>
            <td data-label="Held" class="right" data-testid="spend-held">
                {money_total(row.held_nanos)}
            </td>
            <td data-label="Cap" class="right muted">
                {cap}
            </td>
        </tr>
    }
    .into_any()
}

/// What the tenants below the shown ones spent, and the sum of all: the column adds up.
fn totals(panel: &SpendPanel) -> AnyView {
    let shown = |value: fn(&SpendRow) -> i64| {
        panel.rows.iter().fold(0_i64, |sum, row| sum.saturating_add(value(row)))
    };
    let others = panel.tenants.saturating_sub(i64::try_from(panel.rows.len()).unwrap_or(i64::MAX));
    let other = (others > 0).then(|| {
        let settled = panel.total_settled_nanos.saturating_sub(shown(|row| row.settled_nanos));
        let held = panel.total_held_nanos.saturating_sub(shown(|row| row.held_nanos));
        let name = words::plural(others, "other tenant", "other tenants");
        sum_row(name, settled, held, "spend-other")
    });
    view! {
        {other}
        {sum_row(
            "All tenants".to_owned(),
            panel.total_settled_nanos,
            panel.total_held_nanos,
            "spend-total",
        )}
    }
    .into_any()
}

fn sum_row(name: String, settled: i64, held: i64, testid: &'static str) -> AnyView {
    view! {
        <tr data-testid=testid>
            <th scope="row" colspan="3" data-label="">
                {name}
            </th>
            <td data-label="Settled" class="right">
                {money_total(settled)}
            </td>
            <td data-label="Held" class="right">
                {money_total(held)}
            </td>
            <td class="blank"></td>
        </tr>
    }
    .into_any()
}
