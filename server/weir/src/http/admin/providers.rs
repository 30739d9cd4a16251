//! Providers: where calls go.

use axum::Json;
use domain::id::ProviderId;
use domain::plan::LimitRule;
use domain::usage::Dialect;
use http::StatusCode;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tenants::catalog::{self, NewProvider, OnDisconnect, Timeouts};
use tenants::directory::Changed;
use utoipa::ToSchema;

use super::ask::{Ask, At, Page, Problem, Said};

/// A provider.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct Provider {
    id: i64,
    name: String,
    /// `openai`, `anthropic` or `gemini`.
    dialect: String,
    base_url: String,
    has_credential: bool,
    /// The last characters of the credential.
    credential_hint: String,
    connect_ms: i32,
    first_byte_ms: i32,
    idle_ms: i32,
    total_ms: i32,
    drain_ms: i32,
    /// `drain` or `abort`.
    on_disconnect: String,
    enabled: bool,
    /// The operator's own quota there, which all tenants share; a list of limits as in plans.
    #[schema(value_type = Vec<Object>)]
    quota: Vec<LimitRule>,
}

/// The operator's own quota at a provider.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct Quota {
    /// Limits of the rules `bucket`, `window` and `lease`. Those whose `metric` is `cost` are in nano-USD and count
    /// what tenants are charged.
    #[schema(value_type = Vec<Object>)]
    rules: Vec<Value>,
}

/// A provider to be added. Its times have defaults.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct ProviderToAdd {
    name: String,
    /// `openai`, `anthropic` or `gemini`.
    dialect: String,
    /// `https://host` and perhaps a path, without a slash at its end.
    base_url: String,
    /// What it is called with. It is sealed, and cannot be read back.
    credential: Option<String>,
    connect_ms: Option<i32>,
    first_byte_ms: Option<i32>,
    idle_ms: Option<i32>,
    total_ms: Option<i32>,
    drain_ms: Option<i32>,
    /// `drain` or `abort`.
    on_disconnect: Option<String>,
}

/// What a provider is called with.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct Credential {
    /// Null for none. It is sealed, and cannot be read back.
    credential: Option<String>,
}

impl From<catalog::Provider> for Provider {
    fn from(row: catalog::Provider) -> Self {
        Self {
            id: row.id.0,
            name: row.name,
            dialect: row.dialect.code().to_owned(),
            base_url: row.base_url,
            has_credential: row.has_credential,
            credential_hint: row.credential_hint,
            connect_ms: row.timeouts.connect_ms,
            first_byte_ms: row.timeouts.first_byte_ms,
            idle_ms: row.timeouts.idle_ms,
            total_ms: row.timeouts.total_ms,
            drain_ms: row.timeouts.drain_ms,
            on_disconnect: row.on_disconnect.code().to_owned(),
            enabled: row.enabled,
            quota: row.quota,
        }
    }
}

/// Every provider.
#[utoipa::path(
    get,
    path = "/admin/api/v1/providers",
    tag = "providers",
    responses((status = 200, body = Page<Provider>))
)]
pub(in crate::http) async fn list(ask: Ask) -> Result<Json<Page<Provider>>, Problem> {
    let rows = catalog::list_providers(&ask.weir.pool).await.map_err(|e| ask.of_tenants(e))?;
    Ok(Json(Page::whole(rows.into_iter().map(Provider::from).collect())))
}

