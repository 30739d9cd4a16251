//! Panel 2: what the models are used for.

use leptos::prelude::*;

use super::overview::View;
use crate::charts::{OTHER, Part, SERIES_MAX, share_bar};
use crate::components::amount::{compact, count, instant, money_total};
use crate::components::panel::{Panel, empty, error_box, switch};
use crate::console::ConsoleError;
use crate::pages::request::Asked;
use crate::views::{MixMetric, MixPanel, MixRow};
use crate::words;

/// The panel.
pub(super) fn panel(mix: &Result<MixPanel, ConsoleError>, view: View, asked: &Asked) -> AnyView {
    let metrics = MixMetric::ALL.map(|metric| {
        let name = match metric {
            MixMetric::Tokens => "Tokens",
            MixMetric::Cost => "Cost",
            MixMetric::Requests => "Requests",
        };
        (name, View { metric, ..view }.url(), metric == view.metric)
    });
    let (covers, body) = match mix {
        Ok(panel) => (Some(covers(panel)), figures(panel, view)),
        Err(error) => (None, error_box(error, asked)),
    };
    Panel {
        id: "mix",
        title: "Model mix".to_owned(),
        covers,
        tools: Some(switch("Count", metrics.to_vec())),
        body,
    }
    .view()
}

fn covers(panel: &MixPanel) -> AnyView {
    view! {
        {instant(panel.from_ms, &panel.zone, panel.as_of_ms)}
        " – "
        {instant(panel.to_ms, &panel.zone, panel.as_of_ms)}
        ", "
        {panel.zone.clone()}
    }
    .into_any()
}

/// All tokens of a model: the classes are disjoint.
pub(super) fn tokens(row: &MixRow) -> i64 {
    row.input_tokens
        .saturating_add(row.cached_input_tokens)
        .saturating_add(row.output_tokens)
        .saturating_add(row.reasoning_tokens)
}

fn measure(row: &MixRow, metric: MixMetric) -> i64 {
    match metric {
        MixMetric::Tokens => tokens(row),
        MixMetric::Cost => row.charge_nanos,
        MixMetric::Requests => row.requests,
    }
}

/// The largest models in `metric`, the rest summed up as "Other".
fn largest(rows: &[MixRow], metric: MixMetric) -> Vec<MixRow> {
    let mut rows = rows.to_vec();
    rows.sort_by(|one, other| {
        measure(other, metric).cmp(&measure(one, metric)).then(one.model.cmp(&other.model))
    });
    if rows.len() <= SERIES_MAX + 1 {
        return rows;
    }
    let rest = sum(OTHER, &rows.split_off(SERIES_MAX));
    rows.push(rest);
    rows
}

fn sum(name: &str, rows: &[MixRow]) -> MixRow {
    let total = |value: fn(&MixRow) -> i64| {
        rows.iter().fold(0_i64, |sum, row| sum.saturating_add(value(row)))
    };
    MixRow {
        model: name.to_owned(),
        input_tokens: total(|row| row.input_tokens),
        cached_input_tokens: total(|row| row.cached_input_tokens),
        output_tokens: total(|row| row.output_tokens),
        reasoning_tokens: total(|row| row.reasoning_tokens),
        requests: total(|row| row.requests),
        charge_nanos: total(|row| row.charge_nanos),
    }
}

fn figures(panel: &MixPanel, view: View) -> AnyView {
    let all = sum("All models", &panel.rows);
    if all.requests == 0 && tokens(&all) == 0 && all.charge_nanos == 0 {
        let said = format!(
            "No calls in the last {}. Models show here as soon as they are called.",
            view.range.words()
        );
        let wider = View { range: crate::views::TrafficRange::Days30, ..view };
        let next = (wider != view).then(|| {
            view! { <a class="button" href=wider.url() data-testid="widen">"Widen to 30 days"</a> }
                .into_any()
        });
        return empty(&said, next);
    }
    let rows = largest(&panel.rows, view.metric);
    let most = rows.iter().map(|row| measure(row, view.metric)).max().unwrap_or(0);
    let whole = measure(&all, view.metric);
    let lines = rows.iter().map(|row| mix_row(row, view.metric, most, whole)).collect_view();
    let classes = (view.metric == MixMetric::Tokens).then(legend);
    view! {
        <div class="table-wrap">
            <table class="mix" data-testid="mix-table">
                <caption class="visually-hidden">
                    {format!("Model mix by {}, last {}", view.metric.as_str(), view.range.words())}
                </caption>
                <thead>
                    <tr>
                        <th scope="col">"Model"</th>
                        <th scope="col" class="right">
                            "Share"
                        </th>
                        <th scope="col" class="right">
                            {head(view.metric)}
                        </th>
                    </tr>
                </thead>
                <tbody>{lines}</tbody>
            </table>
        </div>
        <div class="panel-foot">{classes}</div>
        {data_table(&rows, &all)}
    }
    .into_any()
}

