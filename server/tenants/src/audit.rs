//! Who did what: one line for each change, never edited.

use domain::id::TenantId;
use domain::window::UnixMs;
use serde_json::Value;
use sqlx::PgExecutor;

use crate::instant::{from_time, to_time};
use crate::{TenantsError, page_size};

/// A line to be written. It must not hold a secret: neither a key, nor a password, nor a part of one.
#[derive(Debug, Clone, PartialEq)]
pub struct NewEntry {
    /// When.
    pub at: UnixMs,
    /// Who: a person's e-mail address, a token's name, or `weir` itself.
    pub actor: String,
    /// What, such as `key.revoke`.
    pub action: String,
    /// To what, such as `key/7`.
    pub target: String,
    /// The tenant it concerns, if any: its people may read the line.
    pub tenant: Option<TenantId>,
    /// What else is worth knowing: before and after.
    pub detail: Value,
    /// The request that asked for it.
    pub request_id: Option<String>,
}

/// A line of the log.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The row.
    pub id: i64,
    /// What it says.
    pub said: NewEntry,
}

/// Adds a line. Give it the transaction of the change itself, so that neither is without the other.
///
/// # Errors
/// When the database fails.
pub async fn append(db: impl PgExecutor<'_>, entry: &NewEntry) -> Result<(), TenantsError> {
    sqlx::query!(
        "insert into audit_log (at, actor, action, target, tenant_id, detail, request_id)
         values ($1, $2, $3, $4, $5, $6, $7)",
        to_time(entry.at)?,
        entry.actor,
        entry.action,
        entry.target,
        entry.tenant.map(|tenant| tenant.0),
        entry.detail,
        entry.request_id,
    )
    .execute(db)
    .await?;
    Ok(())
}

/// The newest lines: of one tenant or of all, those written before `before`, at most `limit`.
///
/// # Errors
/// When the database fails.
pub async fn list(
    db: impl PgExecutor<'_>,
    tenant: Option<TenantId>,
    before: Option<i64>,
    limit: i64,
) -> Result<Vec<Entry>, TenantsError> {
    let rows = sqlx::query!(
        "select id, at, actor, action, target, tenant_id, detail, request_id from audit_log
         where ($1::bigint is null or tenant_id = $1) and ($2::bigint is null or id < $2)
         order by id desc limit $3",
        tenant.map(|tenant| tenant.0),
        before,
        page_size(limit),
    )
    .fetch_all(db)
    .await?;
    let read = rows.into_iter().map(|row| Entry {
        id: row.id,
        said: NewEntry {
            at: from_time(row.at),
            actor: row.actor,
            action: row.action,
            target: row.target,
            tenant: row.tenant_id.map(TenantId),
            detail: row.detail,
            request_id: row.request_id,
        },
    });
    Ok(read.collect())
}
