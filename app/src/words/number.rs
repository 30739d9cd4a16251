//! Counts, shares and plurals as text.

use super::NBSP;

/// A count with its thousands set apart: `182,440`.
#[must_use]
pub fn count(number: i64) -> String {
    let text = group(number.unsigned_abs());
    if number < 0 { format!("−{text}") } else { text }
}

/// A count at a glance: `940`, `12.4 k`, `1.24 M`, `3.10 G`. Rounded down, so that it never says
/// more than there is.
#[must_use]
pub fn compact(number: i64) -> String {
    let sign = if number < 0 { "−" } else { "" };
    let size = number.unsigned_abs();
    let (unit, letter) = match size {
        0..1_000 => return format!("{sign}{size}"),
        1_000..1_000_000 => (1_000, 'k'),
        1_000_000..1_000_000_000 => (1_000_000, 'M'),
        1_000_000_000..1_000_000_000_000 => (1_000_000_000, 'G'),
        _ => (1_000_000_000_000, 'T'),
    };
    let whole = size / unit;
    let rest = size % unit;
    let text = match whole {
        0..10 => format!("{whole}.{:02}", rest / (unit / 100)),
        10..100 => format!("{whole}.{}", rest / (unit / 10)),
        _ => group(whole),
    };
    format!("{sign}{text}{NBSP}{letter}")
}

/// `part` of `whole` in whole per cent, rounded down: 99.9 % of a cap is not yet 100 %.
/// Something that is less than one per cent is said to be so.
#[must_use]
pub fn part_percent(part: i64, whole: i64) -> String {
    if whole <= 0 || part <= 0 {
        return format!("0{NBSP}%");
    }
    match i128::from(part) * 100 / i128::from(whole) {
        0 => format!("<1{NBSP}%"),
        percent => format!("{percent}{NBSP}%"),
    }
}

/// `part` of `whole` in thousandths, rounded down, within `0..=limit`.
#[must_use]
pub fn permille(part: i64, whole: i64, limit: i64) -> i64 {
    if whole <= 0 || part <= 0 {
        return 0;
    }
    let permille = i128::from(part) * 1_000 / i128::from(whole);
    i64::try_from(permille).unwrap_or(limit).min(limit)
}

/// `1 tenant`, `2 tenants`.
#[must_use]
pub fn plural(number: i64, one: &str, many: &str) -> String {
    format!("{}{NBSP}{}", count(number), if number == 1 { one } else { many })
}

/// Digits in groups of three.
pub(super) fn group(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
