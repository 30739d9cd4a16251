//! What is left of money that was given for a time.

use std::collections::BTreeSet;

use domain::window::UnixMs;

/// A grant, as far as its use is concerned. Readings are what its tenant had ever used at an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lot {
    /// The movement that gave it.
    pub(crate) transaction_id: i64,
    /// How much was given, in nano-USD.
    pub(crate) amount: i64,
    /// From when it may be taken back.
    pub(crate) expires_at: UnixMs,
    /// The reading when it was given.
    pub(crate) given_at: i64,
    /// The reading when it ended, if it has.
    pub(crate) ended_at: Option<i64>,
}

impl Lot {
    /// Whether use from one reading to a later one may come out of it.
    fn is_open(&self, from: i64, to: i64) -> bool {
        self.given_at <= from && self.ended_at.is_none_or(|ended| to <= ended)
    }
}

/// What is left of each lot, in their order, when `used` has been used in all; of one that has ended, what was left
/// then. Use comes out of the open lot that expires soonest, of two that expire together out of the older one, and
/// out of the tenant's own money when none is open.
pub(crate) fn left(lots: &[Lot], used: i64) -> Vec<i64> {
    let mut left: Vec<i64> = lots.iter().map(|lot| lot.amount).collect();
    let mut soonest_first: Vec<usize> = (0..lots.len()).collect();
    soonest_first.sort_by_key(|at| (lots[*at].expires_at, lots[*at].transaction_id));
    // Between two readings the same lots are open, so only their difference counts.
    let readings = lots.iter().flat_map(|lot| [Some(lot.given_at), lot.ended_at]).flatten();
    let readings: BTreeSet<i64> = readings.filter(|r| *r < used).chain([used]).collect();
    for (from, to) in readings.iter().zip(readings.iter().skip(1)) {
        let mut rest = to.saturating_sub(*from);
        for at in soonest_first.iter().copied().filter(|at| lots[*at].is_open(*from, *to)) {
            let taken = rest.min(left[at]);
            left[at] -= taken;
            rest -= taken;
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lot(transaction_id: i64, amount: i64, expires: i64, given_at: i64) -> Lot {
        Lot { transaction_id, amount, expires_at: UnixMs(expires), given_at, ended_at: None }
    }

    #[test]
    fn the_worked_example_of_the_readme() {
        // 1 Nov: 10 until 30 Nov. 2 are used. 5 Nov: 5 until 15 Nov. 4 are used. 15 Nov: what is left of it goes.
        let a = lot(1, 10, 30, 0);
        let b = lot(2, 5, 15, 2);
        assert_eq!(left(&[a, b], 6), [8, 1]);
        let b = Lot { ended_at: Some(6), ..b };
        // 3 more are used until 30 Nov.
        assert_eq!(left(&[a, b], 9), [5, 1]);
    }

    #[test]
    fn use_before_a_grant_and_after_its_end_is_not_its() {
        let early = Lot { ended_at: Some(100), ..lot(1, 50, 9, 80) };
        assert_eq!(left(&[early], 500), [30]);
        assert_eq!(left(&[lot(1, 50, 9, 80)], 80), [50]);
        assert_eq!(left(&[lot(1, 50, 9, 80)], 500), [0]);
    }

    #[test]
    fn of_two_that_expire_together_the_older_one_is_used_first() {
        assert_eq!(left(&[lot(2, 10, 9, 0), lot(1, 10, 9, 0)], 15), [5, 0]);
    }

    /// One unit at a time, as it happens.
    fn step_by_step(lots: &[Lot], used: i64) -> Vec<i64> {
        let mut left: Vec<i64> = lots.iter().map(|lot| lot.amount).collect();
        for reading in 0..used {
            let open = |lot: &Lot| {
                lot.given_at <= reading && lot.ended_at.is_none_or(|ended| reading < ended)
            };
            let mut candidates: Vec<usize> =
                (0..lots.len()).filter(|at| open(&lots[*at]) && left[*at] > 0).collect();
            candidates.sort_by_key(|at| (lots[*at].expires_at, lots[*at].transaction_id));
            if let Some(at) = candidates.first() {
                left[*at] -= 1;
            }
        }
        left
    }

    #[test]
    fn the_sums_say_the_same_as_unit_by_unit() {
        // A linear congruence: the same histories in every run.
        let mut state: i64 = 7;
        let mut next = |below: i64| {
            state = (state * 1_103_515_245 + 12_345).rem_euclid(1 << 31);
            (state >> 8).rem_euclid(below)
        };
        for _ in 0..2_000 {
            let lots: Vec<Lot> = (0..next(5))
                .map(|number| {
                    let given_at = next(60);
                    let ended_at = (next(2) == 0).then(|| given_at + next(40));
                    let lot = lot(number, next(30), next(6), given_at);
                    Lot { ended_at, ..lot }
                })
                .collect();
            let used = next(120);
            // A lot that is given or ends later is not known yet.
            let known: Vec<Lot> = lots
                .into_iter()
                .filter(|lot| {
                    lot.given_at <= used && lot.ended_at.is_none_or(|ended| ended <= used)
                })
                .collect();
            assert_eq!(left(&known, used), step_by_step(&known, used), "{known:?} at {used}");
        }
    }
}
