//! Where the data are: the operator's PostgreSQL, or one of Weir's own in the data folder.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use embedded::{Binaries, Cluster, DATABASE, Durability, EmbeddedError, Options};
use secrecy::{ExposeSecret, SecretString};

use crate::config::Config;
use crate::failure::Failure;

/// The embedded database's folder within the data folder.
const FOLDER: &str = "postgres";
/// Where a running Weir leaves the address of its embedded database, for commands beside it.
const ADDRESS: &str = "postgres.url";

/// An address, and the server behind it where it is Weir's own.
#[derive(Debug)]
pub struct Store {
    url: SecretString,
    own: Option<Own>,
}

#[derive(Debug)]
struct Own {
    cluster: Cluster,
    address: PathBuf,
}

impl Store {
    /// Uses the operator's database, or starts the embedded one.
    ///
    /// # Errors
    /// [`Failure::Missing`] with one sentence that says what to do.
    pub async fn open(config: &Config) -> Result<Self, Failure> {
        if let Some(url) = &config.database_url {
            return Ok(Self { url: url.clone(), own: None });
        }
        let (data_dir, bin) = (config.data_dir.clone(), config.pg_bin.clone());
        blocking(move || start(&data_dir, bin.as_deref())).await?.map_err(Failure::missing)
    }

    /// As [`Store::open`], or the embedded database of a Weir that runs already: for commands that
    /// only read or write a few rows.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub async fn join(config: &Config) -> Result<Self, Failure> {
        match Self::open(config).await {
            Err(Failure::Missing(error)) if is_in_use(&error) => {
                let address = config.data_dir.join(ADDRESS);
                match fs::read_to_string(address) {
                    Ok(url) => Ok(Self { url: url.trim().into(), own: None }),
                    Err(_) => Err(Failure::Missing(error)),
                }
            }
            other => other,
        }
    }

    /// Where the database is. It holds the password.
    #[must_use]
    pub const fn url(&self) -> &SecretString {
        &self.url
    }

    /// Stops the embedded database, when there is one.
    ///
    /// # Errors
    /// [`Failure::Failed`] when it cannot be stopped.
    pub async fn close(self) -> Result<(), Failure> {
        let Some(Own { cluster, address }) = self.own else { return Ok(()) };
        // It is written anew at each start.
        let _ = fs::remove_file(address);
        let stopped = blocking(move || cluster.stop()).await?;
        stopped.map_err(|error| Failure::Failed(error.into()))
    }
}

fn start(data_dir: &Path, bin: Option<&Path>) -> Result<Store, EmbeddedError> {
    let binaries = Binaries::find(bin)?;
    let options =
        Options { data_dir: data_dir.join(FOLDER), binaries, durability: Durability::Kept };
    let cluster = Cluster::start(options)?;
    let url = cluster.url(DATABASE);
    let address = data_dir.join(ADDRESS);
    if let Err(error) = write_secret(&address, url.expose_secret()) {
        // Commands beside this process will say that the folder is in use; nothing else needs it.
        tracing::warn!(%error, "the address of the embedded database could not be left behind");
    }
    Ok(Store { url, own: Some(Own { cluster, address }) })
}

/// Writes a file that only this user may read.
pub(crate) fn write_secret(path: &Path, text: &str) -> std::io::Result<()> {
    // A file that is there keeps its mode, so it is made anew.
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    writeln!(file, "{text}")?;
    file.sync_all()
}

fn is_in_use(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref::<EmbeddedError>(), Some(EmbeddedError::InUse { .. }))
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Failure::Failed(anyhow::Error::new(error)))
}
