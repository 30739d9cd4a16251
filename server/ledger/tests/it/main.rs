//! The books on a real PostgreSQL.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails, and says where")]

mod alert;
mod append;
mod balance;
mod crowd;
mod facts;
mod fixture;
mod keeping;
mod movement;
mod outage;
mod reconcile;
mod refund;
mod refusal;
mod report;
mod rights;
mod spool;
