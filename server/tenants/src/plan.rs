//! What tenants buy: plans, in versions that are never changed.

use domain::id::PlanId;
use domain::money::Nanos;
use domain::plan::{CallTerms, DenyMode, LimitRule, ModelAccess, Plan, PlanError};
use serde::Deserialize;
use serde_json::Value;
use sqlx::PgExecutor;

use crate::{TenantsError, page_size, rules};

/// The plans that Weir brings. The tests of other packages read the same file.
const DEFAULT_PLANS: &str = include_str!("../default_plans.json");

/// A plan, or a new version of one, to be made.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewPlan {
    /// The name, the same for all versions.
    pub name: String,
    /// The limits.
    pub rules: Vec<LimitRule>,
    /// The models.
    pub models: ModelAccess,
    /// What is added to the provider's price, in basis points.
    pub markup_bps: i64,
    /// The output bound written into a request that names none, in tokens.
    pub default_max_output_tokens: i64,
    /// The largest output bound that a request may name, in tokens.
    pub max_output_tokens: i64,
    /// What refusals tell.
    pub deny_mode: DenyMode,
    /// A fixed charge for each call that is served with the tenant's own provider key.
    #[serde(rename = "request_fee_nanos")]
    pub request_fee: Nanos,
    /// What holds for every single call.
    #[serde(default)]
    pub terms: CallTerms,
}

impl NewPlan {
    /// The plan as it would be, without a row.
    fn draft(&self) -> Plan {
        Plan {
            id: PlanId(0),
            version: 0,
            name: self.name.clone(),
            rules: self.rules.clone(),
            models: self.models.clone(),
            markup_bps: self.markup_bps,
            default_max_output_tokens: self.default_max_output_tokens,
            max_output_tokens: self.max_output_tokens,
            deny_mode: self.deny_mode,
            request_fee: self.request_fee,
            terms: self.terms,
        }
    }
}

/// The plans that Weir brings: free, starter, pro and enterprise.
///
/// Their token rates were chosen so that the largest call a plan may make fits its bucket, and a minute of
/// the rate about fills it: 200/s and 20,000 (free), 1,000/s and 60,000 (starter), 5,000/s and 300,000
/// (pro: a context of 200,000 and its answer), 50,000/s and 2,000,000 (enterprise: a context of a million).
///
/// # Errors
/// Never for the file as it is; its reading is a test of this package.
pub fn defaults() -> Result<Vec<NewPlan>, TenantsError> {
    serde_json::from_str(DEFAULT_PLANS)
        .map_err(|e| TenantsError::invalid("default plans", e.to_string()))
}

/// Inserts those plans that Weir brings and that have no version yet. Says how many.
///
/// # Errors
/// When the database fails.
pub async fn insert_defaults(db: impl PgExecutor<'_>) -> Result<u64, TenantsError> {
    let plans: Value = serde_json::from_str(DEFAULT_PLANS)
        .map_err(|e| TenantsError::invalid("default plans", e.to_string()))?;
    let done = sqlx::query!(
        "insert into plans (name, rules, models, markup_bps, default_max_output_tokens,
                            max_output_tokens, deny_mode, request_fee_nanos, weight)
         select name, rules, models, markup_bps, default_max_output_tokens,
                max_output_tokens, deny_mode, request_fee_nanos, (terms ->> 'weight')::bigint
         from jsonb_to_recordset($1::jsonb) as d
             (name text, rules jsonb, models jsonb, markup_bps bigint, default_max_output_tokens bigint,
              max_output_tokens bigint, deny_mode text, request_fee_nanos bigint, terms jsonb)
         where not exists (select from plans p where p.name = d.name)
         on conflict on constraint plans_name_version_key do nothing",
        plans,
    )
    .execute(db)
    .await?;
    Ok(done.rows_affected())
}

pub(crate) struct Record {
    pub(crate) id: i64,
    pub(crate) name: String,
    pub(crate) version: i32,
    pub(crate) rules: Value,
    pub(crate) models: Value,
    pub(crate) markup_bps: i64,
    pub(crate) default_max_output_tokens: i64,
    pub(crate) max_output_tokens: i64,
    pub(crate) deny_mode: String,
    pub(crate) request_fee_nanos: i64,
    pub(crate) max_request_charge_nanos: Option<i64>,
    pub(crate) max_request_tokens: Option<i64>,
    pub(crate) max_wait_ms: i64,
    pub(crate) weight: i64,
}

