//! The worst case of a call: what it may use at most, and what it will probably use.

use domain::admission::{Estimate, MAX_COUNT, Reason, Refusal, Scope};
use domain::id::TenantId;
use domain::money::{MoneyError, Nanos};
use domain::plan::{CallTerms, Metric};
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

    /// The input tokens that the prompt is taken for where nobody counted them: a fixed figure, since it is billed.
    pub(crate) fn input_estimate(&self) -> i64 {
        tokens_in(self.all_bytes())
    }

    /// The input tokens that the prompt will probably be, by what was learned of the model.
    fn probable_input(&self, milli_bytes_per_token: i64) -> i64 {
        let per_token = milli_bytes_per_token.max(1);
        let milli_bytes = self.all_bytes().saturating_mul(1_000);
        milli_bytes.saturating_add(per_token - 1) / per_token
    }

    /// The bytes of a prompt that is nothing but text: only such a one tells how text becomes tokens.
    pub(crate) fn plain_text_bytes(&self) -> Option<i64> {
        let size = &self.0;
        let is_plain = size.images == 0 && size.media_bytes == 0 && size.references == 0;
        is_plain.then_some(size.bytes)
    }

    fn all_bytes(&self) -> i64 {
        self.0.bytes.saturating_add(self.0.media_bytes)
    }
}

/// The tokens that so many bytes of prose will probably be; any prose is at least one.
pub(crate) const fn tokens_in(bytes: i64) -> i64 {
    bytes.saturating_add(BYTES_PER_TOKEN - 1) / BYTES_PER_TOKEN
}

/// What is known of a model before the call.
pub(crate) struct Yardstick<'a> {
    pub(crate) context_tokens: Option<i64>,
    pub(crate) card: &'a RateCard,
    pub(crate) markup_bps: i64,
    /// As learned; for the token rates alone.
    pub(crate) milli_bytes_per_token: i64,
}

/// What a call sets aside.
///
/// # Errors
/// When the bounds multiply to an amount that no counter can hold: such a call is refused, not wrapped.
pub(crate) fn worst_case(
    size: &PromptSize,
    output_bound: i64,
    by: &Yardstick<'_>,
) -> Result<Estimate, MoneyError> {
    let charge = by
        .card
        .ceiling(size.input_bound(by.context_tokens), output_bound)?
        .raised_by_bps_ceil(by.markup_bps)?;
    let tokens = size.probable_input(by.milli_bytes_per_token).saturating_add(output_bound);
    if charge.0 > MAX_COUNT || tokens > MAX_COUNT {
        return Err(MoneyError::OutOfRange);
    }
    Ok(Estimate { tokens, charge })
}

/// The refusal of a call that is larger than the plan lets a single call be. It can never pass.
pub(crate) fn above_maximum(
    tenant: TenantId,
    terms: &CallTerms,
    estimate: &Estimate,
) -> Option<Refusal> {
    let maxima = [
        ("request_cost", Metric::Cost, terms.max_charge.map(|max| max.0)),
        ("request_tokens", Metric::Tokens, terms.max_tokens),
    ];
    maxima.into_iter().find_map(|(meter, metric, max)| {
        let (limit, wanted) = (max?, estimate.amount(metric));
        (wanted > limit).then(|| Refusal {
            reason: Reason::ExceedsCapacity,
            scope: Scope::Tenant,
            scope_id: tenant.0,
            meter: meter.to_owned(),
            metric,
            limit,
            used: 0,
            held: 0,
            wanted,
            resets_at: None,
            retry_after_ms: None,
        })
    })
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
        assert!(worst_case(&size("{}"), i64::MAX, &by(&card, 4_000)).is_err());
        // An amount that money can express and a counter cannot.
        let dear = RateCard { prices: Prices::flat(PicoPerToken(0), PicoPerToken(1_000)), ..card };
        assert!(worst_case(&size("{}"), MAX_COUNT, &by(&dear, 4_000)).is_ok());
        assert!(worst_case(&size("{}"), MAX_COUNT + 1, &by(&dear, 4_000)).is_err());
    }

    fn by(card: &RateCard, milli_bytes_per_token: i64) -> Yardstick<'_> {
        Yardstick { context_tokens: None, card, markup_bps: 0, milli_bytes_per_token }
    }

    fn card() -> RateCard {
        RateCard {
            price_id: PriceId(1),
            prices: Prices::flat(PicoPerToken(100_000), PicoPerToken(400_000)),
            long_context: None,
        }
    }

    #[test]
    fn what_was_learned_changes_the_tokens_and_never_the_money() {
        let text = size(&format!("{{\"a\":\"{}\"}}", "x".repeat(11_999)));
        let usual = worst_case(&text, 100, &by(&card(), 4_000)).unwrap();
        let learned = worst_case(&text, 100, &by(&card(), 2_000)).unwrap();
        assert_eq!(usual.charge, learned.charge);
        assert_eq!((usual.tokens - 100) * 2, learned.tokens - 100);
        assert_eq!(usual.tokens, text.input_estimate() + 100);
        assert_eq!(worst_case(&text, 0, &by(&card(), 0)).unwrap().tokens, 12_000 * 1_000);
    }

    #[test]
    fn only_plain_text_teaches() {
        assert_eq!(size("{\"a\":\"hello\"}").plain_text_bytes(), Some(6));
        assert_eq!(size("{\"file_id\":\"f\"}").plain_text_bytes(), None);
        let image = format!("{{\"url\":\"data:image/png;base64,{}\"}}", "A".repeat(1_000));
        assert_eq!(size(&image).plain_text_bytes(), None);
    }

    #[test]
    fn a_call_above_the_plans_maximum_is_refused_with_its_figures() {
        let estimate = Estimate { tokens: 1_000, charge: Nanos(500) };
        let terms = |max_charge: Option<i64>, max_tokens| CallTerms {
            max_charge: max_charge.map(Nanos),
            max_tokens,
            ..CallTerms::default()
        };
        let told = |terms: &CallTerms| above_maximum(TenantId(3), terms, &estimate);
        assert_eq!(told(&terms(None, None)), None);
        assert_eq!(told(&terms(Some(500), Some(1_000))), None);
        let cost = told(&terms(Some(499), Some(999))).unwrap();
        assert_eq!((cost.meter.as_str(), cost.limit, cost.wanted), ("request_cost", 499, 500));
        assert_eq!(
            (cost.reason, cost.scope, cost.scope_id),
            (Reason::ExceedsCapacity, Scope::Tenant, 3)
        );
        let tokens = told(&terms(None, Some(999))).unwrap();
        assert_eq!((tokens.meter.as_str(), tokens.wanted), ("request_tokens", 1_000));
        assert_eq!(tokens.retry_after_ms, None);
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
