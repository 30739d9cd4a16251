//! Charts, byte by byte. When a chart is meant to change, look at the file that the failed test
//! names and put it in the place of the golden one.

use app::charts::{
    Bucket, BucketState, BudgetBar, Part, StackedBars, Unit, budget_bar, share_bar, stacked_bars,
};
use std::path::Path;

const USD: i64 = 1_000_000_000;

fn matches(name: &str, svg: &str) {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    let drawn = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&drawn, svg).expect("the drawn chart is kept to be looked at");
    let expected = std::fs::read_to_string(&golden).unwrap_or_default();
    assert!(expected == svg, "{} differs from {}", drawn.display(), golden.display());
}

fn week() -> StackedBars {
    let bucket = |day: i64| Bucket {
        label: day.to_string(),
        name: format!("{day} Nov"),
        href: format!("#days-{day}"),
        state: match day {
            6 => BucketState::SoFar,
            7 => BucketState::ToCome,
            _ => BucketState::Over,
        },
        values: if day == 7 { vec![0, 0] } else { vec![day * 7 * USD, day % 3 * 2 * USD] },
    };
    StackedBars {
        id: "days".to_owned(),
        title: "Spend by day, one week".to_owned(),
        unit: Unit::Money,
        series: vec!["flash".to_owned(), "pro <&>".to_owned()],
        buckets: (1..=7).map(bucket).collect(),
    }
}

#[test]
fn a_week_of_stacked_bars() {
    let chart = stacked_bars(&week());
    matches("week-wide.svg", &chart.wide);
    matches("week-narrow.svg", &chart.narrow);
}

#[test]
fn a_chart_over_nothing() {
    let empty = StackedBars { buckets: Vec::new(), ..week() };
    matches("empty-wide.svg", &stacked_bars(&empty).wide);
}

#[test]
fn a_budget_past_80_per_cent() {
    let svg = budget_bar(&BudgetBar {
        settled_nanos: 142 * USD + USD / 10,
        held_nanos: 20 * USD,
        cap_nanos: 200 * USD,
        elapsed_permille: Some(950),
        label: "$142.10 settled and $20.00 held of $200.00".to_owned(),
    });
    matches("budget.svg", &svg);
}

#[test]
fn the_mix_of_a_model() {
    let parts = [
        Part::solid("input", 600),
        Part::hatched("cached", 150),
        Part::solid("output", 100),
        Part::solid("thinking", 0),
    ];
    matches("mix.svg", &share_bar(&parts, 1_000, "600 input, 150 cached, 100 output"));
}
