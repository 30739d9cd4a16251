//! Limits that are another for one tenant until an instant.

use axum::Json;
use domain::id::TenantId;
use domain::plan::LimitRule;
use domain::window::UnixMs;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tenants::audit;
use tenants::directory::Changed;
use tenants::limit_override::{self, Entry, NewOverride};
use utoipa::ToSchema;

use super::ask::{Ask, At, Page, PageWish, Params, Problem, Said, instant, rfc3339};

/// A line of the history: an override that was set, or the end of the one before it.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct LimitOverride {
    id: i64,
    /// Which meter it is of.
    meter: String,
    /// The limit in the place of the plan's; null where this line ends the override before it.
    #[schema(value_type = Option<Object>)]
    rule: Option<LimitRule>,
    until: Option<String>,
    reason: String,
    /// Who said so.
    actor: String,
    at: String,
    /// Whether it holds now.
    in_force: bool,
}

impl LimitOverride {
    fn of(entry: Entry, now: UnixMs) -> Self {
        Self {
            in_force: entry.is_in_force(now),
            id: entry.id,
            meter: entry.meter,
            rule: entry.rule,
            until: entry.until.map(rfc3339),
            reason: entry.reason,
            actor: entry.actor,
            at: rfc3339(entry.at),
        }
    }
}

/// An override to be set. It takes the place of the plan's limit, and of an override, of the same meter.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct OverrideToSet {
    /// A limit as in plans.
    #[schema(value_type = Object)]
    rule: Value,
    /// When the plan's own limit holds again; at most 366 days ahead.
    until: String,
    /// Why, in at most 500 characters.
    reason: String,
}

/// Why an override ends before its time.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct OverrideEnd {
    reason: String,
}

/// The history of a tenant's overrides, newest first.
#[utoipa::path(
    get,
    path = "/admin/api/v1/tenants/{id}/limit_overrides",
    tag = "tenants",
    params(("id" = i64, Path), PageWish),
    responses((status = 200, body = Page<LimitOverride>), (status = 404, description = "no such tenant"))
)]
pub(in crate::http) async fn list(
    ask: Ask,
    At(id): At<i64>,
    Params(wish): Params<PageWish>,
) -> Result<Json<Page<LimitOverride>>, Problem> {
    let (pool, tenant, before) = (&ask.weir.pool, TenantId(id), wish.after(&ask)?);
    tenants::tenant::find(pool, tenant).await.map_err(|e| ask.of_tenants(e))?;
    let lines = limit_override::history(pool, tenant, before, wish.rows()).await;
    let (lines, now) = (lines.map_err(|e| ask.of_tenants(e))?, ask.weir.clock.now());
    let lines = lines.into_iter().map(|line| LimitOverride::of(line, now)).collect();
    Ok(Json(Page::of(lines, wish.rows(), |line: &LimitOverride| line.id)))
}

/// Lets another limit hold for a tenant until an instant. It ends by itself.
#[utoipa::path(
    post,
    path = "/admin/api/v1/tenants/{id}/limit_overrides",
    tag = "tenants",
    params(("id" = i64, Path)),
    request_body = OverrideToSet,
    responses((status = 201, body = LimitOverride), (status = 404, description = "no such tenant"))
)]
pub(in crate::http) async fn set(
    ask: Ask,
    At(id): At<i64>,
    Said(said): Said<OverrideToSet>,
) -> Result<(StatusCode, Json<LimitOverride>), Problem> {
    let rule: LimitRule = serde_json::from_value(said.rule)
        .map_err(|error| ask.invalid("rule", error.to_string()))?;
    let until = instant(&ask, "until", &said.until)?;
    let (desk, actor, tenant) = (ask.weir.desk.clone(), ask.actor(), TenantId(id));
    let new = NewOverride { tenant, rule, until, reason: said.reason, actor: actor.name.clone() };
    let deed = async move {
        let mut change = desk.pool.begin().await?;
        limit_override::set(&mut change, &new, desk.clock.now()).await?;
        let detail = json!({ "meter": new.rule.meter_name(), "rule": new.rule, "until": said.until,
                             "reason": new.reason });
        let target = format!("tenant/{id}");
        let entry = desk.entry(actor, "limit_override.set", target, Some(tenant), detail);
        audit::append(&mut *change, &entry).await?;
        change.commit().await?;
        desk.show(Changed::Overrides(tenant)).await;
        Ok(())
    };
    ask.weir.desk.run(deed).await.map_err(|e| ask.of_tenants(e))?;
    Ok((StatusCode::CREATED, Json(newest(&ask, tenant).await?)))
}

/// Ends an override before its time: the plan's own limit holds again at once.
#[utoipa::path(
    post,
    path = "/admin/api/v1/tenants/{id}/limit_overrides/{meter}/end",
    tag = "tenants",
    params(("id" = i64, Path), ("meter" = String, Path)),
    request_body = OverrideEnd,
    responses((status = 200, body = LimitOverride), (status = 404, description = "none is in force"))
)]
pub(in crate::http) async fn end(
    ask: Ask,
    At((id, meter)): At<(i64, String)>,
    Said(said): Said<OverrideEnd>,
) -> Result<Json<LimitOverride>, Problem> {
    let (desk, actor, tenant) = (ask.weir.desk.clone(), ask.actor(), TenantId(id));
    let deed = async move {
        let (mut change, now) = (desk.pool.begin().await?, desk.clock.now());
        let (reason, who) = (&said.reason, &actor.name);
        limit_override::end(&mut change, tenant, &meter, reason, who, now).await?;
        let detail = json!({ "meter": meter, "reason": reason });
        let target = format!("tenant/{id}");
        let entry = desk.entry(actor, "limit_override.end", target, Some(tenant), detail);
        audit::append(&mut *change, &entry).await?;
        change.commit().await?;
        desk.show(Changed::Overrides(tenant)).await;
        Ok(())
    };
    ask.weir.desk.run(deed).await.map_err(|e| ask.of_tenants(e))?;
    Ok(Json(newest(&ask, tenant).await?))
}

/// The line that was just written.
async fn newest(ask: &Ask, tenant: TenantId) -> Result<LimitOverride, Problem> {
    let lines = limit_override::history(&ask.weir.pool, tenant, None, 1).await;
    let line = lines.map_err(|e| ask.of_tenants(e))?.into_iter().next();
    let gone = || ask.problem(crate::http::error::Code::NotFound, "no such override");
    Ok(LimitOverride::of(line.ok_or_else(gone)?, ask.weir.clock.now()))
}
