//! API keys: what a client presents, and the rows about it.

mod secret;

use domain::id::{KeyId, TeamId, TenantId};
use domain::plan::LimitRule;
use domain::window::UnixMs;
use serde_json::Value;
use sqlx::PgExecutor;
use time::OffsetDateTime;

pub use self::secret::{ApiKeySecret, KeyHash, KeyTextError};
use crate::instant::{from_time, to_time, to_time_opt};
use crate::{TenantsError, page_size, rules};

/// Whether a key may be used, as far as its own row says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyStatus {
    /// It may.
    Active,
    /// Not for the time being.
    Disabled,
    /// Never again.
    Revoked,
}

impl KeyStatus {
    /// The word used in rows and answers.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Disabled => "disabled",
            Self::Revoked => "revoked",
        }
    }

    /// Reads the word back.
    #[must_use]
    pub fn parse(code: &str) -> Option<Self> {
        [Self::Active, Self::Disabled, Self::Revoked].into_iter().find(|s| s.code() == code)
    }
}

/// A key to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewKey {
    /// Whose key.
    pub tenant: TenantId,
    /// The team whose limits it is under, if any.
    pub team: Option<TeamId>,
    /// What people call it.
    pub name: String,
    /// Its own limits.
    pub rules: Vec<LimitRule>,
    /// The first instant at which it no longer works.
    pub expires_at: Option<UnixMs>,
}

/// What of a key can be changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyEdit {
    /// The team whose limits it is under, if any.
    pub team: Option<TeamId>,
    /// What people call it.
    pub name: String,
    /// Its own limits.
    pub rules: Vec<LimitRule>,
    /// The first instant at which it no longer works.
    pub expires_at: Option<UnixMs>,
}

/// All that Weir knows of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRow {
    /// The row.
    pub id: KeyId,
    /// Whose key.
    pub tenant: TenantId,
    /// The team whose limits it is under, if any.
    pub team: Option<TeamId>,
    /// What people call it.
    pub name: String,
    /// What people may see of it.
    pub masked: String,
    /// Its own limits.
    pub rules: Vec<LimitRule>,
    /// Whether it may be used.
    pub status: KeyStatus,
    /// The first instant at which it no longer works.
    pub expires_at: Option<UnixMs>,
    /// While a rotation is under way: the first instant at which the old secret no longer works.
    pub old_secret_until: Option<UnixMs>,
    /// When it was last presented, to within the period of [`touch`].
    pub last_used_at: Option<UnixMs>,
    /// When it was made.
    pub created_at: UnixMs,
    /// When it was revoked.
    pub revoked_at: Option<UnixMs>,
}

struct Record {
    id: i64,
    tenant_id: i64,
    team_id: Option<i64>,
    name: String,
    masked: String,
    rules: Value,
    status: String,
    expires_at: Option<OffsetDateTime>,
    old_secret_until: Option<OffsetDateTime>,
    last_used_at: Option<OffsetDateTime>,
    created_at: OffsetDateTime,
    revoked_at: Option<OffsetDateTime>,
}

impl Record {
    fn read(self) -> Result<KeyRow, TenantsError> {
        let unknown = || TenantsError::unreadable("api_keys", self.id, "unknown status");
        Ok(KeyRow {
            id: KeyId(self.id),
            tenant: TenantId(self.tenant_id),
            team: self.team_id.map(TeamId),
            status: KeyStatus::parse(&self.status).ok_or_else(unknown)?,
            rules: rules::read("api_keys", self.id, self.rules)?,
            name: self.name,
            masked: self.masked,
            expires_at: self.expires_at.map(from_time),
            old_secret_until: self.old_secret_until.map(from_time),
            last_used_at: self.last_used_at.map(from_time),
            created_at: from_time(self.created_at),
            revoked_at: self.revoked_at.map(from_time),
        })
    }
}

