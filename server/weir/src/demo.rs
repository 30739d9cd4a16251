//! `weir demo`: a Weir to look around in, with a private database, simulated providers, made-up history, live traffic.

mod facts;
mod fresh;
mod traffic;

use std::io::{IsTerminal, Write, stderr, stdout};
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use sim::{Pace, Sim, SimConfig};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::facts::Facts;
pub use self::traffic::{Caller, callers, traffic};
use crate::boot::Running;
use crate::clock::Clock;
use crate::commands::say;
use crate::config::{Config, Environment, Flags, Source};
use crate::failure::Failure;
use crate::seed::{self, DemoFacts, DemoSecrets, Progress};
use crate::store::Store;
use crate::{database, key_file, logging, shutdown};

/// The demonstration's folder within the data folder, apart from what is served in earnest.
const FOLDER: &str = "demo";
/// Its passwords and keys within that.
const SECRETS: &str = "demo-secrets.json";
/// Connections while the data are written: one writes, one learns.
const SEED_CONNECTIONS: u32 = 2;
/// Answers that look alive: a short wait, then some twenty-five frames a second.
const PACE: Pace =
    Pace { first_byte: Duration::from_millis(220), frame: Duration::from_millis(40) };
/// What the simulator's words and the live traffic are drawn from.
const SEED: u64 = 20_261_130;
/// How often progress is told where it cannot be written over.
const TOLD_EVERY: Duration = Duration::from_secs(2);
/// Where people say that they want no colours.
const NO_COLOR: &str = "NO_COLOR";

/// What `demo` takes.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  weir demo\n  weir demo --fresh   (forget what the last one made)\n  \
                  weir demo --no-traffic"
)]
pub struct Args {
    /// Start over with an empty database.
    #[arg(long)]
    fresh: bool,
    /// Make no calls: only show what is there.
    #[arg(long)]
    no_traffic: bool,
    #[command(flatten)]
    flags: Flags,
}

/// Starts the simulator and a Weir on a private database, and serves until a signal.
///
/// # Errors
/// As `weir serve`, and when the database is somebody else's.
pub async fn run(args: Args, environment: &Environment) -> Result<(), Failure> {
    let config = config(args.flags, environment)?;
    logging::start(&config);
    let stop = shutdown::on_signal()?;
    let store = match args.fresh {
        true => fresh::open(&config).await?,
        false => Store::open(&config).await?,
    };
    let show = Show { colour: stdout().is_terminal() && environment.get(NO_COLOR).is_none() };
    let shown = on(&config, &store, show, !args.no_traffic, &stop).await;
    let closed = store.close().await;
    shown.and(closed)
}

/// How the facts are shown.
#[derive(Debug, Clone, Copy)]
struct Show {
    colour: bool,
}

/// The settings: what nobody has said suits a demonstration.
fn config(flags: Flags, environment: &Environment) -> Result<Config, Failure> {
    let said = Config::explain(&flags, environment)?;
    let default = Source::Default.to_string();
    let open = |key: &str| said.iter().any(|line| line.key == key && line.source == default);
    let mut flags = flags;
    if open("log_level") {
        // The facts are what is to be read, not a line for each call.
        flags = flags.with("log-level", "warn");
    }
    if open("metrics_bind") {
        flags = flags.with("metrics-bind", "off");
    }
    let mut config = Config::load(&flags, environment)?;
    if open("bind") && TcpListener::bind(config.bind).is_err() {
        // Something else is there: any free port does.
        config.bind = SocketAddr::new(config.bind.ip(), 0);
    }
    config.data_dir = config.data_dir.join(FOLDER);
    Ok(config)
}

