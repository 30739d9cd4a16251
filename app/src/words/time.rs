//! Instants and lengths as text. An instant is milliseconds since the Unix epoch; a zone is a name
//! like `Europe/Paris`. A zone that is not known is shown as UTC, and says so.

use jiff::tz::TimeZone;
use jiff::{Timestamp, ZonedDateTime};

use super::NBSP;
use crate::views::Month;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// `November 2026`.
#[must_use]
pub fn month_name(month: Month) -> String {
    format!("{} {}", full_month(month.month()), month.year())
}

/// `Nov`.
#[must_use]
pub fn month_short(month: Month) -> &'static str {
    short_month(month.month())
}

/// `3 Nov`.
#[must_use]
pub fn day_of_month(month: Month, day: u8) -> String {
    format!("{day}{NBSP}{}", month_short(month))
}

/// `3 Nov 2026`, in `zone`.
#[must_use]
pub fn date(at_ms: i64, zone: &str) -> String {
    let at = zoned(at_ms, zone);
    format!("{} {} {}", at.day(), short_month(at.month()), at.year())
}

/// `28 Nov 09:14`, in `zone`; with the year when it is not the year of `now_ms`.
#[must_use]
pub fn date_time(at_ms: i64, zone: &str, now_ms: i64) -> String {
    let at = zoned(at_ms, zone);
    let clock = format!("{:02}:{:02}", at.hour(), at.minute());
    let day = at.day();
    let month = short_month(at.month());
    if at.year() == zoned(now_ms, zone).year() {
        format!("{day} {month} {clock}")
    } else {
        format!("{day} {month} {} {clock}", at.year())
    }
}

/// RFC 3339 in UTC, for `<time datetime>` and titles.
#[must_use]
pub fn rfc3339(at_ms: i64) -> String {
    instant(at_ms).to_string()
}

/// `just now`, `3 min ago`, `5 h ago`, `12 d ago`: only ever shown beside an absolute time.
#[must_use]
pub fn ago(at_ms: i64, now_ms: i64) -> String {
    let passed_s = now_ms.saturating_sub(at_ms).max(0) / 1_000;
    match passed_s {
        0..60 => "just now".to_owned(),
        60..3_600 => format!("{}{NBSP}min ago", passed_s / 60),
        3_600..86_400 => format!("{}{NBSP}h ago", passed_s / 3_600),
        _ => format!("{}{NBSP}d ago", passed_s / 86_400),
    }
}

/// `in 1 d 9 h`, `in 4 h 12 min`, `in 3 min`, `now`.
#[must_use]
pub fn until(at_ms: i64, now_ms: i64) -> String {
    let left_s = at_ms.saturating_sub(now_ms).max(0) / 1_000;
    let (days, hours, minutes) = (left_s / 86_400, left_s / 3_600 % 24, left_s / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => "now".to_owned(),
        (0, 0, minutes) => format!("in {minutes}{NBSP}min"),
        (0, hours, minutes) => format!("in {hours}{NBSP}h {minutes}{NBSP}min"),
        (days, hours, _) => format!("in {days}{NBSP}d {hours}{NBSP}h"),
    }
}

/// A length of time: `410 ms`, `2.9 s`, `1 min 12 s`.
#[must_use]
pub fn length_ms(length_ms: i64) -> String {
    let length_ms = length_ms.max(0);
    match length_ms {
        0..1_000 => format!("{length_ms}{NBSP}ms"),
        1_000..60_000 => format!("{}.{}{NBSP}s", length_ms / 1_000, length_ms % 1_000 / 100),
        _ => format!("{}{NBSP}min {}{NBSP}s", length_ms / 60_000, length_ms / 1_000 % 60),
    }
}

fn full_month(month: i8) -> &'static str {
    usize::try_from(month - 1).ok().and_then(|index| MONTHS.get(index)).copied().unwrap_or("?")
}

fn short_month(month: i8) -> &'static str {
    let name = full_month(month);
    name.get(..3).unwrap_or(name)
}

/// The instant, kept inside the years that can be written.
fn instant(at_ms: i64) -> Timestamp {
    Timestamp::from_millisecond(at_ms).unwrap_or(if at_ms < 0 {
        Timestamp::MIN
    } else {
        Timestamp::MAX
    })
}

fn zoned(at_ms: i64, zone: &str) -> ZonedDateTime {
    instant(at_ms).to_zoned_datetime(TimeZone::get(zone).unwrap_or(TimeZone::UTC))
}
