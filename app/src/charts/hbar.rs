//! Horizontal bars: one line of a table as a picture. Widths are percentages in attributes, so
//! that a bar fills its cell at every size without a script or a style attribute.

use std::fmt::Write;

use crate::markup::escape;
use crate::words::permille;

/// The end of a budget bar, in thousandths of the cap: the hard stop lies at 1050 by default and
/// must be visible past the 100 % tick.
const BUDGET_END_PERMILLE: i64 = 1_100;
/// A part that exists is at least this wide (thousandths of the bar): about one pixel.
const SLIVER_PERMILLE: i64 = 4;

/// How worried a bar looks. Words beside it always say the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Under 80 % of the cap, or no cap.
    Calm,
    /// At or over 80 %.
    Warn,
    /// At or over 100 %.
    Danger,
}

impl Tone {
    /// The tone of what is settled and held, measured on the cap.
    #[must_use]
    pub fn of(taken_nanos: i64, cap_nanos: Option<i64>) -> Self {
        match cap_nanos.map(|cap| permille(taken_nanos, cap, i64::MAX)) {
            Some(1_000..) => Self::Danger,
            Some(800..) => Self::Warn,
            _ => Self::Calm,
        }
    }

    /// The class that the style sheet paints.
    #[must_use]
    pub const fn class(self) -> &'static str {
        match self {
            Self::Calm => "calm",
            Self::Warn => "warn",
            Self::Danger => "danger",
        }
    }
}

/// Money in a month, measured on its cap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetBar {
    /// Settled.
    pub settled_nanos: i64,
    /// Held for calls that still run.
    pub held_nanos: i64,
    /// The cap, more than 0.
    pub cap_nanos: i64,
    /// How much of the month has passed; `None` draws no marker.
    pub elapsed_permille: Option<i64>,
    /// What a screen reader says.
    pub label: String,
}

/// The bar as SVG: settled, held (hatched), ticks at 80 and 100 %, a marker for the elapsed time.
#[must_use]
pub fn budget_bar(bar: &BudgetBar) -> String {
    let on_bar = |nanos: i64| {
        permille(nanos, bar.cap_nanos, BUDGET_END_PERMILLE) * 1_000 / BUDGET_END_PERMILLE
    };
    let taken_nanos = bar.settled_nanos.saturating_add(bar.held_nanos);
    let settled = at_least(on_bar(bar.settled_nanos), bar.settled_nanos);
    let taken = on_bar(taken_nanos).max(settled);
    let held = at_least(taken - settled, bar.held_nanos);
    let tone = Tone::of(taken_nanos, Some(bar.cap_nanos)).class();
    let cap = 1_000 * 1_000 / BUDGET_END_PERMILLE;

    let mut svg = open(&format!("bar budget {tone}"), &bar.label);
    rect(&mut svg, "track", None, 0, cap);
    rect(&mut svg, "settled", None, 0, settled);
    rect(&mut svg, "held", Some(tone), settled, held);
    for (class, at) in [("mark80", 800), ("mark100", 1_000)] {
        let x = percent(at * 1_000 / BUDGET_END_PERMILLE);
        let _ = write!(svg, "<line class=\"{class}\" x1=\"{x}\" y1=\"0\" x2=\"{x}\" y2=\"16\"/>");
    }
    if let Some(elapsed) = bar.elapsed_permille {
        let x = percent(elapsed.clamp(0, 1_000) * 1_000 / BUDGET_END_PERMILLE);
        let _ = write!(svg, "<circle class=\"elapsed\" cx=\"{x}\" cy=\"8\" r=\"2.5\"/>");
    }
    svg.push_str("</svg>");
    svg
}

/// One part of a bar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// The class that the style sheet paints.
    class: &'static str,
    /// How much it is.
    value: i64,
    /// Whether it is filled with the hatch of its class.
    hatched: bool,
}

impl Part {
    /// A part in one colour.
    #[must_use]
    pub const fn solid(class: &'static str, value: i64) -> Self {
        Self { class, value, hatched: false }
    }

    /// A part in stripes: the document defines the hatch of its class.
    #[must_use]
    pub const fn hatched(class: &'static str, value: i64) -> Self {
        Self { class, value, hatched: true }
    }
}

