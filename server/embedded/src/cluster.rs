//! The private server: started, asked for its address, stopped.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use secrecy::{ExposeSecret, SecretString};

use crate::account::Account;
use crate::folder::Folder;
use crate::leftover::{self, PidFile, QUIT_WAIT, STOP_WAIT};
use crate::log::{LogFile, Words};
use crate::owner::Owner;
use crate::run::{scrubbed, until, wait};
use crate::{Binaries, EmbeddedError, SUPERUSER, initdb, settings};

/// A start after a crash reads all of the write-ahead log since the last checkpoint, at most one
/// gigabyte with the default settings.
const START_WAIT: Duration = Duration::from_secs(300);
/// A free port may be taken by somebody else before the server binds it.
const PORT_TRIES: u32 = 5;

/// What the data are worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Every commit is on the disk before it is answered. When the owner is killed the server runs
    /// on, and the next owner stops it in good order.
    Kept,
    /// For tests: fast, and nothing survives a crash. Where the system can do it, the server ends
    /// with the thread that started it, so start it from one that outlives it.
    Throwaway,
}

/// Which server to start.
#[derive(Debug, Clone)]
pub struct Options {
    /// The folder for the data, the log and the lock; made when it is missing.
    pub data_dir: PathBuf,
    /// The programs to use.
    pub binaries: Binaries,
    /// What the data are worth.
    pub durability: Durability,
}

/// A running server and the sole right to its data folder. Dropping it stops the server.
#[derive(Debug)]
pub struct Cluster {
    server: Option<Server>,
    password: SecretString,
    port: u16,
    // Last, so that the folder is free only when the server has stopped.
    _owner: Owner,
}

impl Cluster {
    /// Starts the server of `options.data_dir`; makes an empty database there the first time.
    ///
    /// Blocks until the server takes connections: about two seconds the first time, less than one
    /// later, up to five minutes after a crash under heavy load.
    ///
    /// # Errors
    /// One sentence each for: a folder in use, closed, or no folder; a full disk; data of another
    /// major version; programs that do not run; a server that does not come up.
    pub fn start(options: Options) -> Result<Self, EmbeddedError> {
        let folder = Folder::open(&options.data_dir)?;
        let owner = Owner::take(folder.root(), &folder.lock())?;
        let account = Account::pick()?;
        folder.sweep()?;
        let exists = folder.cluster().exists();
        let binaries = match exists {
            true => fitting(options.binaries, &folder)?,
            false => options.binaries,
        };
        folder.check_entry(&binaries, &account)?;
        match exists {
            true => leftover::end(&folder)?,
            false => initdb::create(&folder, &binaries, &account, options.durability)?,
        }
        let password = read_password(&folder)?;
        let (server, port) = Server::start(folder, &binaries, &account, options.durability)?;
        tracing::info!(port, pid = server.child.id(), "the private database server is ready");
        Ok(Self { server: Some(server), password, port, _owner: owner })
    }

    /// The address of `database` on this server, with the password in it.
    #[must_use]
    pub fn url(&self, database: &str) -> SecretString {
        let password = self.password.expose_secret();
        let port = self.port;
        let database = percent_encoded(database);
        SecretString::from(format!(
            "postgres://{SUPERUSER}:{password}@127.0.0.1:{port}/{database}?sslmode=disable"
        ))
    }

    /// The port on the loopback interface; another one at each start.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The number of the server's first process.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.server.as_ref().map(|server| server.child.id())
    }

    /// How the server ended, when it did so on its own.
    pub fn exited(&mut self) -> Option<ExitStatus> {
        self.server.as_mut().and_then(|server| server.child.try_wait().ok().flatten())
    }

    /// Stops the server: open transactions are rolled back, all data are written out.
    ///
    /// # Errors
    /// When it cannot be ended at all; a server that is only slow is ended the hard way after two
    /// minutes, which loses nothing that was committed.
    pub fn stop(mut self) -> Result<(), EmbeddedError> {
        self.server.take().map_or(Ok(()), Server::stop)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some(Err(error)) = self.server.take().map(Server::stop) {
            tracing::error!(%error, "the private database server did not stop");
        }
    }
}

/// Chooses programs that can read the data in `folder`.
fn fitting(binaries: Binaries, folder: &Folder) -> Result<Binaries, EmbeddedError> {
    let data = folder.data();
    let file = data.join("PG_VERSION");
    let found = match fs::read_to_string(&file) {
        Ok(text) => text.trim().to_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let what = "PG_VERSION is missing".to_owned();
            return Err(EmbeddedError::Damaged { folder: data, what });
        }
        Err(error) => return Err(EmbeddedError::io("read", &file, error)),
    };
    if found == binaries.major().to_string() {
        return Ok(binaries);
    }
    // A machine that got a newer PostgreSQL usually still has the one that wrote the data.
    let other = if binaries.chosen() { None } else { Binaries::of_major(&found) };
    other.ok_or_else(|| EmbeddedError::WrongMajor {
        folder: data,
        found,
        bin: binaries.bin().to_path_buf(),
        major: binaries.major(),
    })
}

