//! What is on record survives its process, whatever is done to the files, and nothing else comes out of them.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use domain::id::RequestId;
use domain::money::Nanos;
use domain::usage::Outcome;
use ledger::UsageEvent;
use ledger::spool::{Adopted, OnRecord, Spool, SpoolBounds, SpoolConfig, SpoolError, Ticket};
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::value::RawValue;

use crate::fixture::event;

/// A folder of its own that ends with the test.
struct Root(PathBuf);

impl Root {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("weir-spool-{}-{number}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    fn config(&self) -> SpoolConfig {
        SpoolConfig::new(self.0.clone())
    }

    fn start(&self) -> Spool {
        Spool::start(self.config()).unwrap()
    }

    /// Segments of a size in which some records fit.
    fn start_with_small_segments(&self) -> Spool {
        Spool::start(SpoolConfig { segment_bytes: 8_192, ..self.config() }).unwrap()
    }

    fn segments(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let folders = fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().path());
        for folder in folders.filter(|path| path.is_dir() && !path.ends_with("damaged")) {
            let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
            found.extend(files.filter(|path| path.extension().is_some_and(|e| e == "spool")));
        }
        found.sort();
        found
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn hold() -> Box<RawValue> {
    RawValue::from_string("{\"takes\": [1, 2]}".to_owned()).unwrap()
}

/// What is written when nothing more is heard of this call.
fn orphan(event: &UsageEvent) -> UsageEvent {
    UsageEvent { outcome: Outcome::Orphaned, charge: Nanos(1), ..event.clone() }
}

fn open(spool: &Spool, event: &UsageEvent) -> Ticket {
    spool.open(&orphan(event), &hold(), Instant::now()).unwrap()
}

fn done(spool: &Spool, event: &UsageEvent) -> Ticket {
    let mut ticket = open(spool, event);
    ticket.done(event, &hold(), Instant::now()).unwrap();
    ticket
}

/// All calls of a dead process.
fn all(adopted: &mut Adopted) -> Vec<OnRecord> {
    let mut calls = Vec::new();
    while let Some(portion) = adopted.next_portion().unwrap() {
        calls.extend(portion);
    }
    calls
}

/// What the next process finds, by request id.
fn found(root: &Root) -> BTreeMap<RequestId, UsageEvent> {
    let next = root.start();
    let mut calls = BTreeMap::new();
    for mut adopted in next.adopt().unwrap() {
        let count = adopted.calls();
        let here = all(&mut adopted);
        assert_eq!(here.len(), count);
        for call in here {
            assert_eq!(call.hold.get(), hold().get());
            assert!(calls.insert(call.event.request_id, call.event).is_none(), "handed out twice");
        }
        adopted.discard().unwrap();
    }
    next.close().unwrap();
    calls
}

#[test]
fn a_dead_process_leaves_what_is_not_in_the_books() {
    let root = Root::new();
    let spool = root.start();
    let [running, over, booked, never_sent] = [(); 4].map(|()| event(1, 10));
    let running_ticket = open(&spool, &running);
    let over_ticket = done(&spool, &over);
    done(&spool, &booked).acked();
    open(&spool, &never_sent).acked();
    drop((running_ticket, over_ticket, spool));
    let calls = found(&root);
    let expected = [(running.request_id, orphan(&running)), (over.request_id, over)];
    assert_eq!(calls, BTreeMap::from(expected));
    assert_eq!(
        found(&root),
        BTreeMap::new(),
        "what was handed out and discarded does not come again"
    );
}

#[test]
fn the_folder_of_a_living_process_is_left_alone() {
    let root = Root::new();
    let living = root.start();
    let ticket = open(&living, &event(1, 10));
    let other = root.start();
    assert!(other.adopt().unwrap().is_empty());
    drop((ticket, living));
    let adopted = other.adopt().unwrap();
    assert_eq!(adopted.len(), 1);
    let third = root.start();
    assert!(third.adopt().unwrap().is_empty(), "one is adopted by one");
    drop(adopted);
    assert_eq!(third.adopt().unwrap().len(), 1, "what was not discarded is found again");
}

#[test]
fn segments_go_when_their_calls_are_in_the_books() {
    let root = Root::new();
    let spool = root.start_with_small_segments();
    for _ in 0..200 {
        done(&spool, &event(1, 10)).acked();
    }
    assert!(root.segments().len() <= 2, "{:?}", root.segments());
    assert!(spool.depth().bytes <= 2 * 8_192 && spool.depth().calls == 0);
    assert_eq!(spool.close().unwrap(), 0);
    assert!(root.segments().is_empty());
}

#[test]
fn a_long_call_does_not_keep_what_was_written_since() {
    let root = Root::new();
    let spool = root.start_with_small_segments();
    let long = event(1, 10);
    let ticket = open(&spool, &long);
    for _ in 0..400 {
        done(&spool, &event(1, 10)).acked();
    }
    assert!(root.segments().len() <= 5, "{:?}", root.segments());
    drop((ticket, spool));
    assert_eq!(found(&root), BTreeMap::from([(long.request_id, orphan(&long))]));
}

#[test]
fn an_outage_keeps_everything_and_its_end_lets_it_go() {
    let root = Root::new();
    let spool = root.start_with_small_segments();
    let events: Vec<UsageEvent> = (0..100).map(|_| event(1, 10)).collect();
    let tickets: Vec<Ticket> = events.iter().map(|event| done(&spool, event)).collect();
    assert_eq!(spool.depth().waiting, 100);
    let many = root.segments().len();
    assert!(many > 10);
    tickets.into_iter().for_each(Ticket::acked);
    assert!(root.segments().len() <= 2);
    assert_eq!((spool.depth().money, spool.depth().waiting_since), (Nanos::ZERO, None));
}

#[test]
fn beyond_a_bound_no_call_is_taken_until_there_is_room() {
    let usual = SpoolBounds::default();
    let hold = event(1, 10).hold;
    for (bounds, what) in [
        (SpoolBounds { calls: 2, ..usual }, "calls"),
        (SpoolBounds { bytes: 1_000, ..usual }, "bytes"),
        (SpoolBounds { money: Nanos(hold.0 * 2), ..usual }, "dollars"),
    ] {
        let root = Root::new();
        let config = SpoolConfig { bounds, segment_bytes: 1, ..root.config() };
        let spool = Spool::start(config).unwrap();
        let tickets = [(); 2].map(|()| open(&spool, &event(1, 10)));
        let refused = spool.open(&event(1, 10), &self::hold(), Instant::now());
        assert!(matches!(refused, Err(SpoolError::Full(which)) if which == what), "{refused:?}");
        assert!(spool.ready(Instant::now()).is_err());
        tickets.into_iter().for_each(Ticket::acked);
        open(&spool, &event(1, 10)).acked();
    }
}

#[test]
fn books_that_are_too_far_behind_stop_new_calls_until_they_have_caught_up() {
    let root = Root::new();
    let spool = root.start();
    let (began, age) = (Instant::now(), SpoolBounds::default().age);
    let mut first = open(&spool, &event(1, 10));
    first.done(&event(1, 10), &hold(), began).unwrap();
    let mut second = open(&spool, &event(1, 10));
    second.done(&event(1, 10), &hold(), began + Duration::from_secs(20)).unwrap();
    let running = open(&spool, &event(1, 10));
    spool.ready(began + age).unwrap();
    let late = began + age + Duration::from_millis(1);
    let refused = spool.open(&event(1, 10), &hold(), late);
    assert!(matches!(refused, Err(SpoolError::Behind(_))), "{refused:?}");
    first.acked();
    spool.ready(late).unwrap();
    second.acked();
    // A call that runs for long is not behind.
    spool.ready(began + age * 100).unwrap();
    running.acked();
}

#[test]
fn a_disk_that_does_not_take_the_record_refuses_the_call_and_is_tried_again() {
    let root = Root::new();
    // Each record begins a segment, which is a new file.
    let config = SpoolConfig { segment_bytes: 1, ..root.config() };
    let spool = Spool::start(config).unwrap();
    let mut running = open(&spool, &event(1, 10));
    let away = root.0.with_extension("away");
    fs::rename(&root.0, &away).unwrap();
    let refused = spool.open(&event(1, 10), &hold(), Instant::now());
    assert!(matches!(refused, Err(SpoolError::Unwritable(_))), "{refused:?}");
    let end = event(1, 10);
    assert!(running.done(&end, &hold(), Instant::now()).is_err());
    assert_eq!(spool.depth().waiting, 1, "it waits for the books all the same");
    fs::rename(&away, &root.0).unwrap();
    open(&spool, &event(1, 10)).acked();
    running.acked();
    assert_eq!(spool.depth().calls, 0);
}

#[test]
fn a_ticket_that_is_dropped_before_the_books_have_the_call_comes_back() {
    let root = Root::new();
    let spool = root.start();
    let (running, over) = (event(1, 10), event(1, 10));
    drop((open(&spool, &running), done(&spool, &over)));
    let dropped = spool.dropped();
    assert!(spool.dropped().is_empty(), "handed out once");
    let mut events = Vec::new();
    for (ticket, call) in dropped {
        events.push(call.event);
        ticket.acked();
    }
    assert_eq!(events, [orphan(&running), over]);
    assert_eq!(spool.depth().calls, 0);
}

#[test]
fn a_closed_spool_leaves_no_folder_unless_something_is_left_on_record() {
    let root = Root::new();
    let spool = root.start();
    let left = event(1, 10);
    drop(done(&spool, &left));
    assert_eq!(spool.close().unwrap(), 1);
    assert_eq!(found(&root), BTreeMap::from([(left.request_id, left)]));
    let folders = fs::read_dir(&root.0).unwrap().count();
    assert_eq!(folders, 0);
}

#[test]
fn a_damaged_segment_is_counted_and_kept() {
    let root = Root::new();
    let spool = root.start();
    let whole = event(1, 10);
    drop((open(&spool, &whole), open(&spool, &event(1, 10)), spool));
    let segment = root.segments().remove(0);
    let bytes = fs::read(&segment).unwrap();
    fs::write(&segment, &bytes[..bytes.len() - 1]).unwrap();
    let next = root.start();
    let mut adopted = next.adopt().unwrap().remove(0);
    assert_eq!(adopted.skipped().segments, 1);
    assert!(adopted.skipped().bytes > 0);
    let calls = all(&mut adopted);
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].event.request_id, whole.request_id);
    adopted.discard().unwrap();
    assert_eq!(fs::read_dir(root.0.join("damaged")).unwrap().count(), 1);
    assert!(next.adopt().unwrap().is_empty());
}

