//! How many bytes of text each model makes into one token, learned from the providers' own counts.
//!
//! It serves the estimate of the token rates alone, which is corrected when the call ends. Money never asks it: a
//! hold is made for the worst case.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use domain::id::ModelId;
use tenants::calibration::Learned;

/// Before anything was learned, in thousandths of a byte: the usual figure for English prose.
const START: i64 = 4_000;
/// No byte-level tokenizer makes more than one token of a byte.
const LEAST: i64 = 1_000;
/// Above the longest tokens of any prose. What a provider, or a prompt made for it, says beyond is not believed.
const MOST: i64 = 12_000;
/// Each call moves the figure by this part of the difference: a hundred calls learn a new text, one changes little.
const INERTIA: i64 = 32;
/// Calls with fewer input tokens teach nothing: what a provider puts around the text would be most of it.
const LEAST_TOKENS: i64 = 16;

/// What this process knows about the models.
#[derive(Debug, Default)]
pub struct Calibration(RwLock<HashMap<ModelId, Known>>);

#[derive(Debug, Clone, Copy)]
struct Known {
    milli_bytes_per_token: i64,
    /// Calls it was learned from and that are not stored yet.
    fresh_calls: i64,
}

impl Calibration {
    /// Thousandths of a byte to one token of the model.
    #[must_use]
    pub fn milli_bytes_per_token(&self, model: ModelId) -> i64 {
        self.read().get(&model).map_or(START, |known| known.milli_bytes_per_token)
    }

    /// Learns from a call: its text had so many bytes, and its provider counted so many tokens of input.
    pub(crate) fn learn(&self, model: ModelId, text_bytes: i64, input_tokens: i64) {
        if input_tokens < LEAST_TOKENS || text_bytes <= 0 {
            return;
        }
        let seen = text_bytes.saturating_mul(1_000) / input_tokens;
        let mut models = self.write();
        let known =
            models.entry(model).or_insert(Known { milli_bytes_per_token: START, fresh_calls: 0 });
        known.milli_bytes_per_token = moved(known.milli_bytes_per_token, seen);
        known.fresh_calls = known.fresh_calls.saturating_add(1);
    }

    /// Takes over what is stored, at the start of the process.
    pub fn adopt(&self, stored: &[Learned]) {
        let mut models = self.write();
        for one in stored {
            let milli_bytes_per_token = one.milli_bytes_per_token.clamp(LEAST, MOST);
            models.insert(one.model, Known { milli_bytes_per_token, fresh_calls: 0 });
        }
    }

    /// What was learned and is not stored yet.
    #[must_use]
    pub fn fresh(&self) -> Vec<Learned> {
        let models = self.read();
        let mut fresh: Vec<Learned> = models
            .iter()
            .filter(|(_, known)| known.fresh_calls > 0)
            .map(|(model, known)| Learned {
                model: *model,
                milli_bytes_per_token: known.milli_bytes_per_token,
                calls: known.fresh_calls,
            })
            .collect();
        fresh.sort_by_key(|one| one.model);
        fresh
    }

    /// Says that what was [`fresh`](Self::fresh) is stored, and what became of it there. What was learned in between
    /// stays.
    pub fn stored(&self, sent: &[Learned], stored: &[Learned]) {
        let mut models = self.write();
        for sent in sent {
            let Some(known) = models.get_mut(&sent.model) else { continue };
            known.fresh_calls = known.fresh_calls.saturating_sub(sent.calls).max(0);
            if let Some(stored) = stored.iter().find(|one| one.model == sent.model) {
                let shift = stored.milli_bytes_per_token.saturating_sub(sent.milli_bytes_per_token);
                let figure = known.milli_bytes_per_token.saturating_add(shift);
                known.milli_bytes_per_token = figure.clamp(LEAST, MOST);
            }
        }
    }

    /// The map is whole after every statement, so a panic elsewhere cannot have broken it.
    fn read(&self) -> RwLockReadGuard<'_, HashMap<ModelId, Known>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashMap<ModelId, Known>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The figure after one more call, rounded to the nearest, so that it does not stop short on one side.
fn moved(figure: i64, seen: i64) -> i64 {
    let difference = seen.clamp(LEAST, MOST) - figure;
    let step = (difference + INERTIA / 2).div_euclid(INERTIA);
    (figure + step).clamp(LEAST, MOST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MODEL: ModelId = ModelId(7);

    #[test]
    fn the_figure_comes_to_what_the_provider_counts() {
        for (bytes, tokens, expected) in
            [(3_000, 1_000, 3_000), (5_500, 1_000, 5_500), (1_000, 1_000, 1_000)]
        {
            let calibration = Calibration::default();
            assert_eq!(calibration.milli_bytes_per_token(MODEL), START);
            for _ in 0..400 {
                calibration.learn(MODEL, bytes, tokens);
            }
            let learned = calibration.milli_bytes_per_token(MODEL);
            assert!((learned - expected).abs() <= INERTIA / 2, "{learned} for {expected}");
        }
    }

    #[test]
    fn one_call_moves_it_by_a_thirty_second_part_and_a_tiny_one_not_at_all() {
        let calibration = Calibration::default();
        calibration.learn(MODEL, 8_000, 1_000);
        assert_eq!(calibration.milli_bytes_per_token(MODEL), START + 4_000 / INERTIA);
        for (bytes, tokens) in [(4, LEAST_TOKENS - 1), (0, 1_000), (-5, 1_000), (100, 0), (9, -9)] {
            calibration.learn(ModelId(8), bytes, tokens);
        }
        assert_eq!(calibration.milli_bytes_per_token(ModelId(8)), START);
    }

    #[test]
    fn what_is_stored_meets_what_was_learned_meanwhile() {
        let calibration = Calibration::default();
        for _ in 0..10 {
            calibration.learn(MODEL, 8_000, 1_000);
        }
        let sent = calibration.fresh();
        assert_eq!((sent.len(), sent[0].calls), (1, 10));
        calibration.learn(MODEL, 8_000, 1_000);
        let before = calibration.milli_bytes_per_token(MODEL);
        let figure = sent[0].milli_bytes_per_token - 100;
        calibration.stored(&sent, &[Learned { milli_bytes_per_token: figure, ..sent[0] }]);
        assert_eq!(calibration.milli_bytes_per_token(MODEL), before - 100);
        assert_eq!(calibration.fresh()[0].calls, 1);
        let fresh_start = Calibration::default();
        fresh_start.adopt(&[Learned { model: MODEL, milli_bytes_per_token: 2_345, calls: 9 }]);
        assert_eq!(fresh_start.milli_bytes_per_token(MODEL), 2_345);
        assert_eq!(fresh_start.fresh(), []);
    }

    proptest! {
        #[test]
        fn no_count_brings_it_out_of_its_bounds(
            counts in prop::collection::vec((any::<i64>(), any::<i64>()), 1..200),
        ) {
            let calibration = Calibration::default();
            for (bytes, tokens) in counts {
                calibration.learn(MODEL, bytes, tokens);
                let figure = calibration.milli_bytes_per_token(MODEL);
                prop_assert!((LEAST..=MOST).contains(&figure));
            }
        }
    }
}
