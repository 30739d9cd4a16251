//! From "please stop" to the end: the first signal asks, the second insists.

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::failure::Failure;

/// The exit code after a second signal: as if the signal had ended the process.
const INSISTED: i32 = 130;

/// A token that is cancelled by SIGTERM or SIGINT. A second signal ends the process at once: what
/// it held open ends by its time to live.
///
/// # Errors
/// When the system does not let signals be handled.
pub fn on_signal() -> Result<CancellationToken, Failure> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
    let asked = CancellationToken::new();
    let token = asked.clone();
    let wait = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("stopping: calls may end, a second signal stops at once");
        token.cancel();
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::warn!("stopped by a second signal");
        std::process::exit(INSISTED);
    };
    #[expect(clippy::disallowed_methods, reason = "it waits for signals until the process ends")]
    tokio::spawn(wait);
    Ok(asked)
}
