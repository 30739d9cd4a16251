//! What came of a fault.

use std::collections::BTreeMap;
use std::time::Duration;

use super::books::Books;
use super::fault::Fault;
use super::load::Seen;
use crate::say::say;

/// How much of a failure's code is shown.
const CODE_CHARS: usize = 48;

/// Its figures.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) fault: Fault,
    pub(crate) seed: u64,
    /// How the fault went.
    pub(crate) word: String,
    pub(crate) offered: usize,
    /// Answered with 200, to the end or not.
    pub(crate) admitted: usize,
    /// By a limit of the tenant's.
    pub(crate) refused: usize,
    /// All else, by status and code.
    pub(crate) failures: BTreeMap<String, usize>,
    /// From the blow until it was undone.
    pub(crate) lasted: Duration,
    /// From then until all processes were ready on Redis.
    pub(crate) back_after: Duration,
    /// The longest time without a served call, at all processes and at the worst one.
    pub(crate) away_fleet: Duration,
    pub(crate) away_process: Duration,
    /// How long the slowest served call took: calls wait for another engine to take over.
    pub(crate) slowest: Duration,
    /// From the end of the load until nothing was held, or only what is left to its time to live.
    pub(crate) holds_zero: Duration,
    /// Calls whose hold is left to its time to live.
    pub(crate) held_calls: i64,
    pub(crate) books: Books,
    pub(crate) took: Duration,
}

impl Report {
    pub(crate) fn failures(seen: &[Seen]) -> BTreeMap<String, usize> {
        let mut all = BTreeMap::new();
        for call in seen.iter().filter(|call| !call.is_refused()) {
            if call.status != 200 || call.broken {
                let code: String = call.code.chars().take(CODE_CHARS).collect();
                *all.entry(format!("{} {code}", call.status)).or_insert(0) += 1;
            }
        }
        all
    }

    /// Says what is worth saying at once.
    pub(crate) fn say(&self) {
        let (books, wrong) = (&self.books, self.books.wrong.len());
        say(&format!(
            "{} {} seed {}: {} offered, {} admitted, {} refused, failed {:?}; J {} E {} L {}, orphaned {}, unsent {}, \
             over {} nano-USD and {} places, cap used {}‰, lasted {} s, away {} / {} s, slowest {} s, back {} s, H 0 after {} s, {} left to their \
             time; {}; {} s; {wrong} wrong",
            self.fault.id(),
            self.fault.words(),
            self.seed,
            self.offered,
            self.admitted,
            self.refused,
            self.failures,
            books.journal,
            books.events,
            books.posted,
            books.orphaned,
            books.unsent,
            books.over_nanos,
            books.over_places,
            books.used_permille,
            tenths(self.lasted),
            tenths(self.away_fleet),
            tenths(self.away_process),
            tenths(self.slowest),
            tenths(self.back_after),
            tenths(self.holds_zero),
            self.held_calls,
            self.word,
            tenths(self.took),
        ));
        for wrong in &books.wrong {
            say(&format!("{}: WRONG: {wrong}", self.fault.id()));
        }
    }
}

/// Seconds with one digit behind the point.
pub(crate) fn tenths(time: Duration) -> String {
    format!("{}.{}", time.as_secs(), time.subsec_millis() / 100)
}
