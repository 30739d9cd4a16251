//! The models of the demonstration and what they really cost.

use domain::money::{MoneyError, PicoPerToken};
use domain::rate_card::{LongContext, Prices};
use domain::usage::Dialect;
use domain::window::{UnixMs, Zone};
use jiff::civil::Date;
use serde::Deserialize;

/// Facts only: names, bounds and prices, with the place they were taken from.
const PRICE_LIST: &str = include_str!("prices.json");
/// From when on a price holds that has no date of its own. Earlier where the history begins earlier.
const SINCE: &str = "2026-01-01";

/// The price list cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum PriceListError {
    /// It is not in its form.
    #[error("the price list is not in its form")]
    Form(#[from] serde_json::Error),
    /// A price is none.
    #[error("the price list holds a text that is no price")]
    Price(#[from] MoneyError),
    /// A date is none.
    #[error("the price list holds a text that is no date: {0:?}")]
    Date(String),
}

/// A model that clients may name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListedModel {
    /// Its name, the same at the provider.
    pub(crate) name: String,
    /// The wire it is spoken to on.
    pub(crate) dialect: Dialect,
    /// What plans allow by.
    pub(crate) class: String,
    /// How many tokens it takes in.
    pub(crate) context_tokens: i64,
    /// How many tokens it puts out.
    pub(crate) max_output_tokens: i64,
    /// What it costs, oldest first; nothing when nobody knows.
    pub(crate) prices: Vec<ListedPrice>,
}

/// What a model costs from an instant on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListedPrice {
    /// The first instant.
    pub(crate) effective_from: UnixMs,
    /// Prices of an ordinary call.
    pub(crate) prices: Prices,
    /// Prices of a long prompt.
    pub(crate) long_context: Option<LongContext>,
    /// Where it was found.
    pub(crate) source: String,
}

/// The models, with prices that hold from `history_start` on at the latest.
pub(crate) fn models(history_start: UnixMs) -> Result<Vec<ListedModel>, PriceListError> {
    let file: File = serde_json::from_str(PRICE_LIST)?;
    let read = file.models.into_iter().map(|model| {
        let prices = model.prices.into_iter().map(|row| row.read(history_start, &file.source));
        Ok(ListedModel {
            name: model.name,
            dialect: model.dialect,
            class: model.class,
            context_tokens: model.context_tokens,
            max_output_tokens: model.max_output_tokens,
            prices: prices.collect::<Result<_, PriceListError>>()?,
        })
    });
    read.collect()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// For people.
    #[serde(rename = "unit")]
    _unit: String,
    source: String,
    models: Vec<ModelEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelEntry {
    name: String,
    dialect: Dialect,
    class: String,
    context_tokens: i64,
    max_output_tokens: i64,
    prices: Vec<PriceEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceEntry {
    effective_from: Option<String>,
    source: Option<String>,
    prices: PriceTexts,
    long_context: Option<LongContextTexts>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LongContextTexts {
    above_input_tokens: i64,
    prices: PriceTexts,
}

/// USD per million tokens.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceTexts {
    input: String,
    output: String,
    cached_input: Option<String>,
    cache_write_short: Option<String>,
    cache_write_long: Option<String>,
    input_audio: Option<String>,
}

impl PriceEntry {
    fn read(self, history_start: UnixMs, source: &str) -> Result<ListedPrice, PriceListError> {
        let effective_from = match self.effective_from {
            Some(date) => midnight(&date)?,
            None => midnight(SINCE)?.min(history_start),
        };
        let tier = self.long_context.map(|tier| {
            let LongContextTexts { above_input_tokens, prices } = tier;
            Ok::<_, PriceListError>(LongContext { above_input_tokens, prices: prices.read()? })
        });
        Ok(ListedPrice {
            effective_from,
            prices: self.prices.read()?,
            long_context: tier.transpose()?,
            source: self.source.unwrap_or_else(|| source.to_owned()),
        })
    }
}

impl PriceTexts {
    fn read(&self) -> Result<Prices, MoneyError> {
        let own = |text: &Option<String>| text.as_deref().map(str::parse).transpose();
        let (input, output): (PicoPerToken, PicoPerToken) =
            (self.input.parse()?, self.output.parse()?);
        Ok(Prices {
            cached_input: own(&self.cached_input)?,
            cache_write_short: own(&self.cache_write_short)?,
            cache_write_long: own(&self.cache_write_long)?,
            input_audio: own(&self.input_audio)?,
            ..Prices::flat(input, output)
        })
    }
}

fn midnight(date: &str) -> Result<UnixMs, PriceListError> {
    let wrong = || PriceListError::Date(date.to_owned());
    let day: Date = date.parse().map_err(|_| wrong())?;
    Zone::utc().start_of(day).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_all_dialects_both_classes_and_one_model_without_a_price() {
        let models = models(UnixMs(0)).unwrap();
        for dialect in [Dialect::Openai, Dialect::Anthropic, Dialect::Gemini] {
            for class in ["flash", "pro"] {
                let fits = |m: &&ListedModel| {
                    m.dialect == dialect && m.class == class && !m.prices.is_empty()
                };
                assert!(models.iter().any(|m| fits(&m)), "{dialect:?} {class}");
            }
        }
        let unpriced: Vec<&str> =
            models.iter().filter(|m| m.prices.is_empty()).map(|m| m.name.as_str()).collect();
        assert_eq!(unpriced, ["claude-fable-5-2"]);
    }

    #[test]
    fn prices_hold_from_the_history_on_and_change_on_their_date() {
        let of = |start: i64| {
            let models = models(UnixMs(start)).unwrap();
            let argon = models.into_iter().find(|m| m.name == "gemini-4-argon").unwrap();
            argon.prices.into_iter().map(|p| (p.effective_from.0, p.prices.output.0)).collect()
        };
        let december = 1_796_083_200_000;
        let since_january: Vec<_> = of(1_790_000_000_000);
        assert_eq!(since_january, [(1_767_225_600_000, 10_000_000), (december, 20_000_000)]);
        assert_eq!(of(1_700_000_000_000)[0].0, 1_700_000_000_000);
    }
}
