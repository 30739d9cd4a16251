//! The limiter, built from the settings.

use anyhow::Context;
use limiter::{Limiter, Observer, Parts, PostgresEngine, RedisConfig, RedisEngine};
use secrecy::ExposeSecret;
use sqlx::PgPool;
use tokio_util::task::TaskTracker;

use crate::clock::Clock;
use crate::config::Config;
use crate::failure::Failure;
use crate::http::edge::fresh_request_id;

/// A limiter on the database, and on Redis where the settings name one. It admits once it is run.
///
/// # Errors
/// [`Failure::Missing`] when the address of Redis cannot be used.
pub(crate) fn limiter(
    config: &Config,
    pool: &PgPool,
    clock: &Clock,
    tasks: &TaskTracker,
) -> Result<Limiter, Failure> {
    Ok(Limiter::new(Parts {
        pool: pool.clone(),
        postgres: PostgresEngine::new(pool.clone(), tasks.clone()),
        redis: redis(config, pool, tasks)?,
        // As unique as a request is.
        replica_id: fresh_request_id(clock).to_string(),
        without_books: config.spool.admit,
        tasks: tasks.clone(),
    }))
}

/// A look at the counters of a gateway that may be running beside.
///
/// # Errors
/// [`Failure::Missing`] when the address of Redis cannot be used.
pub(crate) fn observer(
    config: &Config,
    pool: &PgPool,
    tasks: &TaskTracker,
) -> Result<Observer, Failure> {
    let postgres = PostgresEngine::new(pool.clone(), tasks.clone());
    Ok(Observer::new(pool.clone(), postgres, redis(config, pool, tasks)?))
}

fn redis(
    config: &Config,
    pool: &PgPool,
    tasks: &TaskTracker,
) -> Result<Option<RedisEngine>, Failure> {
    let Some(url) = &config.redis_url else { return Ok(None) };
    let settings = RedisConfig {
        url: url.expose_secret().to_owned(),
        prefix: config.redis_prefix.clone(),
        deadline: config.redis_deadline,
    };
    let engine = RedisEngine::new(&settings, pool, tasks.clone());
    Ok(Some(engine.context("REDIS_URL").map_err(Failure::Missing)?))
}
