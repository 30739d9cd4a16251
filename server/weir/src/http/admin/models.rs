//! Models: what clients may name, where it goes, what it costs.

use axum::Json;
use domain::id::{ModelId, ProviderId};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tenants::catalog::{self, NewModel, Route};
use tenants::directory::Changed;
use tenants::price::{self, NewPrice};
use utoipa::ToSchema;

use super::ask::{Ask, At, Page, Problem, Said, instant, rfc3339};
use super::prices::{Price, PriceToSet, read, read_long};
use crate::http::error::Code;

/// Where calls to a model go.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct ModelRoute {
    provider_id: i64,
    /// What the provider calls the model.
    upstream_model: String,
    /// Its share among the healthy routes, 0 to 1,000.
    #[serde(default = "one")]
    weight: i32,
}

const fn one() -> i32 {
    1
}

/// A model.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct Model {
    id: i64,
    name: String,
    /// What plans allow by, such as `flash`.
    class: String,
    context_tokens: Option<i64>,
    max_output_tokens: Option<i64>,
    routes: Vec<ModelRoute>,
    /// Without a price in force, calls to it are refused.
    priced: bool,
}

/// A model to be added.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct ModelToAdd {
    name: String,
    class: String,
    context_tokens: Option<i64>,
    max_output_tokens: Option<i64>,
    /// In order of preference.
    #[serde(default)]
    routes: Vec<ModelRoute>,
}

/// Every model.
#[utoipa::path(
    get,
    path = "/admin/api/v1/models",
    tag = "models",
    responses((status = 200, body = Page<Model>))
)]
pub(in crate::http) async fn list(ask: Ask) -> Result<Json<Page<Model>>, Problem> {
    let models = catalog::list_models(&ask.weir.pool).await.map_err(|e| ask.of_tenants(e))?;
    let snapshot = ask.weir.directory.snapshot();
    let now = ask.weir.clock.now();
    let shown = models.into_iter().map(|(id, model)| {
        let known = snapshot.models().find(|known| known.id == id);
        let routes = known.map_or(&[][..], |known| &known.routes);
        Model {
            id: id.0,
            name: model.name,
            class: model.class,
            context_tokens: model.context_tokens,
            max_output_tokens: model.max_output_tokens,
            routes: routes.iter().map(route).collect(),
            priced: snapshot.rate_card(id, now).is_some(),
        }
    });
    Ok(Json(Page::whole(shown.collect())))
}

fn route(route: &Route) -> ModelRoute {
    ModelRoute {
        provider_id: route.provider.0,
        upstream_model: route.upstream_model.clone(),
        weight: route.weight,
    }
}

fn wanted(routes: Vec<ModelRoute>) -> Vec<Route> {
    let route = |route: ModelRoute| Route {
        provider: ProviderId(route.provider_id),
        upstream_model: route.upstream_model,
        weight: route.weight,
    };
    routes.into_iter().map(route).collect()
}

/// Adds a model with its routes. Without a price, calls to it are refused.
#[utoipa::path(
    post,
    path = "/admin/api/v1/models",
    tag = "models",
    request_body = ModelToAdd,
    responses((status = 201, body = Model), (status = 409, description = "the name is taken"))
)]
pub(in crate::http) async fn create(
    ask: Ask,
    Said(said): Said<ModelToAdd>,
) -> Result<(StatusCode, Json<Model>), Problem> {
    let new = NewModel {
        name: said.name,
        class: said.class,
        context_tokens: said.context_tokens,
        max_output_tokens: said.max_output_tokens,
    };
    let shown = new.clone();
    let (routes, desk, actor) = (wanted(said.routes.clone()), ask.weir.desk.clone(), ask.actor());
    let deed = async move {
        let mut change = desk.pool.begin().await?;
        let id = catalog::insert_model(&mut *change, &new).await?;
        catalog::set_routes(&mut change, id, &routes).await?;
        let detail = json!({ "name": new.name, "class": new.class });
        desk.note(&mut change, actor, "model.create", format!("model/{id}"), detail).await?;
        change.commit().await?;
        desk.show(Changed::Catalog).await;
        Ok(id)
    };
    let id = ask.weir.desk.run(deed).await.map_err(|e| ask.of_tenants(e))?;
    let model = Model {
        id: id.0,
        name: shown.name,
        class: shown.class,
        context_tokens: shown.context_tokens,
        max_output_tokens: shown.max_output_tokens,
        routes: said.routes,
        priced: false,
    };
    Ok((StatusCode::CREATED, Json(model)))
}

