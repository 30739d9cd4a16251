//! Who pays.

use domain::id::{PlanId, TenantId};
use domain::window::{UnixMs, Zone};
use sqlx::PgExecutor;
use time::OffsetDateTime;

use crate::instant::from_time;
use crate::{TenantsError, page_size};

/// Whether a tenant's keys work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TenantStatus {
    /// They do.
    Active,
    /// Not for the time being.
    Suspended,
    /// No longer; the books are kept.
    Archived,
}

impl TenantStatus {
    /// The word used in rows and answers.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Suspended => "suspended",
            Self::Archived => "archived",
        }
    }

    /// Reads the word back.
    #[must_use]
    pub fn parse(code: &str) -> Option<Self> {
        [Self::Active, Self::Suspended, Self::Archived].into_iter().find(|s| s.code() == code)
    }
}

/// A tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tenant {
    /// The row.
    pub id: TenantId,
    /// Its name in addresses.
    pub slug: String,
    /// Its name for people.
    pub name: String,
    /// What it bought.
    pub plan: PlanId,
    /// The name of its time zone.
    pub time_zone: String,
    /// Its time zone: its days and months begin there.
    pub zone: Zone,
    /// Whether its keys work.
    pub status: TenantStatus,
    /// When it was made.
    pub created_at: UnixMs,
}

/// A tenant to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTenant {
    /// Its name in addresses: lower-case letters, digits and hyphens.
    pub slug: String,
    /// Its name for people.
    pub name: String,
    /// What it buys.
    pub plan: PlanId,
    /// The name of its time zone, such as `Europe/Vienna`.
    pub time_zone: String,
}

pub(crate) struct Record {
    pub(crate) id: i64,
    pub(crate) slug: String,
    pub(crate) name: String,
    pub(crate) plan_id: i64,
    pub(crate) time_zone: String,
    pub(crate) status: String,
    pub(crate) created_at: OffsetDateTime,
}

impl Record {
    pub(crate) fn read(self) -> Result<Tenant, TenantsError> {
        let unreadable = |why: String| TenantsError::unreadable("tenants", self.id, why);
        Ok(Tenant {
            id: TenantId(self.id),
            zone: Zone::named(&self.time_zone).map_err(|e| unreadable(e.to_string()))?,
            status: TenantStatus::parse(&self.status)
                .ok_or_else(|| unreadable("unknown status".to_owned()))?,
            slug: self.slug,
            name: self.name,
            plan: PlanId(self.plan_id),
            time_zone: self.time_zone,
            created_at: from_time(self.created_at),
        })
    }
}

fn check_zone(name: &str) -> Result<(), TenantsError> {
    Zone::named(name).map(drop).map_err(|e| TenantsError::invalid("time zone", e.to_string()))
}

/// Makes a tenant.
///
/// # Errors
/// When the slug is taken or none, the plan is not there, or the time zone is unknown.
pub async fn create(db: impl PgExecutor<'_>, new: &NewTenant) -> Result<TenantId, TenantsError> {
    check_zone(&new.time_zone)?;
    let id = sqlx::query_scalar!(
        "insert into tenants (slug, name, plan_id, time_zone) values ($1, $2, $3, $4) returning id",
        new.slug,
        new.name,
        new.plan.0,
        new.time_zone,
    )
    .fetch_one(db)
    .await?;
    Ok(TenantId(id))
}

/// Changes the name and the time zone of a tenant.
///
/// # Errors
/// When there is no such tenant, or the time zone is unknown.
pub async fn edit(
    db: impl PgExecutor<'_>,
    tenant: TenantId,
    name: &str,
    time_zone: &str,
) -> Result<(), TenantsError> {
    check_zone(time_zone)?;
    let done = sqlx::query!(
        "update tenants set name = $2, time_zone = $3 where id = $1",
        tenant.0,
        name,
        time_zone,
    )
    .execute(db)
    .await?;
    found(done.rows_affected())
}

/// Puts a tenant on a plan.
///
/// # Errors
/// When there is no such tenant or plan.
pub async fn set_plan(
    db: impl PgExecutor<'_>,
    tenant: TenantId,
    plan: PlanId,
) -> Result<(), TenantsError> {
    let done = sqlx::query!("update tenants set plan_id = $2 where id = $1", tenant.0, plan.0)
        .execute(db)
        .await?;
    found(done.rows_affected())
}

/// Suspends a tenant, lets it work again, or closes it.
///
/// # Errors
/// When there is no such tenant.
pub async fn set_status(
    db: impl PgExecutor<'_>,
    tenant: TenantId,
    status: TenantStatus,
) -> Result<(), TenantsError> {
    let done =
        sqlx::query!("update tenants set status = $2 where id = $1", tenant.0, status.code())
            .execute(db)
            .await?;
    found(done.rows_affected())
}

fn found(rows: u64) -> Result<(), TenantsError> {
    if rows == 1 { Ok(()) } else { Err(TenantsError::NotFound { what: "tenant" }) }
}

/// One tenant.
///
/// # Errors
/// When there is no such tenant.
pub async fn find(db: impl PgExecutor<'_>, tenant: TenantId) -> Result<Tenant, TenantsError> {
    sqlx::query_as!(
        Record,
        "select id, slug, name, plan_id, time_zone, status, created_at from tenants where id = $1",
        tenant.0,
    )
    .fetch_optional(db)
    .await?
    .ok_or(TenantsError::NotFound { what: "tenant" })?
    .read()
}

/// One tenant by its name in addresses.
///
/// # Errors
/// When there is no such tenant.
pub async fn find_by_slug(db: impl PgExecutor<'_>, slug: &str) -> Result<Tenant, TenantsError> {
    sqlx::query_as!(
        Record,
        "select id, slug, name, plan_id, time_zone, status, created_at from tenants where slug = $1",
        slug,
    )
    .fetch_optional(db)
    .await?
    .ok_or(TenantsError::NotFound { what: "tenant" })?
    .read()
}

/// Tenants by id: those after `after`, at most `limit`.
///
/// # Errors
/// When the database fails.
pub async fn list(
    db: impl PgExecutor<'_>,
    after: Option<TenantId>,
    limit: i64,
) -> Result<Vec<Tenant>, TenantsError> {
    let records = sqlx::query_as!(
        Record,
        "select id, slug, name, plan_id, time_zone, status, created_at from tenants
         where $1::bigint is null or id > $1 order by id limit $2",
        after.map(|tenant| tenant.0),
        page_size(limit),
    )
    .fetch_all(db)
    .await?;
    records.into_iter().map(Record::read).collect()
}
