//! `weir serve`.

use super::say;
use crate::boot::Running;
use crate::config::Config;
use crate::failure::Failure;
use crate::shutdown;

/// Serves until a signal.
pub(crate) async fn run(config: Config) -> Result<(), Failure> {
    let stop = shutdown::on_signal()?;
    let started = tokio::select! {
        // A start may take long, after a crash of the embedded database for instance.
        started = Running::start(config) => started,
        () = stop.cancelled() => return Ok(()),
    };
    let running = started?;
    let weir = running.weir();
    tracing::info!(address = %running.address(), public_url = %weir.public_url, "Weir serves");
    say(&format!("Weir serves {} on {}.", weir.public_url, running.address()))?;
    stop.cancelled().await;
    running.stop().await
}
