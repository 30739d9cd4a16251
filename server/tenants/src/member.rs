//! People who sign in: operators, and members of a tenant.

use domain::id::{TenantId, UserId};
use domain::window::UnixMs;
use secrecy::SecretString;
use sqlx::PgExecutor;
use time::OffsetDateTime;

use crate::instant::{from_time, to_time};
use crate::password::Passwords;
use crate::{TenantsError, page_size};

/// The longest e-mail address that mail systems take.
const MAX_EMAIL_CHARS: usize = 254;

/// What a person may do. The first five are operators, the others belong to a tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Everything.
    Owner,
    /// Everything but the owners.
    Admin,
    /// Money.
    Finance,
    /// Helping tenants.
    Support,
    /// Looking.
    Viewer,
    /// Everything of the tenant.
    TenantOwner,
    /// Everything of the tenant but its owners.
    TenantAdmin,
    /// The tenant's money.
    TenantBilling,
    /// The tenant's keys.
    TenantDev,
    /// Looking, at the tenant.
    TenantViewer,
}

impl Role {
    /// All of them, in the order of the type.
    pub const ALL: [Self; 10] = [
        Self::Owner,
        Self::Admin,
        Self::Finance,
        Self::Support,
        Self::Viewer,
        Self::TenantOwner,
        Self::TenantAdmin,
        Self::TenantBilling,
        Self::TenantDev,
        Self::TenantViewer,
    ];

    /// The word used in rows and answers.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Admin => "admin",
            Self::Finance => "finance",
            Self::Support => "support",
            Self::Viewer => "viewer",
            Self::TenantOwner => "t-owner",
            Self::TenantAdmin => "t-admin",
            Self::TenantBilling => "t-billing",
            Self::TenantDev => "t-dev",
            Self::TenantViewer => "t-viewer",
        }
    }

    /// Reads the word back.
    #[must_use]
    pub fn parse(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.code() == code)
    }

    /// Whether it is a role of the operator's side.
    #[must_use]
    pub const fn is_operator(self) -> bool {
        matches!(self, Self::Owner | Self::Admin | Self::Finance | Self::Support | Self::Viewer)
    }
}

/// A person who signs in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The row.
    pub id: UserId,
    /// Where mail reaches them, in lower case.
    pub email: String,
    /// What they may do.
    pub role: Role,
    /// The tenant they belong to; nothing for operators.
    pub tenant: Option<TenantId>,
    /// When they came.
    pub created_at: UnixMs,
    /// Since when they may no longer sign in.
    pub disabled_at: Option<UnixMs>,
    /// When they were last here.
    pub last_seen_at: Option<UnixMs>,
}

/// A person to be let in.
#[derive(Debug)]
pub struct NewMember {
    /// Where mail reaches them. Case does not matter.
    pub email: String,
    /// What they will prove themselves with.
    pub password: SecretString,
    /// What they may do.
    pub role: Role,
    /// The tenant they belong to; nothing for operators.
    pub tenant: Option<TenantId>,
}

struct Record {
    id: i64,
    email: String,
    password_hash: String,
    role: String,
    tenant_id: Option<i64>,
    created_at: OffsetDateTime,
    disabled_at: Option<OffsetDateTime>,
    last_seen_at: Option<OffsetDateTime>,
}

impl Record {
    fn read(self) -> Result<Member, TenantsError> {
        let unknown = || TenantsError::unreadable("users", self.id, "unknown role");
        Ok(Member {
            id: UserId(self.id),
            role: Role::parse(&self.role).ok_or_else(unknown)?,
            email: self.email,
            tenant: self.tenant_id.map(TenantId),
            created_at: from_time(self.created_at),
            disabled_at: self.disabled_at.map(from_time),
            last_seen_at: self.last_seen_at.map(from_time),
        })
    }
}

/// An address as it is stored: without spaces around it, in lower case.
fn normalised(email: &str) -> String {
    email.trim().to_lowercase()
}

/// Lets a person in.
///
/// # Errors
/// When the address is taken or none, the password too short, the role of the other side, or the tenant not there.
pub async fn create(
    db: impl PgExecutor<'_>,
    passwords: &Passwords,
    new: NewMember,
) -> Result<UserId, TenantsError> {
    let email = normalised(&new.email);
    let (name, host) = email.split_once('@').unwrap_or_default();
    if name.is_empty() || host.is_empty() || email.chars().count() > MAX_EMAIL_CHARS {
        return Err(TenantsError::invalid("e-mail address", "expected name@host"));
    }
    if new.role.is_operator() != new.tenant.is_none() {
        return Err(TenantsError::invalid("role", "of the operator's side, or of a tenant"));
    }
    let hash = passwords.hash(new.password).await?;
    let id = sqlx::query_scalar!(
        "insert into users (email, password_hash, role, tenant_id) values ($1, $2, $3, $4) returning id",
        email,
        hash,
        new.role.code(),
        new.tenant.map(|tenant| tenant.0),
    )
    .fetch_one(db)
    .await?;
    Ok(UserId(id))
}

