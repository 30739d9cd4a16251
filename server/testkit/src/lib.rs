#![doc = include_str!("../README.md")]

mod clock;
mod database;
mod environment;
pub mod fixtures;
mod redis;
mod template;

pub use crate::clock::TestClock;
pub use crate::database::{TestDatabase, database};
pub use crate::redis::{TestRedis, redis, redis_cluster};

/// Every migration, compiled in.
pub static MIGRATOR: sqlx::migrate::Migrator = sqlx::migrate!("../../migrations");