async fn on(
    config: &Config,
    store: &Store,
    show: Show,
    with_traffic: bool,
    stop: &CancellationToken,
) -> Result<(), Failure> {
    let sim_config = SimConfig { seed: SEED, pace: PACE, ..SimConfig::default() };
    let sim = Sim::start(sim_config).await.map_err(Failure::missing)?;
    let preparing = Box::pin(prepare(config, store, &sim));
    let shown = match stop.run_until_cancelled(preparing).await {
        Some(Ok(prepared)) => {
            Box::pin(perform(config, store, show, with_traffic, prepared, stop)).await
        }
        Some(Err(failure)) => Err(failure),
        // Stopped while the data were being made: what was written is rolled back.
        None => Ok(()),
    };
    sim.stop().await;
    shown
}

/// The data, and what opens them.
struct Prepared {
    facts: DemoFacts,
    secrets: DemoSecrets,
}

/// Brings the schema up to date and makes the data, unless they are there.
async fn prepare(config: &Config, store: &Store, sim: &Sim) -> Result<Prepared, Failure> {
    let sealer = key_file::sealer(config)?;
    let file = config.data_dir.join(SECRETS);
    let secrets = DemoSecrets::keep(&file).map_err(Failure::missing)?;
    database::migrate(store.url()).await?;
    let pool = database::open(store.url(), SEED_CONNECTIONS).await?;
    let now = Clock::default().now();
    let mut teller = Teller::new();
    let facts =
        seed::demo(&pool, &sealer, &secrets, now, &sim.base_url(), |at| teller.tell(at)).await;
    teller.end();
    pool.close().await;
    let facts = facts.map_err(Failure::missing)?;
    Ok(Prepared { facts, secrets })
}

/// Serves, shows the facts, and makes calls until it is stopped.
async fn perform(
    config: &Config,
    store: &Store,
    show: Show,
    with_traffic: bool,
    prepared: Prepared,
    stop: &CancellationToken,
) -> Result<(), Failure> {
    let Prepared { facts, secrets } = prepared;
    // The database is up already: the process uses it as it would use an operator's own.
    let serving = Config { database_url: Some(store.url().clone()), ..config.clone() };
    let running = Running::start(serving).await?;
    let base_url = format!("http://{}", running.address());
    let shown = Facts {
        demo: &facts,
        secrets: &secrets,
        public_url: running.weir().public_url.to_string(),
        data: match &config.database_url {
            Some(_) => "in the database of DATABASE_URL".to_owned(),
            None => config.data_dir.display().to_string(),
        },
        with_traffic,
        colour: show.colour,
    };
    let told = say(&shown.to_string());
    let calling = TaskTracker::new();
    if with_traffic && told.is_ok() {
        let callers = callers(&secrets);
        let stop = stop.clone();
        calling.spawn(async move { traffic(&base_url, callers, SEED, stop).await });
    }
    if told.is_ok() {
        stop.cancelled().await;
    }
    calling.close();
    calling.wait().await;
    let stopped = running.stop().await;
    told.and(stopped)
}

/// Tells how far the data are, on the error output: written over on a terminal, line by line elsewhere.
struct Teller {
    terminal: bool,
    told: Duration,
    open: bool,
}

impl Teller {
    fn new() -> Self {
        Self { terminal: stderr().is_terminal(), told: Duration::ZERO, open: false }
    }

    fn tell(&mut self, at: Progress) {
        let (done, days) = at.days;
        if !self.terminal && done < days && at.elapsed.saturating_sub(self.told) < TOLD_EVERY {
            return;
        }
        self.told = at.elapsed;
        self.open = true;
        let text = format!(
            "Making up history: {done} of {days} days, {} calls, {} s",
            at.events,
            at.elapsed.as_secs()
        );
        let mut out = stderr().lock();
        // Where nobody reads it, nothing is lost.
        let _ = match self.terminal {
            true => write!(out, "\r{text}").and_then(|()| out.flush()),
            false => writeln!(out, "{text}"),
        };
    }

    /// Ends the line that was written over.
    fn end(&self) {
        if self.open && self.terminal {
            let _ = writeln!(stderr());
        }
    }
}
