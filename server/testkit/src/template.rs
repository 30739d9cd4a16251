//! The database that every test's own is copied from: migrated once for each state of the migrations.

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Error};

use crate::MIGRATOR;

/// The advisory lock under which templates are made and swept; any number that nobody else uses.
const TEMPLATE_LOCK: i64 = 0x7765_6972_7470_6c00;
/// Databases of failed tests, and templates nobody used, are removed after this: a week is time
/// enough to look at a failure, and a server in use for months must not fill up.
const KEPT_SECONDS: i64 = 7 * 24 * 60 * 60;
/// At most so many are removed by one process, so that no test waits long for the sweep.
const SWEPT_AT_ONCE: i64 = 50;

/// The template's name: it says which migrations made it.
pub(crate) fn name() -> String {
    // FNV-1a over the migrations' own check sums: the name must be the same in every process, and
    // nobody attacks it.
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in MIGRATOR.iter().flat_map(|migration| migration.checksum.iter()) {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("weir_tpl_{hash:016x}")
}

/// Makes the template unless it is there, and notes on it that it is in use.
pub(crate) async fn ensure(
    admin: &mut PgConnection,
    server: &PgConnectOptions,
) -> Result<(), Error> {
    sqlx::query("select pg_advisory_lock($1)").bind(TEMPLATE_LOCK).execute(&mut *admin).await?;
    let made = ensure_locked(admin, server).await;
    sqlx::query("select pg_advisory_unlock($1)").bind(TEMPLATE_LOCK).execute(&mut *admin).await?;
    made
}

async fn ensure_locked(admin: &mut PgConnection, server: &PgConnectOptions) -> Result<(), Error> {
    let name = name();
    // Whoever makes a template closes it last of all: an open one was left half made.
    let open: Option<bool> =
        sqlx::query_scalar("select datallowconn from pg_database where datname = $1")
            .bind(&name)
            .fetch_optional(&mut *admin)
            .await?;
    match open {
        Some(false) => {}
        Some(true) => {
            run(admin, format!("drop database {name} with (force)")).await?;
            make(admin, server, &name).await?;
        }
        None => make(admin, server, &name).await?,
    }
    let now = now_seconds(admin).await?;
    run(admin, format!("comment on database {name} is '{now}'")).await?;
    sweep(admin, now).await
}

async fn make(
    admin: &mut PgConnection,
    server: &PgConnectOptions,
    name: &str,
) -> Result<(), Error> {
    run(admin, format!("create database {name}")).await?;
    let mut inside = server.clone().database(name).connect().await?;
    MIGRATOR.run(&mut inside).await.map_err(|e| Error::Migrate(Box::new(e)))?;
    inside.close().await?;
    run(admin, format!("alter database {name} with allow_connections false")).await
}

/// Removes what tests left behind long ago. What cannot be removed now is left to the next process.
async fn sweep(admin: &mut PgConnection, now: i64) -> Result<(), Error> {
    let old: Vec<String> = sqlx::query_scalar(
        r"select datname::text from pg_database
          where (datname ~ '^weir_tpl_[0-9a-f]{16}$' or datname ~ '^weir_test_[0-9]+_[0-9]+_[0-9]+$')
            and coalesce(shobj_description(oid, 'pg_database'), split_part(datname, '_', 3)) ~ '^[0-9]{1,12}$'
            and coalesce(shobj_description(oid, 'pg_database'), split_part(datname, '_', 3))::bigint < $1
          limit $2",
    )
    .bind(now - KEPT_SECONDS)
    .bind(SWEPT_AT_ONCE)
    .fetch_all(&mut *admin)
    .await?;
    for name in old {
        if let Err(error) = run(admin, format!("drop database if exists {name}")).await {
            eprintln!("the old test database {name} is left behind: {error}");
        }
    }
    Ok(())
}

/// The server's clock, in whole seconds since 1970.
pub(crate) async fn now_seconds(admin: &mut PgConnection) -> Result<i64, Error> {
    sqlx::query_scalar("select extract(epoch from clock_timestamp())::bigint")
        .fetch_one(admin)
        .await
}

/// Runs a statement about a database: its name cannot be an argument.
///
/// The names are made here, of letters, digits and underscores, so nothing can be smuggled in.
pub(crate) async fn run(admin: &mut PgConnection, statement: String) -> Result<(), Error> {
    sqlx::raw_sql(AssertSqlSafe(statement)).execute(admin).await.map(drop)
}
