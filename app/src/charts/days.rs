//! Stacked bars over time, drawn by plotters in two sizes.

use std::fmt::Write;

use plotters::prelude::*;

use super::backend::{Ink, TokenBackend};
use super::scale::Scale;
use super::{BUCKETS_MAX, SERIES_MAX, TAB_STOPS_MAX};
use crate::markup::escape;
use crate::words::{axis_money, compact, count, money_total};

/// One bucket is this long on the x axis, so that a bar's edges are whole numbers.
const BUCKET: i64 = 1_000;
/// Room left on either side of a bar.
const GAP: i64 = 140;

/// What the values are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Nano-USD.
    Money,
    /// A count.
    Count,
}

impl Unit {
    fn total(self, value: i64) -> String {
        match self {
            Self::Money => money_total(value),
            Self::Count => count(value),
        }
    }

    fn tick(self, value: i64, step: i64) -> String {
        match self {
            Self::Money => axis_money(value, step),
            Self::Count => compact(value),
        }
    }

    /// The height of an axis over nothing.
    const fn empty(self) -> i64 {
        match self {
            Self::Money => 1_000_000_000,
            Self::Count => 10,
        }
    }
}

/// How far a bucket is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BucketState {
    /// It is over: its sum will not change.
    Over,
    /// It is running: its bar is drawn lighter and named "so far".
    SoFar,
    /// It has not begun: its place stays empty.
    ToCome,
}

/// One bar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bucket {
    /// On the axis: `3`.
    pub label: String,
    /// In words: `3 Nov`.
    pub name: String,
    /// Where a click leads.
    pub href: String,
    /// How far it is.
    pub state: BucketState,
    /// One value per series; less than 0 is drawn as 0.
    pub values: Vec<i64>,
}

/// A chart of stacked bars.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StackedBars {
    /// Unique on the page, letters and dashes.
    pub id: String,
    /// What is shown: `Spend by day, November 2026`.
    pub title: String,
    /// What the values are.
    pub unit: Unit,
    /// Names, largest first.
    pub series: Vec<String>,
    /// Bars from left to right.
    pub buckets: Vec<Bucket>,
}

/// One chart, drawn twice.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChartSvg {
    /// 960 by 240, for a wide container.
    pub wide: String,
    /// 360 by 220, for a narrow one.
    pub narrow: String,
}

struct Size {
    name: &'static str,
    width: u32,
    height: u32,
    label_width: u32,
    /// Most labels on the x axis.
    x_labels: usize,
    y_ticks: i64,
}

const WIDE: Size =
    Size { name: "wide", width: 960, height: 240, label_width: 56, x_labels: 31, y_ticks: 4 };
const NARROW: Size =
    Size { name: "narrow", width: 360, height: 220, label_width: 52, x_labels: 8, y_ticks: 3 };

/// Draws the chart.
#[must_use]
pub fn stacked_bars(spec: &StackedBars) -> ChartSvg {
    let buckets = thin_out(&spec.buckets);
    let finding = finding(spec.unit, &buckets);
    ChartSvg {
        wide: draw(spec, &buckets, &finding, &WIDE),
        narrow: draw(spec, &buckets, &finding, &NARROW),
    }
}

fn draw(spec: &StackedBars, buckets: &[Bucket], finding: &str, size: &Size) -> String {
    let largest = buckets.iter().map(total).max().unwrap_or(0);
    let scale = Scale::holding(largest, size.y_ticks, spec.unit.empty());
    let mut marks = String::new();
    // The backend cannot fail; were it to, the hit layer and the table still say everything.
    let plot = plot(&mut marks, spec.unit, buckets, scale, size).unwrap_or_default();

    let id = format!("{}-{}", escape(&spec.id), size.name);
    let mut svg = format!(
        "<svg class=\"chart {}\" viewBox=\"0 0 {} {}\" role=\"group\" \
         aria-labelledby=\"{id}-title\" aria-describedby=\"{id}-desc\">\
         <title id=\"{id}-title\">{}</title><desc id=\"{id}-desc\">{}</desc>\
         <g aria-hidden=\"true\">{marks}</g>",
        size.name,
        size.width,
        size.height,
        escape(&spec.title),
        escape(finding),
    );
    hits(&mut svg, spec, buckets, &plot);
    svg.push_str("</svg>");
    svg
}

/// Where the bars stand, in units of the view box.
#[derive(Default)]
struct Plot {
    x: std::ops::Range<i32>,
    y: std::ops::Range<i32>,
}