/// Who signs in with this address and password, if anyone may. Unknown, wrong and disabled take the same
/// path and the same time, and are not told apart.
///
/// # Errors
/// When the database fails, or too many sign in at once.
pub async fn verify_password(
    db: impl PgExecutor<'_>,
    passwords: &Passwords,
    email: &str,
    password: SecretString,
) -> Result<Option<Member>, TenantsError> {
    let mut record = by_email(db, email).await?.filter(|found| found.disabled_at.is_none());
    let hash = record.as_mut().map(|found| std::mem::take(&mut found.password_hash));
    let fits = passwords.verify(password, hash).await?;
    record.filter(|_| fits).map(Record::read).transpose()
}

async fn by_email(db: impl PgExecutor<'_>, email: &str) -> Result<Option<Record>, TenantsError> {
    let record = sqlx::query_as!(
        Record,
        "select id, email, password_hash, role, tenant_id, created_at, disabled_at, last_seen_at
         from users where email = $1",
        normalised(email),
    )
    .fetch_optional(db)
    .await?;
    Ok(record)
}

/// Who has this address.
///
/// # Errors
/// When the database fails.
pub async fn find_by_email(
    db: impl PgExecutor<'_>,
    email: &str,
) -> Result<Option<Member>, TenantsError> {
    by_email(db, email).await?.map(Record::read).transpose()
}

/// One person.
///
/// # Errors
/// When there is no such person.
pub async fn find(db: impl PgExecutor<'_>, member: UserId) -> Result<Member, TenantsError> {
    sqlx::query_as!(
        Record,
        "select id, email, password_hash, role, tenant_id, created_at, disabled_at, last_seen_at
         from users where id = $1",
        member.0,
    )
    .fetch_optional(db)
    .await?
    .ok_or(TenantsError::NotFound { what: "person" })?
    .read()
}

/// Which people to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The operator's.
    Operators,
    /// Those of a tenant.
    Tenant(TenantId),
}

/// People of one side by id: those after `after`, at most `limit`.
///
/// # Errors
/// When the database fails.
pub async fn list(
    db: impl PgExecutor<'_>,
    side: Side,
    after: Option<UserId>,
    limit: i64,
) -> Result<Vec<Member>, TenantsError> {
    let tenant = match side {
        Side::Operators => None,
        Side::Tenant(tenant) => Some(tenant.0),
    };
    let records = sqlx::query_as!(
        Record,
        "select id, email, password_hash, role, tenant_id, created_at, disabled_at, last_seen_at
         from users
         where tenant_id is not distinct from $1 and ($2::bigint is null or id > $2)
         order by id limit $3",
        tenant,
        after.map(|member| member.0),
        page_size(limit),
    )
    .fetch_all(db)
    .await?;
    records.into_iter().map(Record::read).collect()
}

/// Whether anyone can sign in as owner: while nobody can, the instance is being set up.
///
/// # Errors
/// When the database fails.
pub async fn owner_exists(db: impl PgExecutor<'_>) -> Result<bool, TenantsError> {
    let found = sqlx::query_scalar!(
        r#"select exists (select from users where role = 'owner' and disabled_at is null) as "found!""#
    )
    .fetch_one(db)
    .await?;
    Ok(found)
}

/// Gives a person another password. Ending their sessions is the caller's business.
///
/// # Errors
/// When there is no such person, or the password is too short.
pub async fn set_password(
    db: impl PgExecutor<'_>,
    passwords: &Passwords,
    member: UserId,
    password: SecretString,
) -> Result<(), TenantsError> {
    let hash = passwords.hash(password).await?;
    let done = sqlx::query!("update users set password_hash = $2 where id = $1", member.0, hash)
        .execute(db)
        .await?;
    found(done.rows_affected())
}

/// Gives a person another role of their side.
///
/// # Errors
/// When there is no such person, or the role is of the other side.
pub async fn set_role(
    db: impl PgExecutor<'_>,
    member: UserId,
    role: Role,
) -> Result<(), TenantsError> {
    let done = sqlx::query!("update users set role = $2 where id = $1", member.0, role.code())
        .execute(db)
        .await?;
    found(done.rows_affected())
}

/// Keeps a person out from `disabled_at` on, or lets them in again.
///
/// # Errors
/// When there is no such person.
pub async fn set_disabled(
    db: impl PgExecutor<'_>,
    member: UserId,
    disabled_at: Option<UnixMs>,
) -> Result<(), TenantsError> {
    let at = disabled_at.map(to_time).transpose()?;
    let done = sqlx::query!("update users set disabled_at = $2 where id = $1", member.0, at)
        .execute(db)
        .await?;
    found(done.rows_affected())
}

/// Notes that a person was here.
///
/// # Errors
/// When the database fails.
pub async fn touch(
    db: impl PgExecutor<'_>,
    member: UserId,
    now: UnixMs,
) -> Result<(), TenantsError> {
    sqlx::query!(
        "update users set last_seen_at = greatest(last_seen_at, $2) where id = $1",
        member.0,
        to_time(now)?,
    )
    .execute(db)
    .await?;
    Ok(())
}

fn found(rows: u64) -> Result<(), TenantsError> {
    if rows == 1 { Ok(()) } else { Err(TenantsError::NotFound { what: "person" }) }
}
