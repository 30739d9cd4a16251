//! Plans: what tenants buy, in versions that never change.

use axum::Json;
use domain::id::PlanId;
use domain::money::Nanos;
use domain::plan::{CallTerms, DenyMode, LimitRule, ModelAccess, Plan as DomainPlan};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tenants::directory::Changed;
use tenants::plan::{self, NewPlan};
use utoipa::ToSchema;

use super::ask::{Ask, Page, PageWish, Params, Problem, Said};

/// A version of a plan.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct Plan {
    id: i64,
    name: String,
    version: i32,
    /// The limits. Those whose `metric` is `cost` are in nano-USD.
    #[schema(value_type = Vec<Object>)]
    rules: Vec<LimitRule>,
    /// `"all"`, `{"classes": […]}` or `{"only": […]}`.
    #[schema(value_type = Object)]
    models: ModelAccess,
    markup_bps: i64,
    default_max_output_tokens: i64,
    max_output_tokens: i64,
    /// `reject`, `reject_bare` or `wait`.
    #[schema(value_type = String)]
    deny_mode: DenyMode,
    request_fee_nanos: i64,
    /// The most that one call may be able to cost; null for no maximum.
    max_request_charge_nanos: Option<i64>,
    /// The most tokens that one call may probably use, input and output bound together; null for no maximum.
    max_request_tokens: Option<i64>,
    /// How long a call may wait for its turn where `deny_mode` is `wait`.
    max_wait_ms: i64,
    /// The share of a tenant when several wait for one provider's quota.
    weight: i64,
}

/// A plan, or a new version of one, to be made.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct PlanToAdd {
    name: String,
    /// The limits. Those whose `metric` is `cost` are in nano-USD.
    #[schema(value_type = Vec<Object>)]
    rules: Vec<Value>,
    /// `"all"`, `{"classes": […]}` or `{"only": […]}`.
    #[schema(value_type = Object)]
    models: ModelAccess,
    #[serde(default)]
    markup_bps: i64,
    default_max_output_tokens: i64,
    max_output_tokens: i64,
    #[serde(default)]
    #[schema(value_type = String)]
    deny_mode: DenyMode,
    #[serde(default)]
    request_fee_nanos: i64,
    /// The most that one call may be able to cost; no maximum when nothing is said.
    max_request_charge_nanos: Option<i64>,
    /// The most tokens that one call may probably use, input and output bound together.
    max_request_tokens: Option<i64>,
    /// At most 30,000; 2,000 when nothing is said.
    max_wait_ms: Option<i64>,
    /// 1 to 1,000; 1 when nothing is said.
    weight: Option<i64>,
}

impl PlanToAdd {
    fn terms(&self) -> CallTerms {
        let usual = CallTerms::default();
        CallTerms {
            max_charge: self.max_request_charge_nanos.map(Nanos),
            max_tokens: self.max_request_tokens,
            max_wait_ms: self.max_wait_ms.unwrap_or(usual.max_wait_ms),
            weight: self.weight.unwrap_or(usual.weight),
        }
    }
}

impl From<DomainPlan> for Plan {
    fn from(plan: DomainPlan) -> Self {
        Self {
            id: plan.id.0,
            name: plan.name,
            version: plan.version,
            rules: plan.rules,
            models: plan.models,
            markup_bps: plan.markup_bps,
            default_max_output_tokens: plan.default_max_output_tokens,
            max_output_tokens: plan.max_output_tokens,
            deny_mode: plan.deny_mode,
            request_fee_nanos: plan.request_fee.0,
            max_request_charge_nanos: plan.terms.max_charge.map(|max| max.0),
            max_request_tokens: plan.terms.max_tokens,
            max_wait_ms: plan.terms.max_wait_ms,
            weight: plan.terms.weight,
        }
    }
}

/// Every version of every plan.
#[utoipa::path(
    get,
    path = "/admin/api/v1/plans",
    tag = "plans",
    params(PageWish),
    responses((status = 200, body = Page<Plan>))
)]
pub(in crate::http) async fn list(
    ask: Ask,
    Params(wish): Params<PageWish>,
) -> Result<Json<Page<Plan>>, Problem> {
    let after = wish.after(&ask)?.map(PlanId);
    let rows =
        plan::list(&ask.weir.pool, after, wish.rows()).await.map_err(|e| ask.of_tenants(e))?;
    let plans: Vec<Plan> = rows.into_iter().map(Plan::from).collect();
    Ok(Json(Page::of(plans, wish.rows(), |plan| plan.id)))
}

/// Makes a plan, or the next version of one. Tenants stay on the version they have.
#[utoipa::path(
    post,
    path = "/admin/api/v1/plans",
    tag = "plans",
    request_body = PlanToAdd,
    responses((status = 201, body = Plan))
)]
pub(in crate::http) async fn create(
    ask: Ask,
    Said(said): Said<PlanToAdd>,
) -> Result<(StatusCode, Json<Plan>), Problem> {
    let terms = said.terms();
    let rules = said.rules.into_iter().map(serde_json::from_value::<LimitRule>);
    let rules = rules.collect::<Result<Vec<_>, _>>();
    let new = NewPlan {
        name: said.name,
        rules: rules.map_err(|error| ask.invalid("rules", error.to_string()))?,
        models: said.models,
        markup_bps: said.markup_bps,
        default_max_output_tokens: said.default_max_output_tokens,
        max_output_tokens: said.max_output_tokens,
        deny_mode: said.deny_mode,
        request_fee: Nanos(said.request_fee_nanos),
        terms,
    };
    let (desk, actor) = (ask.weir.desk.clone(), ask.actor());
    let deed = async move {
        let mut change = desk.pool.begin().await?;
        let id = plan::insert_version(&mut *change, &new).await?;
        let made = plan::find(&mut *change, id).await?;
        let detail = json!({ "name": made.name, "version": made.version });
        desk.note(&mut change, actor, "plan.create", format!("plan/{id}"), detail).await?;
        change.commit().await?;
        desk.show(Changed::Plan(id)).await;
        Ok(made)
    };
    let made = ask.weir.desk.run(deed).await.map_err(|e| ask.of_tenants(e))?;
    Ok((StatusCode::CREATED, Json(Plan::from(made))))
}
