//! From settings to a process that serves, and back: built in this order, ended in the other.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use gateway::Gateway;
use ledger::{Ledger, WriterConfig};
use sqlx::PgPool;
use tenants::directory::Directory;
use tenants::password::Passwords;
use tenants::plan;
use tokio::net::TcpListener;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::clock::Clock;
use crate::config::{Config, PublicUrl};
use crate::deeds::Desk;
use crate::failure::Failure;
use crate::http::edge::Edge;
use crate::http::health::Probe;
use crate::http::site::Site;
use crate::listen::{self, Limits, Stop};
use crate::store::Store;
use crate::weir::{Parts, Weir};
use crate::{calibration, database, http, jobs, key_file, limits, metrics_listener, setup, spool};

/// How long calls that are over may take to get into the books at a stop, at least: what is left after that waits for
/// the next start.
const BOOKS_WAIT: Duration = Duration::from_secs(5);
/// How long calls that were cut may take to be settled and told.
const CUT_WAIT: Duration = Duration::from_secs(10);
/// How long the writer may take to write what is queued: some batches, and a slow disk.
const FLUSH_WAIT: Duration = Duration::from_secs(20);

/// A process that serves.
#[derive(Debug)]
pub struct Running {
    weir: Weir,
    address: SocketAddr,
    store: Store,
    stop: Stop,
    tasks: Tasks,
}

/// What runs, and what ends it.
#[derive(Debug, Clone, Default)]
struct Tasks {
    /// The listeners.
    listening: TaskTracker,
    /// Metered calls, each until its end is on record.
    calls: TaskTracker,
    /// Ends calls as interrupted.
    cut: CancellationToken,
    /// Calls that are over, each until it is in the books and settled.
    booking: TaskTracker,
    /// Leaves what is not in the books on record.
    halt: CancellationToken,
    /// The writer of the books. It ends when its last handle is gone.
    writing: TaskTracker,
    /// The directory's ear, the recovery and the timetable.
    background: TaskTracker,
    end_background: CancellationToken,
}

impl Running {
    /// Opens the store, brings the schema up to date, reads the configuration, and listens.
    ///
    /// # Errors
    /// [`Failure::Missing`] when something that Weir stands on is not there;
    /// [`Failure::Migration`] when the schema is another one.
    pub async fn start(config: Config) -> Result<Self, Failure> {
        let store = Store::open(&config).await?;
        match Self::on(config, &store).await {
            Ok(Built { weir, address, stop, tasks }) => {
                Ok(Self { weir, address, store, stop, tasks })
            }
            Err(failure) => {
                // What is wrong is told; a database that stops badly besides is in the log.
                if let Err(error) = store.close().await {
                    tracing::error!(%error, "the embedded database did not stop");
                }
                Err(failure)
            }
        }
    }

