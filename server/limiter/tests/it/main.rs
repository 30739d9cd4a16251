//! The limiter on a real PostgreSQL.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails, and says where")]

mod budget;
mod expiry;
mod fixture;
mod gone;
mod hold;
mod model;
mod random_walk;
mod refusal;
mod scope;