const fn head(metric: MixMetric) -> &'static str {
    match metric {
        MixMetric::Tokens => "Tokens",
        MixMetric::Cost => "Charge",
        MixMetric::Requests => "Requests",
    }
}

fn mix_row(row: &MixRow, metric: MixMetric, most: i64, whole: i64) -> AnyView {
    let value = measure(row, metric);
    let parts = match metric {
        MixMetric::Tokens => vec![
            Part::solid("input", row.input_tokens),
            Part::hatched("cached", row.cached_input_tokens),
            Part::solid("output", row.output_tokens),
            Part::solid("thinking", row.reasoning_tokens),
        ],
        MixMetric::Cost | MixMetric::Requests => vec![Part::solid("input", value)],
    };
    let label = match metric {
        MixMetric::Tokens => format!(
            "{} input, {} cached, {} output, {} thinking",
            words::compact(row.input_tokens),
            words::compact(row.cached_input_tokens),
            words::compact(row.output_tokens),
            words::compact(row.reasoning_tokens)
        ),
        MixMetric::Cost => words::money_total(value),
        MixMetric::Requests => words::plural(value, "request", "requests"),
    };
    let shown = match metric {
        MixMetric::Cost => money_total(value),
        MixMetric::Tokens | MixMetric::Requests => compact(value),
    };
    view! {
        <tr data-testid="mix-row">
            <th scope="row" data-label="Model">
                <span class="over-bar">{row.model.clone()}</span>
                <span class="bar-cell" inner_html=share_bar(&parts, most, &label)></span>
            </th>
            <td data-label="Share" class="right">
                <span class="num">{words::part_percent(value, whole)}</span>
            </td>
            <td data-label=head(metric) class="right">
                {shown}
            </td>
        </tr>
    }
    .into_any()
}

fn legend() -> AnyView {
    let classes = [
        ("input", "input"),
        ("cached", "cached input"),
        ("output", "output"),
        ("thinking", "thinking"),
    ];
    let entries = classes.map(|(class, word)| {
        view! {
            <li>
                <span class=format!("key {class}")></span>
                {word}
            </li>
        }
    });
    view! {
        <ul class="legend" aria-label="Legend">
            {entries.collect_view()}
        </ul>
    }
    .into_any()
}

/// All numbers of the panel, whatever the switch shows.
fn data_table(rows: &[MixRow], all: &MixRow) -> AnyView {
    let line = |row: &MixRow| {
        view! {
            <tr>
                <th scope="row">{row.model.clone()}</th>
                <td class="right">{count(row.input_tokens)}</td>
                <td class="right">{count(row.cached_input_tokens)}</td>
                <td class="right">{count(row.output_tokens)}</td>
                <td class="right">{count(row.reasoning_tokens)}</td>
                <td class="right">{count(row.requests)}</td>
                <td class="right">{money_total(row.charge_nanos)}</td>
            </tr>
        }
        .into_any()
    };
    let heads = ["Input", "Cached", "Output", "Thinking", "Requests", "Charge"].map(|head| {
        view! {
            <th scope="col" class="right">
                {head}
            </th>
        }
    });
    view! {
        <details class="data">
            <summary data-testid="mix-data">"Show data"</summary>
            <div class="table-wrap">
                <table class="dense">
                    <caption class="visually-hidden">"Model mix, all figures"</caption>
                    <thead>
                        <tr>
                            <th scope="col">"Model"</th>
                            {heads.collect_view()}
                        </tr>
                    </thead>
                    <tbody>{rows.iter().map(line).collect_view()}</tbody>
                    <tfoot>{line(all)}</tfoot>
                </table>
            </div>
        </details>
    }
    .into_any()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(model: &str, output_tokens: i64, charge_nanos: i64) -> MixRow {
        MixRow { output_tokens, charge_nanos, ..sum(model, &[]) }
    }

    #[test]
    fn the_largest_by_the_chosen_measure_are_named_and_the_rest_add_up() {
        let rows: Vec<MixRow> =
            (1..=9).map(|number| row(&format!("m{number}"), number, 10 - number)).collect();
        let by_tokens = largest(&rows, MixMetric::Tokens);
        assert_eq!(by_tokens[0].model, "m9");
        assert_eq!(by_tokens.last().unwrap(), &row("Other", 1 + 2 + 3 + 4, 9 + 8 + 7 + 6));
        assert_eq!(largest(&rows, MixMetric::Cost)[0].model, "m1");
        assert_eq!(largest(&rows[..6], MixMetric::Cost).len(), 6);
    }
}
