//! The simulator, seen from outside: over real sockets, with a client that reads every byte.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails there")]

mod asks;
mod determinism;
mod dialects;
mod faults;
mod journal;
mod load;
mod refusals;
mod wire;
