//! A folder for each test, and SQL by `psql`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use embedded::{Binaries, Cluster, DATABASE, Durability, Options};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid};
use secrecy::ExposeSecret;

/// Enough for any step of a test on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A folder that is gone when the test ends. It lies where every user may enter, for as root the
/// server is another user.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("weir-it-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Self(fs::canonicalize(path).unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// One whose data folder holds a database that was stopped in good order.
    pub(crate) fn with_database(name: &str) -> Self {
        // Making one takes seconds, so it is done once and copied.
        static MADE: OnceLock<Scratch> = OnceLock::new();
        let made = MADE.get_or_init(|| {
            sweep();
            let made = Self::new("made");
            start(&made.data()).stop().unwrap();
            made
        });
        let scratch = Self::new(name);
        let copy = Command::new("cp").arg("-a").args([made.data(), scratch.data()]).status();
        assert!(copy.unwrap().success());
        scratch
    }

    /// The data folder in it; not made yet unless there is a database.
    pub(crate) fn data(&self) -> PathBuf {
        self.0.join("data")
    }
}

/// Removes the copied databases of earlier runs: no destructor runs for what is made once.
fn sweep() {
    for entry in fs::read_dir(std::env::temp_dir()).unwrap().flatten() {
        let name = entry.file_name();
        let pid =
            name.to_str().and_then(|name| name.strip_prefix("weir-it-")?.strip_suffix("-made"));
        let pid = pid.and_then(|pid| pid.parse().ok());
        if pid.is_some_and(|pid| kill(process(pid), None).is_err()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn is_root() -> bool {
    Uid::effective().is_root()
}

pub(crate) fn binaries() -> Binaries {
    #[expect(clippy::disallowed_methods, reason = "a test is its own edge")]
    let chosen = std::env::var("WEIR_PG_BIN").ok().map(PathBuf::from);
    Binaries::find(chosen.as_deref()).unwrap()
}

pub(crate) fn options(data_dir: &Path, durability: Durability) -> Options {
    Options { data_dir: data_dir.to_path_buf(), binaries: binaries(), durability }
}

pub(crate) fn start(data_dir: &Path) -> Cluster {
    Cluster::start(options(data_dir, Durability::Kept)).unwrap()
}

/// Starts a cluster that must be refused, and gives the sentence.
pub(crate) fn refusal(options: Options) -> String {
    let sentence = Cluster::start(options).unwrap_err().to_string();
    assert!(!sentence.contains('\n'), "one line: {sentence}");
    sentence
}

/// Runs `statement` on the server's own database and gives the bare answer.
pub(crate) fn sql(cluster: &Cluster, statement: &str) -> String {
    sql_at(cluster.url(DATABASE).expose_secret(), statement).unwrap()
}

pub(crate) fn sql_at(url: &str, statement: &str) -> Result<String, String> {
    let psql = binaries().psql().unwrap_or_else(|| "psql".into());
    let mut command = Command::new(psql);
    command.args(["-XqAt", "-v", "ON_ERROR_STOP=1", "-d", url, "-c", statement]);
    let output = command.env("PGCONNECT_TIMEOUT", "10").output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

pub(crate) fn send(pid: u32, signal: Signal) {
    kill(process(pid), signal).unwrap();
}

/// Waits until no process has this number.
pub(crate) fn gone(pid: u32) -> bool {
    eventually(|| kill(process(pid), None).is_err())
}

pub(crate) fn eventually(mut true_now: impl FnMut() -> bool) -> bool {
    let started = Instant::now();
    while started.elapsed() < PATIENCE {
        if true_now() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

fn process(pid: u32) -> Pid {
    Pid::from_raw(i32::try_from(pid).unwrap())
}
