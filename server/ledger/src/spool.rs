//! Calls on record, on this machine's disk: what is known here and not in the books yet survives the process.
//!
//! A call is put on record before it is forwarded (`open`, with the event to write if nothing more is heard of it),
//! again when it is over (`done`, with its event), and let go when its event is committed (`acked`). One call of the
//! system writes a record into the page cache: that survives the death of the process, and with
//! [`SpoolConfig::sync`] a loss of power but for the last moment.
//!
//! Each process has a folder and holds its lock; another process takes over the folder of a dead one.

mod adopted;
mod folder;
mod journal;
mod record;

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use domain::id::RequestId;
use domain::money::Nanos;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::usage_event::UsageEvent;
use folder::Folder;
use journal::Journal;
use record::Kind;

pub use adopted::{Adopted, OnRecord, Skipped};
pub use journal::SpoolDepth;

/// The size of a segment, in bytes: a thousand calls or so, read at once when it is adopted.
pub const SEGMENT_BYTES: u64 = 4 * 1024 * 1024;
/// Where events go that the books refuse, beside the folders.
const REFUSED: &str = "refused.ndjson";
/// The most that is kept of those, in bytes: each is a fault of the program's, and a person has to look at it.
const REFUSED_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// How much may be on record and not in the books. Beyond it no call is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpoolBounds {
    /// Calls. Each that waits is in memory as well, some kilobytes of it.
    pub calls: usize,
    /// Bytes on the disk.
    pub bytes: u64,
    /// What the calls cost, and may cost while they run.
    pub money: Nanos,
    /// How long an event may wait for the books.
    pub age: Duration,
}

impl Default for SpoolBounds {
    fn default() -> Self {
        Self {
            // Half a minute of 1,500 calls a second: some 200 MB of memory.
            calls: 50_000,
            bytes: 512 * 1024 * 1024,
            // 10,000 USD.
            money: Nanos(10_000_000_000_000),
            age: Duration::from_secs(30),
        }
    }
}

/// How a spool is set up.
#[derive(Debug, Clone)]
pub struct SpoolConfig {
    /// The folder of all processes that write into the same books. On a local disk: it is held by file locks.
    pub dir: PathBuf,
    /// How much may be on record.
    pub bounds: SpoolBounds,
    /// The size of a segment, in bytes.
    pub segment_bytes: u64,
    /// Whether [`Spool::sync`] makes the disk keep what is written.
    pub sync: bool,
}

impl SpoolConfig {
    /// A spool in this folder, with the usual bounds.
    #[must_use]
    pub fn new(dir: PathBuf) -> Self {
        Self { dir, bounds: SpoolBounds::default(), segment_bytes: SEGMENT_BYTES, sync: false }
    }
}

