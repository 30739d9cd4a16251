//! The equation as a person reads it.

use domain::money::Nanos;

use super::{Counter, Line, Verified};

/// The columns.
const HEAD: [&str; 11] = [
    "tenant",
    "events",
    "charge",
    "ledger usage",
    "slices",
    "rollups",
    "counter",
    "held",
    "balance",
    "Σ ledger",
    "difference",
];
/// What stands where a place has nothing to say.
const NONE: &str = "-";

/// A line for each tenant, one for the house, and a sentence.
pub(super) fn table(verified: &Verified) -> String {
    let head = HEAD.map(ToOwned::to_owned);
    let rows: Vec<[String; 11]> =
        std::iter::once(head).chain(verified.lines.iter().map(row)).collect();
    let widths: [usize; 11] =
        std::array::from_fn(|at| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0));
    let mut text: Vec<String> = rows.iter().map(|row| laid_out(row, &widths)).collect();
    if let Some(house) = verified.house {
        let say = if house.agrees() { "agree" } else { "DIFFER" };
        text.push(String::new());
        text.push(format!(
            "house: events cost {}, ledger cost {}, payable {}: they {say}",
            Nanos(house.events_cost),
            Nanos(house.ledger_cost),
            Nanos(house.ledger_payable)
        ));
    }
    let wrong = verified.lines.iter().filter(|line| !line.differences.is_empty()).count();
    let sentence = match (wrong, verified.agrees()) {
        (0, true) => "All places agree. Amounts are in USD.".to_owned(),
        (0, false) => "The house's books differ.".to_owned(),
        (1, _) => "The books of 1 tenant differ.".to_owned(),
        (wrong, _) => format!("The books of {wrong} tenants differ."),
    };
    text.extend([String::new(), sentence]);
    text.join("\n")
}

/// The first and the last column to the left, numbers to the right.
fn laid_out(row: &[String; 11], widths: &[usize; 11]) -> String {
    let mut text = String::new();
    for (at, (cell, width)) in row.iter().zip(widths).enumerate() {
        let gap = " ".repeat(width.saturating_sub(cell.chars().count()));
        let parts = match at {
            0 => [cell, &*gap, ""],
            10 => ["  ", cell, ""],
            _ => ["  ", &*gap, cell],
        };
        text.extend(parts);
    }
    text
}

fn row(line: &Line) -> [String; 11] {
    let usd = |nanos: i64| Nanos(nanos).to_string();
    let book = &line.book;
    let counter = match line.counter {
        Counter::None => NONE.to_owned(),
        Counter::Unread => "unread".to_owned(),
        Counter::Moving => "moving".to_owned(),
        Counter::Read { used, .. } => usd(used),
    };
    let difference = |(place, more): &(&str, i64)| {
        let sign = if *more > 0 { "+" } else { "" };
        let is_count = *place == "rollup calls";
        let amount = if is_count { more.to_string() } else { usd(*more) };
        format!("{place} {sign}{amount}")
    };
    let differences: Vec<String> = line.differences.iter().map(difference).collect();
    let differences = if differences.is_empty() { "0".to_owned() } else { differences.join(", ") };
    [
        line.name.clone(),
        book.events.to_string(),
        usd(book.events_charge),
        usd(book.ledger_usage),
        book.month_slices.map_or_else(|| NONE.to_owned(), usd),
        usd(book.rollups_charge),
        counter,
        line.held.map_or_else(|| NONE.to_owned(), |held| held.to_string()),
        usd(book.balance),
        usd(book.ledger_balance),
        differences,
    ]
}
