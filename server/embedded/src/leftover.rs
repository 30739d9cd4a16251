//! A server that an owner killed with `kill -9` left behind.
//!
//! It is ended, not taken over: the next owner wants its own settings, its own programs and the
//! server's words, and ending it is as safe as any restart.

use std::fs;
use std::path::Path;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::EmbeddedError;
use crate::folder::Folder;
use crate::run::until;

/// Time for a clean stop, which writes all changed pages to the disk.
pub(crate) const STOP_WAIT: Duration = Duration::from_secs(120);
/// Time for a stop that writes nothing, and for helpers to notice that their server is gone.
pub(crate) const QUIT_WAIT: Duration = Duration::from_secs(10);

/// What a running server writes in its folder.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PidFile {
    pub(crate) pid: Pid,
    /// It takes connections.
    pub(crate) ready: bool,
}

impl PidFile {
    /// Reads `postmaster.pid` in `data`; `None` when it is missing or not yet complete.
    pub(crate) fn read(data: &Path) -> Option<Self> {
        Self::parse(&fs::read_to_string(data.join("postmaster.pid")).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        // A server in single-user mode writes its number with a minus sign.
        let pid = lines.next()?.trim().parse::<i32>().ok()?.checked_abs()?;
        // The eighth line is the state; until it is there, the server is not ready.
        let ready = lines.nth(6).is_some_and(|state| state.trim() == "ready");
        Some(Self { pid: Pid::from_raw(pid), ready })
    }
}

/// Ends what still runs in `folder`'s cluster, so that a new server can start there.
pub(crate) fn end(folder: &Folder) -> Result<(), EmbeddedError> {
    let data = folder.data();
    let file = PidFile::read(&data);
    let running = processes(&data, file.as_ref());
    if running.is_empty() {
        return forget_stranger(&data, file.as_ref());
    }
    let gone = || Ok::<_, EmbeddedError>(processes(&data, file.as_ref()).is_empty());
    let server = file.as_ref().map(|file| file.pid).filter(|pid| running.contains(pid));
    if let Some(server) = server {
        tracing::warn!(pid = %server, "stopping a database server that a killed process left");
        signal(server, Signal::SIGINT, &data)?;
    }
    if until(if server.is_some() { STOP_WAIT } else { QUIT_WAIT }, gone)? {
        return Ok(());
    }
    for harder in [Signal::SIGQUIT, Signal::SIGKILL] {
        for pid in processes(&data, file.as_ref()) {
            tracing::warn!(%pid, signal = %harder, "ending a process of an old database server");
            signal(pid, harder, &data)?;
        }
        if until(QUIT_WAIT, gone)? {
            return Ok(());
        }
    }
    Err(EmbeddedError::TooSlow {
        what: "stop the server that was left behind",
        seconds: STOP_WAIT.as_secs(),
        said: format!("none, process {running:?}"),
        log: folder.log(),
    })
}

/// Removes a pid file whose number now belongs to a process that has nothing to do with this
/// folder, for PostgreSQL would take it for another server. A number that nobody has is left to
/// PostgreSQL, whose own check for forgotten helpers reads that file.
fn forget_stranger(data: &Path, file: Option<&PidFile>) -> Result<(), EmbeddedError> {
    match file {
        Some(file) if kill(file.pid, None).is_ok() => {
            tracing::warn!(pid = %file.pid, "removing the pid file of a server that is gone");
            let path = data.join("postmaster.pid");
            fs::remove_file(&path).map_err(|error| EmbeddedError::io("remove", &path, error))
        }
        _ => Ok(()),
    }
}

fn signal(pid: Pid, signal: Signal, data: &Path) -> Result<(), EmbeddedError> {
    match kill(pid, signal) {
        Ok(()) | Err(nix::errno::Errno::ESRCH) => Ok(()),
        Err(errno) => Err(EmbeddedError::io("end the old server of", data, errno.into())),
    }
}

/// The processes of a server on `data`: all of them live in that folder.
#[cfg(target_os = "linux")]
fn processes(data: &Path, _file: Option<&PidFile>) -> Vec<Pid> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let lives_here = |proc: &Path| match fs::read_link(proc.join("cwd")) {
        Ok(folder) => folder == data,
        // In a container root may not see where another user's process lives; what it was started
        // with, everybody may.
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            let words = fs::read(proc.join("cmdline")).unwrap_or_default();
            let data = data.as_os_str().as_encoded_bytes();
            words.split(|byte| *byte == 0).any(|word| word == data)
        }
        Err(_) => false,
    };
    let pids = entries.flatten().filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse::<i32>().ok()?;
        lives_here(&entry.path()).then(|| Pid::from_raw(pid))
    });
    pids.collect()
}

/// Elsewhere the pid file has to be believed.
#[cfg(not(target_os = "linux"))]
fn processes(_data: &Path, file: Option<&PidFile>) -> Vec<Pid> {
    file.map(|file| file.pid).filter(|pid| kill(*pid, None).is_ok()).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_ready_when_its_pid_file_says_so() {
        let starting = "41\n/d\n1764460000\n5432\n\n127.0.0.1\n";
        let pid = Pid::from_raw(41);
        assert_eq!(PidFile::parse(starting), Some(PidFile { pid, ready: false }));
        let ready = format!("{starting}  1234  56\nready   \n");
        assert_eq!(PidFile::parse(&ready), Some(PidFile { pid, ready: true }));
        let stopping = format!("{starting}  1234  56\nstopping\n");
        assert_eq!(PidFile::parse(&stopping), Some(PidFile { pid, ready: false }));
        assert_eq!(PidFile::parse("-41\n/d\n").map(|file| file.pid), Some(pid));
        assert_eq!(PidFile::parse(""), None);
    }
}
