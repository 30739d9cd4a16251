//! From settings to a process that serves, and back: built in this order, ended in the other.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use gateway::Gateway;
use ledger::{Ledger, WriterConfig};
use limiter::{Admission, PostgresEngine};
use sqlx::PgPool;
use tenants::directory::Directory;
use tenants::password::Passwords;
use tenants::plan;
use tokio::net::TcpListener;
use tokio::time::timeout;
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
use crate::{database, http, jobs, key_file, metrics_listener, setup};

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
    /// Ends calls as interrupted.
    cut: CancellationToken,
    /// The listeners.
    listening: TaskTracker,
    /// Metered calls, each until it is in the books.
    calls: TaskTracker,
    /// The writer of the books. It ends when its last handle is gone.
    writing: TaskTracker,
    /// The directory's ear and the timetable.
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
            Ok(built) => Ok(built.running(store)),
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
        if config.redis_url.is_some() {
            tracing::warn!("REDIS_URL is set, but this version admits through PostgreSQL only");
        }
        let clock = Clock::default();
        let [calls, writing, background, listening] = std::array::from_fn(|_| TaskTracker::new());
        let (cut, end_background) = (CancellationToken::new(), CancellationToken::new());

        let directory = Directory::load(&pool, Arc::clone(&sealer))
            .await
            .context("cannot read the configuration")
            .map_err(Failure::Missing)?;
        let directory = Arc::new(directory);
        let desk = Desk { directory: Some(Arc::clone(&directory)), ..Desk::on(pool.clone()) };
        let desk = Desk { clock: clock.clone(), ..desk };
        let ledger = Ledger::start(pool.clone(), &writing, WriterConfig::default());
        let engine = PostgresEngine::new(pool.clone(), calls.clone());
        let limiter: Arc<dyn Admission> = Arc::new(engine.clone());
        let gateway = Gateway::new(
            Arc::clone(&directory),
            Arc::clone(&limiter),
            ledger.clone(),
            calls.clone(),
            cut.clone(),
            clock.for_gateway(config.test_clock),
        );

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

        background.spawn(hear(weir.clone(), end_background.clone()));
        background.spawn(jobs::run(weir.clone(), engine, end_background.clone()));
        let stop = Stop::default();
        metrics_listener::start(&weir, &listening, &stop).await?;
        let edge = Edge::new(http::router(&weir), weir.clock.clone());
        let limits = Limits::public(weir.config.keep_alive, listen::raise_open_files());
        listening.spawn(listen::serve(listener, edge, limits, stop.clone()));
        setup::announce(&weir).await?;
        Ok(Built {
            weir,
            address,
            stop,
            cut,
            listening,
            calls,
            writing,
            background,
            end_background,
        })
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

    /// Ends it: not ready, nothing new, calls may end, the rest is cut and settled, all is
    /// written, the store is closed.
    ///
    /// # Errors
    /// [`Failure::Failed`] when something could not be ended in time; all else was ended.
    pub async fn stop(self) -> Result<(), Failure> {
        let Self { weir, store, stop, cut, listening, calls, writing, background, .. } = self;
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
        self.end_background.cancel();
        background.close();
        background.wait().await;
        weir.desk.tasks.close();
        weir.desk.tasks.wait().await;
        if let Err(error) = weir.last_used.write(&weir.pool).await {
            tracing::warn!(%error, "when keys were last used is not all written");
        }
        let pool = weir.pool.clone();
        // The last handle on the books goes with the parts.
        drop(weir);
        writing.close();
        let flushed = timeout(FLUSH_WAIT, writing.wait()).await;
        pool.close().await;
        store.close().await?;
        flushed.context("the books could not be written to the end in time")?;
        tracing::info!("stopped: all is settled and written");
        Ok(())
    }
}

/// A process that serves, without the store it stands on.
struct Built {
    weir: Weir,
    address: SocketAddr,
    stop: Stop,
    cut: CancellationToken,
    listening: TaskTracker,
    calls: TaskTracker,
    writing: TaskTracker,
    background: TaskTracker,
    end_background: CancellationToken,
}

impl Built {
    fn running(self, store: Store) -> Running {
        let Self { weir, address, stop, cut, listening, calls, writing, .. } = self;
        let Self { background, end_background, .. } = self;
        Running {
            weir,
            address,
            store,
            stop,
            cut,
            listening,
            calls,
            writing,
            background,
            end_background,
        }
    }
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

/// Keeps the directory new.
async fn hear(weir: Weir, cancel: CancellationToken) {
    weir.directory.run(weir.pool.clone(), cancel).await;
}