/// Replaces the routes of a model, in order of preference.
#[utoipa::path(
    put,
    path = "/admin/api/v1/models/{id}/routes",
    tag = "models",
    params(("id" = i64, Path)),
    request_body = Vec<ModelRoute>,
    responses((status = 200, body = Page<ModelRoute>), (status = 404, description = "no such model"))
)]
pub(in crate::http) async fn set_routes(
    ask: Ask,
    At(id): At<i64>,
    Said(said): Said<Vec<ModelRoute>>,
) -> Result<Json<Page<ModelRoute>>, Problem> {
    known(&ask, ModelId(id)).await?;
    let (routes, desk, actor) = (wanted(said.clone()), ask.weir.desk.clone(), ask.actor());
    let detail = json!({ "routes": said });
    let deed = async move {
        let mut change = desk.pool.begin().await?;
        catalog::set_routes(&mut change, ModelId(id), &routes).await?;
        desk.note(&mut change, actor, "model.routes", format!("model/{id}"), detail).await?;
        change.commit().await?;
        desk.show(Changed::Catalog).await;
        Ok(())
    };
    ask.weir.desk.run(deed).await.map_err(|e| ask.of_tenants(e))?;
    Ok(Json(Page::whole(said)))
}

/// The prices of a model, newest first.
#[utoipa::path(
    get,
    path = "/admin/api/v1/models/{id}/prices",
    tag = "models",
    params(("id" = i64, Path)),
    responses((status = 200, body = Page<Price>), (status = 404, description = "no such model"))
)]
pub(in crate::http) async fn list_prices(
    ask: Ask,
    At(id): At<i64>,
) -> Result<Json<Page<Price>>, Problem> {
    known(&ask, ModelId(id)).await?;
    let rows = price::list(&ask.weir.pool, ModelId(id)).await.map_err(|e| ask.of_tenants(e))?;
    Ok(Json(Page::whole(rows.into_iter().map(Price::from).collect())))
}

/// Sets a price from an instant on. What was charged before stays as it is.
#[utoipa::path(
    post,
    path = "/admin/api/v1/models/{id}/prices",
    tag = "models",
    params(("id" = i64, Path)),
    request_body = PriceToSet,
    responses((status = 201, body = Price), (status = 404, description = "no such model"))
)]
pub(in crate::http) async fn add_price(
    ask: Ask,
    At(id): At<i64>,
    Said(said): Said<PriceToSet>,
) -> Result<(StatusCode, Json<Price>), Problem> {
    let effective_from = match &said.effective_from {
        Some(text) => instant(&ask, "effective_from", text)?,
        None => ask.weir.clock.now(),
    };
    let new = NewPrice {
        model: ModelId(id),
        effective_from,
        prices: read(&ask, &said.prices)?,
        long_context: read_long(&ask, said.long_context.as_ref())?,
        source: said.source.unwrap_or_else(|| "admin API".to_owned()),
    };
    let detail = json!({ "effective_from": rfc3339(effective_from), "source": new.source,
                         "prices": said.prices, "long_context": said.long_context });
    let (desk, actor) = (ask.weir.desk.clone(), ask.actor());
    let deed = async move {
        let mut change = desk.pool.begin().await?;
        let made = price::insert(&mut *change, &new).await?;
        desk.note(&mut change, actor, "price.set", format!("model/{id}"), detail).await?;
        change.commit().await?;
        desk.show(Changed::Catalog).await;
        Ok(made)
    };
    let made = ask.weir.desk.run(deed).await.map_err(|e| ask.of_tenants(e))?;
    let rows = price::list(&ask.weir.pool, ModelId(id)).await.map_err(|e| ask.of_tenants(e))?;
    let row = rows.into_iter().find(|row| row.card.price_id == made);
    let row = row.ok_or_else(|| ask.problem(Code::Internal, Code::Internal.sentence()))?;
    Ok((StatusCode::CREATED, Json(Price::from(row))))
}

async fn known(ask: &Ask, id: ModelId) -> Result<(), Problem> {
    let models = catalog::list_models(&ask.weir.pool).await.map_err(|e| ask.of_tenants(e))?;
    let found = models.iter().any(|(known, _)| *known == id);
    if found { Ok(()) } else { Err(ask.problem(Code::NotFound, "There is no such model.")) }
}
