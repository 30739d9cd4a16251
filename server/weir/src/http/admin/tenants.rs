//! Tenants: who pays.

use axum::Json;
use domain::id::{PlanId, TenantId};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tenants::audit;
use tenants::directory::Changed;
use tenants::plan;
use tenants::tenant::{self, NewTenant, TenantStatus};
use utoipa::ToSchema;

use super::ask::{Ask, At, Page, PageWish, Params, Problem, Said, rfc3339};
use crate::deeds;

/// A tenant.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct Tenant {
    id: i64,
    /// Its name in addresses.
    slug: String,
    name: String,
    /// The version of the plan it is on.
    plan_id: i64,
    /// The name of its time zone: its days and months begin there.
    time_zone: String,
    /// `active`, `suspended` or `archived`.
    status: String,
    created_at: String,
}

/// A tenant to be made.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct TenantToAdd {
    /// Lower-case letters, digits and hyphens.
    slug: String,
    name: String,
    /// The newest version of the plan of this name; or say `plan_id`.
    plan: Option<String>,
    plan_id: Option<i64>,
    /// `UTC` when nothing is said.
    time_zone: Option<String>,
}

/// What of a tenant changes; what is not named stays.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct TenantChange {
    name: Option<String>,
    plan_id: Option<i64>,
    time_zone: Option<String>,
    /// `active`, `suspended` or `archived`.
    status: Option<String>,
}

impl From<tenant::Tenant> for Tenant {
    fn from(row: tenant::Tenant) -> Self {
        Self {
            id: row.id.0,
            slug: row.slug,
            name: row.name,
            plan_id: row.plan.0,
            time_zone: row.time_zone,
            status: row.status.code().to_owned(),
            created_at: rfc3339(row.created_at),
        }
    }
}

/// Tenants, oldest first.
#[utoipa::path(
    get,
    path = "/admin/api/v1/tenants",
    tag = "tenants",
    params(PageWish),
    responses((status = 200, body = Page<Tenant>))
)]
pub(in crate::http) async fn list(
    ask: Ask,
    Params(wish): Params<PageWish>,
) -> Result<Json<Page<Tenant>>, Problem> {
    let after = wish.after(&ask)?.map(TenantId);
    let rows =
        tenant::list(&ask.weir.pool, after, wish.rows()).await.map_err(|e| ask.of_tenants(e))?;
    let tenants: Vec<Tenant> = rows.into_iter().map(Tenant::from).collect();
    Ok(Json(Page::of(tenants, wish.rows(), |tenant| tenant.id)))
}

/// One tenant.
#[utoipa::path(
    get,
    path = "/admin/api/v1/tenants/{id}",
    tag = "tenants",
    params(("id" = i64, Path)),
    responses((status = 200, body = Tenant), (status = 404, description = "no such tenant"))
)]
pub(in crate::http) async fn one(ask: Ask, At(id): At<i64>) -> Result<Json<Tenant>, Problem> {
    let row = tenant::find(&ask.weir.pool, TenantId(id)).await.map_err(|e| ask.of_tenants(e))?;
    Ok(Json(Tenant::from(row)))
}

/// Makes a tenant.
#[utoipa::path(
    post,
    path = "/admin/api/v1/tenants",
    tag = "tenants",
    request_body = TenantToAdd,
    responses((status = 201, body = Tenant), (status = 409, description = "the slug is taken"))
)]
pub(in crate::http) async fn create(
    ask: Ask,
    Said(said): Said<TenantToAdd>,
) -> Result<(StatusCode, Json<Tenant>), Problem> {
    let pool = &ask.weir.pool;
    let plan = match (said.plan, said.plan_id) {
        (None, Some(id)) => PlanId(id),
        (Some(name), None) => {
            plan::find_newest(pool, &name).await.map_err(|e| ask.of_tenants(e))?.id
        }
        _ => return Err(ask.invalid("plan", "say either plan or plan_id")),
    };
    let new = NewTenant {
        slug: said.slug,
        name: said.name,
        plan,
        time_zone: said.time_zone.unwrap_or_else(|| "UTC".to_owned()),
    };
    let made = deeds::create_tenant(&ask.weir.desk, ask.actor(), new).await;
    let id = made.map_err(|e| ask.of_tenants(e))?;
    let row = tenant::find(pool, id).await.map_err(|e| ask.of_tenants(e))?;
    Ok((StatusCode::CREATED, Json(Tenant::from(row))))
}

/// Changes a tenant: its name, plan, time zone, or whether its keys work.
#[utoipa::path(
    patch,
    path = "/admin/api/v1/tenants/{id}",
    tag = "tenants",
    params(("id" = i64, Path)),
    request_body = TenantChange,
    responses((status = 200, body = Tenant), (status = 404, description = "no such tenant"))
)]
pub(in crate::http) async fn change(
    ask: Ask,
    At(id): At<i64>,
    Said(said): Said<TenantChange>,
) -> Result<Json<Tenant>, Problem> {
    let wrong = || ask.invalid("status", "is none of active, suspended and archived");
    let status = said.status.as_deref().map(|code| TenantStatus::parse(code).ok_or_else(wrong));
    let status = status.transpose()?;
    let (desk, actor, id) = (ask.weir.desk.clone(), ask.actor(), TenantId(id));
    let deed = async move {
        let before = tenant::find(&desk.pool, id).await?;
        let mut change = desk.pool.begin().await?;
        if said.name.is_some() || said.time_zone.is_some() {
            let name = said.name.as_deref().unwrap_or(&before.name);
            let zone = said.time_zone.as_deref().unwrap_or(&before.time_zone);
            tenant::edit(&mut *change, id, name, zone).await?;
        }
        if let Some(plan) = said.plan_id {
            tenant::set_plan(&mut *change, id, PlanId(plan)).await?;
        }
        if let Some(status) = status {
            tenant::set_status(&mut *change, id, status).await?;
        }
        let detail = json!({
            "before": { "name": before.name, "plan_id": before.plan.0, "status": before.status.code(),
                        "time_zone": before.time_zone },
            "changed": { "name": said.name, "plan_id": said.plan_id, "status": said.status,
                         "time_zone": said.time_zone },
        });
        let entry = desk.entry(actor, "tenant.change", format!("tenant/{id}"), Some(id), detail);
        audit::append(&mut *change, &entry).await?;
        change.commit().await?;
        desk.show(Changed::Tenant(id)).await;
        tenant::find(&desk.pool, id).await
    };
    let row = ask.weir.desk.run(deed).await.map_err(|e| ask.of_tenants(e))?;
    Ok(Json(Tenant::from(row)))
}
