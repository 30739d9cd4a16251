//! One metered call against a real database and the provider simulator.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod ends;
mod limits;
mod owners;
mod pass_through;
mod recovery;
mod tokens;
mod waits;
mod world;
