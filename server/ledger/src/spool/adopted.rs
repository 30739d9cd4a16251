//! What a dead process left behind.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use domain::id::RequestId;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::folder::Folder;
use super::record::{Kind, Record, Records};
use crate::usage_event::UsageEvent;

/// The most of one segment that is read: far more than any is allowed to be, and no more than fits in memory.
const SEGMENT_READ_MAX: u64 = 64 * 1024 * 1024;

/// A call as it is on record.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OnRecord {
    /// What is to be written into the books.
    pub event: UsageEvent,
    /// What was held for it: the limiter's own words, which the ledger does not read.
    pub hold: Box<RawValue>,
}

/// What could not be read of a dead process's folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Skipped {
    /// Segments with a part that cannot be read. They are kept.
    pub segments: usize,
    /// The bytes of those parts.
    pub bytes: u64,
}

/// The folder of a dead process: what it had on record is handed out once and then removed.
///
/// It is taken over for as long as this lives. Dropped, it is left as it was for the next who comes.
#[derive(Debug)]
pub struct Adopted {
    folder: Folder,
    segments: Vec<PathBuf>,
    next: usize,
    /// Calls that are over: their `open` says nothing any more.
    done: HashSet<RequestId>,
    /// Calls that are in the books, or have been handed out.
    settled: HashSet<RequestId>,
    damaged: Vec<PathBuf>,
    skipped: Skipped,
    calls: usize,
}

impl Adopted {
    /// Looks through a folder: which calls are not in the books.
    pub(super) fn read(folder: Folder) -> io::Result<Self> {
        let segments = folder.segments()?;
        let (mut seen, mut done, mut settled) = (HashSet::new(), HashSet::new(), HashSet::new());
        let mut damaged = Vec::new();
        let mut skipped = Skipped::default();
        for path in &segments {
            let (bytes, too_much) = read_segment(path)?;
            let mut records = Records::of(&bytes);
            for record in records.by_ref() {
                match record.kind {
                    Kind::Open => seen.insert(record.request_id),
                    Kind::Done => seen.insert(record.request_id) | done.insert(record.request_id),
                    Kind::Acked => settled.insert(record.request_id),
                };
            }
            let unread = records.unread() as u64 + too_much;
            if unread > 0 {
                skipped.segments += 1;
                skipped.bytes += unread;
                damaged.push(path.clone());
            }
        }
        let calls = seen.difference(&settled).count();
        Ok(Self { folder, segments, next: 0, done, settled, damaged, skipped, calls })
    }

    /// How many calls are on record and not in the books.
    #[must_use]
    pub const fn calls(&self) -> usize {
        self.calls
    }

    /// What could not be read.
    #[must_use]
    pub const fn skipped(&self) -> Skipped {
        self.skipped
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The next calls that are to be written into the books, each once; nothing when there are no more. One that
    /// ended before its process did comes with its event, any other with the one that was made for this case.
    ///
    /// # Errors
    /// When a segment cannot be read.
    pub fn next_portion(&mut self) -> io::Result<Option<Vec<OnRecord>>> {
        while let Some(path) = self.segments.get(self.next).cloned() {
            self.next += 1;
            let (bytes, _) = read_segment(&path)?;
            let mut portion = Vec::new();
            for record in Records::of(&bytes) {
                let is_over = match record.kind {
                    Kind::Open => self.done.contains(&record.request_id),
                    Kind::Done => false,
                    Kind::Acked => true,
                };
                if is_over || !self.settled.insert(record.request_id) {
                    continue;
                }
                match serde_json::from_slice(record.body) {
                    Ok(on_record) => portion.push(on_record),
                    Err(error) => self.unreadable(&path, &record, &error),
                }
            }
            if !portion.is_empty() {
                return Ok(Some(portion));
            }
        }
        Ok(None)
    }

    /// A record that is whole and says nothing that this program knows: of another version, most likely.
    fn unreadable(&mut self, path: &Path, record: &Record<'_>, error: &serde_json::Error) {
        let (request_id, body_bytes) = (record.request_id, record.body.len());
        tracing::error!(%request_id, %error, "a call on record cannot be read");
        self.skipped.bytes += body_bytes as u64;
        if !self.damaged.iter().any(|damaged| damaged == path) {
            self.skipped.segments += 1;
            self.damaged.push(path.to_path_buf());
        }
    }

    /// Removes the folder: everything in it is in the books. Segments with a part that could not be read are kept
    /// beside it.
    ///
    /// # Errors
    /// When it cannot be removed: then the next who comes finds it, and writes nothing twice.
    pub fn discard(self) -> io::Result<()> {
        for segment in self.damaged.iter().filter(|segment| segment.exists()) {
            let kept = self.folder.set_aside(segment)?;
            tracing::error!(path = %kept.display(), "a damaged segment of the spool is kept");
        }
        self.folder.remove()
    }
}

/// A segment's bytes, and how many there are beyond what is read.
fn read_segment(path: &Path) -> io::Result<(Vec<u8>, u64)> {
    let file = File::open(path)?;
    let len = file.metadata()?.len();
    let mut bytes = Vec::new();
    file.take(SEGMENT_READ_MAX).read_to_end(&mut bytes)?;
    Ok((bytes, len.saturating_sub(SEGMENT_READ_MAX)))
}
