//! Limits that are another for one tenant until an instant, and why.

use domain::id::{PlanId, TenantId};
use domain::plan::{LimitRule, Plan, check_rules, with_overrides};
use domain::window::UnixMs;
use serde_json::Value;
use sqlx::{PgConnection, PgExecutor};
use time::OffsetDateTime;

use crate::instant::{from_time, to_time};
use crate::{TenantsError, page_size, plan, rules};

/// The farthest end of an override: what is to last longer is a plan.
pub const MAX_DURATION_MS: i64 = 366 * 24 * 60 * 60 * 1_000;
/// The longest reason, in characters.
pub const MAX_REASON_CHARS: usize = 500;

/// A limit that holds in the place of the plan's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitOverride {
    /// What it says.
    pub rule: LimitRule,
    /// The first instant at which the plan's own limit holds again.
    pub until: UnixMs,
    /// Why, in somebody's words.
    pub reason: Box<str>,
}

/// The overrides of one tenant, those included whose end has passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overrides {
    /// Whose.
    pub tenant: TenantId,
    /// Nothing when one cannot be read: then the tenant's limits are not known.
    pub(crate) list: Option<Vec<LimitOverride>>,
}

impl Overrides {
    /// Those that hold at an instant. No event of the database ends them: the clock does.
    pub fn in_force(&self, at: UnixMs) -> impl Iterator<Item = &LimitOverride> {
        self.list.iter().flatten().filter(move |one| at < one.until)
    }
}

/// The limits of a tenant at an instant: its plan's, with its overrides in their place.
#[must_use]
pub fn effective<'a>(
    plan: &'a Plan,
    overrides: Option<&'a Overrides>,
    at: UnixMs,
) -> Vec<&'a LimitRule> {
    let in_force = overrides.into_iter().flat_map(|all| all.in_force(at));
    with_overrides(&plan.rules, in_force.map(|one| &one.rule))
}

/// An override to be set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewOverride {
    /// For whom.
    pub tenant: TenantId,
    /// What holds in the place of the plan's limit of the same meter, or beside the plan's limits.
    pub rule: LimitRule,
    /// The first instant at which the plan's own limit holds again.
    pub until: UnixMs,
    /// Why.
    pub reason: String,
    /// Who says so.
    pub actor: String,
}

/// A line of the history: an override that was set, or the end of the one before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The row.
    pub id: i64,
    /// Which meter.
    pub meter: String,
    /// What holds; nothing when this line ends the override before it.
    pub rule: Option<LimitRule>,
    /// Until when.
    pub until: Option<UnixMs>,
    /// Why.
    pub reason: String,
    /// Who said so.
    pub actor: String,
    /// When.
    pub at: UnixMs,
    /// Whether it is the last word on its meter.
    pub is_newest: bool,
}

impl Entry {
    /// Whether it holds at an instant.
    #[must_use]
    pub fn is_in_force(&self, at: UnixMs) -> bool {
        self.is_newest && self.until.is_some_and(|until| at < until)
    }
}

fn checked_reason(reason: &str) -> Result<&str, TenantsError> {
    let reason = reason.trim();
    if reason.is_empty() {
        return Err(TenantsError::invalid("reason", "say why"));
    }
    if reason.chars().count() > MAX_REASON_CHARS {
        return Err(TenantsError::invalid(
            "reason",
            format!("at most {MAX_REASON_CHARS} characters"),
        ));
    }
    Ok(reason)
}

/// Lets another limit hold for a tenant until an instant; an override of the same meter is replaced. Give it a
/// transaction: the tenant is locked until it ends.
///
/// # Errors
/// When there is no such tenant, the reason or the end does not do, or the limits together cannot be kept.
pub async fn set(
    db: &mut PgConnection,
    new: &NewOverride,
    now: UnixMs,
) -> Result<i64, TenantsError> {
    let reason = checked_reason(&new.reason)?;
    let invalid = |what, why: &str| Err(TenantsError::invalid(what, why));
    if new.until <= now {
        return invalid("until", "the end lies in the past");
    }
    if new.until.since_ms(now) > MAX_DURATION_MS {
        return invalid("until", "at most 366 days ahead: what is to last longer is a plan");
    }
    let plan = locked_plan(db, new.tenant).await?;
    let present = these(&mut *db, &[new.tenant.0]).await?;
    let present = present.iter().find(|overrides| overrides.tenant == new.tenant);
    let meter = new.rule.meter_name();
    let before = effective(&plan, present, now);
    let replaced = before.iter().find(|rule| rule.meter_name() == meter);
    if let (Some(LimitRule::Month { anchor_day: was, .. }), LimitRule::Month { anchor_day: is, .. }) =
        (replaced, &new.rule)
        && was != is
    {
        // Another period would begin, in which nothing is used.
        let why = format!("{meter}: the period begins on day {was} and keeps doing so");
        return Err(TenantsError::invalid("limits", why));
    }
    let others: Vec<LimitRule> = before.into_iter().cloned().collect();
    let after: Vec<LimitRule> = with_overrides(&others, [&new.rule]).into_iter().cloned().collect();
    check_rules(&after).map_err(|wrong| TenantsError::invalid("limits", wrong.to_string()))?;
    let rule = serde_json::to_value(&new.rule)
        .map_err(|e| TenantsError::invalid("limits", e.to_string()))?;
    let row = Row { meter, rule: Some(rule), until: Some(new.until), reason, actor: &new.actor };
    append(db, new.tenant, row, now).await
}