fn plot(
    marks: &mut String,
    unit: Unit,
    buckets: &[Bucket],
    scale: Scale,
    size: &Size,
) -> Option<Plot> {
    let bars = i64::try_from(buckets.len().max(1)).ok()?;
    let every = buckets.len().div_ceil(size.x_labels).max(1);
    let centres: Vec<i64> = (0..bars).step_by(every).map(|bar| bar * BUCKET + BUCKET / 2).collect();
    let root = TokenBackend::new(marks, (size.width, size.height)).into_drawing_area();
    let mut chart = ChartBuilder::on(&root)
        .margin_top(10)
        .margin_right(8)
        .x_label_area_size(24)
        .y_label_area_size(size.label_width)
        .build_cartesian_2d(
            (0..bars * BUCKET).with_key_points(centres),
            (0..scale.top).with_key_points(scale.ticks()),
        )
        .ok()?;
    let label = Ink::Label.colour();
    let labels = TextStyle::from(("sans-serif", 11)).color(&label);
    chart
        .configure_mesh()
        .disable_x_mesh()
        .set_all_tick_mark_size(3)
        .axis_style(Ink::Grid.colour())
        .bold_line_style(Ink::Grid.colour())
        .label_style(labels)
        .x_label_formatter(&|x| label_at(buckets, *x))
        .y_label_formatter(&|y| unit.tick(*y, scale.step))
        .draw()
        .ok()?;
    chart.draw_series(rectangles(buckets)).ok()?;
    let base = [(0, 0), (bars * BUCKET, 0)];
    chart.draw_series([PathElement::new(base, Ink::Axis.colour())]).ok()?;
    let (x, y) = chart.plotting_area().get_pixel_range();
    Some(Plot { x, y })
}

fn label_at(buckets: &[Bucket], x: i64) -> String {
    usize::try_from(x / BUCKET)
        .ok()
        .and_then(|bar| buckets.get(bar))
        .map(|bucket| bucket.label.clone())
        .unwrap_or_default()
}

fn rectangles(buckets: &[Bucket]) -> impl Iterator<Item = Rectangle<(i64, i64)>> + '_ {
    (0_i64..).zip(buckets).flat_map(|(bar, bucket)| {
        let left = bar * BUCKET + GAP;
        let right = (bar + 1) * BUCKET - GAP;
        let so_far = bucket.state == BucketState::SoFar;
        let mut base = 0_i64;
        (0_usize..).zip(&bucket.values).filter_map(move |(series, value)| {
            let bottom = base;
            base = base.saturating_add((*value).max(0));
            let number = u8::try_from(series.min(SERIES_MAX)).unwrap_or(u8::MAX);
            let ink = if so_far { Ink::SoFar(number) } else { Ink::Series(number) };
            let corners = [(left, base), (right, bottom)];
            (base > bottom).then(|| Rectangle::new(corners, ink.colour().filled()))
        })
    })
}

/// The layer that is hovered, focused and clicked: one link over each bar's whole height.
fn hits(svg: &mut String, spec: &StackedBars, buckets: &[Bucket], plot: &Plot) {
    let bars = i64::try_from(buckets.len()).unwrap_or(i64::MAX);
    let width = i64::from(plot.x.end.saturating_sub(plot.x.start));
    let height = plot.y.end.saturating_sub(plot.y.start);
    if bars == 0 || width <= 0 {
        return;
    }
    let tab = if buckets.len() > TAB_STOPS_MAX { " tabindex=\"-1\"" } else { "" };
    svg.push_str("<g class=\"hits\">");
    for (bar, bucket) in (0_i64..).zip(buckets) {
        if bucket.state == BucketState::ToCome {
            continue;
        }
        let from = i64::from(plot.x.start) + bar * width / bars;
        let to = i64::from(plot.x.start) + (bar + 1) * width / bars;
        let _ = write!(
            svg,
            "<a class=\"hit\" href=\"{}\"{tab} data-series=\"{}\" data-testid=\"chart-hit\">\
             <title>{}</title>\
             <rect x=\"{from}\" y=\"{}\" width=\"{}\" height=\"{height}\"/></a>",
            escape(&bucket.href),
            shown(spec, bucket).map(|(number, ..)| number.to_string()).collect::<String>(),
            escape(&sentence(spec, bucket)),
            plot.y.start,
            to - from,
        );
    }
    svg.push_str("</g>");
}

/// What a bar says: a line with its sum, then a line per series, largest first. The tooltip and
/// the screen reader take it from here.
fn sentence(spec: &StackedBars, bucket: &Bucket) -> String {
    let so_far = if bucket.state == BucketState::SoFar { ", so far" } else { "" };
    let mut text = format!("{}{so_far}: {}", bucket.name, spec.unit.total(total(bucket)));
    for (_, name, value) in shown(spec, bucket) {
        let _ = write!(text, "\n{name}: {}", spec.unit.total(value));
    }
    text
}

