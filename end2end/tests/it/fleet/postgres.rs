//! A PostgreSQL of the fleet's own, behind a line: killed without warning, and started again on the same data.

use std::time::{Duration, Instant};

use embedded::{Binaries, Cluster, DATABASE, Durability, Options};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use secrecy::ExposeSecret;
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;

use super::line::Line;
use crate::environment;
use crate::folder::Folder;

/// How long a killed server's own processes may take to be gone.
const GONE: Duration = Duration::from_secs(20);
/// How long the checks wait for a connection.
const ACQUIRE: Duration = Duration::from_secs(20);

/// The server. It is stopped when this is dropped.
#[derive(Debug)]
pub(crate) struct Postgres {
    cluster: Option<Cluster>,
    options: Options,
    pub(crate) line: Line,
    // Last: the server writes there until it has stopped.
    _folder: Folder,
}

impl Postgres {
    pub(crate) async fn start() -> Self {
        let folder = Folder::new();
        let options = Options {
            data_dir: folder.join("postgres"),
            binaries: Binaries::find(environment::pg_bin().as_deref()).unwrap(),
            // What was committed must be there after a kill.
            durability: Durability::Kept,
        };
        let cluster = tokio::task::block_in_place(|| Cluster::start(options.clone()).unwrap());
        let line = Line::to(cluster.port()).await;
        Self { cluster: Some(cluster), options, line, _folder: folder }
    }

    /// The address of its database, by the line.
    pub(crate) fn url(&self) -> String {
        let cluster = self.cluster.as_ref().expect("the server runs");
        let direct = cluster.url(DATABASE);
        let port = format!("127.0.0.1:{}", cluster.port());
        direct.expose_secret().replace(&port, &self.line.address().to_string())
    }

    /// A small pool for the checks, past the line.
    pub(crate) fn pool(&self) -> PgPool {
        let cluster = self.cluster.as_ref().expect("the server runs");
        let options = PgPoolOptions::new().max_connections(2).acquire_timeout(ACQUIRE);
        options.connect_lazy(cluster.url(DATABASE).expose_secret()).unwrap()
    }

    /// Ends it as a power cut would, but for the disk.
    pub(crate) fn kill(&mut self) {
        let Some(mut cluster) = self.cluster.take() else { return };
        let pid = cluster.pid().and_then(|pid| i32::try_from(pid).ok()).expect("a process");
        kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
        let began = Instant::now();
        while cluster.exited().is_none() {
            assert!(began.elapsed() < GONE, "the server does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Starts it again, on another port; the line leads there.
    pub(crate) fn start_again(&mut self) {
        let cluster = tokio::task::block_in_place(|| Cluster::start(self.options.clone()).unwrap());
        self.line.lead_to(cluster.port());
        self.cluster = Some(cluster);
    }
}
