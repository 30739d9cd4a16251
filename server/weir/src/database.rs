//! The pool of connections, and the schema that this program needs.

use std::time::Duration;

use anyhow::Context;
use secrecy::{ExposeSecret, SecretString};
use sqlx::migrate::{Migrate, MigrateError, Migrator};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPoolOptions};
use sqlx::{ConnectOptions, Connection, PgPool, Row};

use crate::failure::Failure;

/// Every migration, compiled in.
pub static MIGRATOR: Migrator = sqlx::migrate!("../../migrations");

/// How long a request waits for a connection: after that it is better told to come back.
const ACQUIRE_WAIT: Duration = Duration::from_secs(5);
/// A connection that was idle for longer is asked whether it is still there before it is used.
const IDLE_TRUSTED: Duration = Duration::from_secs(10);
/// Idle connections are given back to the server after this.
const IDLE_KEPT: Duration = Duration::from_secs(600);
/// What the server itself cuts off. A statement of a page takes a second; a lock is waited for
/// while one batch commits; an idle open transaction is one whose owner is gone.
const SESSION: [(&str, &str); 4] = [
    ("application_name", "weir"),
    ("statement_timeout", "30s"),
    ("lock_timeout", "5s"),
    ("idle_in_transaction_session_timeout", "10s"),
];

/// Opens the pool.
///
/// # Errors
/// [`Failure::Missing`] when the address is none or the server does not answer.
pub async fn open(url: &SecretString, connections: u32) -> Result<PgPool, Failure> {
    let options = options(url)?.options(SESSION);
    PgPoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(ACQUIRE_WAIT)
        .idle_timeout(IDLE_KEPT)
        .test_before_acquire(false)
        .before_acquire(|connection, meta| {
            Box::pin(async move {
                if meta.idle_for > IDLE_TRUSTED {
                    connection.ping().await?;
                }
                Ok(true)
            })
        })
        .after_release(|connection, _| Box::pin(has_no_open_transaction(connection)))
        .connect_with(options)
        .await
        .context("cannot reach the database")
        .map_err(Failure::Missing)
}

fn options(url: &SecretString) -> Result<PgConnectOptions, Failure> {
    let text = url.expose_secret();
    let ours = ["postgres://", "postgresql://"].iter().any(|scheme| text.starts_with(scheme));
    let options = text.parse().ok().filter(|_| ours);
    // The parser's own error would quote the address, which holds the password.
    options.ok_or_else(|| {
        let hint = "DATABASE_URL is not an address such as postgres://user:password@host/database";
        Failure::Missing(anyhow::anyhow!(hint))
    })
}

/// Whether a connection may go back into the pool.
///
/// sqlx's `begin` is not safe to cancel: when its caller goes away at the wrong moment, the server
/// has an open transaction that sqlx does not know of, and the next user's writes would vanish
/// with it. In a transaction of its own, a statement is exactly as old as its transaction.
async fn has_no_open_transaction(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    let statement = sqlx::raw_sql("select now() = statement_timestamp()");
    let row = sqlx::Executor::fetch_one(connection, statement).await?;
    let clean: bool = row.try_get(0)?;
    if !clean {
        metrics::counter!("weir_poisoned_connections_total").increment(1);
        tracing::warn!("a connection came back with an open transaction and is closed");
    }
    Ok(clean)
}

/// How the schema in the database stands to the one this program needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Schema {
    /// The same.
    Current,
    /// Migrations are missing.
    Older {
        /// The newest migration in the database; 0 for none.
        found: i64,
    },
    /// A newer program was here.
    Newer {
        /// The newest migration in the database.
        found: i64,
    },
    /// A migration was begun and not finished, or is not the one that was released under its number.
    Broken {
        /// Which one.
        version: i64,
    },
}

/// The newest migration of this program.
#[must_use]
pub fn newest() -> i64 {
    MIGRATOR.iter().map(|migration| migration.version).max().unwrap_or(0)
}

impl Schema {
    /// Refuses any schema but the current one, with the command that mends it.
    ///
    /// # Errors
    /// [`Failure::Migration`] when the schema is another one.
    pub fn require(self) -> Result<(), Failure> {
        let needed = newest();
        let sentence = match self {
            Self::Current => return Ok(()),
            Self::Older { found } => format!(
                "the database schema is version {found}, this program needs {needed}: run `weir \
                 migrate`"
            ),
            Self::Newer { found } => format!(
                "the database schema is version {found}, newer than this program's {needed}: start \
                 the newer weir again, or restore a backup from before the upgrade"
            ),
            Self::Broken { version } => format!(
                "migration {version} is in the database in another form than in this program: \
                 restore a backup, or run the weir that wrote it"
            ),
        };
        Err(Failure::Migration(sentence))
    }
}

/// Looks at the schema and changes nothing.
///
/// # Errors
/// [`Failure::Missing`] when the database cannot be reached.
pub async fn schema(pool: &PgPool) -> Result<Schema, Failure> {
    let mut connection =
        pool.acquire().await.context("cannot reach the database").map_err(Failure::Missing)?;
    inspect(&mut connection).await.context("cannot read the schema").map_err(Failure::Missing)
}

async fn inspect(connection: &mut PgConnection) -> Result<Schema, MigrateError> {
    let there: bool = sqlx::query_scalar("select to_regclass('_sqlx_migrations') is not null")
        .fetch_one(&mut *connection)
        .await?;
    if !there {
        return Ok(Schema::Older { found: 0 });
    }
    if let Some(version) = connection.dirty_version(&MIGRATOR.table_name).await? {
        return Ok(Schema::Broken { version });
    }
    let applied = connection.list_applied_migrations(&MIGRATOR.table_name).await?;
    let found = applied.iter().map(|migration| migration.version).max().unwrap_or(0);
    if found > newest() {
        return Ok(Schema::Newer { found });
    }
    for migration in MIGRATOR.iter() {
        match applied.iter().find(|applied| applied.version == migration.version) {
            Some(applied) if applied.checksum != migration.checksum => {
                return Ok(Schema::Broken { version: migration.version });
            }
            Some(_) => {}
            None => return Ok(Schema::Older { found }),
        }
    }
    Ok(Schema::Current)
}

/// Brings the schema up to date, under the lock that lets one process do it at a time.
///
/// On a connection of its own: a migration may take longer than the pool lets a statement run.
///
/// # Errors
/// [`Failure::Migration`] when the schema is newer or broken, or a migration fails;
/// [`Failure::Missing`] when the database cannot be reached.
pub async fn migrate(url: &SecretString) -> Result<(), Failure> {
    let mut connection = options(url)?
        .connect()
        .await
        .context("cannot reach the database")
        .map_err(Failure::Missing)?;
    let before = inspect(&mut connection)
        .await
        .context("cannot read the schema")
        .map_err(Failure::Missing)?;
    if !matches!(before, Schema::Older { .. }) {
        return before.require();
    }
    MIGRATOR.run(&mut connection).await.map_err(|error| {
        Failure::Migration(format!("the schema could not be brought up to date: {error}"))
    })?;
    // What is new is new to the program's group as well, where there is one.
    sqlx::raw_sql("select grant_runtime_rights()").execute(&mut connection).await.map_err(
        |error| Failure::Migration(format!("the rights of weir_runtime could not be set: {error}")),
    )?;
    tracing::info!(version = newest(), "the schema is up to date");
    // All is written; a connection that does not close well harms nobody.
    let _ = connection.close().await;
    Ok(())
}