#[test]
fn an_event_that_the_books_refuse_is_kept_beside_the_folders() {
    let root = Root::new();
    let spool = root.start();
    let bad = event(1, 10);
    spool.refused(&bad, "a test").unwrap();
    spool.refused(&bad, "a test").unwrap();
    let text = fs::read_to_string(root.0.join("refused.ndjson")).unwrap();
    assert_eq!(text.lines().count(), 2);
    let line: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(line["event"]["request_id"], bad.request_id.to_string());
}

/// What a process did with one call before it died.
#[derive(Debug, Clone, Copy)]
enum Fate {
    Running,
    Over,
    Booked,
}

fn fates() -> impl Strategy<Value = Vec<Fate>> {
    let fate = prop_oneof![Just(Fate::Running), Just(Fate::Over), Just(Fate::Booked)];
    proptest::collection::vec(fate, 1..25)
}

/// Damages one byte of one of the files: cuts there, or flips a bit.
fn damage(files: &[PathBuf], file: Index, at: Index, flip: Option<u8>) {
    let path: &Path = &files[file.index(files.len())];
    let mut bytes = fs::read(path).unwrap();
    if bytes.is_empty() {
        return;
    }
    let at = at.index(bytes.len());
    match flip {
        Some(bit) => bytes[at] ^= 1 << bit,
        None => bytes.truncate(at),
    }
    fs::write(path, bytes).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_damaged_no_call_is_invented_and_only_that_segment_suffers(
        fates in fates(),
        file in any::<Index>(),
        at in any::<Index>(),
        flip in proptest::option::of(0..8_u8),
    ) {
        let root = Root::new();
        let spool = root.start_with_small_segments();
        let mut tickets = Vec::new();
        let mut written = HashMap::new();
        for fate in &fates {
            let event = event(1, 10);
            match fate {
                Fate::Running => tickets.push(open(&spool, &event)),
                Fate::Over => tickets.push(done(&spool, &event)),
                Fate::Booked => done(&spool, &event).acked(),
            }
            written.insert(event.request_id, (*fate, event));
        }
        drop((tickets, spool));
        let files = root.segments();
        damage(&files, file, at, flip);
        let calls = found(&root);
        for (id, event) in &calls {
            let (fate, made) = &written[id];
            let as_over = event == made;
            prop_assert!(as_over || *event == orphan(made), "{id} is not what was written");
            prop_assert!(!(as_over && matches!(fate, Fate::Running)), "{id} was never over");
        }
        if files.len() == 1 {
            return Ok(());
        }
        // What was lost had its records in one segment of 8 KiB: three or four of them.
        let due = written.values().filter(|(fate, _)| !matches!(fate, Fate::Booked)).count();
        let here = calls.keys().filter(|id| !matches!(written[id].0, Fate::Booked)).count();
        prop_assert!(due - here <= 12, "{due} were on record, {here} came back");
    }
}
