//! The HTTP side.

pub mod error;
