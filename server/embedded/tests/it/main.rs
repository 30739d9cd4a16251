//! The private server, tried on a real PostgreSQL: as root and as an ordinary user.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixture;
mod killed;
mod refused;
mod throwaway;
mod used;
