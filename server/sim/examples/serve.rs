//! Runs the simulator alone: `cargo run -p sim --example serve -- 127.0.0.1:9999 [seed] [journal]`.

use std::error::Error;
use std::time::Duration;

use sim::{Pace, Sim, SimConfig};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let bind = words.next().map_or_else(|| "127.0.0.1:9999".parse(), |word| word.parse())?;
    let seed = words.next().map_or(Ok(1), |word| word.parse())?;
    let journal = words.next().map(Into::into);
    // A pace that looks alive: a short wait, then some twenty-five frames a second.
    let pace = Pace { first_byte: Duration::from_millis(150), frame: Duration::from_millis(40) };
    let config = SimConfig { bind, seed, journal, pace, ..SimConfig::default() };
    let sim = Sim::start(config).await?;
    eprintln!("simulator at {}; Ctrl-C stops it", sim.base_url());
    tokio::signal::ctrl_c().await?;
    sim.stop().await;
    Ok(())
}
