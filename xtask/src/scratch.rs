//! A folder for one run of the tests: nothing in it, and nothing that lives in it, outlasts the run.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, thread};

use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Start of the folders' names; the number of the process that made it follows.
const NAME: &str = "weir-test-";
/// Room that a folder in memory must have: the databases of all tests, a browser's profile.
const MEMORY_BYTES_MIN: u64 = 4 << 30;
/// How long killed processes may take to be gone.
const GONE_WAIT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(20);

/// The folder of this run. It is not in `target/`: as root the database server is another user, who
/// may not enter root's home.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// Makes the folder, in memory where there is room, and removes those of runs that were killed.
    pub(crate) fn new() -> Result<Self> {
        let parents: Vec<PathBuf> = in_memory().into_iter().chain([env::temp_dir()]).collect();
        parents.iter().for_each(|parent| sweep(parent));
        let chosen = env::var_os("TMPDIR").is_some();
        let parent = if chosen { parents.last() } else { parents.first() };
        let folder = parent.context("no folder for the tests")?;
        let folder = folder.join(format!("{NAME}{}", std::process::id()));
        let scratch = Self(folder);
        // As in the machine's own folder for such things, every user may make files of his own.
        for (path, mode) in [(scratch.0.clone(), 0o711), (scratch.for_tests(), 0o1777)] {
            fs::create_dir(&path)
                .and_then(|()| fs::set_permissions(&path, Permissions::from_mode(mode)))
                .with_context(|| format!("cannot make {}", path.display()))?;
        }
        Ok(scratch)
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.0
    }

    /// Where the tests put what they need for a while.
    pub(crate) fn for_tests(&self) -> PathBuf {
        self.0.join("tmp")
    }
}

impl Scratch {
    /// Moves what failed tests kept for their reader to `folder`, in place of the last run's.
    pub(crate) fn keep(&self, folder: &Path) -> Result<bool> {
        let _ = fs::remove_dir_all(folder);
        if fs::read_dir(self.for_tests())?.next().is_none() {
            return Ok(false);
        }
        // Another file system perhaps, so this is a copy; owners are kept, the server's too.
        let copied = Command::new("cp").arg("-a").arg(self.for_tests()).arg(folder).status()?;
        Ok(copied.success())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

/// The folder in memory, when it has room and programs may be run in it.
#[cfg(target_os = "linux")]
fn in_memory() -> Option<PathBuf> {
    use nix::sys::statvfs::{FsFlags, statvfs};
    let folder = Path::new("/dev/shm");
    let stat = statvfs(folder).ok()?;
    let room = stat.blocks_available().saturating_mul(stat.fragment_size());
    let fit = room >= MEMORY_BYTES_MIN && !stat.flags().contains(FsFlags::ST_NOEXEC);
    fit.then(|| folder.to_path_buf())
}

#[cfg(not(target_os = "linux"))]
fn in_memory() -> Option<PathBuf> {
    None
}

fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(NAME)?.parse::<i32>().ok());
        if pid.is_some_and(|pid| kill(Pid::from_raw(pid), None).is_err()) {
            remove(&entry.path());
        }
    }
}

/// Removes a folder and ends what lives there: servers of tests that could not stop them.
fn remove(folder: &Path) {
    let started = Instant::now();
    while started.elapsed() < GONE_WAIT {
        let inhabitants = inhabitants(folder);
        for pid in &inhabitants {
            let _ = kill(*pid, Signal::SIGKILL);
        }
        if inhabitants.is_empty() {
            break;
        }
        thread::sleep(POLL);
    }
    let _ = fs::remove_dir_all(folder);
}

/// The processes whose current folder is in `folder`; none where the system does not tell.
fn inhabitants(folder: &Path) -> Vec<Pid> {
    let Ok(folder) = fs::canonicalize(folder) else { return Vec::new() };
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let lives_there = entries.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse::<i32>().ok()?;
        let home = fs::read_link(entry.path().join("cwd")).ok()?;
        home.starts_with(&folder).then(|| Pid::from_raw(pid))
    });
    lives_there.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parent(name: &str) -> PathBuf {
        let parent = env::temp_dir().join(format!("weir-xtask-{name}-{}", std::process::id()));
        fs::create_dir_all(&parent).unwrap();
        parent
    }

    #[test]
    fn folders_of_dead_runs_are_swept_and_those_of_running_ones_are_not() {
        let parent = parent("sweep");
        // Linux gives no process a number as high as this one.
        let dead = parent.join(format!("{NAME}{}", i32::MAX));
        let alive = parent.join(format!("{NAME}{}", std::process::id()));
        let other = parent.join("weir-test-notes");
        for folder in [&dead, &alive, &other] {
            fs::create_dir_all(folder).unwrap();
        }
        sweep(&parent);
        assert!(!dead.exists() && alive.exists() && other.exists());
        fs::remove_dir_all(&parent).unwrap();
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn what_lives_in_a_folder_ends_with_it_and_nothing_else_does() {
        let parent = parent("inhabitants");
        let folder = parent.join("in/deeper");
        fs::create_dir_all(&folder).unwrap();
        let sleep = |folder: &Path| Command::new("sleep").arg("600").current_dir(folder).spawn();
        let (mut inside, mut outside) = (sleep(&folder).unwrap(), sleep(&parent).unwrap());
        // A child that was not waited for still counts as a process, but lives nowhere.
        remove(&parent.join("in"));
        assert!(!parent.join("in").exists());
        assert!(!inside.wait().unwrap().success());
        assert!(outside.try_wait().unwrap().is_none());
        outside.kill().unwrap();
        outside.wait().unwrap();
        fs::remove_dir_all(&parent).unwrap();
    }
}
