//! Prices as they are told and asked for: decimal texts in USD per million tokens.

use domain::money::PicoPerToken;
use domain::rate_card::{LongContext, Prices};
use serde::{Deserialize, Serialize};
use tenants::price::PriceRow;
use utoipa::ToSchema;

use super::ask::{Ask, Problem, rfc3339};

/// Prices of the token classes, in USD per million tokens. A class without one of its own uses
/// `input` or `output`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct PriceList {
    /// Such as `0.10`.
    input: String,
    output: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    cached_input: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_write_short: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_write_long: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_audio: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_audio: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_image: Option<String>,
}

/// Prices of long prompts.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct LongPrompts {
    /// They hold for prompts of strictly more input tokens than this.
    above_input_tokens: i64,
    prices: PriceList,
}

/// A dated price of a model. It is never changed: a new price is a new row.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct Price {
    id: i64,
    effective_from: String,
    prices: PriceList,
    long_context: Option<LongPrompts>,
    /// Where it comes from.
    source: String,
}

/// A price to be set.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct PriceToSet {
    /// From when on it holds; from now on when nothing is said.
    pub(super) effective_from: Option<String>,
    pub(super) prices: PriceList,
    pub(super) long_context: Option<LongPrompts>,
    /// Where it comes from.
    pub(super) source: Option<String>,
}

impl From<&Prices> for PriceList {
    fn from(prices: &Prices) -> Self {
        let text = |price: Option<PicoPerToken>| price.map(|price| price.to_string());
        Self {
            input: prices.input.to_string(),
            output: prices.output.to_string(),
            cached_input: text(prices.cached_input),
            cache_write_short: text(prices.cache_write_short),
            cache_write_long: text(prices.cache_write_long),
            input_audio: text(prices.input_audio),
            reasoning: text(prices.reasoning),
            output_audio: text(prices.output_audio),
            output_image: text(prices.output_image),
        }
    }
}

impl From<PriceRow> for Price {
    fn from(row: PriceRow) -> Self {
        let long_context = row.card.long_context.as_ref().map(|tier| LongPrompts {
            above_input_tokens: tier.above_input_tokens,
            prices: PriceList::from(&tier.prices),
        });
        Self {
            id: row.card.price_id.0,
            effective_from: rfc3339(row.effective_from),
            prices: PriceList::from(&row.card.prices),
            long_context,
            source: row.source,
        }
    }
}

/// Reads a list of prices; a price that would lose a digit is refused.
pub(super) fn read(ask: &Ask, list: &PriceList) -> Result<Prices, Problem> {
    let price = |field: &'static str, text: &str| {
        text.parse::<PicoPerToken>().map_err(|error| ask.invalid(field, error.to_string()))
    };
    let some = |field: &'static str, text: &Option<String>| {
        text.as_deref().map(|text| price(field, text)).transpose()
    };
    Ok(Prices {
        input: price("input", &list.input)?,
        output: price("output", &list.output)?,
        cached_input: some("cached_input", &list.cached_input)?,
        cache_write_short: some("cache_write_short", &list.cache_write_short)?,
        cache_write_long: some("cache_write_long", &list.cache_write_long)?,
        input_audio: some("input_audio", &list.input_audio)?,
        reasoning: some("reasoning", &list.reasoning)?,
        output_audio: some("output_audio", &list.output_audio)?,
        output_image: some("output_image", &list.output_image)?,
    })
}

/// Reads the prices of long prompts.
pub(super) fn read_long(
    ask: &Ask,
    tier: Option<&LongPrompts>,
) -> Result<Option<LongContext>, Problem> {
    let Some(tier) = tier else { return Ok(None) };
    let prices = read(ask, &tier.prices)?;
    Ok(Some(LongContext { above_input_tokens: tier.above_input_tokens, prices }))
}
