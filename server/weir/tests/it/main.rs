//! The whole process, from outside.

#![expect(clippy::unwrap_used, reason = "what a test cannot do without is the test's failure")]

mod house;
mod listen;
