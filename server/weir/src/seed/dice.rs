//! Numbers that look like chance and are the same on every machine: SplitMix64.

/// A stream of numbers that follows from what it was made of.
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

/// The golden ratio in 64 bits, as in the published generator.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Dice {
    /// The stream of these numbers: another order is another stream.
    pub(crate) fn of(parts: &[u64]) -> Self {
        parts.iter().fold(Self(STEP), |dice, part| Self(mix(dice.0 ^ mix(*part))))
    }

    /// Any number.
    pub(crate) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// A number below `end`; 0 when there is none.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        let product = u128::from(self.roll()) * u128::from(end);
        // The upper half of a product is below `end`: it fits.
        u64::try_from(product >> 64).unwrap_or(0)
    }

    /// A number from `low` to `high`, both included; `low` when they are the wrong way round.
    pub(crate) fn between(&mut self, low: i64, high: i64) -> i64 {
        let width = u64::try_from(high.saturating_sub(low)).unwrap_or(0);
        low.saturating_add(i64::try_from(self.below(width.saturating_add(1))).unwrap_or(0))
    }

    /// Yes in so many of a thousand cases.
    pub(crate) fn chance(&mut self, per_mille: u64) -> bool {
        self.below(1_000) < per_mille
    }

    /// One of the weighted things; nothing when all weights are 0.
    pub(crate) fn pick<'a, T>(&mut self, things: &'a [(T, u64)]) -> Option<&'a T> {
        let total = things.iter().fold(0_u64, |sum, (_, weight)| sum.saturating_add(*weight));
        let mut left = self.below(total);
        for (thing, weight) in things {
            if left < *weight {
                return Some(thing);
            }
            left -= weight;
        }
        None
    }
}

const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_parts_make_the_same_stream_and_others_another() {
        let draw = |parts: &[u64]| {
            let mut dice = Dice::of(parts);
            (dice.roll(), dice.roll(), dice.roll())
        };
        assert_eq!(draw(&[1, 2]), draw(&[1, 2]));
        assert_ne!(draw(&[1, 2]), draw(&[2, 1]));
        assert_ne!(draw(&[1]), draw(&[1, 0]));
    }

    #[test]
    fn numbers_stay_within_their_bounds_and_reach_them() {
        let mut dice = Dice::of(&[7]);
        let drawn: Vec<i64> = (0..1_000).map(|_| dice.between(-3, 3)).collect();
        assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&-3), Some(&3)));
        assert_eq!(dice.between(5, 4), 5);
        assert_eq!(dice.below(0), 0);
    }

    #[test]
    fn weights_are_shares() {
        let mut dice = Dice::of(&[9]);
        let things = [('a', 900), ('b', 100), ('c', 0)];
        let often = (0..1_000).filter(|_| dice.pick(&things) == Some(&'a')).count();
        assert!((850..950).contains(&often), "{often}");
        assert_eq!(dice.pick::<char>(&[('x', 0)]), None);
    }
}
