//! Round steps for an axis that starts at zero.

/// An axis from 0 to `top`, with a tick at every `step`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scale {
    /// Distance of two ticks, at least 1.
    pub(super) step: i64,
    /// The highest tick, at least `step`.
    pub(super) top: i64,
}

impl Scale {
    /// The scale that holds `largest` with at most `ticks` steps of 1, 2 or 5 times a power of
    /// ten. An empty chart gets one step of `empty`.
    pub(super) fn holding(largest: i64, ticks: i64, empty: i64) -> Self {
        if largest <= 0 {
            let step = empty.max(1);
            return Self { step, top: step };
        }
        let ticks = ticks.max(1);
        let at_least = ceil_div(largest, ticks);
        let mut power = 1_i64;
        let step = loop {
            let round = [1, 2, 5].into_iter().filter_map(|factor| power.checked_mul(factor));
            if let Some(step) = round.into_iter().find(|step| *step >= at_least) {
                break step;
            }
            match power.checked_mul(10) {
                Some(next) => power = next,
                None => break at_least,
            }
        };
        Self { step, top: step.saturating_mul(ceil_div(largest, step)) }
    }

    /// The ticks, from 0 up.
    pub(super) fn ticks(self) -> Vec<i64> {
        let steps = self.top / self.step;
        (0..=steps).map(|tick| tick.saturating_mul(self.step)).collect()
    }
}

/// `number / divisor` rounded up, for positive numbers.
const fn ceil_div(number: i64, divisor: i64) -> i64 {
    number / divisor + if number % divisor == 0 { 0 } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn steps_are_round() {
        let scale = |largest| Scale::holding(largest, 4, 1_000);
        assert_eq!(scale(97), Scale { step: 50, top: 100 });
        assert_eq!(scale(38), Scale { step: 10, top: 40 });
        assert_eq!(scale(1), Scale { step: 1, top: 1 });
        assert_eq!(scale(0), Scale { step: 1_000, top: 1_000 });
        assert_eq!(scale(38).ticks(), [0, 10, 20, 30, 40]);
    }

    proptest! {
        #[test]
        fn every_amount_fits_with_few_ticks(largest in 1..=i64::MAX, ticks in 1_i64..8) {
            let scale = Scale::holding(largest, ticks, 1);
            prop_assert!(scale.top >= largest);
            prop_assert!(i64::try_from(scale.ticks().len()).unwrap() <= ticks + 1);
        }
    }
}
