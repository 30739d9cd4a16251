#![doc = include_str!("../README.md")]

mod admission;
mod authority;
mod gate;
mod hold;
mod limiter;
mod observer;
pub mod postgres;
mod redis;
mod registry;

pub use admission::{Admission, Ask, LimiterError, Reading, Verdict};
pub use authority::Mode;
pub use hold::{Actual, HOLD_TTL_MS, Hold};
pub use limiter::{Limiter, Parts, Standing};
pub use observer::Observer;
pub use postgres::PostgresEngine;
pub use redis::{RedisConfig, RedisEngine, RedisUrlError};
