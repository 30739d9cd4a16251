//! A database of its own for each test.

use std::str::FromStr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgConnection, PgPoolOptions};
use sqlx::{ConnectOptions, Connection, Error, PgPool};
use tokio::sync::OnceCell;

use crate::environment::server_url;
use crate::template;

/// Hundreds of tests share one server's connections.
const POOL_CONNECTIONS: u32 = 5;
/// A test that waits longer than this for a connection holds them all itself.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(20);
/// Where statements about other databases are sent: it is there on every server.
const MAINTENANCE_DATABASE: &str = "postgres";
/// PostgreSQL's code for a database that is not there.
const NO_SUCH_DATABASE: &str = "3D000";

static DATABASES: AtomicU32 = AtomicU32::new(0);
static TEMPLATE: OnceCell<()> = OnceCell::const_new();

/// An empty database with every migration applied. When the test passes it is dropped; when the test
/// fails it is kept for a week and its URL printed.
#[derive(Debug)]
pub struct TestDatabase {
    /// A small pool on it.
    pub pool: PgPool,
    /// Where it is, for whatever needs a connection of its own.
    pub url: String,
    name: String,
    server: PgConnectOptions,
}

/// Makes a database for one test.
///
/// # Panics
/// When neither `WEIR_TEST_DATABASE_URL` nor `DATABASE_URL` says where PostgreSQL is, or when it
/// does not let us make databases.
pub async fn database() -> TestDatabase {
    let url = server_url("PostgreSQL", ["WEIR_TEST_DATABASE_URL", "DATABASE_URL"]);
    make(&url).await.unwrap_or_else(|e| panic!("cannot make a database for the test: {e}"))
}

async fn make(url: &str) -> Result<TestDatabase, Error> {
    let server = PgConnectOptions::from_str(url)?.database(MAINTENANCE_DATABASE);
    let mut admin = server.connect().await?;
    TEMPLATE.get_or_try_init(|| template::ensure(&mut admin, &server)).await?;
    let name = copy(&mut admin, &server).await?;
    admin.close().await?;
    let inside = server.clone().database(&name);
    let pool = PgPoolOptions::new()
        .max_connections(POOL_CONNECTIONS)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .connect_lazy_with(inside.clone());
    let url = inside.to_url_lossy().to_string();
    Ok(TestDatabase { pool, url, name, server })
}

async fn copy(admin: &mut PgConnection, server: &PgConnectOptions) -> Result<String, Error> {
    let now = template::now_seconds(admin).await?;
    let number = DATABASES.fetch_add(1, Ordering::Relaxed);
    let name = format!("weir_test_{now}_{}_{number}", std::process::id());
    let template = template::name();
    // Copying the files is several times faster than the write-ahead log for a database this small.
    let statement = format!("create database {name} template {template} strategy file_copy");
    match template::run(admin, statement.clone()).await {
        Err(Error::Database(e)) if e.code().is_some_and(|code| code == NO_SUCH_DATABASE) => {
            // Another process swept the template since this one made sure of it.
            template::ensure(admin, server).await?;
            template::run(admin, statement).await?;
        }
        other => other?,
    }
    Ok(name)
}

impl TestDatabase {
    /// A further pool on the database, as a second process would have one.
    #[must_use]
    pub fn another_pool(&self) -> PgPool {
        PgPoolOptions::new()
            .max_connections(POOL_CONNECTIONS)
            .acquire_timeout(ACQUIRE_TIMEOUT)
            .connect_lazy_with(self.server.clone().database(&self.name))
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the test failed: its database is kept for a week: {}", self.url);
            return;
        }
        // The test's runtime may be shutting down: the drop has a thread and a runtime of its own.
        let (server, name) = (self.server.clone(), self.name.clone());
        let dropped = std::thread::spawn(move || drop_database(&server, &name)).join();
        match dropped {
            Ok(Ok(())) => {}
            Ok(Err(error)) => eprintln!("the database {} is left behind: {error}", self.name),
            Err(_) => eprintln!("the database {} is left behind", self.name),
        }
    }
}

fn drop_database(server: &PgConnectOptions, name: &str) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut admin = server.connect().await?;
        template::run(&mut admin, format!("drop database if exists {name} with (force)")).await?;
        admin.close().await
    })
}
