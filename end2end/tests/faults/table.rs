//! The table of all faults, in Markdown.

use crate::fleet::report::{Report, tenths};

/// The head of the table.
pub(crate) const HEAD: &str = "\
| fault | what | offered | admitted | refused | failed | J | E | L | J without E | E without J | Σ E − Σ L | over, nano-USD \
| over, places | cap used | lasted | away, all | away, worst process | slowest served | back on Redis | H = 0 after load | left to TTL \
| orphaned | estimated, calls | estimated, money | seed | wrong |
|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|";

/// A fault's row.
pub(crate) fn row(report: &Report) -> String {
    let books = &report.books;
    let what = match report.word.as_str() {
        "" => report.fault.words(),
        word => format!("{} ({word})", report.fault.words()),
    };
    let failed: usize = report.failures.values().sum();
    let sent = books.events.saturating_sub(books.unsent);
    let seconds = |time| format!("{} s", tenths(time));
    let cells = [
        report.fault.id().to_owned(),
        what,
        report.offered.to_string(),
        report.admitted.to_string(),
        report.refused.to_string(),
        failed.to_string(),
        books.journal.to_string(),
        books.events.to_string(),
        books.posted.to_string(),
        books.journal.saturating_sub(sent).to_string(),
        books.unsent.to_string(),
        (books.charge_nanos - books.ledger_nanos).to_string(),
        books.over_nanos.to_string(),
        books.over_places.to_string(),
        permille(books.used_permille.unsigned_abs().into()),
        seconds(report.lasted),
        seconds(report.away_fleet),
        seconds(report.away_process),
        seconds(report.slowest),
        seconds(report.back_after),
        seconds(report.holds_zero),
        report.held_calls.to_string(),
        books.orphaned.to_string(),
        share(books.estimated as u128, books.events as u128),
        share(
            books.estimated_nanos.unsigned_abs().into(),
            books.charge_nanos.unsigned_abs().into(),
        ),
        report.seed.to_string(),
        books.wrong.len().to_string(),
    ];
    format!("| {} |", cells.join(" | "))
}

fn share(part: u128, whole: u128) -> String {
    permille((part * 1_000).checked_div(whole).unwrap_or(0))
}

fn permille(permille: u128) -> String {
    format!("{}.{} %", permille / 10, permille % 10)
}
