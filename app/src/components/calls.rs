//! The table of a tenant's newest calls.

use leptos::prelude::*;

use super::amount::{count, instant, money};
use super::status;
use crate::views::{CallRow, CallsPanel};
use crate::words;

/// The table.
pub(crate) fn table(panel: &CallsPanel) -> AnyView {
    let rows = panel.rows.iter().map(|row| call_row(row, panel)).collect_view();
    view! {
        <div class="table-wrap">
            <table class="cards dense calls" data-testid="calls-table">
                <caption class="visually-hidden">
                    {format!("Newest calls; times in {}", panel.zone)}
                </caption>
                <thead>
                    <tr>
                        <th scope="col">"Time"</th>
                        <th scope="col">"Request id"</th>
                        <th scope="col">"Key"</th>
                        <th scope="col">"Model"</th>
                        <th scope="col">"Outcome"</th>
                        <th scope="col" class="right">
                            "Input"
                        </th>
                        <th scope="col" class="right">
                            "Output"
                        </th>
                        <th scope="col" class="right">
                            "Thinking"
                        </th>
                        <th scope="col" class="right">
                            "Charge"
                        </th>
                        <th scope="col" class="right">
                            "Time taken"
                        </th>
                    </tr>
                </thead>
                <tbody>{rows}</tbody>
            </table>
        </div>
    }
    .into_any()
}

fn call_row(row: &CallRow, panel: &CallsPanel) -> AnyView {
    let estimated = row.estimated.then(|| {
        status::badge("quiet", "estimated", Some("The provider gave no usage; this is our count"))
    });
    view! {
        <tr data-testid="call-row">
            <td data-label="Time" class="full">{instant(row.at_ms, &panel.zone, panel.as_of_ms)}</td>
            <td data-label="Request id" class="full">
                <code class="id">{row.request_id.clone()}</code>
            </td>
            <td data-label="Key" class="full">{row.key_name.clone()}</td>
            <td data-label="Model" class="full">{row.model.clone()}</td>
            <td data-label="Outcome" class="full">
                <span class="badges">{status::outcome(row.outcome)} {estimated}</span>
            </td>
            <td data-label="Input" class="right">
                {count(row.input_tokens)}
            </td>
            <td data-label="Output" class="right">
                {count(row.output_tokens)}
            </td>
            <td data-label="Thinking" class="right">
                {count(row.reasoning_tokens)}
            </td>
            <td data-label="Charge" class="right">
                {money(row.charge_nanos)}
            </td>
            <td data-label="Time taken" class="right full">
                <span class="num">{words::length_ms(row.latency_ms)}</span>
            </td>
        </tr>
    }
    .into_any()
}
