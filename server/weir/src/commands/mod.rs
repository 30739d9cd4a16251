//! What each command does.

pub(crate) mod books;
pub(crate) mod config;
pub(crate) mod desk;
pub(crate) mod healthcheck;
pub(crate) mod key;
pub(crate) mod migrate;
pub(crate) mod openapi;
pub(crate) mod reconcile;
pub(crate) mod serve;
pub(crate) mod sim;
pub(crate) mod tenant;
pub(crate) mod user;

use std::io::{Write, stdout};

use anyhow::Context;

use crate::failure::Failure;

/// Prints what a command was asked for.
pub(crate) fn say(text: &str) -> Result<(), Failure> {
    let mut out = stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).context("cannot write the output")?;
    Ok(())
}

/// Prints a value as JSON, for scripts.
pub(crate) fn say_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    say(&serde_json::to_string_pretty(value).context("cannot write JSON")?)
}
