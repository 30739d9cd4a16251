//! What models cost: dated rows that are only ever added to.

use domain::id::{ModelId, PriceId};
use domain::rate_card::{LongContext, Prices, RateCard};
use domain::window::UnixMs;
use serde_json::Value;
use sqlx::PgExecutor;
use time::OffsetDateTime;

use crate::TenantsError;
use crate::instant::{from_time, to_time};

/// A model's price changes a few times a year: a list of all stays a list.
const MAX_LISTED: i64 = 10_000;

/// A price to be set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPrice {
    /// Of which model.
    pub model: ModelId,
    /// The first instant at which it is in force.
    pub effective_from: UnixMs,
    /// Prices of an ordinary call.
    pub prices: Prices,
    /// Prices of a long prompt.
    pub long_context: Option<LongContext>,
    /// Where it comes from, for people.
    pub source: String,
}

/// A dated price of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PriceRow {
    /// The first instant at which it is in force.
    pub effective_from: UnixMs,
    /// What it says.
    pub card: RateCard,
    /// Where it comes from, for people.
    pub source: String,
}

pub(crate) struct Record {
    pub(crate) id: i64,
    pub(crate) effective_from: OffsetDateTime,
    pub(crate) prices: Value,
    pub(crate) long_context: Option<Value>,
    pub(crate) source: String,
}

impl Record {
    pub(crate) fn read(self) -> Result<PriceRow, TenantsError> {
        let unreadable =
            |e: serde_json::Error| TenantsError::unreadable("prices", self.id, e.to_string());
        Ok(PriceRow {
            effective_from: from_time(self.effective_from),
            card: RateCard {
                price_id: PriceId(self.id),
                prices: serde_json::from_value(self.prices).map_err(unreadable)?,
                long_context: self
                    .long_context
                    .map(serde_json::from_value)
                    .transpose()
                    .map_err(unreadable)?,
            },
            source: self.source,
        })
    }
}

/// Sets a price from an instant on. Prices that are there stay as they are.
///
/// # Errors
/// When the model is not there, has a price from that very instant, or a price is below zero.
pub async fn insert(db: impl PgExecutor<'_>, new: &NewPrice) -> Result<PriceId, TenantsError> {
    check(&new.prices)?;
    if let Some(tier) = &new.long_context {
        check(&tier.prices)?;
        if tier.above_input_tokens < 0 {
            return Err(TenantsError::invalid("price", "the tier begins below zero tokens"));
        }
    }
    let json = |e: serde_json::Error| TenantsError::invalid("price", e.to_string());
    let id = sqlx::query_scalar!(
        "insert into prices (model_id, effective_from, prices, long_context, source)
         values ($1, $2, $3, $4, $5) returning id",
        new.model.0,
        to_time(new.effective_from)?,
        serde_json::to_value(&new.prices).map_err(json)?,
        new.long_context.as_ref().map(serde_json::to_value).transpose().map_err(json)?,
        new.source,
    )
    .fetch_one(db)
    .await?;
    Ok(PriceId(id))
}

fn check(prices: &Prices) -> Result<(), TenantsError> {
    let own = [
        prices.cached_input,
        prices.cache_write_short,
        prices.cache_write_long,
        prices.input_audio,
        prices.reasoning,
        prices.output_audio,
        prices.output_image,
    ];
    let mut all = [prices.input, prices.output].into_iter().chain(own.into_iter().flatten());
    if all.all(|price| price.0 >= 0) {
        Ok(())
    } else {
        Err(TenantsError::invalid("price", "below zero"))
    }
}

/// The prices of a model, newest first.
///
/// # Errors
/// When the database fails.
pub async fn list(db: impl PgExecutor<'_>, model: ModelId) -> Result<Vec<PriceRow>, TenantsError> {
    let records = sqlx::query_as!(
        Record,
        "select id, effective_from, prices, long_context, source from prices
         where model_id = $1 order by effective_from desc limit $2",
        model.0,
        MAX_LISTED,
    )
    .fetch_all(db)
    .await?;
    records.into_iter().map(Record::read).collect()
}
