//! What a model's tokens cost, and the worst that a call can cost.

use serde::{Deserialize, Serialize};

use crate::id::PriceId;
use crate::money::{MoneyError, Nanos, PicoPerToken, PicoSum};
use crate::usage::Usage;

/// Prices of the token classes. A class without a price of its own uses `input` or `output`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prices {
    /// Fresh input.
    pub input: PicoPerToken,
    /// Visible output.
    pub output: PicoPerToken,
    /// Input read from a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_input: Option<PicoPerToken>,
    /// Input written to the short cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write_short: Option<PicoPerToken>,
    /// Input written to the long cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write_long: Option<PicoPerToken>,
    /// Audio input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_audio: Option<PicoPerToken>,
    /// Thinking.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<PicoPerToken>,
    /// Audio output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_audio: Option<PicoPerToken>,
    /// Image output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_image: Option<PicoPerToken>,
}

impl Prices {
    /// Two prices, for input and output; all other classes follow them.
    #[must_use]
    pub const fn flat(input: PicoPerToken, output: PicoPerToken) -> Self {
        Self {
            input,
            output,
            cached_input: None,
            cache_write_short: None,
            cache_write_long: None,
            input_audio: None,
            reasoning: None,
            output_audio: None,
            output_image: None,
        }
    }

    fn sum(&self, usage: &Usage) -> Result<PicoSum, MoneyError> {
        let input = |own: Option<PicoPerToken>| own.unwrap_or(self.input);
        let output = |own: Option<PicoPerToken>| own.unwrap_or(self.output);
        PicoSum::default()
            .add(usage.input, self.input)?
            .add(usage.cached_input, input(self.cached_input))?
            .add(usage.cache_write_short, input(self.cache_write_short))?
            .add(usage.cache_write_long, input(self.cache_write_long.or(self.cache_write_short)))?
            .add(usage.input_audio, input(self.input_audio))?
            .add(usage.output, self.output)?
            .add(usage.reasoning, output(self.reasoning))?
            .add(usage.output_audio, output(self.output_audio))?
            .add(usage.output_image, output(self.output_image))
    }

    fn dearest_input(&self) -> PicoPerToken {
        let own =
            [self.cached_input, self.cache_write_short, self.cache_write_long, self.input_audio];
        own.into_iter().flatten().fold(self.input, Ord::max)
    }

    fn dearest_output(&self) -> PicoPerToken {
        let own = [self.reasoning, self.output_audio, self.output_image];
        own.into_iter().flatten().fold(self.output, Ord::max)
    }
}

/// Prices of long prompts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LongContext {
    /// The tier holds for prompts of strictly more input tokens (cached ones included) than this.
    pub above_input_tokens: i64,
    /// The prices of all classes of such a call.
    pub prices: Prices,
}

/// One dated row of the price table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RateCard {
    /// The row, kept with each event it priced.
    pub price_id: PriceId,
    /// Prices of an ordinary call.
    pub prices: Prices,
    /// Prices of a long prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub long_context: Option<LongContext>,
}

impl RateCard {
    /// What the provider charges for `usage`: summed exactly, rounded half up once.
    ///
    /// # Errors
    /// When a count is negative or the amount does not fit.
    pub fn cost(&self, usage: &Usage) -> Result<Nanos, MoneyError> {
        let prices = match &self.long_context {
            Some(tier) if usage.input_tokens() > tier.above_input_tokens => &tier.prices,
            _ => &self.prices,
        };
        prices.sum(usage)?.half_up()
    }

    /// The most that a call within these bounds can cost: dearest class, dearest tier it may reach, rounded up.
    ///
    /// # Errors
    /// When a bound is negative or the amount does not fit.
    pub fn ceiling(&self, input_bound: i64, output_bound: i64) -> Result<Nanos, MoneyError> {
        let worst = |prices: &Prices| {
            PicoSum::default()
                .add(input_bound, prices.dearest_input())?
                .add(output_bound, prices.dearest_output())?
                .ceil()
        };
        let base = worst(&self.prices)?;
        match &self.long_context {
            Some(tier) if input_bound > tier.above_input_tokens => {
                Ok(base.max(worst(&tier.prices)?))
            }
            _ => Ok(base),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn usd(text: &str) -> PicoPerToken {
        text.parse().unwrap()
    }

    fn card(prices: Prices) -> RateCard {
        RateCard { price_id: PriceId(1), prices, long_context: None }
    }

    #[test]
    fn thinking_costs_what_output_costs() {
        // Seed 000: 1,000 in, 200 visible, 3,000 thinking at 0.10 / 0.40 USD per million.
        let usage = Usage { input: 1_000, output: 200, reasoning: 3_000, ..Usage::default() };
        let cost = card(Prices::flat(usd("0.10"), usd("0.40"))).cost(&usage);
        assert_eq!(cost, Ok(Nanos(1_380_000)));
    }

    #[test]
    fn a_class_without_a_price_uses_its_side_and_zero_is_a_price() {
        let mut prices = Prices::flat(usd("1"), usd("2"));
        let usage = Usage { cached_input: 1_000, output_audio: 1_000, ..Usage::default() };
        assert_eq!(card(prices.clone()).cost(&usage), Ok(Nanos(3_000_000)));
        prices.cached_input = Some(PicoPerToken(0));
        assert_eq!(card(prices).cost(&usage), Ok(Nanos(2_000_000)));
    }

    #[test]
    fn the_long_context_tier_begins_strictly_above_its_threshold_and_prices_all_classes() {
        let mut card = card(Prices::flat(usd("1"), usd("2")));
        card.long_context = Some(LongContext {
            above_input_tokens: 200_000,
            prices: Prices::flat(usd("2"), usd("3")),
        });
        let at = Usage { input: 100_000, cached_input: 100_000, output: 1_000, ..Usage::default() };
        let above = Usage { cached_input: 100_001, ..at };
        assert_eq!(card.cost(&at), Ok(Nanos(202_000_000)));
        assert_eq!(card.cost(&above), Ok(Nanos(403_002_000)));
    }

    fn any_price() -> impl Strategy<Value = PicoPerToken> {
        (0_i64..1 << 30).prop_map(PicoPerToken)
    }

    fn any_prices() -> impl Strategy<Value = Prices> {
        let some = || proptest::option::of(any_price());
        (any_price(), any_price(), some(), some(), some(), some(), some(), some(), some()).prop_map(
            |(input, output, a, b, c, d, e, f, g)| Prices {
                input,
                output,
                cached_input: a,
                cache_write_short: b,
                cache_write_long: c,
                input_audio: d,
                reasoning: e,
                output_audio: f,
                output_image: g,
            },
        )
    }

    proptest! {
        #[test]
        fn a_hold_covers_every_usage_within_its_bounds(
            base in any_prices(),
            tier in proptest::option::of((0_i64..2_000, any_prices())),
            counts in proptest::array::uniform9(0_i64..500),
        ) {
            let [a, b, c, d, e, f, g, h, i] = counts;
            let usage = Usage { input: a, cached_input: b, cache_write_short: c, cache_write_long: d,
                input_audio: e, output: f, reasoning: g, output_audio: h, output_image: i };
            let card = RateCard { price_id: PriceId(1), prices: base,
                long_context: tier.map(|(above_input_tokens, prices)| LongContext { above_input_tokens, prices }) };
            let hold = card.ceiling(usage.input_tokens(), usage.output_tokens()).unwrap();
            prop_assert!(hold >= card.cost(&usage).unwrap());
        }
    }
}
