//! What a person has to see even when the test passes.

use std::io::{Write, stderr};

/// Says a line past the test harness, which keeps back what `eprintln!` says.
pub(crate) fn say(text: &str) {
    // Where nobody can be told, the test goes on.
    let _ = writeln!(stderr(), "end2end: {text}");
}
