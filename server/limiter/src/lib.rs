#![doc = include_str!("../README.md")]

mod admission;
mod gate;
mod hold;
pub mod postgres;

pub use admission::{Admission, Ask, LimiterError, Reading, Verdict};
pub use hold::{Actual, HOLD_TTL_MS, Hold};
pub use postgres::PostgresEngine;
