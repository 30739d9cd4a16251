//! What one process has on record: its segments, and the calls that are in them.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Instant;

use domain::id::RequestId;
use domain::money::Nanos;

use super::folder::{Folder, new_file};

/// From how many segments on the oldest is emptied by carrying the little that lives in it forward: a call that
/// runs for minutes must not keep everything that was written since.
const CARRY_FROM: usize = 3;
/// A segment is emptied when no more than one part in so many of it lives: what is written twice stays small.
const CARRY_PART: u64 = 4;

/// Where a record stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    segment: u64,
    offset: u64,
    size: u64,
}

/// A call whose event is not in the books yet.
#[derive(Debug)]
struct Call {
    open: Place,
    done: Option<Place>,
    /// What it may cost, and once that is known what it does cost.
    money: i128,
    /// Its place among those that wait for the books.
    waits_as: Option<u64>,
}

#[derive(Debug)]
struct Segment {
    number: u64,
    size: u64,
    /// Records of calls whose events are not in the books, and their bytes.
    live: usize,
    live_bytes: u64,
}

/// How full the spool is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SpoolDepth {
    /// Calls whose events are not in the books: those that run, and those that wait.
    pub calls: usize,
    /// Of these, how many are over and wait for the books.
    pub waiting: usize,
    /// The bytes of all segments.
    pub bytes: u64,
    /// What those calls cost, or may cost while they run.
    pub money: Nanos,
    /// Since when the one that has waited longest waits.
    pub waiting_since: Option<Instant>,
}

/// The segments of one process, and what lives in them.
#[derive(Debug)]
pub(super) struct Journal {
    folder: Folder,
    segment_bytes: u64,
    /// The oldest first; the last is written to.
    segments: VecDeque<Segment>,
    /// The file of the last segment; nothing when a new segment is due.
    file: Option<Arc<File>>,
    next_number: u64,
    calls: HashMap<RequestId, Call>,
    waiting: BTreeMap<u64, Instant>,
    next_waiting: u64,
    bytes: u64,
    money: i128,
    /// Whether the disk is made to keep what is written.
    is_synced: bool,
    /// Whether something was written since the last time that it was.
    dirty: bool,
    /// Calls whose ticket was dropped before they were in the books.
    pub(super) dropped: Vec<RequestId>,
}

impl Journal {
    pub(super) fn new(folder: Folder, segment_bytes: u64, is_synced: bool) -> Self {
        Self {
            folder,
            segment_bytes,
            is_synced,
            segments: VecDeque::new(),
            file: None,
            next_number: 1,
            calls: HashMap::new(),
            waiting: BTreeMap::new(),
            next_waiting: 0,
            bytes: 0,
            money: 0,
            dirty: false,
            dropped: Vec::new(),
        }
    }

    pub(super) fn depth(&self) -> SpoolDepth {
        SpoolDepth {
            calls: self.calls.len(),
            waiting: self.waiting.len(),
            bytes: self.bytes,
            money: Nanos(i64::try_from(self.money).unwrap_or(i64::MAX)),
            waiting_since: self.waiting.first_key_value().map(|(_, since)| *since),
        }
    }