/// Ends the override of a meter before its time: the plan's own limit holds again.
///
/// # Errors
/// When none is in force, or the reason does not do.
pub async fn end(
    db: &mut PgConnection,
    tenant: TenantId,
    meter: &str,
    reason: &str,
    actor: &str,
    now: UnixMs,
) -> Result<i64, TenantsError> {
    let reason = checked_reason(reason)?;
    locked_plan(db, tenant).await?;
    let present = these(&mut *db, &[tenant.0]).await?;
    let holds = |overrides: &Overrides| {
        // One that cannot be read can be ended all the same.
        overrides.list.is_none()
            || overrides.in_force(now).any(|one| one.rule.meter_name() == meter)
    };
    if !present.iter().any(holds) {
        return Err(TenantsError::NotFound { what: "override in force" });
    }
    append(db, tenant, Row { meter, rule: None, until: None, reason, actor }, now).await
}

/// The plan of a tenant, whose row is locked so that two changes of its limits follow each other.
async fn locked_plan(db: &mut PgConnection, tenant: TenantId) -> Result<Plan, TenantsError> {
    let plan = sqlx::query_scalar!(
        "select plan_id from tenants where id = $1 for no key update",
        tenant.0,
    )
    .fetch_optional(&mut *db)
    .await?
    .ok_or(TenantsError::NotFound { what: "tenant" })?;
    plan::find(&mut *db, PlanId(plan)).await
}

struct Row<'a> {
    meter: &'a str,
    rule: Option<Value>,
    until: Option<UnixMs>,
    reason: &'a str,
    actor: &'a str,
}

async fn append(
    db: &mut PgConnection,
    tenant: TenantId,
    row: Row<'_>,
    now: UnixMs,
) -> Result<i64, TenantsError> {
    let id = sqlx::query_scalar!(
        "insert into limit_overrides (tenant_id, meter, rule, until_at, reason, actor, at)
         values ($1, $2, $3, $4, $5, $6, $7) returning id",
        tenant.0,
        row.meter,
        row.rule,
        row.until.map(to_time).transpose()?,
        row.reason,
        row.actor,
        to_time(now)?,
    )
    .fetch_one(db)
    .await?;
    Ok(id)
}

/// The history of a tenant's overrides, newest first: the lines before `before`, at most `limit`.
///
/// # Errors
/// When the database fails.
pub async fn history(
    db: impl PgExecutor<'_>,
    tenant: TenantId,
    before: Option<i64>,
    limit: i64,
) -> Result<Vec<Entry>, TenantsError> {
    let rows = sqlx::query!(
        r#"select o.id, o.meter, o.rule, o.until_at, o.reason, o.actor, o.at,
                  not exists (select from limit_overrides n where n.tenant_id = o.tenant_id
                              and n.meter = o.meter and n.id > o.id) as "is_newest!"
           from limit_overrides o
           where o.tenant_id = $1 and ($2::bigint is null or o.id < $2)
           order by o.id desc limit $3"#,
        tenant.0,
        before,
        page_size(limit),
    )
    .fetch_all(db)
    .await?;
    let read = rows.into_iter().map(|row| {
        Ok(Entry {
            id: row.id,
            meter: row.meter,
            rule: row
                .rule
                .map(|rule| rules::read_one("limit_overrides", row.id, rule))
                .transpose()?,
            until: row.until_at.map(from_time),
            reason: row.reason,
            actor: row.actor,
            at: from_time(row.at),
            is_newest: row.is_newest,
        })
    });
    read.collect()
}

struct Record {
    id: i64,
    tenant_id: i64,
    rule: Option<Value>,
    until_at: Option<OffsetDateTime>,
    reason: String,
}

/// The overrides of these tenants, as far as they have any.
pub(crate) async fn these(
    db: impl PgExecutor<'_>,
    tenants: &[i64],
) -> Result<Vec<Overrides>, TenantsError> {
    let records = sqlx::query_as!(
        Record,
        "select distinct on (tenant_id, meter) id, tenant_id, rule, until_at, reason
         from limit_overrides where tenant_id = any($1) order by tenant_id, meter, id desc",
        tenants,
    )
    .fetch_all(db)
    .await?;
    Ok(by_tenant(records))
}

/// The overrides of the tenants after `after`, by id, at most so many tenants.
pub(crate) async fn page(
    db: impl PgExecutor<'_>,
    after: i64,
    tenants: i64,
) -> Result<Vec<Overrides>, TenantsError> {
    let records = sqlx::query_as!(
        Record,
        "select distinct on (tenant_id, meter) id, tenant_id, rule, until_at, reason
         from limit_overrides
         where tenant_id in (select tenant_id from limit_overrides where tenant_id > $1
                             group by tenant_id order by tenant_id limit $2)
         order by tenant_id, meter, id desc",
        after,
        tenants,
    )
    .fetch_all(db)
    .await?;
    Ok(by_tenant(records))
}

/// Records in the order of their tenants, put together. A tenant whose overrides were all ended has an empty list.
fn by_tenant(records: Vec<Record>) -> Vec<Overrides> {
    let mut all: Vec<Overrides> = Vec::new();
    for record in records {
        let tenant = TenantId(record.tenant_id);
        if all.last().is_none_or(|last| last.tenant != tenant) {
            all.push(Overrides { tenant, list: Some(Vec::new()) });
        }
        let (Some(last), Some(rule), Some(until)) = (all.last_mut(), record.rule, record.until_at)
        else {
            continue;
        };
        match rules::read_one("limit_overrides", record.id, rule) {
            Ok(rule) => {
                let reason = record.reason.into_boxed_str();
                let one = LimitOverride { rule, until: from_time(until), reason };
                if let Some(list) = &mut last.list {
                    list.push(one);
                }
            }
            Err(error) => {
                tracing::error!(%error, tenant_id = tenant.0, "an override cannot be read");
                last.list = None;
            }
        }
    }
    all
}
