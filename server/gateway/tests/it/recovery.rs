//! Between the hold and the books nothing is lost: whatever dies, each call that was forwarded has one event.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use domain::id::RequestId;
use domain::usage::Dialect;
use gateway::{CallError, FailPoint, FailPoints, Recovered, ReplyBody};
use ledger::UsageEvent;
use ledger::spool::{Spool, SpoolConfig};

use crate::world::{DIALECTS, Twist, World, read, roomy};

/// Longer than anything here takes.
const SOON: Duration = Duration::from_secs(20);

/// Waits until `is_so`.
async fn until<F: Future<Output = bool>>(what: &str, is_so: impl Fn() -> F) {
    let began = Instant::now();
    while !is_so().await {
        assert!(began.elapsed() < SOON, "{what} takes too long");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Fail points that panic at one place, once.
fn panics_at(place: FailPoint) -> FailPoints {
    let left = AtomicU32::new(1);
    FailPoints::calling(move |point| {
        let hit = point == place
            && left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok();
        assert!(!hit, "the test ends the task at {}", place.name());
    })
}

async fn outcomes(world: &World) -> Vec<String> {
    let events = world.events().await;
    events.into_iter().map(|event| event.outcome).collect()
}

#[tokio::test]
async fn a_client_does_not_wait_for_the_books_and_they_get_its_call_all_the_same() {
    for stream in [false, true] {
        let world = World::with(&roomy()).await;
        world.books_are_away().await;
        let reply = world.call(Dialect::Openai, stream, "tokens_in=1000;tokens_out=20;reasoning=0");
        let (bytes, broken) = read(reply.await.unwrap()).await;
        assert!(!bytes.is_empty() && !broken);
        let depth = world.gateway.spool().depth();
        assert_eq!((depth.calls, depth.waiting), (1, 1), "it waits on record");
        world.books_are_back().await;
        let event = world.only_event().await;
        assert_eq!((event.outcome.as_str(), event.input, event.output), ("ok", 1_000, 20));
        assert_eq!(world.gateway.spool().depth().calls, 0);
    }
}

#[tokio::test]
async fn what_a_dead_process_left_is_written_once_and_settled() {
    let place = FailPoint::AfterFirstFrame;
    let twist = Twist { fail_points: panics_at(place), ..Twist::default() };
    let mut world = World::twisted(&roomy(), twist).await;
    world.books_are_away().await;
    read(world.call(Dialect::Openai, true, "").await.unwrap()).await;
    for stream in [false, true] {
        let script = "tokens_in=1000;tokens_out=20;reasoning=0";
        read(world.call(Dialect::Anthropic, stream, script).await.unwrap()).await;
    }
    assert_eq!(world.gateway.spool().depth().calls, 3);
    world.dies().await;
    world.books_are_back().await;
    let recovered = world.gateway.recover().await.unwrap();
    assert_eq!(recovered, Recovered { over: 2, orphaned: 1, ..Recovered::default() });
    let mut events = world.events().await;
    events.sort_by(|a, b| a.outcome.cmp(&b.outcome));
    let [first, second, orphan] = &events[..] else { panic!("{events:?}") };
    for event in [first, second] {
        assert_eq!((event.outcome.as_str(), event.input, event.output), ("ok", 1_000, 20));
    }
    assert_eq!((orphan.outcome.as_str(), orphan.usage_source.as_str()), ("orphaned", "estimated"));
    assert!(orphan.charge_nanos > 0 && orphan.charge_nanos <= orphan.hold_nanos, "{orphan:?}");
    world.assert_settled().await;
    let noted: Vec<(String, i64)> =
        sqlx::query_as("select kind, expected from drift").fetch_all(world.pool()).await.unwrap();
    assert_eq!(noted, [("orphaned".to_owned(), orphan.hold_nanos)]);
    assert_eq!(world.gateway.recover().await.unwrap(), Recovered::default());
}

#[tokio::test]
async fn a_task_that_panics_at_any_place_loses_no_call_and_doubles_none() {
    for place in FailPoint::ALL {
        let twist = Twist { fail_points: panics_at(place), ..Twist::default() };
        let world = World::twisted(&roomy(), twist).await;
        match world.call(Dialect::Gemini, true, "").await {
            Ok(reply) => drop(read(reply).await),
            Err(error) => assert_eq!(error, CallError::Draining, "{place:?}"),
        }
        world.idle().await;
        world.gateway.recover().await.unwrap();
        let expected: &[&str] = match place {
            // Nothing was forwarded and nothing is on record: the hold ends by itself.
            FailPoint::AfterAdmit => &[],
            FailPoint::AfterOpen | FailPoint::AfterConnect | FailPoint::AfterFirstFrame => {
                &["orphaned"]
            }
            FailPoint::BeforeCommit | FailPoint::AfterCommit | FailPoint::AfterSettle => &["ok"],
        };
        assert_eq!(outcomes(&world).await, expected, "{place:?}");
        if place != FailPoint::AfterAdmit {
            world.assert_settled().await;
            assert_eq!(world.gateway.spool().depth().calls, 0, "{place:?}");
        }
    }
}

fn impatient(config: &mut SpoolConfig) {
    config.bounds.age = Duration::from_millis(200);
}

#[tokio::test]
async fn books_that_stay_away_stop_new_calls_until_they_are_back() {
    let twist = Twist { spool: Some(impatient), ..Twist::default() };
    let world = World::twisted(&roomy(), twist).await;
    world.books_are_away().await;
    let streaming = world.call(Dialect::Openai, true, "frames=40;frame_ms=20").await.unwrap();
    read(world.call(Dialect::Openai, false, "").await.unwrap()).await;
    until("a refusal", async || match world.call(Dialect::Openai, false, "").await {
        Ok(reply) => {
            read(reply).await;
            false
        }
        Err(error) => {
            assert_eq!(error, CallError::BooksUnavailable);
            true
        }
    })
    .await;
    let served = world.sim.served();
    assert_eq!(
        world.call(Dialect::Openai, false, "").await.unwrap_err(),
        CallError::BooksUnavailable
    );
    assert_eq!(world.sim.served(), served, "nothing is forwarded");
    // What runs goes on to its end.
    let (bytes, broken) = read(streaming).await;
    assert!(!broken && String::from_utf8(bytes).unwrap().contains("[DONE]"));
    world.books_are_back().await;
    until("the way back", async || match world.call(Dialect::Openai, false, "").await {
        Ok(reply) => {
            read(reply).await;
            true
        }
        Err(error) => {
            assert_eq!(error, CallError::BooksUnavailable);
            false
        }
    })
    .await;
    let events = world.events().await;
    assert_eq!(events.len() as u64, world.sim.served());
    world.assert_settled().await;
}

/// Each record begins a segment, which is a new file.
fn file_by_file(config: &mut SpoolConfig) {
    config.segment_bytes = 1;
}

#[tokio::test]
async fn a_call_that_cannot_be_put_on_record_is_not_forwarded_and_holds_nothing() {
    let twist = Twist { spool: Some(file_by_file), ..Twist::default() };
    let world = World::twisted(&roomy(), twist).await;
    let away = world.spool.0.with_extension("away");
    std::fs::rename(&world.spool.0, &away).unwrap();
    let refused = world.call(Dialect::Openai, true, "").await;
    assert_eq!(refused.unwrap_err(), CallError::SpoolUnavailable);
    assert_eq!((world.sim.served(), world.events().await.len()), (0, 0));
    world.assert_settled().await;
    std::fs::rename(&away, &world.spool.0).unwrap();
    read(world.call(Dialect::Openai, true, "").await.unwrap()).await;
    assert_eq!(world.only_event().await.outcome, "ok");
}

#[tokio::test]
async fn where_the_end_cannot_be_put_on_record_the_client_waits_for_the_books() {
    let twist = Twist { spool: Some(file_by_file), ..Twist::default() };
    let world = World::twisted(&roomy(), twist).await;
    let reply = world.call(Dialect::Openai, true, "frames=20;frame_ms=10").await.unwrap();
    let away = world.spool.0.with_extension("away");
    std::fs::rename(&world.spool.0, &away).unwrap();
    read(reply).await;
    let written: i64 = sqlx::query_scalar("select count(*) from usage_events")
        .fetch_one(world.pool())
        .await
        .unwrap();
    std::fs::rename(&away, &world.spool.0).unwrap();
    assert_eq!(written, 1, "its end came before its event");
    assert_eq!(world.only_event().await.outcome, "ok");
}

#[tokio::test]
async fn two_successors_write_nothing_twice() {
    let mut world = World::with(&roomy()).await;
    world.books_are_away().await;
    for _ in 0..20 {
        read(world.call(Dialect::Openai, false, "").await.unwrap()).await;
    }
    world.dies().await;
    world.books_are_back().await;
    let first = world.gateway.clone();
    let (one, other) = tokio::join!(first.recover(), world.gateway.recover());
    let (one, other) = (one.unwrap(), other.unwrap());
    assert_eq!(one.over + other.over, 20, "{one:?} {other:?}");
    assert_eq!(world.events().await.len(), 20);
    world.assert_settled().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_calls_on_record_are_in_the_books_in_seconds() {
    const CALLS: u32 = 10_000;
    let mut world = World::with(&roomy()).await;
    world.books_are_away().await;
    read(world.call(Dialect::Openai, false, "").await.unwrap()).await;
    world.halt.cancel();
    world.idle().await;
    let (ticket, call) = world.gateway.spool().dropped().remove(0);
    world.books_are_back().await;
    let dead = Spool::start(SpoolConfig::new(world.spool.0.clone())).unwrap();
    let hold: limiter::Hold = serde_json::from_str(call.hold.get()).unwrap();
    let began = Instant::now();
    for number in 0..CALLS {
        let request_id = RequestId::from_parts(1_796_000_000_000, u128::from(number));
        let event = UsageEvent { request_id, ..call.event.clone() };
        let hold = limiter::Hold { request_id, ..hold.clone() };
        let hold = serde_json::value::to_raw_value(&hold).unwrap();
        let ticket = dead.open(&event, &hold, Instant::now());
        // Half of them were over.
        if number % 2 == 0 {
            ticket.unwrap().done(&event, &hold, Instant::now()).unwrap();
        }
    }
    eprintln!("{CALLS} calls put on record in {:?}", began.elapsed());
    drop((ticket, dead));
    world.dies().await;
    let began = Instant::now();
    let recovered = world.gateway.recover().await.unwrap();
    assert_eq!(recovered.over + recovered.orphaned, CALLS as usize + 1, "{recovered:?}");
    let took = began.elapsed();
    eprintln!("{CALLS} calls recovered in {took:?}");
    assert!(took < Duration::from_secs(60), "{took:?}");
    world.assert_settled().await;
}

#[tokio::test]
async fn a_stop_before_the_answer_began_costs_the_tenant_nothing() {
    for dialect in DIALECTS {
        for (stream, script) in
            [(false, "delay_ms=60000"), (true, "delay_ms=60000"), (true, "hang_after=0")]
        {
            let world = Arc::new(World::with(&roomy()).await);
            let caller = world.clone();
            let tasks = tokio_util::task::TaskTracker::new();
            let call = tasks.spawn(async move { caller.call(dialect, stream, script).await });
            until("the forwarding", async || world.sim.stats().arrived > 0).await;
            world.cut.cancel();
            assert_eq!(call.await.unwrap().unwrap_err(), CallError::Draining);
            let event = world.only_event().await;
            let case = format!("{dialect:?} {script} {event:?}");
            assert_eq!(
                (event.outcome.as_str(), event.usage_source.as_str()),
                ("interrupted", "estimated"),
                "{case}"
            );
            assert_eq!(event.charge_nanos, 0, "{case}");
            assert!(event.cost_nanos > 0, "it may cost the house: {case}");
        }
    }
}

#[tokio::test]
async fn a_stop_after_the_answer_began_charges_what_came() {
    let world = World::with(&roomy()).await;
    let reply = world.call(Dialect::Openai, true, "frames=400;frame_ms=20").await.unwrap();
    let ReplyBody::Stream(mut frames) = reply.body else { panic!("no stream") };
    frames.recv().await.unwrap().unwrap();
    world.cut.cancel();
    while frames.recv().await.is_some() {}
    let event = world.only_event().await;
    assert_eq!(event.outcome, "interrupted");
    assert!(event.charge_nanos > 0);
}
