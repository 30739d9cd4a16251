//! What was served: the other side of every account that Weir keeps.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::watch;

use crate::dialect::{Dialect, json_text};
use crate::plan::Tokens;

/// Entries kept in memory: more than any one test makes, some 30 MB at most. The file has all.
pub const MAX_ENTRIES_IN_MEMORY: usize = 16_384;

/// How an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// Every byte was handed to the connection.
    Complete,
    /// A script (or the simulator's own stop) ended it cleanly before its time.
    Cut,
    /// A script reset the connection.
    Reset,
    /// The caller closed the connection first.
    ClientGone,
    /// Answered with an error status.
    ErrorStatus,
    /// A 2xx answer that carried the dialect's error instead of its end.
    ErrorFrame,
    /// A script fell silent, until the caller left or the longest silence was over.
    Hang,
}

/// A credential the caller sent, by its last characters only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credential {
    /// The header, or `query:key`.
    pub via: Cow<'static, str>,
    /// Its last four characters.
    pub last4: String,
}

/// One request, as the simulator served it. One line of the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Served {
    /// Place in the journal, from 1, in order of ending.
    pub sequence: u64,
    /// Unix milliseconds when the head of the request had arrived.
    pub received_at_ms: u64,
    /// Unix milliseconds when it ended.
    pub ended_at_ms: u64,
    /// The wire it spoke.
    pub dialect: Dialect,
    /// The route's name, such as `chat.completions` or `generateContent`.
    pub route: Cow<'static, str>,
    /// The model asked for; empty when the request was not read.
    pub model: String,
    /// Asked for as a stream.
    pub stream: bool,
    /// Sent as `x-request-id` or `request-id`.
    pub upstream_request_id: String,
    /// The id in the answer's body; empty when it has none.
    pub response_id: String,
    /// The caller's `x-weir-request-id` or `weir-request-id`.
    pub weir_request_id: Option<String>,
    /// What was generated (and would be billed) until the end.
    pub tokens: Tokens,
    /// The same in the dialect's own words; `None` where nothing is billed.
    pub usage: Option<Value>,
    /// The caller was told exactly these figures.
    pub usage_stated: bool,
    /// Frames handed to the connection; a plain answer is one.
    pub frames_sent: u64,
    /// Body bytes handed to the connection.
    pub bytes_sent: u64,
    /// How it ended.
    pub end: End,
    /// HTTP status; 0 when no head was sent.
    pub status: u16,
    /// Every credential the request carried.
    pub credentials: Vec<Credential>,
    /// `accept-encoding` as it came.
    pub accept_encoding: Option<String>,
    /// Names of all request headers, to see what a gateway let through.
    pub header_names: String,
    /// The script it followed.
    pub script: Option<String>,
}

/// The journal: bounded in memory, whole in the file.
#[derive(Debug)]
pub(crate) struct Journal {
    inner: Mutex<Inner>,
    count: watch::Sender<u64>,
}

#[derive(Debug)]
struct Inner {
    recent: VecDeque<Served>,
    file: Option<BufWriter<File>>,
    count: u64,
    write_errors: u64,
}

impl Journal {
    /// Opens the file for appending, when there is one.
    pub(crate) fn open(path: Option<&Path>) -> io::Result<Self> {
        let file = match path {
            Some(path) => Some(OpenOptions::new().create(true).append(true).open(path)?),
            None => None,
        };
        let inner = Inner {
            recent: VecDeque::new(),
            file: file.map(BufWriter::new),
            count: 0,
            write_errors: 0,
        };
        Ok(Self { inner: Mutex::new(inner), count: watch::Sender::new(0) })
    }

    /// Numbers the entry and writes it down.
    pub(crate) fn append(&self, mut served: Served) {
        let count = {
            let mut inner = self.lock();
            inner.count += 1;
            served.sequence = inner.count;
            if let Some(file) = &mut inner.file {
                // The line goes out at once: the reader may be another process, and this one may
                // be killed. A short append to a file is fast enough for the task it blocks.
                let line = json_text(&served);
                let written = writeln!(file, "{line}").and_then(|()| file.flush());
                if let Err(error) = written {
                    inner.write_errors += 1;
                    tracing::error!(%error, sequence = served.sequence, "journal line lost");
                }
            }
            if inner.recent.len() >= MAX_ENTRIES_IN_MEMORY {
                inner.recent.pop_front();
            }
            inner.recent.push_back(served);
            inner.count
        };
        self.count.send_if_modified(|shown| {
            let newer = count > *shown;
            *shown = count.max(*shown);
            newer
        });
    }

    /// The entries after number `since` that are still in memory, at most `limit`.
    pub(crate) fn since(&self, since: u64, limit: usize) -> Vec<Served> {
        let inner = self.lock();
        inner.recent.iter().filter(|served| served.sequence > since).take(limit).cloned().collect()
    }

    /// Entries written since the start.
    pub(crate) fn count(&self) -> u64 {
        self.lock().count
    }

    /// Lines the file did not take.
    pub(crate) fn write_errors(&self) -> u64 {
        self.lock().write_errors
    }

    /// Waits until at least `count` entries were written.
    pub(crate) async fn reached(&self, count: u64) {
        let mut shown = self.count.subscribe();
        // The sender lives in `self`, so the channel cannot close while we wait.
        let _ = shown.wait_for(|shown| *shown >= count).await;
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic elsewhere must not cost the entries of others.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served() -> Served {
        Served {
            sequence: 0,
            received_at_ms: 1,
            ended_at_ms: 2,
            dialect: Dialect::Openai,
            route: Cow::Borrowed("chat.completions"),
            model: "m".into(),
            stream: false,
            upstream_request_id: "req_1".into(),
            response_id: String::new(),
            weir_request_id: None,
            tokens: Tokens::default(),
            usage: None,
            usage_stated: false,
            frames_sent: 1,
            bytes_sent: 2,
            end: End::Complete,
            status: 200,
            credentials: Vec::new(),
            accept_encoding: None,
            header_names: String::new(),
            script: None,
        }
    }

    #[test]
    fn memory_keeps_the_newest_and_the_count_goes_on() {
        let journal = Journal::open(None).unwrap();
        for _ in 0..MAX_ENTRIES_IN_MEMORY + 3 {
            journal.append(served());
        }
        let kept = journal.since(0, usize::MAX);
        assert_eq!(kept.len(), MAX_ENTRIES_IN_MEMORY);
        assert_eq!(kept.first().map(|served| served.sequence), Some(4));
        assert_eq!(journal.count(), MAX_ENTRIES_IN_MEMORY as u64 + 3);
        assert_eq!(journal.since(journal.count() - 1, 10).len(), 1);
    }

    #[test]
    fn a_line_the_file_does_not_take_is_counted_and_stays_in_memory() {
        // Every write to this device fails as a full disk does.
        let journal = Journal::open(Some(Path::new("/dev/full"))).unwrap();
        journal.append(served());
        journal.append(served());
        assert_eq!((journal.write_errors(), journal.count()), (2, 2));
        assert_eq!(journal.since(0, 10).len(), 2);
    }
}
