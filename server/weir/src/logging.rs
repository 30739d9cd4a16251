//! The log: for people on a terminal, one JSON object on each line otherwise. It goes to the error
//! output, so that the output of commands stays theirs.

use std::io::{IsTerminal, stderr};

use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::{Config, LogFormat};

/// Starts the log. A second call, as of tests in one process, changes nothing.
pub fn start(config: &Config) {
    // The level was read when the settings were: it parses.
    let filter: Targets = config.log_level.parse().unwrap_or_default();
    let json = match config.log {
        LogFormat::Json => true,
        LogFormat::Pretty => false,
        LogFormat::Auto => !stderr().is_terminal(),
    };
    let form = tracing_subscriber::fmt::layer().with_writer(stderr);
    let layer = if json {
        form.json().flatten_event(true).with_current_span(true).with_span_list(false).boxed()
    } else {
        form.with_ansi(stderr().is_terminal()).with_target(false).boxed()
    };
    let _ = tracing_subscriber::registry().with(layer.with_filter(filter)).try_init();
}
