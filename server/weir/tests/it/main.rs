//! The whole process, from outside.

#![expect(clippy::unwrap_used, reason = "what a test cannot do without is the test's failure")]

mod admin;
mod away;
mod books;
mod boot;
mod browser;
mod console;
mod demo;
mod drain;
mod figures;
mod house;
mod killed;
mod listen;
mod money;
mod process;
mod program;
mod rights;
mod routes;
mod seed;
