//! API keys of tenants.

use axum::Json;
use domain::id::{KeyId, TeamId, TenantId};
use domain::plan::LimitRule;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tenants::api_key::{self, KeyRow, NewKey};
use tenants::tenant;
use utoipa::ToSchema;

use super::ask::{Ask, At, Page, PageWish, Params, Problem, Said, instant, rfc3339};
use crate::deeds;

/// The longest name of a key, in characters.
const NAME_CHARS_MAX: usize = app::routes::NAME_MAX_CHARS;

/// A key. Its text is not kept.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct Key {
    id: i64,
    tenant_id: i64,
    team_id: Option<i64>,
    name: String,
    /// Its first and last characters.
    masked: String,
    /// `active`, `disabled` or `revoked`.
    status: String,
    /// Its own limits. Those whose `metric` is `cost` are in nano-USD.
    #[schema(value_type = Vec<Object>)]
    rules: Vec<LimitRule>,
    created_at: String,
    last_used_at: Option<String>,
    expires_at: Option<String>,
    revoked_at: Option<String>,
}

/// A key to be made.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct KeyToAdd {
    name: String,
    team_id: Option<i64>,
    /// The first instant at which it no longer works; never when nothing is said.
    expires_at: Option<String>,
    /// Its own limits. Those whose `metric` is `cost` are in nano-USD.
    #[serde(default)]
    #[schema(value_type = Vec<Object>)]
    rules: Vec<Value>,
}

/// A key that was made: the only time its text is told.
#[derive(Serialize, ToSchema)]
pub(in crate::http) struct MadeKey {
    key: Key,
    /// The whole key.
    secret: String,
}

impl From<KeyRow> for Key {
    fn from(row: KeyRow) -> Self {
        Self {
            id: row.id.0,
            tenant_id: row.tenant.0,
            team_id: row.team.map(|team| team.0),
            name: row.name,
            masked: row.masked,
            status: row.status.code().to_owned(),
            rules: row.rules,
            created_at: rfc3339(row.created_at),
            last_used_at: row.last_used_at.map(rfc3339),
            expires_at: row.expires_at.map(rfc3339),
            revoked_at: row.revoked_at.map(rfc3339),
        }
    }
}

/// A tenant's keys, newest first.
#[utoipa::path(
    get,
    path = "/admin/api/v1/tenants/{id}/keys",
    tag = "keys",
    params(("id" = i64, Path), PageWish),
    responses((status = 200, body = Page<Key>), (status = 404, description = "no such tenant"))
)]
pub(in crate::http) async fn list(
    ask: Ask,
    At(id): At<i64>,
    Params(wish): Params<PageWish>,
) -> Result<Json<Page<Key>>, Problem> {
    let (pool, tenant) = (&ask.weir.pool, TenantId(id));
    tenant::find(pool, tenant).await.map_err(|e| ask.of_tenants(e))?;
    let before = wish.after(&ask)?.map(KeyId);
    let rows = api_key::list(pool, Some(tenant), before, wish.rows()).await;
    let keys: Vec<Key> = rows.map_err(|e| ask.of_tenants(e))?.into_iter().map(Key::from).collect();
    Ok(Json(Page::of(keys, wish.rows(), |key| key.id)))
}

/// Makes a key. Its text is in this answer and nowhere else.
#[utoipa::path(
    post,
    path = "/admin/api/v1/tenants/{id}/keys",
    tag = "keys",
    params(("id" = i64, Path)),
    request_body = KeyToAdd,
    responses(
        (status = 201, body = MadeKey),
        (status = 404, description = "no such tenant"),
        (status = 409, description = "a living key of the tenant has this name"),
    )
)]
pub(in crate::http) async fn create(
    ask: Ask,
    At(id): At<i64>,
    Said(said): Said<KeyToAdd>,
) -> Result<(StatusCode, Json<MadeKey>), Problem> {
    let name = said.name.trim();
    if name.is_empty() || name.chars().count() > NAME_CHARS_MAX {
        return Err(ask.invalid("name", format!("1 to {NAME_CHARS_MAX} characters")));
    }
    let rules = said.rules.into_iter().map(serde_json::from_value::<LimitRule>);
    let rules = rules.collect::<Result<Vec<_>, _>>();
    let expires_at = said.expires_at.as_deref().map(|text| instant(&ask, "expires_at", text));
    let tenant = TenantId(id);
    tenant::find(&ask.weir.pool, tenant).await.map_err(|e| ask.of_tenants(e))?;
    let new = NewKey {
        tenant,
        team: said.team_id.map(TeamId),
        name: name.to_owned(),
        rules: rules.map_err(|error| ask.invalid("rules", error.to_string()))?,
        expires_at: expires_at.transpose()?,
    };
    let made = deeds::create_key(&ask.weir.desk, ask.actor(), new).await;
    let (key, secret) = made.map_err(|e| ask.of_tenants(e))?;
    let row = api_key::find(&ask.weir.pool, tenant, key).await.map_err(|e| ask.of_tenants(e))?;
    let made = MadeKey { key: Key::from(row), secret: secret.expose().to_owned() };
    Ok((StatusCode::CREATED, Json(made)))
}

/// Ends a key for good. Doing it again changes nothing.
#[utoipa::path(
    delete,
    path = "/admin/api/v1/tenants/{id}/keys/{key_id}",
    tag = "keys",
    params(("id" = i64, Path), ("key_id" = i64, Path)),
    responses((status = 204), (status = 404, description = "the tenant has no such key"))
)]
pub(in crate::http) async fn revoke(
    ask: Ask,
    At((id, key_id)): At<(i64, i64)>,
) -> Result<StatusCode, Problem> {
    deeds::revoke_key(&ask.weir.desk, ask.actor(), TenantId(id), KeyId(key_id))
        .await
        .map_err(|e| ask.of_tenants(e))?;
    Ok(StatusCode::NO_CONTENT)
}