impl Record {
    pub(crate) fn read(self) -> Result<Plan, TenantsError> {
        let unreadable =
            |e: serde_json::Error| TenantsError::unreadable("plans", self.id, e.to_string());
        Ok(Plan {
            id: PlanId(self.id),
            version: self.version,
            rules: rules::read("plans", self.id, self.rules)?,
            models: serde_json::from_value(self.models).map_err(unreadable)?,
            deny_mode: serde_json::from_value(Value::String(self.deny_mode)).map_err(unreadable)?,
            name: self.name,
            markup_bps: self.markup_bps,
            default_max_output_tokens: self.default_max_output_tokens,
            max_output_tokens: self.max_output_tokens,
            request_fee: Nanos(self.request_fee_nanos),
            terms: CallTerms {
                max_charge: self.max_request_charge_nanos.map(Nanos),
                max_tokens: self.max_request_tokens,
                max_wait_ms: self.max_wait_ms,
                weight: self.weight,
            },
        })
    }
}

/// Inserts a plan as the next version of its name. Tenants stay on the version they have.
///
/// # Errors
/// When a value is out of range, or another process inserts a version at the same time.
pub async fn insert_version(
    db: impl PgExecutor<'_>,
    new: &NewPlan,
) -> Result<PlanId, TenantsError> {
    new.draft().check().map_err(|wrong| refused(&wrong))?;
    let json = |e: serde_json::Error| TenantsError::invalid("plan", e.to_string());
    let deny_mode = serde_json::to_value(new.deny_mode).map_err(json)?;
    let id = sqlx::query_scalar!(
        "insert into plans (name, version, rules, models, markup_bps, default_max_output_tokens,
                            max_output_tokens, deny_mode, request_fee_nanos, max_request_charge_nanos,
                            max_request_tokens, max_wait_ms, weight)
         select $1, coalesce(max(version), 0) + 1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12
         from plans where name = $1
         returning id",
        new.name,
        rules::write(&new.rules)?,
        serde_json::to_value(&new.models).map_err(json)?,
        new.markup_bps,
        new.default_max_output_tokens,
        new.max_output_tokens,
        deny_mode.as_str().unwrap_or_default(),
        new.request_fee.0,
        new.terms.max_charge.map(|max| max.0),
        new.terms.max_tokens,
        new.terms.max_wait_ms,
        new.terms.weight,
    )
    .fetch_one(db)
    .await?;
    Ok(PlanId(id))
}

/// What is wrong with a plan, by the name of what is wrong.
fn refused(wrong: &PlanError) -> TenantsError {
    match wrong {
        PlanError::Term { field, why } => TenantsError::invalid(field, *why),
        PlanError::TooManyRules | PlanError::Repeated(_) | PlanError::Rule { .. } => {
            TenantsError::invalid("limits", wrong.to_string())
        }
    }
}

/// One version of a plan.
///
/// # Errors
/// When there is none.
pub async fn find(db: impl PgExecutor<'_>, plan: PlanId) -> Result<Plan, TenantsError> {
    sqlx::query_as!(
        Record,
        "select id, name, version, rules, models, markup_bps, default_max_output_tokens,
                max_output_tokens, deny_mode, request_fee_nanos, max_request_charge_nanos,
                max_request_tokens, max_wait_ms, weight
         from plans where id = $1",
        plan.0,
    )
    .fetch_optional(db)
    .await?
    .ok_or(TenantsError::NotFound { what: "plan" })?
    .read()
}

/// The newest version of the plan of this name.
///
/// # Errors
/// When there is none.
pub async fn find_newest(db: impl PgExecutor<'_>, name: &str) -> Result<Plan, TenantsError> {
    sqlx::query_as!(
        Record,
        "select id, name, version, rules, models, markup_bps, default_max_output_tokens,
                max_output_tokens, deny_mode, request_fee_nanos, max_request_charge_nanos,
                max_request_tokens, max_wait_ms, weight
         from plans where name = $1 order by version desc limit 1",
        name,
    )
    .fetch_optional(db)
    .await?
    .ok_or(TenantsError::NotFound { what: "plan" })?
    .read()
}

/// Plan versions by id: those after `after`, at most `limit`.
///
/// # Errors
/// When the database fails.
pub async fn list(
    db: impl PgExecutor<'_>,
    after: Option<PlanId>,
    limit: i64,
) -> Result<Vec<Plan>, TenantsError> {
    let records = sqlx::query_as!(
        Record,
        "select id, name, version, rules, models, markup_bps, default_max_output_tokens,
                max_output_tokens, deny_mode, request_fee_nanos, max_request_charge_nanos,
                max_request_tokens, max_wait_ms, weight
         from plans where $1::bigint is null or id > $1 order by id limit $2",
        after.map(|plan| plan.0),
        page_size(limit),
    )
    .fetch_all(db)
    .await?;
    records.into_iter().map(Record::read).collect()
}