/// The series that a bar consists of: number, name, value. The tooltip's swatches go by the
/// numbers, one digit each.
fn shown<'a>(
    spec: &'a StackedBars,
    bucket: &'a Bucket,
) -> impl Iterator<Item = (usize, &'a str, i64)> {
    let named = spec.series.iter().zip(&bucket.values).enumerate();
    named
        .filter(|(_, (_, value))| **value > 0)
        .map(|(number, (name, value))| (number.min(SERIES_MAX), name.as_str(), *value))
}

/// What the chart says as a whole.
fn finding(unit: Unit, buckets: &[Bucket]) -> String {
    let sum = buckets.iter().fold(0_i64, |sum, bucket| sum.saturating_add(total(bucket)));
    if sum == 0 {
        return "Nothing in this time.".to_owned();
    }
    let mut text = format!("Total {}.", unit.total(sum));
    let over = || buckets.iter().filter(|bucket| bucket.state == BucketState::Over);
    if let (Some(most), Some(least)) =
        (over().max_by_key(|b| total(b)), over().min_by_key(|b| total(b)))
    {
        let _ = write!(
            text,
            " Highest {} with {}, lowest {} with {}.",
            most.name,
            unit.total(total(most)),
            least.name,
            unit.total(total(least))
        );
    }
    text
}

fn total(bucket: &Bucket) -> i64 {
    bucket.values.iter().fold(0_i64, |sum, value| sum.saturating_add((*value).max(0)))
}

/// At most [`BUCKETS_MAX`] buckets: neighbours are summed, so that no value is lost.
fn thin_out(buckets: &[Bucket]) -> Vec<Bucket> {
    let together = buckets.len().div_ceil(BUCKETS_MAX).max(1);
    buckets
        .chunks(together)
        .filter_map(|chunk| {
            let (first, rest) = chunk.split_first()?;
            let mut merged = first.clone();
            for bucket in rest {
                merged.values.resize(merged.values.len().max(bucket.values.len()), 0);
                for (sum, value) in merged.values.iter_mut().zip(&bucket.values) {
                    *sum = sum.saturating_add(*value);
                }
                if bucket.state == BucketState::SoFar {
                    merged.state = BucketState::SoFar;
                }
            }
            if let Some(last) = rest.last() {
                merged.name = format!("{} to {}", first.name, last.name);
            }
            Some(merged)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bars(values: Vec<Vec<i64>>) -> StackedBars {
        let buckets = values.into_iter().enumerate().map(|(number, values)| Bucket {
            label: number.to_string(),
            name: format!("bucket {number}"),
            href: format!("#b-{number}"),
            state: BucketState::Over,
            values,
        });
        StackedBars {
            id: "test".into(),
            title: "A <title>".into(),
            unit: Unit::Count,
            series: vec!["one".into(), "two & three".into()],
            buckets: buckets.collect(),
        }
    }

    #[test]
    fn every_bucket_that_has_begun_is_a_link_that_says_its_sum() {
        let mut spec = bars(vec![vec![3, 4], vec![0, 0], vec![1, 0]]);
        spec.buckets[1].state = BucketState::SoFar;
        spec.buckets[2].state = BucketState::ToCome;
        let svg = stacked_bars(&spec).wide;
        assert_eq!(svg.matches("<a class=\"hit\"").count(), 2);
        assert!(svg.contains("<title>bucket 0: 7\none: 3\ntwo &amp; three: 4</title>"), "{svg}");
        assert!(svg.contains("<title>bucket 1, so far: 0</title>"), "{svg}");
        assert!(svg.contains("<title id=\"test-wide-title\">A &lt;title&gt;</title>"), "{svg}");
    }

    #[test]
    fn many_bars_leave_the_tab_order_and_keep_their_sum() {
        let svg = stacked_bars(&bars(vec![vec![1, 1]; 10_000])).narrow;
        assert_eq!(svg.matches("tabindex=\"-1\"").count(), BUCKETS_MAX);
        assert!(svg.contains("Total 20,000."), "{svg}");
    }

    #[test]
    fn the_axis_has_few_labels_when_it_is_narrow() {
        let chart = stacked_bars(&bars(vec![vec![1, 1]; 30]));
        assert_eq!(chart.wide.matches("text-anchor=\"middle\"").count(), 30);
        assert_eq!(chart.narrow.matches("text-anchor=\"middle\"").count(), 8);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn no_data_panics(values in prop::collection::vec(prop::collection::vec(any::<i64>(), 0..9), 0..50)) {
            let chart = stacked_bars(&bars(values));
            prop_assert!(chart.wide.ends_with("</svg>") && chart.narrow.ends_with("</svg>"));
        }
    }
}
