//! How a tenant's meters stand, as the engine that admits sees them.

use axum::Json;
use domain::admission::{Meter, Scope};
use domain::id::{KeyId, TenantId};
use domain::plan::{LimitRule, Metric};
use limiter::{Admission as _, Reading};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::ask::{Ask, At, Page, Params, Problem, rfc3339};
use crate::http::error::Code;

/// Whose meters.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct Whose {
    /// With it, the meters of this key and of its team come first.
    key_id: Option<i64>,
}

/// How one meter stands.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct Limit {
    /// `tenant`, `team` or `key`.
    scope: &'static str,
    scope_id: i64,
    meter: String,
    /// `requests`, `tokens` or `nano_usd`.
    unit: &'static str,
    limit: i64,
    /// Where calls stop: the limit with its overage.
    hard_limit: i64,
    used: i64,
    held: i64,
    left: i64,
    /// Of a rate: how much can be taken at once now; below zero it is a debt.
    level: Option<i64>,
    resets_at: Option<String>,
    /// Where the limit is another for this tenant than its plan says: until when, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    overridden: Option<Overridden>,
}

/// That a limit is another than the plan's.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct Overridden {
    /// When the plan's own limit holds again.
    until: String,
    reason: String,
}

impl From<Reading> for Limit {
    fn from(reading: Reading) -> Self {
        Self {
            scope: reading.scope.code(),
            scope_id: reading.scope_id,
            unit: match reading.metric {
                Metric::Requests => "requests",
                Metric::Tokens => "tokens",
                Metric::Cost => "nano_usd",
            },
            limit: reading.limit,
            hard_limit: reading.hard_limit,
            used: reading.used,
            held: reading.held,
            left: reading.left(),
            level: reading.level,
            resets_at: reading.resets_at.map(rfc3339),
            meter: reading.meter,
            overridden: None,
        }
    }
}

/// Each meter of a tenant as the engine sees it now.
#[utoipa::path(
    get,
    path = "/admin/api/v1/tenants/{id}/limits",
    tag = "tenants",
    params(("id" = i64, Path), Whose),
    responses((status = 200, body = Page<Limit>), (status = 404, description = "no such tenant"))
)]
pub(in crate::http) async fn list(
    ask: Ask,
    At(id): At<i64>,
    Params(whose): Params<Whose>,
) -> Result<Json<Page<Limit>>, Problem> {
    let none = |what: &str| ask.problem(Code::NotFound, format!("There is no such {what}."));
    let snapshot = ask.weir.directory.snapshot();
    let tenant = snapshot.tenant(TenantId(id)).ok_or_else(|| none("tenant"))?;
    let now = ask.weir.clock.now();
    let rules = snapshot.tenant_rules(tenant.id, now).ok_or_else(|| none("readable plan"))?;
    let mut meters = Vec::new();
    let mut add = |scope, scope_id, rules: &mut dyn Iterator<Item = &LimitRule>| {
        meters.extend(rules.map(|rule| Meter { scope, scope_id, rule: rule.clone() }));
    };
    if let Some(key_id) = whose.key_id {
        let key = snapshot.key(KeyId(key_id)).filter(|key| key.tenant == tenant.id);
        let key = key.ok_or_else(|| none("key"))?;
        add(Scope::Key, key.id.0, &mut key.rules.iter());
        if let Some(team) = key.team.and_then(|team| snapshot.team(team)) {
            add(Scope::Team, team.id.0, &mut team.rules.iter());
        }
    }
    add(Scope::Tenant, tenant.id.0, &mut rules.into_iter());
    let told = ask.weir.gateway.clock().for_engine();
    let readings = ask.weir.limiter.readings(tenant.id, &tenant.zone, &meters, told).await;
    let readings = readings.map_err(|error| ask.of_limiter(error))?;
    let mut limits: Vec<Limit> = readings.into_iter().map(Limit::from).collect();
    let overrides = snapshot.overrides(tenant.id);
    for one in overrides.into_iter().flat_map(|overrides| overrides.in_force(now)) {
        let meter = one.rule.meter_name();
        let is_its =
            |limit: &&mut Limit| limit.scope == Scope::Tenant.code() && limit.meter == meter;
        if let Some(limit) = limits.iter_mut().find(is_its) {
            let (until, reason) = (rfc3339(one.until), one.reason.to_string());
            limit.overridden = Some(Overridden { until, reason });
        }
    }
    Ok(Json(Page::whole(limits)))
}