fn read_password(folder: &Folder) -> Result<SecretString, EmbeddedError> {
    let path = folder.password();
    match fs::read_to_string(&path) {
        Ok(text) => Ok(SecretString::from(text.trim())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(EmbeddedError::Damaged {
            folder: folder.cluster(),
            what: "the file with the password is missing".to_owned(),
        }),
        Err(error) => Err(EmbeddedError::io("read", &path, error)),
    }
}

/// Any text as one segment of an address.
fn percent_encoded(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(encode).collect()
}

/// The server's first process.
#[derive(Debug)]
struct Server {
    child: Child,
    words: Words,
    folder: Folder,
    durability: Durability,
}

impl Server {
    fn start(
        folder: Folder,
        binaries: &Binaries,
        account: &Account,
        durability: Durability,
    ) -> Result<(Self, u16), EmbeddedError> {
        let mut tries = 0;
        loop {
            tries += 1;
            let port = free_port().map_err(|error| {
                EmbeddedError::io("find a port on the loopback interface for", folder.root(), error)
            })?;
            let server = Self::launch(folder.clone(), binaries, account, durability, port)?;
            match server.until_ready()? {
                Ok(server) => return Ok((server, port)),
                Err(said) if tries < PORT_TRIES && said.contains("could not bind") => {}
                // A helper of a killed server is still busy; it is gone when its work is done.
                Err(said)
                    if tries < PORT_TRIES && said.contains("pre-existing shared memory block") =>
                {
                    std::thread::sleep(QUIT_WAIT / PORT_TRIES);
                }
                Err(said) => return Err(EmbeddedError::said("postgres", folder.root(), &said)),
            }
        }
    }

    fn launch(
        folder: Folder,
        binaries: &Binaries,
        account: &Account,
        durability: Durability,
        port: u16,
    ) -> Result<Self, EmbeddedError> {
        let log = folder.log();
        let file = LogFile::open(&log).map_err(|error| EmbeddedError::io("write", &log, error))?;
        let mut command = match durability {
            Durability::Kept => binaries.command("postgres", account),
            Durability::Throwaway => ending_with_its_parent(binaries, account),
        };
        command.arg("-D").arg(folder.data()).args(settings::arguments(durability, port));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        // Ctrl-C goes to the whole group: the server must outlive what Weir still has to write.
        command.process_group(0);
        let failed = |source| EmbeddedError::Io {
            doing: "run",
            path: binaries.bin().join("postgres"),
            source,
        };
        let mut child = command.spawn().map_err(failed)?;
        let Some(pipe) = child.stderr.take() else {
            return Err(failed(io::ErrorKind::BrokenPipe.into()));
        };
        Ok(Self { child, words: Words::listen(pipe, Some(file)), folder, durability })
    }

    /// Waits for the server to take connections; gives back its words when it ended instead.
    fn until_ready(mut self) -> Result<Result<Self, String>, EmbeddedError> {
        let data = self.folder.data();
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap_or(i32::MAX));
        let mut exited = None;
        let ready = until(START_WAIT, || {
            exited = self.child.try_wait().map_err(|e| EmbeddedError::io("watch", &data, e))?;
            let file = PidFile::read(&data);
            let ready = file.is_some_and(|file| file.pid == pid && file.ready);
            Ok::<_, EmbeddedError>(ready || exited.is_some())
        })?;
        if exited.is_some() {
            return Ok(Err(self.words.finish()));
        }
        if ready {
            return Ok(Ok(self));
        }
        let error = self.too_slow("start", START_WAIT);
        self.stop()?;
        Err(error)
    }

    fn stop(mut self) -> Result<(), EmbeddedError> {
        let gently: &[(Signal, Duration)] = match self.durability {
            Durability::Kept => &[(Signal::SIGINT, STOP_WAIT)],
            Durability::Throwaway => &[],
        };
        let then = [(Signal::SIGQUIT, QUIT_WAIT), (Signal::SIGKILL, QUIT_WAIT)];
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap_or(i32::MAX));
        for (signal, limit) in gently.iter().chain(&then) {
            let watch = |error| EmbeddedError::io("watch", self.folder.root(), error);
            // Asked first: the number of a child that was waited for may be somebody else's.
            if self.child.try_wait().map_err(watch)?.is_some() {
                break;
            }
            // It may end between the two lines, and is then still there to be waited for.
            let _ = kill(pid, *signal);
            if wait(&mut self.child, *limit).map_err(watch)?.is_some() {
                break;
            }
            tracing::warn!(%signal, seconds = limit.as_secs(), "the database server is slow to stop");
        }
        match self.child.try_wait() {
            Ok(Some(_)) => {
                self.words.finish();
                Ok(())
            }
            _ => Err(self.too_slow("stop", STOP_WAIT)),
        }
    }

    fn too_slow(&self, what: &'static str, waited: Duration) -> EmbeddedError {
        let said = self.words.last();
        EmbeddedError::TooSlow {
            what,
            seconds: waited.as_secs(),
            said: said.lines().last().unwrap_or("none").to_owned(),
            log: self.folder.log(),
        }
    }
}

/// `postgres` wrapped so that the system ends it when the thread that started it ends; plain
/// `postgres` where util-linux is not there to do that.
fn ending_with_its_parent(binaries: &Binaries, account: &Account) -> Command {
    let postgres = binaries.bin().join("postgres");
    let wrapped = || {
        let mut command = scrubbed("setpriv".as_ref());
        account.apply(&mut command);
        // SIGQUIT: the server ends its helpers and gives back its shared memory, writing nothing.
        command.args(["--pdeathsig", "QUIT", "--"]).arg(&postgres);
        command
    };
    match wrapped().arg("-V").output() {
        Ok(output) if output.status.success() => wrapped(),
        _ => binaries.command("postgres", account),
    }
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_name_cannot_change_the_rest_of_the_address() {
        assert_eq!(percent_encoded("weir_1"), "weir_1");
        assert_eq!(percent_encoded("a?host=b/ä"), "a%3Fhost%3Db%2F%C3%A4");
    }
}
