//! Nano-USD as text.

use super::number::group;

/// Nano-USD in one USD.
const USD: u64 = 1_000_000_000;

/// An amount in a cell or a sentence.
///
/// Nothing that costs something ever reads as zero, and three decimals are never shown, because
/// `$1,043.834` reads as a million: `$0.00`, `<$0.0001`, four decimals under one dollar, else two.
#[must_use]
pub fn money(nanos: i64) -> String {
    let size = nanos.unsigned_abs();
    match size {
        0 => "$0.00".to_owned(),
        1..100_000 if nanos < 0 => "−<$0.0001".to_owned(),
        1..100_000 => "<$0.0001".to_owned(),
        // What would round up to a dollar is shown as one.
        100_000..999_950_000 => signed(nanos, &decimals(size, 4)),
        _ => signed(nanos, &decimals(size, 2)),
    }
}

/// A total: always two decimals, but never `$0.00` for something.
#[must_use]
pub fn money_total(nanos: i64) -> String {
    match nanos.unsigned_abs() {
        1..5_000_000 if nanos < 0 => "−<$0.01".to_owned(),
        1..5_000_000 => "<$0.01".to_owned(),
        size => signed(nanos, &decimals(size, 2)),
    }
}

/// The exact amount with all nine decimals, for titles.
#[must_use]
pub fn money_exact(nanos: i64) -> String {
    signed(nanos, &decimals(nanos.unsigned_abs(), 9))
}

/// An amount on an axis whose ticks are `step_nanos` apart: as many decimals as the step needs.
#[must_use]
pub fn axis_money(nanos: i64, step_nanos: i64) -> String {
    let step = step_nanos.unsigned_abs().max(1);
    let size = nanos.unsigned_abs();
    if step >= 1_000 * USD {
        let thousands = size / (100 * USD);
        let tenth = thousands % 10;
        let text = group(thousands / 10);
        return if tenth == 0 {
            signed(nanos, &format!("{text}k"))
        } else {
            signed(nanos, &format!("{text}.{tenth}k"))
        };
    }
    let mut places = 0_u32;
    while places < 9 && !step.is_multiple_of(10_u64.pow(9 - places)) {
        places += 1;
    }
    // Two decimals where one would do: "$0.5" does not read as money.
    let places = if places == 1 { 2 } else { places };
    signed(nanos, &decimals(size, places))
}

fn signed(nanos: i64, text: &str) -> String {
    if nanos < 0 { format!("−${text}") } else { format!("${text}") }
}

/// `size` nano-USD in USD with `places` decimals, half away from zero.
fn decimals(size: u64, places: u32) -> String {
    let unit = 10_u64.pow(9 - places.min(9));
    let rounded = size / unit + u64::from(size % unit >= unit.div_ceil(2) && unit > 1);
    let per_usd = USD / unit;
    let whole = group(rounded / per_usd);
    if places == 0 {
        return whole;
    }
    let width = usize::try_from(places).unwrap_or(9);
    format!("{whole}.{:0width$}", rounded % per_usd)
}