/// Why no call is taken.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SpoolError {
    /// The disk does not take the record.
    #[error("the spool cannot be written")]
    Unwritable(#[source] Arc<io::Error>),
    /// More is on record than is allowed.
    #[error("the spool is full: too many {0}")]
    Full(&'static str),
    /// An event has waited for the books longer than is allowed.
    #[error("the books have been behind for {} s", .0.as_secs())]
    Behind(Duration),
}

impl From<io::Error> for SpoolError {
    fn from(error: io::Error) -> Self {
        Self::Unwritable(Arc::new(error))
    }
}

/// The spool of this process. A clone is the same spool.
#[derive(Debug, Clone)]
pub struct Spool {
    /// Held for some microseconds: one write into the page cache.
    journal: Arc<Mutex<Journal>>,
    config: Arc<SpoolConfig>,
}

impl Spool {
    /// Makes a folder for this process. Blocks on the disk.
    ///
    /// # Errors
    /// When the folder cannot be made or locked.
    pub fn start(config: SpoolConfig) -> Result<Self, SpoolError> {
        let folder = Folder::make(&config.dir)?;
        let journal = Journal::new(folder, config.segment_bytes, config.sync);
        Ok(Self { journal: Arc::new(Mutex::new(journal)), config: Arc::new(config) })
    }

    /// Whether a call may be taken, as far as can be told before it is put on record.
    ///
    /// # Errors
    /// When more is on record than is allowed, or the books are too far behind.
    pub fn ready(&self, now: Instant) -> Result<(), SpoolError> {
        within(&self.config.bounds, &self.depth(), now)
    }

    /// Puts a call on record that is about to be forwarded: `orphan` is what is written into the books if nothing
    /// more is heard of it. Nothing may be forwarded without the ticket.
    ///
    /// # Errors
    /// When the record cannot be written, or too much is on record already.
    pub fn open(
        &self,
        orphan: &UsageEvent,
        hold: &RawValue,
        now: Instant,
    ) -> Result<Ticket, SpoolError> {
        let id = orphan.request_id;
        let record = encode(Kind::Open, orphan, hold)?;
        let mut journal = self.journal();
        within(&self.config.bounds, &journal.depth(), now)?;
        journal.open(id, &record, orphan.hold)?;
        Ok(Ticket { spool: self.clone(), request_id: id, is_acked: false })
    }

    /// How full it is.
    #[must_use]
    pub fn depth(&self) -> SpoolDepth {
        self.journal().depth()
    }

    /// Takes over the folders of dead processes, other than those that hold nothing, which are removed. Blocks on
    /// the disk.
    ///
    /// # Errors
    /// When the folder of all processes cannot be read.
    pub fn adopt(&self) -> io::Result<Vec<Adopted>> {
        let mut adopted = Vec::new();
        for folder in Folder::adopt_all(&self.config.dir)? {
            let path = folder.path().to_path_buf();
            let read = Adopted::read(folder).and_then(|folder| match folder.calls() {
                0 => folder.discard().map(|()| None),
                _ => Ok(Some(folder)),
            });
            match read {
                Ok(folder) => adopted.extend(folder),
                // The others must not suffer, and this one is tried again.
                Err(error) => {
                    tracing::error!(path = %path.display(), %error, "a folder of the spool cannot be read");
                }
            }
        }
        Ok(adopted)
    }

    /// Calls of this process whose ticket was dropped before they were in the books, as a panic does: as they are on
    /// record.
    pub fn dropped(&self) -> Vec<(Ticket, OnRecord)> {
        let mut journal = self.journal();
        let ids = std::mem::take(&mut journal.dropped);
        let mut calls = Vec::with_capacity(ids.len());
        for id in ids {
            let read = journal.on_record(id).and_then(|bytes| match bytes {
                Some(bytes) => {
                    let (record, _) = record::decode(&bytes).ok_or(io::ErrorKind::InvalidData)?;
                    Ok(Some(serde_json::from_slice::<OnRecord>(record.body)?))
                }
                None => Ok(None),
            });
            match read {
                Ok(Some(on_record)) => {
                    let ticket = Ticket { spool: self.clone(), request_id: id, is_acked: false };
                    calls.push((ticket, on_record));
                }
                Ok(None) => {}
                Err(error) => {
                    tracing::error!(request_id = %id, %error, "a call on record cannot be read again");
                    journal.dropped.push(id);
                }
            }
        }
        calls
    }

    /// Keeps an event that the books refuse, for a person to look at.
    ///
    /// # Errors
    /// When it cannot be written, or too many were refused.
    pub fn refused(&self, event: &UsageEvent, why: &str) -> io::Result<()> {
        #[derive(Serialize)]
        struct Line<'a> {
            why: &'a str,
            event: &'a UsageEvent,
        }
        let mut line = serde_json::to_vec(&Line { why, event })?;
        line.push(b'\n');
        let path = self.config.dir.join(REFUSED);
        let mut file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
        if file.metadata()?.len() > REFUSED_BYTES_MAX {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        file.write_all(&line)
    }

    /// Makes the disk keep what was written. Blocks on it; does nothing unless the spool is set up so.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn sync(&self) -> io::Result<()> {
        let file = self.journal().take_unsynced();
        file.map_or(Ok(()), |file| file.sync_data())
    }

    /// Gives the folder up, and removes it when nothing is left on record. Says how many calls are: they are left for
    /// the next process. Blocks on the disk.
    ///
    /// # Errors
    /// When the folder cannot be removed, or another handle is still in use.
    pub fn close(self) -> io::Result<usize> {
        let Some(journal) = Arc::into_inner(self.journal) else {
            return Err(io::ErrorKind::ResourceBusy.into());
        };
        let journal = journal.into_inner().unwrap_or_else(PoisonError::into_inner);
        let left = journal.depth().calls;
        journal.close()?;
        Ok(left)
    }

    fn journal(&self) -> MutexGuard<'_, Journal> {
        // What a panic could have left half done is a count of records, which at worst keeps a segment for longer.
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether what is on record is within the bounds.
fn within(bounds: &SpoolBounds, depth: &SpoolDepth, now: Instant) -> Result<(), SpoolError> {
    if let Some(since) = depth.waiting_since {
        let waits = now.saturating_duration_since(since);
        if waits > bounds.age {
            return Err(SpoolError::Behind(waits));
        }
    }
    if depth.calls >= bounds.calls {
        return Err(SpoolError::Full("calls"));
    }
    if depth.bytes >= bounds.bytes {
        return Err(SpoolError::Full("bytes"));
    }
    if depth.money >= bounds.money {
        return Err(SpoolError::Full("dollars"));
    }
    Ok(())
}

fn encode(kind: Kind, event: &UsageEvent, hold: &RawValue) -> io::Result<Vec<u8>> {
    #[derive(Serialize)]
    struct Body<'a> {
        event: &'a UsageEvent,
        hold: &'a RawValue,
    }
    let body = serde_json::to_vec(&Body { event, hold })?;
    record::encode(kind, event.request_id, &body).ok_or_else(|| io::ErrorKind::FileTooLarge.into())
}

/// A call on record. Dropped before it is acknowledged, it is handed out again by [`Spool::dropped`].
#[derive(Debug)]
pub struct Ticket {
    spool: Spool,
    request_id: RequestId,
    is_acked: bool,
}

impl Ticket {
    /// Puts the end of the call on record: its event, which now waits for the books.
    ///
    /// # Errors
    /// When it cannot be written. The call waits for the books all the same; until it is there, a death of the process
    /// leaves only what was put on record before.
    pub fn done(
        &mut self,
        event: &UsageEvent,
        hold: &RawValue,
        now: Instant,
    ) -> Result<(), SpoolError> {
        let record = encode(Kind::Done, event, hold);
        let mut journal = self.spool.journal();
        Ok(journal.done(self.request_id, record.as_deref().ok(), event.charge, now)?)
    }

    /// Lets go of the call: its event is in the books, or nothing was forwarded.
    pub fn acked(mut self) {
        self.is_acked = true;
        let record = record::encode(Kind::Acked, self.request_id, &[]);
        let written = self.spool.journal().acked(self.request_id, record.as_deref());
        if let Err(error) = written {
            // At worst the event is appended once more, which moves nothing.
            tracing::warn!(request_id = %self.request_id, %error, "an acknowledgement is not on record");
        }
    }

    /// The spool it is in.
    #[must_use]
    pub const fn spool(&self) -> &Spool {
        &self.spool
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.is_acked {
            self.spool.journal().dropped.push(self.request_id);
        }
    }
}
