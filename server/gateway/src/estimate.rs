//! The worst case of a call: what it may use at most, and what it will probably use.

use domain::admission::Estimate;
use domain::money::{MoneyError, Nanos};
use domain::rate_card::RateCard;
use domain::usage::Usage;
use serde::de::DeserializeSeed;

use crate::dialect::invalid;
use crate::error::CallError;
use crate::json::{Measure, TextSize};

/// Tokens that a message takes beside its text: role and separators. An object of the body stands for one.
const TOKENS_PER_MESSAGE: i64 = 8;
/// The most that one image takes, in tokens: above the largest that the three providers state for one image.
const TOKENS_PER_IMAGE: i64 = 16_384;
/// What a reference to a file, a cache or an address may bring in where the model's context is not known.
const TOKENS_PER_REFERENCE: i64 = 1_000_000;
/// Bytes to a token before anything was learned about a model: the usual figure for English prose.
const BYTES_PER_TOKEN: i64 = 4;

/// The size of a request, from which both bounds follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PromptSize(TextSize);

impl PromptSize {
    /// Measures a body. It is read whole: what is not JSON is refused here.
    pub(crate) fn measure(body: &[u8]) -> Result<Self, CallError> {
        let mut size = TextSize::default();
        let mut json = serde_json::Deserializer::from_slice(body);
        Measure::prompt(&mut size)
            .deserialize(&mut json)
            .and_then(|()| json.end())
            .map_err(|error| invalid(format!("the body is not valid JSON: {error}"), None))?;
        Ok(Self(size))
    }

    /// The most input tokens that the prompt can be: a byte-level tokenizer makes no more tokens than bytes.
    pub(crate) fn input_bound(&self, context_tokens: Option<i64>) -> i64 {
        let size = &self.0;
        let brought_in = context_tokens.unwrap_or(TOKENS_PER_REFERENCE);
        size.bytes
            .saturating_add(size.objects.saturating_mul(TOKENS_PER_MESSAGE))
            .saturating_add(size.images.saturating_mul(TOKENS_PER_IMAGE))
            .saturating_add(size.media_bytes)
            .saturating_add(size.references.saturating_mul(brought_in))
    }

    /// The input tokens that the prompt will probably be.
    pub(crate) fn input_estimate(&self) -> i64 {
        tokens_in(self.0.bytes.saturating_add(self.0.media_bytes))
    }
}

/// The tokens that so many bytes of prose will probably be; any prose is at least one.
pub(crate) const fn tokens_in(bytes: i64) -> i64 {
    bytes.saturating_add(BYTES_PER_TOKEN - 1) / BYTES_PER_TOKEN
}

/// What a call sets aside.
///
/// # Errors
/// When the bounds multiply to an amount that money cannot express: such a call is refused, not wrapped.
pub(crate) fn worst_case(
    size: &PromptSize,
    context_tokens: Option<i64>,
    output_bound: i64,
    card: &RateCard,
    markup_bps: i64,
) -> Result<Estimate, MoneyError> {
    let charge = card
        .ceiling(size.input_bound(context_tokens), output_bound)?
        .raised_by_bps_ceil(markup_bps)?;
    Ok(Estimate { tokens: size.input_estimate().saturating_add(output_bound), charge })
}

/// What a call that told no usage is billed for: its prompt, and the prose that came.
pub(crate) fn unreported(size: &PromptSize, prose_bytes: i64) -> Usage {
    Usage { input: size.input_estimate(), output: tokens_in(prose_bytes), ..Usage::default() }
}

/// What a provider's cost becomes for the tenant.
pub(crate) fn charge(cost: Nanos, markup_bps: i64) -> Result<Nanos, MoneyError> {
    cost.raised_by_bps(markup_bps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::id::PriceId;
    use domain::money::PicoPerToken;
    use domain::rate_card::Prices;

    fn size(body: &str) -> PromptSize {
        PromptSize::measure(body.as_bytes()).unwrap()
    }

    #[test]
    fn the_bound_covers_every_byte_of_the_text_wherever_it_stands() {
        let text = "\u{4e2d}".repeat(100);
        let messages = format!("{{\"messages\":[{{\"role\":\"user\",\"content\":\"{text}\"}}]}}");
        assert!(size(&messages).input_bound(None) >= 300 + TOKENS_PER_MESSAGE);
        let tools = format!("{{\"tools\":[{{\"description\":\"{text}\"}}],\"system\":\"{text}\"}}");
        assert!(size(&tools).input_bound(None) >= 600);
    }

    #[test]
    fn an_image_has_a_fixed_allowance_and_a_reference_the_whole_context() {
        let image = format!("{{\"url\":\"data:image/png;base64,{}\"}}", "A".repeat(1_000_000));
        let bound = size(&image).input_bound(None);
        assert!((TOKENS_PER_IMAGE..TOKENS_PER_IMAGE + 100).contains(&bound), "{bound}");
        assert!(size("{\"file_id\":\"f\"}").input_bound(Some(200_000)) >= 200_000);
    }

    #[test]
    fn bounds_that_multiply_beyond_money_are_an_error() {
        let card = RateCard {
            price_id: PriceId(1),
            prices: Prices::flat(PicoPerToken(i64::MAX), PicoPerToken(i64::MAX)),
            long_context: None,
        };
        assert!(worst_case(&size("{}"), None, i64::MAX, &card, 0).is_err());
    }

    #[test]
    fn prose_without_usage_is_never_free() {
        assert_eq!(unreported(&size("{\"a\":\"hello\"}"), 1).output, 1);
        assert_eq!(tokens_in(0), 0);
    }

    #[test]
    fn text_that_is_no_json_is_refused() {
        for body in ["", "{", "{} x", "{\"a\":\"\\ud800\"}", "\u{feff}{}"] {
            assert!(PromptSize::measure(body.as_bytes()).is_err(), "{body}");
        }
        assert!(PromptSize::measure(b"{\"a\":\"\xff\"}").is_err());
    }
}
