//! What people and probes are told of the authority.

use std::time::Duration;

use crate::authority::Mode;

/// Which engine admits, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// The engine.
    pub mode: Mode,
    /// How often the authority has changed.
    pub epoch: i64,
    /// Whether it admits, or is still waiting for all processes.
    pub ready: bool,
    /// Whether this is the second choice: Redis is configured, and Postgres admits.
    pub degraded: bool,
    /// Why it was changed last.
    pub cause: String,
    /// How long ago that was.
    pub age: Duration,
}
