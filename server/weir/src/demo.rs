//! `weir demo`: a Weir to look around in, with a private database and simulated providers.

use std::path::PathBuf;

use anyhow::Context;
use sim::{Sim, SimConfig};

use crate::boot::Running;
use crate::commands::say;
use crate::config::{Config, Environment, Flags};
use crate::failure::Failure;
use crate::{logging, shutdown};

/// The demonstration's folder within the data folder, apart from what is served in earnest.
const FOLDER: &str = "demo";

/// What `demo` takes.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  weir demo\n  weir demo --fresh   (forget what the last one made)"
)]
pub struct Args {
    /// Start over with an empty database.
    #[arg(long)]
    fresh: bool,
    #[command(flatten)]
    flags: Flags,
}

/// Starts the simulator and a Weir on a private database, and serves until a signal.
///
/// # Errors
/// As `weir serve`.
pub async fn run(args: Args, environment: &Environment) -> Result<(), Failure> {
    let mut config = Config::load(&args.flags, environment)?;
    logging::start(&config);
    config.data_dir = config.data_dir.join(FOLDER);
    if args.fresh {
        forget(&config.data_dir)?;
    }
    let stop = shutdown::on_signal()?;
    let sim = Sim::start(SimConfig::default()).await.map_err(Failure::missing)?;
    let running = Running::start(config).await?;
    say(&format!(
        "The demonstration serves {}.\nThe simulated providers answer at {}.\nCtrl-C stops both.",
        running.weir().public_url,
        sim.base_url()
    ))?;
    stop.cancelled().await;
    let stopped = running.stop().await;
    sim.stop().await;
    stopped
}

fn forget(folder: &PathBuf) -> Result<(), Failure> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            let shown = folder.display();
            Err(error).with_context(|| format!("cannot remove {shown}")).map_err(Failure::Missing)
        }
        _ => Ok(()),
    }
}