/// Makes a key that is presented as `secret`.
///
/// # Errors
/// When the tenant is not there, the team is not the tenant's, or a value is out of range.
pub async fn create(
    db: impl PgExecutor<'_>,
    new: &NewKey,
    secret: &ApiKeySecret,
) -> Result<KeyId, TenantsError> {
    let id = sqlx::query_scalar!(
        "insert into api_keys (tenant_id, team_id, name, secret_hash, masked, rules, expires_at)
         values ($1, $2, $3, $4, $5, $6, $7)
         returning id",
        new.tenant.0,
        new.team.map(|team| team.0),
        new.name,
        &secret.hash().0[..],
        secret.masked(),
        rules::write(&new.rules)?,
        to_time_opt(new.expires_at)?,
    )
    .fetch_one(db)
    .await?;
    Ok(KeyId(id))
}

/// Ends a key for good. Doing it again changes nothing.
///
/// # Errors
/// When the tenant has no such key.
pub async fn revoke(
    db: impl PgExecutor<'_>,
    tenant: TenantId,
    key: KeyId,
    now: UnixMs,
) -> Result<(), TenantsError> {
    let done = sqlx::query!(
        "update api_keys set status = 'revoked', revoked_at = coalesce(revoked_at, $3)
         where id = $1 and tenant_id = $2",
        key.0,
        tenant.0,
        to_time(now)?,
    )
    .execute(db)
    .await?;
    if done.rows_affected() == 1 { Ok(()) } else { Err(TenantsError::NotFound { what: "key" }) }
}

/// Stops a key for the time being.
///
/// # Errors
/// When the tenant has no such key, or it is revoked.
pub async fn disable(
    db: impl PgExecutor<'_>,
    tenant: TenantId,
    key: KeyId,
) -> Result<(), TenantsError> {
    set_status(db, tenant, key, KeyStatus::Disabled).await
}

/// Lets a disabled key work again.
///
/// # Errors
/// When the tenant has no such key, or it is revoked.
pub async fn enable(
    db: impl PgExecutor<'_>,
    tenant: TenantId,
    key: KeyId,
) -> Result<(), TenantsError> {
    set_status(db, tenant, key, KeyStatus::Active).await
}

async fn set_status(
    db: impl PgExecutor<'_>,
    tenant: TenantId,
    key: KeyId,
    status: KeyStatus,
) -> Result<(), TenantsError> {
    let changed = sqlx::query_scalar!(
        r#"with found as (
               select id, status from api_keys where id = $1 and tenant_id = $2 for update
           ), changed as (
               update api_keys k set status = $3 from found
               where k.id = found.id and found.status <> 'revoked' returning k.id
           )
           select exists (select from changed) as "changed!" from found"#,
        key.0,
        tenant.0,
        status.code(),
    )
    .fetch_optional(db)
    .await?;
    unless_revoked(changed)
}

/// Changes name, team, limits and expiry of a key.
///
/// # Errors
/// When the tenant has no such key or team, the key is revoked, or a value is out of range.
pub async fn edit(
    db: impl PgExecutor<'_>,
    tenant: TenantId,
    key: KeyId,
    edit: &KeyEdit,
) -> Result<(), TenantsError> {
    let changed = sqlx::query_scalar!(
        r#"with found as (
               select id, status from api_keys where id = $1 and tenant_id = $2 for update
           ), changed as (
               update api_keys k set team_id = $3, name = $4, rules = $5, expires_at = $6 from found
               where k.id = found.id and found.status <> 'revoked' returning k.id
           )
           select exists (select from changed) as "changed!" from found"#,
        key.0,
        tenant.0,
        edit.team.map(|team| team.0),
        edit.name,
        rules::write(&edit.rules)?,
        to_time_opt(edit.expires_at)?,
    )
    .fetch_optional(db)
    .await?;
    unless_revoked(changed)
}

/// Gives a key a new secret; the one before it works until `old_until`, an even older one no longer.
///
/// # Errors
/// When the tenant has no such key, or it is revoked.
pub async fn rotate(
    db: impl PgExecutor<'_>,
    tenant: TenantId,
    key: KeyId,
    secret: &ApiKeySecret,
    old_until: UnixMs,
) -> Result<(), TenantsError> {
    let changed = sqlx::query_scalar!(
        r#"with found as (
               select id, status from api_keys where id = $1 and tenant_id = $2 for update
           ), changed as (
               update api_keys k
               set old_secret_hash = k.secret_hash, old_secret_until = $5, secret_hash = $3, masked = $4
               from found
               where k.id = found.id and found.status <> 'revoked' returning k.id
           )
           select exists (select from changed) as "changed!" from found"#,
        key.0,
        tenant.0,
        &secret.hash().0[..],
        secret.masked(),
        to_time(old_until)?,
    )
    .fetch_optional(db)
    .await?;
    unless_revoked(changed)
}

