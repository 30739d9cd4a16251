//! Parts of a tenant, with limits of their own under the tenant's.

use domain::id::{TeamId, TenantId};
use domain::plan::LimitRule;
use serde_json::Value;
use sqlx::PgExecutor;

use crate::{TenantsError, page_size, rules};

/// A team.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Team {
    /// The row.
    pub id: TeamId,
    /// Whose team.
    pub tenant: TenantId,
    /// Its name for people.
    pub name: String,
    /// Its own limits.
    pub rules: Vec<LimitRule>,
}

pub(crate) struct Record {
    pub(crate) id: i64,
    pub(crate) tenant_id: i64,
    pub(crate) name: String,
    pub(crate) rules: Value,
}

impl Record {
    pub(crate) fn read(self) -> Result<Team, TenantsError> {
        Ok(Team {
            id: TeamId(self.id),
            tenant: TenantId(self.tenant_id),
            rules: rules::read("teams", self.id, self.rules)?,
            name: self.name,
        })
    }
}

/// Makes a team.
///
/// # Errors
/// When the tenant is not there or has a team of that name, or a limit is out of range.
pub async fn create(
    db: impl PgExecutor<'_>,
    tenant: TenantId,
    name: &str,
    limits: &[LimitRule],
) -> Result<TeamId, TenantsError> {
    let id = sqlx::query_scalar!(
        "insert into teams (tenant_id, name, rules) values ($1, $2, $3) returning id",
        tenant.0,
        name,
        rules::write(limits)?,
    )
    .fetch_one(db)
    .await?;
    Ok(TeamId(id))
}

/// Changes the name and the limits of a team.
///
/// # Errors
/// When the tenant has no such team or another one of that name, or a limit is out of range.
pub async fn edit(
    db: impl PgExecutor<'_>,
    tenant: TenantId,
    team: TeamId,
    name: &str,
    limits: &[LimitRule],
) -> Result<(), TenantsError> {
    let done = sqlx::query!(
        "update teams set name = $3, rules = $4 where id = $1 and tenant_id = $2",
        team.0,
        tenant.0,
        name,
        rules::write(limits)?,
    )
    .execute(db)
    .await?;
    if done.rows_affected() == 1 { Ok(()) } else { Err(TenantsError::NotFound { what: "team" }) }
}

/// One team of a tenant.
///
/// # Errors
/// When the tenant has no such team.
pub async fn find(
    db: impl PgExecutor<'_>,
    tenant: TenantId,
    team: TeamId,
) -> Result<Team, TenantsError> {
    sqlx::query_as!(
        Record,
        "select id, tenant_id, name, rules from teams where id = $1 and tenant_id = $2",
        team.0,
        tenant.0,
    )
    .fetch_optional(db)
    .await?
    .ok_or(TenantsError::NotFound { what: "team" })?
    .read()
}

/// Teams of a tenant by id: those after `after`, at most `limit`.
///
/// # Errors
/// When the database fails.
pub async fn list(
    db: impl PgExecutor<'_>,
    tenant: TenantId,
    after: Option<TeamId>,
    limit: i64,
) -> Result<Vec<Team>, TenantsError> {
    let records = sqlx::query_as!(
        Record,
        "select id, tenant_id, name, rules from teams
         where tenant_id = $1 and ($2::bigint is null or id > $2) order by id limit $3",
        tenant.0,
        after.map(|team| team.0),
        page_size(limit),
    )
    .fetch_all(db)
    .await?;
    records.into_iter().map(Record::read).collect()
}