/// Adds a provider.
#[utoipa::path(
    post,
    path = "/admin/api/v1/providers",
    tag = "providers",
    request_body = ProviderToAdd,
    responses((status = 201, body = Provider), (status = 409, description = "the name is taken"))
)]
pub(in crate::http) async fn create(
    ask: Ask,
    Said(said): Said<ProviderToAdd>,
) -> Result<(StatusCode, Json<Provider>), Problem> {
    let dialect = Dialect::parse(&said.dialect)
        .ok_or_else(|| ask.invalid("dialect", "is none of openai, anthropic and gemini"))?;
    let on_disconnect = said.on_disconnect.as_deref().unwrap_or("drain");
    let on_disconnect = OnDisconnect::parse(on_disconnect)
        .ok_or_else(|| ask.invalid("on_disconnect", "is neither drain nor abort"))?;
    let usual = Timeouts::default();
    let timeouts = Timeouts {
        connect_ms: said.connect_ms.unwrap_or(usual.connect_ms),
        first_byte_ms: said.first_byte_ms.unwrap_or(usual.first_byte_ms),
        idle_ms: said.idle_ms.unwrap_or(usual.idle_ms),
        total_ms: said.total_ms.unwrap_or(usual.total_ms),
        drain_ms: said.drain_ms.unwrap_or(usual.drain_ms),
    };
    let (name, base_url) = (said.name, said.base_url);
    let new = NewProvider { name, dialect, base_url, timeouts, on_disconnect };
    let credential = said.credential.map(SecretString::from);
    let (desk, sealer, actor) = (ask.weir.desk.clone(), ask.weir.sealer.clone(), ask.actor());
    let deed = async move {
        let mut change = desk.pool.begin().await?;
        let made =
            catalog::insert_provider(&mut change, &sealer, &new, credential.as_ref()).await?;
        let detail = json!({ "name": new.name, "base_url": new.base_url });
        let target = format!("provider/{made}");
        desk.note(&mut change, actor, "provider.create", target, detail).await?;
        change.commit().await?;
        desk.show(Changed::Catalog).await;
        Ok(made)
    };
    let id = ask.weir.desk.run(deed).await.map_err(|e| ask.of_tenants(e))?;
    Ok((StatusCode::CREATED, Json(find(&ask, id).await?)))
}

/// Gives a provider another credential, or none.
#[utoipa::path(
    put,
    path = "/admin/api/v1/providers/{id}/credential",
    tag = "providers",
    params(("id" = i64, Path)),
    request_body = Credential,
    responses((status = 200, body = Provider), (status = 404, description = "no such provider"))
)]
pub(in crate::http) async fn credential(
    ask: Ask,
    At(id): At<i64>,
    Said(said): Said<Credential>,
) -> Result<Json<Provider>, Problem> {
    let credential = said.credential.map(SecretString::from);
    let (desk, sealer, actor) = (ask.weir.desk.clone(), ask.weir.sealer.clone(), ask.actor());
    let deed = async move {
        let mut change = desk.pool.begin().await?;
        let provider = ProviderId(id);
        catalog::set_credential(&mut *change, &sealer, provider, credential.as_ref()).await?;
        let detail = json!({ "set": credential.is_some() });
        let target = format!("provider/{id}");
        desk.note(&mut change, actor, "provider.credential", target, detail).await?;
        change.commit().await?;
        desk.show(Changed::Catalog).await;
        Ok(())
    };
    ask.weir.desk.run(deed).await.map_err(|e| ask.of_tenants(e))?;
    Ok(Json(find(&ask, ProviderId(id)).await?))
}

/// Sets the operator's own quota at a provider. A call that it refuses gets 503 `provider_quota`.
#[utoipa::path(
    put,
    path = "/admin/api/v1/providers/{id}/quota",
    tag = "providers",
    params(("id" = i64, Path)),
    request_body = Quota,
    responses((status = 200, body = Provider), (status = 404, description = "no such provider"))
)]
pub(in crate::http) async fn quota(
    ask: Ask,
    At(id): At<i64>,
    Said(said): Said<Quota>,
) -> Result<Json<Provider>, Problem> {
    let rules = said.rules.into_iter().map(serde_json::from_value::<LimitRule>);
    let rules = rules.collect::<Result<Vec<_>, _>>();
    let rules = rules.map_err(|error| ask.invalid("rules", error.to_string()))?;
    let (desk, actor) = (ask.weir.desk.clone(), ask.actor());
    let before = find(&ask, ProviderId(id)).await?.quota;
    let deed = async move {
        let mut change = desk.pool.begin().await?;
        catalog::set_quota(&mut *change, ProviderId(id), &rules).await?;
        let detail = json!({ "before": before, "after": rules });
        desk.note(&mut change, actor, "provider.quota", format!("provider/{id}"), detail).await?;
        change.commit().await?;
        desk.show(Changed::Catalog).await;
        Ok(())
    };
    ask.weir.desk.run(deed).await.map_err(|e| ask.of_tenants(e))?;
    Ok(Json(find(&ask, ProviderId(id)).await?))
}

async fn find(ask: &Ask, id: ProviderId) -> Result<Provider, Problem> {
    let rows = catalog::list_providers(&ask.weir.pool).await.map_err(|e| ask.of_tenants(e))?;
    let found = rows.into_iter().find(|row| row.id == id).map(Provider::from);
    found.ok_or_else(|| ask.problem(crate::http::error::Code::NotFound, "no such provider"))
}
