//! Numbers, money, dates and plurals as the pages say them: English, in one place, so that a
//! catalogue of languages can come later without touching a page. Integer arithmetic only.

mod money;
mod number;
mod time;

pub use money::{axis_money, money, money_exact, money_total};
pub use number::{compact, count, part_percent, permille, plural};
pub use time::{
    ago, date, date_time, day_of_month, length_ms, month_name, month_short, rfc3339, until,
};

/// No-break space: a number and its unit stay on one line.
const NBSP: char = '\u{a0}';

#[cfg(test)]
mod tests;