/// Parts of a whole beside the parts of others; `largest` is the sum that fills the whole bar.
#[must_use]
pub fn share_bar(parts: &[Part], largest: i64, label: &str) -> String {
    let mut svg = open("bar share", label);
    rect(&mut svg, "track", None, 0, 1_000);
    let mut sum = 0_i64;
    let mut from = 0;
    for part in parts.iter().filter(|part| part.value > 0) {
        sum = sum.saturating_add(part.value);
        let to = permille(sum, largest, 1_000).max(from + SLIVER_PERMILLE).min(1_000);
        let hatch = part.hatched.then_some(part.class);
        rect(&mut svg, part.class, hatch, from, to - from);
        from = to;
    }
    svg.push_str("</svg>");
    svg
}

/// `width`, but visible when `value` is something.
fn at_least(width: i64, value: i64) -> i64 {
    if value > 0 { width.max(SLIVER_PERMILLE) } else { width }
}

fn open(class: &str, label: &str) -> String {
    format!(
        "<svg class=\"{class}\" width=\"100%\" height=\"16\" role=\"img\" aria-label=\"{}\">",
        escape(label)
    )
}

/// A part of a bar. A hatch is named by attribute: the document defines it, and a style sheet
/// cannot point into the document.
fn rect(svg: &mut String, class: &str, hatch: Option<&str>, x_permille: i64, width_permille: i64) {
    let fill = hatch.map(|hatch| format!(" fill=\"url(#hatch-{hatch})\"")).unwrap_or_default();
    let _ = write!(
        svg,
        "<rect class=\"{class}\" x=\"{}\" y=\"3\" width=\"{}\" height=\"10\"{fill}/>",
        percent(x_permille),
        percent(width_permille)
    );
}

/// Thousandths as a percentage: `62.5%`.
fn percent(permille: i64) -> String {
    let permille = permille.max(0);
    format!("{}.{}%", permille / 10, permille % 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const USD: i64 = 1_000_000_000;

    fn bar(settled_nanos: i64, held_nanos: i64, cap_nanos: i64) -> BudgetBar {
        BudgetBar {
            settled_nanos,
            held_nanos,
            cap_nanos,
            elapsed_permille: Some(950),
            label: "a <b>".into(),
        }
    }

    #[test]
    fn the_bar_shows_settled_then_held_on_the_cap() {
        let svg = budget_bar(&bar(110 * USD, 22 * USD, 220 * USD));
        assert!(svg.contains("class=\"settled\" x=\"0.0%\" y=\"3\" width=\"45.4%\""), "{svg}");
        assert!(svg.contains("class=\"held\" x=\"45.4%\" y=\"3\" width=\"9.1%\""), "{svg}");
        assert!(svg.contains("aria-label=\"a &lt;b&gt;\""), "{svg}");
        assert!(svg.contains("bar budget calm"), "{svg}");
    }

    #[test]
    fn the_tone_turns_at_80_and_100_per_cent() {
        let tone = |nanos| Tone::of(nanos, Some(100 * USD));
        assert_eq!(tone(80 * USD - 1), Tone::Calm);
        assert_eq!(tone(80 * USD), Tone::Warn);
        assert_eq!(tone(100 * USD - 1), Tone::Warn);
        assert_eq!(tone(100 * USD), Tone::Danger);
        assert_eq!(Tone::of(i64::MAX, None), Tone::Calm);
    }

    #[test]
    fn a_little_is_still_seen() {
        let svg = budget_bar(&bar(0, 1, 1_000 * USD));
        assert!(svg.contains("class=\"held\" x=\"0.0%\" y=\"3\" width=\"0.4%\""), "{svg}");
        let svg = share_bar(&[Part::solid("s0", 1), Part::solid("s1", 9_999)], 10_000, "mix");
        assert!(svg.contains("class=\"s0\" x=\"0.0%\" y=\"3\" width=\"0.4%\""), "{svg}");
    }

    proptest! {
        #[test]
        fn no_amount_panics_or_leaves_the_bar(
            settled in any::<i64>(), held in any::<i64>(), cap in any::<i64>(), part in any::<i64>()
        ) {
            let budget = budget_bar(&bar(settled, held, cap));
            let shares = share_bar(&[Part::hatched("s0", part), Part::solid("s1", settled)], cap, "x");
            for svg in [budget, shares] {
                prop_assert!(!svg.contains("=\"-"), "no negative width: {}", svg);
            }
        }
    }
}
