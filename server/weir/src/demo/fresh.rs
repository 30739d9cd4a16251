//! Starting over: everything that an earlier demonstration left is forgotten, and nothing else.

use std::fs;
use std::io;
use std::path::Path;

use anyhow::{Context, anyhow};
use embedded::EmbeddedError;
use sqlx::PgPool;

use super::SECRETS;
use crate::config::Config;
use crate::database;
use crate::failure::Failure;
use crate::store::Store;

/// Opens the store with nothing in it.
///
/// # Errors
/// When another process uses it, or a database of the operator's own holds anything but a demonstration.
pub(super) async fn open(config: &Config) -> Result<Store, Failure> {
    match Store::open(config).await {
        Ok(store) => match empty(config, &store).await {
            Ok(()) => Ok(store),
            Err(failure) => {
                // Why it cannot be emptied is what is to be told.
                if let Err(error) = store.close().await {
                    tracing::error!(%error, "the embedded database did not stop");
                }
                Err(failure)
            }
        },
        // Data that no longer open are what starting over is for; data that another process has open are not.
        Err(Failure::Missing(error))
            if config.database_url.is_none() && !is_in_use(&error) && config.data_dir.exists() =>
        {
            tracing::warn!(error = %format!("{error:#}"), "the data do not open and are removed");
            forget(&config.data_dir)?;
            Store::open(config).await
        }
        Err(failure) => Err(failure),
    }
}

fn is_in_use(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref::<EmbeddedError>(), Some(EmbeddedError::InUse { .. }))
}

fn forget(folder: &Path) -> Result<(), Failure> {
    let removed = fs::remove_dir_all(folder);
    removed.with_context(|| format!("cannot remove {}", folder.display())).map_err(Failure::Missing)
}

/// Empties the database and forgets what opened it. One of the operator's own must be a demonstration.
async fn empty(config: &Config, store: &Store) -> Result<(), Failure> {
    let pool = database::open(store.url(), 1).await?;
    let own = config.database_url.is_some();
    let emptied = drop_all(&pool, own).await;
    pool.close().await;
    emptied.map_err(Failure::Missing)?;
    match fs::remove_file(config.data_dir.join(SECRETS)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).context("cannot remove the old passwords").map_err(Failure::Missing)
        }
        _ => Ok(()),
    }
}

async fn drop_all(pool: &PgPool, own: bool) -> anyhow::Result<()> {
    if own && !is_demo(pool).await? {
        return Err(anyhow!("the database is no demonstration: it is left alone"));
    }
    sqlx::raw_sql("drop schema public cascade; create schema public")
        .execute(pool)
        .await
        .context("cannot empty the database")?;
    Ok(())
}

/// Whether there is nothing in the database, or a demonstration.
async fn is_demo(pool: &PgPool) -> Result<bool, sqlx::Error> {
    let tables: i64 = sqlx::query_scalar(
        "select count(*) from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace",
    )
    .fetch_one(pool)
    .await?;
    if tables == 0 {
        return Ok(true);
    }
    let known: bool = sqlx::query_scalar("select to_regclass('public.instance') is not null")
        .fetch_one(pool)
        .await?;
    if !known {
        return Ok(false);
    }
    sqlx::query_scalar("select coalesce(bool_or(demo), false) from instance").fetch_one(pool).await
}
