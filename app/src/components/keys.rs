//! The table of a tenant's keys.

use leptos::prelude::*;

use super::amount::{day, instant, instant_ago, money_total};
use super::status;
use crate::routes;
use crate::views::{KeyRow, KeyStatus, KeysPanel};

/// The table. `revoke_in` is the tenant's slug where the viewer may revoke.
pub(crate) fn table(panel: &KeysPanel, revoke_in: Option<&str>) -> AnyView {
    let rows = panel.rows.iter().map(|row| key_row(row, panel, revoke_in)).collect_view();
    let actions = revoke_in.map(|_| {
        view! {
            <th scope="col">
                <span class="visually-hidden">"Actions"</span>
            </th>
        }
    });
    view! {
        <div class="table-wrap">
            <table class="cards" data-testid="keys-table">
                <caption class="visually-hidden">
                    {format!("API keys; times in {}", panel.zone)}
                </caption>
                <thead>
                    <tr>
                        <th scope="col">"Name"</th>
                        <th scope="col">"Key"</th>
                        <th scope="col">"Status"</th>
                        <th scope="col">"Created"</th>
                        <th scope="col">"Last used"</th>
                        <th scope="col">"Expires"</th>
                        <th scope="col" class="right">
                            "Spend this month"
                        </th>
                        {actions}
                    </tr>
                </thead>
                <tbody>{rows}</tbody>
            </table>
        </div>
    }
    .into_any()
}

fn key_row(row: &KeyRow, panel: &KeysPanel, revoke_in: Option<&str>) -> AnyView {
    let (zone, now_ms) = (panel.zone.as_str(), panel.as_of_ms);
    let ended = matches!(row.status, KeyStatus::Revoked | KeyStatus::Expired);
    let expires = match row.expires_ms {
        Some(at_ms) => instant(at_ms, zone, now_ms),
        None => view! { <span class="muted">"never"</span> }.into_any(),
    };
    let revoke = revoke_in.map(|slug| {
        let link = (row.status != KeyStatus::Revoked).then(|| {
            view! {
                <a
                    class="button small danger"
                    href=routes::key_revoke(slug, row.id)
                    aria-label=format!("Revoke key {}", row.name)
                    data-testid="revoke-key"
                >
                    "Revoke"
                </a>
            }
        });
        view! { <td class="action full">{link}</td> }
    });
    view! {
        <tr class:ended=ended data-testid="key-row">
            <th scope="row" data-label="Name">
                {row.name.clone()}
            </th>
            <td data-label="Key" class="full">
                <code class="id">{row.masked.clone()}</code>
            </td>
            <td data-label="Status" class="full">{status::key(row.status)}</td>
            <td data-label="Created" class="full">{day(row.created_ms, zone)}</td>
            <td data-label="Last used" class="full" data-testid="key-last-used">
                {instant_ago(row.last_used_ms, zone, now_ms, "never")}
            </td>
            <td data-label="Expires" class="full">{expires}</td>
            <td data-label="Spend this month" class="right full">
                {money_total(row.spend_month_nanos)}
            </td>
            {revoke}
        </tr>
    }
    .into_any()
}