    async fn on(config: Config, store: &Store) -> Result<Built, Failure> {
        let sealer = Arc::new(key_file::sealer(&config)?);
        let pool = pool(&config, store).await?;
        let clock = Clock::default();
        let tasks = Tasks::default();
        let spool = spool::start(&config, &pool).await?;

        let directory = Directory::load(&pool, Arc::clone(&sealer))
            .await
            .context("cannot read the configuration")
            .map_err(Failure::Missing)?;
        let directory = Arc::new(directory);
        let desk = Desk { directory: Some(Arc::clone(&directory)), ..Desk::on(pool.clone()) };
        let desk = Desk { clock: clock.clone(), ..desk };
        let ledger = Ledger::start(pool.clone(), &tasks.writing, WriterConfig::default());
        let limiter = limits::limiter(&config, &pool, &clock, &tasks.booking)?;
        let gateway = Gateway::new(gateway::Parts {
            directory: Arc::clone(&directory),
            limiter: Arc::new(limiter.clone()),
            ledger: ledger.clone(),
            spool,
            tasks: tasks.calls.clone(),
            booking: tasks.booking.clone(),
            cut: tasks.cut.clone(),
            halt: tasks.halt.clone(),
            clock: clock.for_gateway(config.test_clock),
            fail_points: spool::fail_points(&config),
        });
        calibration::load(&gateway, &pool).await;

        let listener = bind(config.bind).await?;
        let address = listener.local_addr().context("no local address")?;
        let public_url =
            config.public_url.clone().unwrap_or_else(|| PublicUrl::of_listener(address));
        let site = Site::load(config.site_dir.as_deref()).map_err(Failure::Missing)?;
        let weir = Weir::new(Parts {
            config,
            public_url,
            clock,
            pool,
            directory,
            sealer,
            passwords: Passwords::new(),
            limiter,
            ledger,
            gateway,
            last_used: Default::default(),
            throttle: Default::default(),
            site,
            desk,
            draining: AtomicBool::new(false),
            probe: Probe::default(),
        });

        let stop = begin(&weir, &tasks, listener).await?;
        Ok(Built { weir, address, stop, tasks })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its parts.
    #[must_use]
    pub const fn weir(&self) -> &Weir {
        &self.weir
    }

    /// Ends it: not ready, nothing new, calls may end, the rest is cut, all is written and settled, the store is
    /// closed. What cannot be written in time is left on record for the next start.
    ///
    /// # Errors
    /// [`Failure::Failed`] when something could not be ended in time; all else was ended.
    pub async fn stop(self) -> Result<(), Failure> {
        let Self { weir, store, stop, tasks, .. } = self;
        let Tasks { listening, calls, cut, booking, halt, writing, background, .. } = tasks;
        let began = Instant::now();
        weir.draining.store(true, Ordering::Relaxed);
        stop.soft.cancel();
        listening.close();
        calls.close();
        let drained = async { tokio::join!(listening.wait(), calls.wait()) };
        if timeout(weir.config.drain, drained).await.is_err() {
            tracing::warn!(calls = calls.len(), "the time to drain is over: calls are cut");
            cut.cancel();
            let settled = timeout(CUT_WAIT, calls.wait()).await;
            stop.hard.cancel();
            listening.wait().await;
            if settled.is_err() {
                tracing::error!(calls = calls.len(), "calls are left to their time to live");
            }
        }
        let left = weir.config.drain.saturating_sub(began.elapsed()).max(BOOKS_WAIT);
        if timeout(left, weir.gateway.flushed()).await.is_err() {
            let depth = weir.gateway.spool().depth();
            tracing::warn!(?depth, "the books did not take all in time");
        }
        halt.cancel();
        booking.close();
        if timeout(CUT_WAIT, booking.wait()).await.is_err() {
            tracing::warn!("a store does not answer: holds are left to their time to live");
        }
        tasks.end_background.cancel();
        background.close();
        background.wait().await;
        weir.desk.tasks.close();
        weir.desk.tasks.wait().await;
        if let Err(error) = weir.last_used.write(&weir.pool).await {
            tracing::warn!(%error, "when keys were last used is not all written");
        }
        if let Err(error) = calibration::keep(&weir.gateway, &weir.pool).await {
            tracing::warn!(error = format!("{error:#}"), "what was learned of tokens is not kept");
        }
        let (pool, spool) = (weir.pool.clone(), weir.gateway.spool().clone());
        // The last handle on the books goes with the parts.
        drop(weir);
        writing.close();
        let flushed = timeout(FLUSH_WAIT, writing.wait()).await;
        pool.close().await;
        spool::close(spool).await;
        store.close().await?;
        match flushed {
            Ok(()) => tracing::info!("stopped"),
            // What it had not written is on record.
            Err(_) => tracing::warn!("stopped before the writer of the books did"),
        }
        Ok(())
    }
}

/// Starts everything that runs beside the calls, and then takes calls.
async fn begin(weir: &Weir, tasks: &Tasks, listener: TcpListener) -> Result<Stop, Failure> {
    begin_background(weir, tasks);
    let stop = Stop::default();
    metrics_listener::start(weir, &tasks.listening, &stop).await?;
    let edge = Edge::new(http::router(weir), weir.clock.clone());
    let limits = Limits::public(weir.config.keep_alive, listen::raise_open_files());
    tasks.listening.spawn(listen::serve(listener, edge, limits, stop.clone()));
    setup::announce(weir).await?;
    Ok(stop)
}

/// A process that serves, without the store it stands on.
struct Built {
    weir: Weir,
    address: SocketAddr,
    stop: Stop,
    tasks: Tasks,
}

/// Begins what goes on beside the calls.
fn begin_background(weir: &Weir, tasks: &Tasks) {
    let Tasks { background, end_background: end, .. } = tasks;
    background.spawn(hear(weir.clone(), end.clone()));
    background.spawn(recover(weir.gateway.clone(), end.clone()));
    if weir.config.spool.sync {
        background.spawn(spool::keep_synced(weir.gateway.spool().clone(), end.clone()));
    }
    background.spawn(hand_over(weir.clone(), end.clone()));
    background.spawn(jobs::run(weir.clone(), end.clone()));
}

/// The pool, on a schema that is this program's.
async fn pool(config: &Config, store: &Store) -> Result<PgPool, Failure> {
    if config.migrate {
        database::migrate(store.url()).await?;
    }
    let pool = database::open(store.url(), config.database_connections).await?;
    database::schema(&pool).await?.require()?;
    let plans = plan::insert_defaults(&pool).await.map_err(Failure::missing)?;
    if plans > 0 {
        tracing::info!(plans, "the plans that Weir brings are there");
    }
    Ok(pool)
}

async fn bind(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address}"))
        .map_err(Failure::Missing)
}

/// Writes what dead processes left on record into the books.
async fn recover(gateway: Gateway, cancel: CancellationToken) {
    gateway.keep_recovering(cancel).await;
}

/// Follows the authority over the limits, and gives the lease back at the end.
async fn hand_over(weir: Weir, cancel: CancellationToken) {
    weir.limiter.run(cancel).await;
    weir.limiter.close().await;
}

/// Keeps the directory new.
async fn hear(weir: Weir, cancel: CancellationToken) {
    weir.directory.run(weir.pool.clone(), cancel).await;
}
