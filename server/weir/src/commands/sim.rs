//! `weir sim`: the provider simulator alone.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use sim::{Pace, Sim, SimConfig};

use super::say;
use crate::failure::Failure;
use crate::shutdown;

/// What `sim` takes.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weir sim --bind 127.0.0.1:9400 --seed 7\n  weir sim --journal \
                        served.ndjson --frame-ms 20"
)]
pub(crate) struct SimArgs {
    /// Where to listen; port 0 picks a free one.
    #[arg(long, default_value = "127.0.0.1:9400")]
    bind: SocketAddr,
    /// Everything that is generated is drawn from it.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// A file that gets one JSON line for each request.
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,
    /// Pause before the first byte of an answer, in milliseconds.
    #[arg(long, default_value_t = 0)]
    first_byte_ms: u64,
    /// Pause before each further frame, in milliseconds.
    #[arg(long, default_value_t = 0)]
    frame_ms: u64,
}

/// Runs the simulator until a signal.
pub(crate) async fn run(args: SimArgs) -> Result<(), Failure> {
    let stop = shutdown::on_signal()?;
    let pace = Pace {
        first_byte: Duration::from_millis(args.first_byte_ms),
        frame: Duration::from_millis(args.frame_ms),
    };
    let SimArgs { bind, seed, journal, .. } = args;
    let config = SimConfig { bind, seed, journal, pace, ..SimConfig::default() };
    let sim = Sim::start(config).await.map_err(Failure::missing)?;
    say(&format!("The simulator answers for all providers at http://{}", sim.addr()))?;
    stop.cancelled().await;
    sim.stop().await;
    Ok(())
}
