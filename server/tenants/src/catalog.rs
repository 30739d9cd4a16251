//! Where calls can go: providers, the models that clients may name, and the routes between them.

mod provider;

use domain::id::{ModelId, ProviderId};
use sqlx::{Connection, PgConnection, PgExecutor};

pub use self::provider::{
    NewProvider, OnDisconnect, Provider, Timeouts, edit_provider, insert_provider, list_providers,
    rewrap_credentials, set_credential, set_enabled, set_quota,
};
use crate::TenantsError;

/// An installation has dozens of providers and hundreds of models: a list of them all stays a list.
const MAX_LISTED: i64 = 10_000;

/// A model that clients may name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewModel {
    /// The name that clients use.
    pub name: String,
    /// What plans allow by: `flash`, `pro`, …
    pub class: String,
    /// How many tokens it can take in and put out together, where known.
    pub context_tokens: Option<i64>,
    /// How many tokens it can put out, where known.
    pub max_output_tokens: Option<i64>,
}

/// Makes a model. Without a route and a price, calls to it are refused.
///
/// # Errors
/// When the name is taken or empty.
pub async fn insert_model(
    db: impl PgExecutor<'_>,
    new: &NewModel,
) -> Result<ModelId, TenantsError> {
    if new.name.trim().is_empty() {
        return Err(TenantsError::invalid("model name", "it is empty"));
    }
    let id = sqlx::query_scalar!(
        "insert into models (name, class, context_tokens, max_output_tokens) values ($1, $2, $3, $4)
         returning id",
        new.name,
        new.class,
        new.context_tokens,
        new.max_output_tokens,
    )
    .fetch_one(db)
    .await?;
    Ok(ModelId(id))
}

/// All models, by name.
///
/// # Errors
/// When the database fails.
pub async fn list_models(
    db: impl PgExecutor<'_>,
) -> Result<Vec<(ModelId, NewModel)>, TenantsError> {
    let rows = sqlx::query!(
        "select id, name, class, context_tokens, max_output_tokens from models order by name limit $1",
        MAX_LISTED,
    )
    .fetch_all(db)
    .await?;
    let read = rows.into_iter().map(|row| {
        let model = NewModel {
            name: row.name,
            class: row.class,
            context_tokens: row.context_tokens,
            max_output_tokens: row.max_output_tokens,
        };
        (ModelId(row.id), model)
    });
    Ok(read.collect())
}

/// One way that calls to a model can go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Where to.
    pub provider: ProviderId,
    /// What the provider calls the model.
    pub upstream_model: String,
    /// Its share among the healthy routes, 0 to 1,000.
    pub weight: i32,
}

/// Replaces the routes of a model, in order of preference.
///
/// # Errors
/// When the model or a provider is not there, or a weight is out of range.
pub async fn set_routes(
    db: &mut PgConnection,
    model: ModelId,
    routes: &[Route],
) -> Result<(), TenantsError> {
    let mut change = db.begin().await?;
    sqlx::query!("delete from model_routes where model_id = $1", model.0)
        .execute(&mut *change)
        .await?;
    let providers: Vec<i64> = routes.iter().map(|route| route.provider.0).collect();
    let names: Vec<String> = routes.iter().map(|route| route.upstream_model.clone()).collect();
    let weights: Vec<i32> = routes.iter().map(|route| route.weight).collect();
    sqlx::query!(
        "insert into model_routes (model_id, position, provider_id, upstream_model, weight)
         select $1, r.position::int, r.provider_id, r.upstream_model, r.weight
         from unnest($2::bigint[], $3::text[], $4::int[]) with ordinality
             as r (provider_id, upstream_model, weight, position)",
        model.0,
        &providers,
        &names,
        &weights,
    )
    .execute(&mut *change)
    .await?;
    change.commit().await?;
    Ok(())
}

/// The routes of a model, in order of preference.
///
/// # Errors
/// When the database fails.
pub async fn list_routes(
    db: impl PgExecutor<'_>,
    model: ModelId,
) -> Result<Vec<Route>, TenantsError> {
    let rows = sqlx::query!(
        "select provider_id, upstream_model, weight from model_routes
         where model_id = $1 order by position limit $2",
        model.0,
        MAX_LISTED,
    )
    .fetch_all(db)
    .await?;
    let read = rows.into_iter().map(|row| Route {
        provider: ProviderId(row.provider_id),
        upstream_model: row.upstream_model,
        weight: row.weight,
    });
    Ok(read.collect())
}
