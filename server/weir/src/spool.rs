//! Where this process puts calls on record, and the fault tests' way to end it.

use std::io;
use std::time::Duration;

use anyhow::Context;
use gateway::FailPoints;
use ledger::spool::{Spool, SpoolBounds, SpoolConfig, SpoolError};
use sqlx::PgPool;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::failure::Failure;

/// How far the books may be behind when no call is to be taken without them: longer than a slow commit takes.
const SLOW_COMMIT: Duration = Duration::from_secs(2);
/// How much a loss of power may take, where the disk is made to keep the spool.
const SYNC_EVERY: Duration = Duration::from_millis(10);

/// Starts the spool of this process, in the folder of its database: what waits for one database's books must never go
/// into another's.
pub(crate) async fn start(config: &Config, pool: &PgPool) -> Result<Spool, Failure> {
    let settings = config.spool.clone();
    let dir = settings.dir.join(books_name(pool).await?);
    let shown = dir.display().to_string();
    let bounds = SpoolBounds { age: settings.admit.max(SLOW_COMMIT), ..SpoolBounds::default() };
    let config = SpoolConfig { bounds, sync: settings.sync, ..SpoolConfig::new(dir) };
    blocking(|| Spool::start(config).map_err(io_error))
        .await
        .with_context(|| format!("cannot use the folder of the spool, {shown}"))
        .map_err(Failure::Missing)
}

/// A name that no other database's books have: when they were begun, and what the database is called, since a copy of
/// a database was begun at the same time.
async fn books_name(pool: &PgPool) -> Result<String, Failure> {
    let instance = tenants::instance::find(pool).await.map_err(Failure::missing)?;
    let database: String = sqlx::query_scalar("select current_database()::text")
        .fetch_one(pool)
        .await
        .map_err(Failure::missing)?;
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let database: String = database.chars().map(plain).collect();
    Ok(format!("{}-{database}", instance.created_at.0))
}

fn io_error(error: SpoolError) -> io::Error {
    io::Error::other(error)
}

/// Makes the disk keep what is written, again and again.
pub(crate) async fn keep_synced(spool: Spool, cancel: CancellationToken) {
    let mut period = interval(SYNC_EVERY);
    period.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while cancel.run_until_cancelled(period.tick()).await.is_some() {
        let spool = spool.clone();
        if let Err(error) = blocking(move || spool.sync()).await {
            tracing::error!(%error, "the disk does not keep the spool");
        }
    }
}

/// Gives the spool up at the end, and says what is left on it.
pub(crate) async fn close(spool: Spool) {
    match blocking(move || spool.close()).await {
        Ok(0) => {}
        Ok(calls) => tracing::warn!(
            calls,
            "calls are left on record: the next start writes them into the books"
        ),
        Err(error) => {
            tracing::warn!(%error, "the folder of the spool is left: the next start looks into it")
        }
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}

/// Without debug assertions there is no way to end the process from inside.
#[cfg(not(debug_assertions))]
pub(crate) fn fail_points(_: &Config) -> FailPoints {
    FailPoints::default()
}

/// Ends the process as `kill -9` does, when a call comes to the place that the configuration names.
#[cfg(debug_assertions)]
pub(crate) fn fail_points(config: &Config) -> FailPoints {
    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;
    use std::sync::atomic::{AtomicU32, Ordering};

    let Some((place, times)) = config.fail_point else { return FailPoints::default() };
    let left = AtomicU32::new(times);
    FailPoints::calling(move |point| {
        if point == place && left.fetch_sub(1, Ordering::SeqCst) == 1 {
            // It cannot fail for a process that signals itself; the loop waits for the end.
            let _ = kill(Pid::this(), Signal::SIGKILL);
            loop {
                std::thread::park();
            }
        }
    })
}