/// What a change says that a revoked key does not allow: nothing found, found and left, or changed.
fn unless_revoked(changed: Option<bool>) -> Result<(), TenantsError> {
    match changed {
        Some(true) => Ok(()),
        Some(false) => Err(TenantsError::Conflict { what: "the key is revoked" }),
        None => Err(TenantsError::NotFound { what: "key" }),
    }
}

/// One key of a tenant.
///
/// # Errors
/// When the tenant has no such key.
pub async fn find(
    db: impl PgExecutor<'_>,
    tenant: TenantId,
    key: KeyId,
) -> Result<KeyRow, TenantsError> {
    sqlx::query_as!(
        Record,
        "select id, tenant_id, team_id, name, masked, rules, status, expires_at, old_secret_until,
                last_used_at, created_at, revoked_at
         from api_keys where id = $1 and tenant_id = $2",
        key.0,
        tenant.0,
    )
    .fetch_optional(db)
    .await?
    .ok_or(TenantsError::NotFound { what: "key" })?
    .read()
}

/// Whose key this is: for a key that was found somewhere. An old secret tells, too.
///
/// # Errors
/// When the database fails.
pub async fn find_by_hash(
    db: impl PgExecutor<'_>,
    hash: KeyHash,
) -> Result<Option<KeyRow>, TenantsError> {
    sqlx::query_as!(
        Record,
        "select id, tenant_id, team_id, name, masked, rules, status, expires_at, old_secret_until,
                last_used_at, created_at, revoked_at
         from api_keys where secret_hash = $1 or old_secret_hash = $1",
        &hash.0[..],
    )
    .fetch_optional(db)
    .await?
    .map(Record::read)
    .transpose()
}

/// Keys by id, newest first: of one tenant or of all, those made before `before`, at most `limit`.
///
/// # Errors
/// When the database fails.
pub async fn list(
    db: impl PgExecutor<'_>,
    tenant: Option<TenantId>,
    before: Option<KeyId>,
    limit: i64,
) -> Result<Vec<KeyRow>, TenantsError> {
    let records = sqlx::query_as!(
        Record,
        "select id, tenant_id, team_id, name, masked, rules, status, expires_at, old_secret_until,
                last_used_at, created_at, revoked_at
         from api_keys
         where ($1::bigint is null or tenant_id = $1) and ($2::bigint is null or id < $2)
         order by id desc limit $3",
        tenant.map(|tenant| tenant.0),
        before.map(|key| key.0),
        page_size(limit),
    )
    .fetch_all(db)
    .await?;
    records.into_iter().map(Record::read).collect()
}

/// Notes when keys were last presented: many at once, off the hot path, and only forward in time.
///
/// # Errors
/// When the database fails: the caller may keep the batch and add to it.
pub async fn touch(db: impl PgExecutor<'_>, seen: &[(KeyId, UnixMs)]) -> Result<(), TenantsError> {
    let ids: Vec<i64> = seen.iter().map(|(key, _)| key.0).collect();
    let at = seen.iter().map(|(_, at)| to_time(*at)).collect::<Result<Vec<_>, _>>()?;
    // Rows are locked in the order of their ids, so that two processes never wait for each other.
    sqlx::query!(
        "with seen as (
             select id, max(at) as at from unnest($1::bigint[], $2::timestamptz[]) as s (id, at) group by id
         ), locked as (
             select k.id, seen.at from api_keys k join seen using (id)
             where k.last_used_at is null or k.last_used_at < seen.at
             order by k.id for no key update of k
         )
         update api_keys k set last_used_at = locked.at from locked
         where k.id = locked.id and (k.last_used_at is null or k.last_used_at < locked.at)",
        &ids,
        &at,
    )
    .execute(db)
    .await?;
    Ok(())
}
