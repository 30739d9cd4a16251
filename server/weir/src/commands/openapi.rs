//! `weir openapi`.

use anyhow::Context;

use super::say;
use crate::failure::Failure;
use crate::http::openapi;

/// Prints the document of the admin API.
pub(crate) fn run() -> Result<(), Failure> {
    say(&openapi().to_pretty_json().context("cannot write the document")?)
}
