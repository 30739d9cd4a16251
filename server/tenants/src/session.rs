//! Sessions of the console: rows only. What is in one, and its cookie, is the console's business.

use domain::window::UnixMs;
use serde_json::Value;
use sha2::{Digest, Sha256};
use sqlx::PgExecutor;

use crate::TenantsError;
use crate::instant::to_time;

/// At most so many are removed at once, so that the rows are not locked for long.
const DELETED_AT_ONCE: i64 = 1_000;

/// What a session is stored under: who reads the table cannot take a session over.
fn stored_name(name: &str) -> String {
    use std::fmt::Write;
    Sha256::digest(name.as_bytes()).iter().fold(String::with_capacity(64), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Begins a session under a new name.
///
/// # Errors
/// When there is one of that name.
pub async fn create(
    db: impl PgExecutor<'_>,
    name: &str,
    data: &Value,
    expires_at: UnixMs,
) -> Result<(), TenantsError> {
    let done = sqlx::query!(
        "insert into sessions (id, data, expires_at) values ($1, $2, $3) on conflict (id) do nothing",
        stored_name(name),
        data,
        to_time(expires_at)?,
    )
    .execute(db)
    .await?;
    if done.rows_affected() == 1 {
        Ok(())
    } else {
        Err(TenantsError::Conflict { what: "session name" })
    }
}

/// Writes a session, whether it is there or not.
///
/// # Errors
/// When the database fails.
pub async fn save(
    db: impl PgExecutor<'_>,
    name: &str,
    data: &Value,
    expires_at: UnixMs,
) -> Result<(), TenantsError> {
    sqlx::query!(
        "insert into sessions (id, data, expires_at) values ($1, $2, $3)
         on conflict (id) do update set data = excluded.data, expires_at = excluded.expires_at",
        stored_name(name),
        data,
        to_time(expires_at)?,
    )
    .execute(db)
    .await?;
    Ok(())
}

/// What is in a session, unless there is none or it has ended by `now`.
///
/// # Errors
/// When the database fails.
pub async fn load(
    db: impl PgExecutor<'_>,
    name: &str,
    now: UnixMs,
) -> Result<Option<Value>, TenantsError> {
    let data = sqlx::query_scalar!(
        "select data from sessions where id = $1 and expires_at > $2",
        stored_name(name),
        to_time(now)?,
    )
    .fetch_optional(db)
    .await?;
    Ok(data)
}

/// Ends a session. One that is not there has ended already.
///
/// # Errors
/// When the database fails.
pub async fn delete(db: impl PgExecutor<'_>, name: &str) -> Result<(), TenantsError> {
    sqlx::query!("delete from sessions where id = $1", stored_name(name)).execute(db).await?;
    Ok(())
}

/// Removes sessions that have ended by `now`, at most a thousand. Says how many: call again while it is so many.
///
/// # Errors
/// When the database fails.
pub async fn delete_expired(db: impl PgExecutor<'_>, now: UnixMs) -> Result<u64, TenantsError> {
    let done = sqlx::query!(
        "delete from sessions where id in
             (select id from sessions where expires_at <= $1 order by expires_at limit $2
              for update skip locked)",
        to_time(now)?,
        DELETED_AT_ONCE,
    )
    .execute(db)
    .await?;
    Ok(done.rows_affected())
}
