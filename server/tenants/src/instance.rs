//! What this installation is called, and whether it is a demonstration.

use domain::window::UnixMs;
use sqlx::PgExecutor;

use crate::TenantsError;
use crate::instant::from_time;

/// The one row about the installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// Its name for people.
    pub name: String,
    /// Whether its data are made up: a banner says so on every page.
    pub demo: bool,
    /// When it was set up.
    pub created_at: UnixMs,
}

/// Reads it.
///
/// # Errors
/// When the database fails.
pub async fn find(db: impl PgExecutor<'_>) -> Result<Instance, TenantsError> {
    let row = sqlx::query!("select name, demo, created_at from instance").fetch_one(db).await?;
    Ok(Instance { name: row.name, demo: row.demo, created_at: from_time(row.created_at) })
}

/// Gives it another name.
///
/// # Errors
/// When the name is empty, or the database fails.
pub async fn rename(db: impl PgExecutor<'_>, name: &str) -> Result<(), TenantsError> {
    if name.trim().is_empty() {
        return Err(TenantsError::invalid("instance name", "it is empty"));
    }
    sqlx::query!("update instance set name = $1", name).execute(db).await?;
    Ok(())
}

/// Marks it as a demonstration. There is no way back: its data stay made up.
///
/// # Errors
/// When the database fails.
pub async fn mark_demo(db: impl PgExecutor<'_>) -> Result<(), TenantsError> {
    sqlx::query!("update instance set demo = true").execute(db).await?;
    Ok(())
}
