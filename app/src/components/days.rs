//! The figure "spend by day": chart, legend, and the same numbers as a table.

use leptos::prelude::*;

use super::amount::money_total;
use super::panel::empty;
use crate::charts::{self, Bucket, BucketState, StackedBars, Unit, fold, stacked_bars};
use crate::islands::ChartTip;
use crate::views::DaysPanel;
use crate::words;

/// The figure. `id` is unique on the page.
pub(crate) fn figure(id: &'static str, panel: &DaysPanel) -> AnyView {
    if panel.rows.iter().all(|row| row.charge_nanos == 0) {
        return empty(
            &format!(
                "Nothing was charged in {}. Each call shows here on the day it was admitted.",
                words::month_name(panel.month)
            ),
            None,
        );
    }
    let spec = spec(id, panel);
    let chart = stacked_bars(&spec);
    view! {
        <figure class="chart-figure" data-testid=id>
            <figcaption class="legend-line">
                {legend(&spec.series)}
                <span class="muted">"per day, " {panel.zone.clone()}</span>
            </figcaption>
            <div class="chart-box">
                <div inner_html=chart.wide></div>
                <div inner_html=chart.narrow></div>
            </div>
            <ChartTip/>
            {data_table(id, &spec)}
        </figure>
    }
    .into_any()
}

fn spec(id: &'static str, panel: &DaysPanel) -> StackedBars {
    let days = panel.month.days();
    let rows = panel.rows.iter().map(|row| {
        let bucket = usize::from(row.day).checked_sub(1).unwrap_or(usize::MAX);
        (bucket, row.model.as_str(), row.charge_nanos)
    });
    let folded = fold(rows, usize::from(days));
    let buckets = (1..=days).zip(folded.buckets).map(|(day, values)| Bucket {
        label: day.to_string(),
        name: words::day_of_month(panel.month, day),
        href: format!("#{id}-{day}"),
        state: match panel.today {
            Some(today) if day == today => BucketState::SoFar,
            Some(today) if day > today => BucketState::ToCome,
            _ => BucketState::Over,
        },
        values,
    });
    StackedBars {
        id: id.to_owned(),
        title: format!("Spend by day, {}", words::month_name(panel.month)),
        unit: Unit::Money,
        series: folded.names,
        buckets: buckets.collect(),
    }
}

fn legend(series: &[String]) -> AnyView {
    let entries = series.iter().enumerate().map(|(number, name)| {
        let number = number.min(charts::SERIES_MAX);
        view! {
            <li>
                <span class=format!("swatch s{number}")></span>
                {name.clone()}
            </li>
        }
    });
    view! {
        <ul class="legend" aria-label="Models">
            {entries.collect_view()}
        </ul>
    }
    .into_any()
}

/// The same numbers as a table: the complete alternative to the picture.
fn data_table(id: &'static str, spec: &StackedBars) -> AnyView {
    let heads = spec.series.iter().map(|name| {
        view! {
            <th scope="col" class="right">
                {name.clone()}
            </th>
        }
    });
    let begun = spec.buckets.iter().zip(1..).filter(|(b, _)| b.state != BucketState::ToCome);
    let rows = begun.map(|(bucket, day)| {
        let so_far = (bucket.state == BucketState::SoFar).then_some(" so far");
        view! {
            <tr id=format!("{id}-{day}")>
                <th scope="row">{bucket.name.clone()} {so_far}</th>
                {cells(&bucket.values)}
            </tr>
        }
    });
    let columns = (0..spec.series.len()).map(|series| {
        let values = spec.buckets.iter().filter_map(|bucket| bucket.values.get(series));
        values.fold(0_i64, |sum, value| sum.saturating_add(*value))
    });
    let sums: Vec<i64> = columns.collect();
    view! {
        <details class="data">
            <summary data-testid=format!("{id}-data")>"Show data"</summary>
            <div class="table-wrap">
                <table class="dense">
                    <caption class="visually-hidden">{spec.title.clone()}</caption>
                    <thead>
                        <tr>
                            <th scope="col">"Day"</th>
                            {heads.collect_view()}
                            <th scope="col" class="right">
                                "Total"
                            </th>
                        </tr>
                    </thead>
                    <tbody>{rows.collect_view()}</tbody>
                    <tfoot>
                        <tr>
                            <th scope="row">"Month"</th>
                            {cells(&sums)}
                        </tr>
                    </tfoot>
                </table>
            </div>
        </details>
    }
    .into_any()
}

/// One cell per series, then their sum.
fn cells(values: &[i64]) -> AnyView {
    let sum = values.iter().fold(0_i64, |sum, value| sum.saturating_add(*value));
    let cells = values.iter().copied().chain([sum]).map(|nanos| {
        view! { <td class="right">{money_total(nanos)}</td> }
    });
    cells.collect_view().into_any()
}
