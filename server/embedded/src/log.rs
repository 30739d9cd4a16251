//! What the server says: its last lines in memory, all of it in a file that cannot fill the disk.
//!
//! A thread of the owner writes the file, not PostgreSQL's own collector: that one bounds a log by
//! time only, and its first lines, which say why a start failed, go elsewhere. When the owner is
//! killed the server goes on and its words are lost; the next owner starts it anew anyway.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ChildStderr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::run::until;

/// Size at which the log starts over; one older file is kept, so twice this is the most it takes.
/// Enough for the last hundred thousand lines or so.
const LOG_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// Lines kept in memory for error messages.
const LINES_KEPT: usize = 30;
/// Longer lines are cut into pieces: a statement in the log may be as long as its sender likes.
const LINE_BYTES_MAX: u64 = 16 * 1024;
/// How long to wait for the last words of a program that has ended; a child it left behind may
/// hold the pipe open for ever.
const LAST_WORDS_WAIT: Duration = Duration::from_secs(2);

/// The file that the server's words go to.
pub(crate) struct LogFile {
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl LogFile {
    /// Opens the log at `path` to add to it.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        // Failed statements stand in it, and with them values of tenants.
        let file = options.create(true).append(true).mode(0o600).open(path)?;
        let bytes = file.metadata()?.len();
        Ok(Self { path: path.to_path_buf(), file, bytes })
    }

    fn add(&mut self, line: &[u8]) -> io::Result<()> {
        if self.bytes >= LOG_BYTES_MAX {
            fs::rename(&self.path, self.path.with_extension("log.old"))?;
            *self = Self::open(&self.path)?;
        }
        self.file.write_all(line)?;
        self.bytes = self.bytes.saturating_add(u64::try_from(line.len()).unwrap_or(u64::MAX));
        Ok(())
    }
}

/// A listener on one program's error output.
#[derive(Debug)]
pub(crate) struct Words {
    last: Arc<Mutex<VecDeque<String>>>,
    listener: JoinHandle<()>,
}

impl Words {
    /// Starts to listen; every line also goes to `log` when there is one.
    pub(crate) fn listen(pipe: ChildStderr, log: Option<LogFile>) -> Self {
        let last = Arc::new(Mutex::new(VecDeque::new()));
        let shared = Arc::clone(&last);
        let listener = thread::spawn(move || listen(pipe, log, &shared));
        Self { last, listener }
    }

    /// The last lines so far.
    pub(crate) fn last(&self) -> String {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
    }

    /// The last lines of a program that has ended.
    pub(crate) fn finish(self) -> String {
        let _ = until(LAST_WORDS_WAIT, || Ok::<_, Infallible>(self.listener.is_finished()));
        self.last()
    }
}

fn listen(pipe: ChildStderr, mut log: Option<LogFile>, last: &Mutex<VecDeque<String>>) {
    let mut reader = BufReader::new(pipe);
    let mut line = Vec::new();
    loop {
        line.clear();
        match reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        if let Some(log) = &mut log {
            // A full disk must not stop the listening: the server would block on its own log.
            let _ = log.add(&line);
        }
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.len() >= LINES_KEPT {
            last.pop_front();
        }
        last.push_back(String::from_utf8_lossy(&line).trim_end().to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_starts_over_when_it_is_full_and_keeps_one_older_file() {
        let folder = std::env::temp_dir().join(format!("weir-embedded-log-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("postgres.log");
        let mut log = LogFile::open(&path).unwrap();
        let line = vec![b'x'; 1024 * 1024];
        for _ in 0..20 {
            log.add(&line).unwrap();
        }
        let size = |path: &Path| fs::metadata(path).unwrap().len();
        assert_eq!(size(&path), 4 * 1024 * 1024);
        assert_eq!(size(&path.with_extension("log.old")), LOG_BYTES_MAX);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
        fs::remove_dir_all(&folder).unwrap();
    }
}