    /// Puts a call on record that is about to be forwarded.
    pub(super) fn open(&mut self, id: RequestId, record: &[u8], money: Nanos) -> io::Result<()> {
        if self.calls.contains_key(&id) {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "the call is on record"));
        }
        let open = self.write(record)?;
        let money = i128::from(money.0.max(0));
        self.calls.insert(id, Call { open, done: None, money, waits_as: None });
        self.money += money;
        self.pin(open);
        Ok(())
    }

    /// Notes that a call is over and waits for the books, and puts its event on record. It waits all the same when
    /// that fails.
    pub(super) fn done(
        &mut self,
        id: RequestId,
        record: Option<&[u8]>,
        money: Nanos,
        now: Instant,
    ) -> io::Result<()> {
        let written = match record {
            Some(record) => self.write(record).map(Some),
            None => Err(io::Error::new(io::ErrorKind::InvalidInput, "the record is too large")),
        };
        let place = written.as_ref().ok().copied().flatten();
        let Some(call) = self.calls.get_mut(&id) else {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the call is not on record"));
        };
        let money = i128::from(money.0.max(0));
        self.money += money - call.money;
        call.money = money;
        call.done = place;
        call.waits_as = Some(self.next_waiting);
        self.waiting.insert(self.next_waiting, now);
        self.next_waiting += 1;
        if let Some(place) = place {
            self.pin(place);
        }
        written.map(drop)
    }

    /// Notes that the event of a call is in the books, or that there is none to come, and lets go of its records.
    pub(super) fn acked(&mut self, id: RequestId, record: Option<&[u8]>) -> io::Result<()> {
        let Some(call) = self.calls.remove(&id) else { return Ok(()) };
        self.money -= call.money;
        if let Some(number) = call.waits_as {
            self.waiting.remove(&number);
        }
        // Where this cannot be written nothing is lost: a second event of the same call moves nothing.
        let written = record.map_or(Ok(()), |record| self.write(record).map(drop));
        self.unpin(call.open);
        call.done.into_iter().for_each(|place| self.unpin(place));
        self.sweep();
        written
    }

    /// The newest record of a live call, as it was written.
    pub(super) fn on_record(&self, id: RequestId) -> io::Result<Option<Vec<u8>>> {
        self.calls.get(&id).map(|call| self.read(call.done.unwrap_or(call.open))).transpose()
    }

    /// The file to be synced, when something was written to it since the last time.
    pub(super) fn take_unsynced(&mut self) -> Option<Arc<File>> {
        std::mem::take(&mut self.dirty).then(|| self.file.clone()).flatten()
    }

    /// Removes the folder when nothing lives in it.
    pub(super) fn close(self) -> io::Result<()> {
        if self.calls.is_empty() { self.folder.remove() } else { Ok(()) }
    }

    fn write(&mut self, record: &[u8]) -> io::Result<Place> {
        let size = record.len() as u64;
        let is_full = self.segments.back().is_none_or(|last| last.size + size > self.segment_bytes);
        if is_full || self.file.is_none() {
            self.begin_segment()?;
            self.carry();
            self.sweep();
        }
        self.put(record)
    }

    fn begin_segment(&mut self) -> io::Result<()> {
        let number = self.next_number;
        let file = new_file(&self.folder.segment(number))?;
        self.next_number += 1;
        if let Some(last) = self.take_unsynced() {
            last.sync_data()?;
        }
        self.file = Some(Arc::new(file));
        self.segments.push_back(Segment { number, size: 0, live: 0, live_bytes: 0 });
        Ok(())
    }

    /// Writes to the last segment, in one call of the system.
    fn put(&mut self, record: &[u8]) -> io::Result<Place> {
        let (Some(file), Some(last)) = (&self.file, self.segments.back_mut()) else {
            return Err(io::Error::other("no segment is open"));
        };
        let (offset, size) = (last.size, record.len() as u64);
        if let Err(error) = write_once(file, record) {
            // A part may be there. It is cut off again, or nothing is written behind it any more.
            if file.set_len(offset).is_err() {
                self.file = None;
            }
            return Err(error);
        }
        last.size += size;
        self.bytes += size;
        self.dirty = self.is_synced;
        Ok(Place { segment: last.number, offset, size })
    }

    fn read(&self, place: Place) -> io::Result<Vec<u8>> {
        let file = File::open(self.folder.segment(place.segment))?;
        let mut record = vec![0; usize::try_from(place.size).unwrap_or(0)];
        file.read_exact_at(&mut record, place.offset)?;
        Ok(record)
    }

    fn segment(&mut self, number: u64) -> Option<&mut Segment> {
        let at = self.segments.binary_search_by_key(&number, |segment| segment.number).ok()?;
        self.segments.get_mut(at)
    }

    fn pin(&mut self, place: Place) {
        if let Some(segment) = self.segment(place.segment) {
            segment.live += 1;
            segment.live_bytes += place.size;
        }
    }

    fn unpin(&mut self, place: Place) {
        if let Some(segment) = self.segment(place.segment) {
            segment.live = segment.live.saturating_sub(1);
            segment.live_bytes = segment.live_bytes.saturating_sub(place.size);
        }
    }

    /// Removes segments in which nothing lives, from the oldest on: so that an `acked` outlives what it is about.
    fn sweep(&mut self) {
        while self.segments.len() > 1
            && let Some(oldest) = self.segments.front().filter(|oldest| oldest.live == 0)
        {
            let path = self.folder.segment(oldest.number);
            if let Err(error) = fs::remove_file(&path) {
                tracing::warn!(path = %path.display(), %error, "a segment of the spool is not removed");
                return;
            }
            self.bytes = self.bytes.saturating_sub(oldest.size);
            self.segments.pop_front();
        }
    }

    /// Writes the little that lives in the oldest segment again, so that the segment can go.
    fn carry(&mut self) {
        let Some(oldest) = self.segments.front() else { return };
        let is_worth_it = oldest.live_bytes.saturating_mul(CARRY_PART) <= oldest.size;
        if self.segments.len() <= CARRY_FROM || oldest.live == 0 || !is_worth_it {
            return;
        }
        let number = oldest.number;
        if let Err(error) = self.carry_all(number) {
            // It stays where it is, and is tried again with the next segment.
            tracing::warn!(%error, "what lives in the oldest segment of the spool is not carried forward");
        }
    }

    fn carry_all(&mut self, number: u64) -> io::Result<()> {
        let is_there = |place: &Place| place.segment == number;
        let ids: Vec<RequestId> = self
            .calls
            .iter()
            .filter(|(_, call)| is_there(&call.open) || call.done.as_ref().is_some_and(is_there))
            .map(|(id, _)| *id)
            .collect();
        for id in ids {
            let Some(call) = self.calls.get(&id) else { continue };
            let (open, done) = (call.open, call.done.filter(is_there));
            if is_there(&open) {
                let again = self.again(open)?;
                self.calls.entry(id).and_modify(|call| call.open = again);
            }
            if let Some(done) = done {
                let again = self.again(done)?;
                self.calls.entry(id).and_modify(|call| call.done = Some(again));
            }
        }
        Ok(())
    }

    fn again(&mut self, from: Place) -> io::Result<Place> {
        let record = self.read(from)?;
        let to = self.put(&record)?;
        self.pin(to);
        self.unpin(from);
        Ok(to)
    }
}

/// One call of the system: the record is there as a whole, or it is an error.
fn write_once(mut file: &File, record: &[u8]) -> io::Result<()> {
    loop {
        return match file.write(record) {
            Ok(written) if written == record.len() => Ok(()),
            Ok(_) => Err(io::ErrorKind::WriteZero.into()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => Err(error),
        };
    }
}
