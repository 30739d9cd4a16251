//! Every way in which a call can end leaves one event and no hold.

use std::time::Duration;

use domain::usage::Dialect;
use gateway::{CallError, FailureKind, ReplyBody, Route};
use tokio_util::task::TaskTracker;

use crate::world::{DIALECTS, World, body, read, roomy, route};

/// The charge of so many tokens at the fixture's 0.10 / 0.40 USD per million.
fn charge(input: i64, output: i64) -> i64 {
    (input * 100_000 + output * 400_000 + 500) / 1_000
}

#[tokio::test]
async fn a_served_call_is_charged_what_the_provider_counted() {
    for dialect in DIALECTS {
        for stream in [false, true] {
            let world = World::with(&roomy()).await;
            let script = "tokens_in=1000;tokens_out=320;reasoning=300";
            let reply = world.call(dialect, stream, script).await.unwrap();
            assert_eq!(reply.status, 200);
            let (bytes, broken) = read(reply).await;
            assert!(!broken && !bytes.is_empty());
            let event = world.only_event().await;
            let case = format!("{dialect:?} stream {stream}: {event:?}");
            assert_eq!((event.outcome.as_str(), event.http_status), ("ok", Some(200)), "{case}");
            assert_eq!(event.usage_source, "provider", "{case}");
            assert_eq!((event.input, event.output, event.reasoning), (1_000, 20, 300), "{case}");
            assert_eq!(event.charge_nanos, charge(1_000, 320), "{case}");
            assert!(event.hold_nanos > 0, "{case}");
        }
    }
}

#[tokio::test]
async fn a_json_array_stream_is_metered_like_any_other() {
    let world = World::with(&roomy()).await;
    let stream =
        Route::GeminiStream { version: "v1", model: "gemini-flash".to_owned(), sse: false };
    let script = "tokens_in=1000;tokens_out=320;reasoning=300;split=7";
    let reply = world.call_with(stream, body(Dialect::Gemini, true), script).await.unwrap();
    let (bytes, _) = read(reply).await;
    let elements: Vec<serde_json::Value> = serde_json::from_slice(&bytes).unwrap();
    assert!(elements.len() > 1);
    let event = world.only_event().await;
    assert_eq!((event.outcome.as_str(), event.charge_nanos), ("ok", charge(1_000, 320)));
}

#[tokio::test]
async fn an_error_of_the_provider_costs_nothing_and_keeps_its_class() {
    for (status, kind) in [
        (400, FailureKind::Rejected(400)),
        (401, FailureKind::Credential),
        (429, FailureKind::RateLimited),
        (500, FailureKind::Failed(500)),
        (503, FailureKind::Failed(503)),
    ] {
        for dialect in DIALECTS {
            let world = World::with(&roomy()).await;
            let script = format!("status={status};retry_after=7");
            let Err(CallError::Upstream(failure)) = world.call(dialect, false, &script).await
            else {
                panic!("{dialect:?} {status} was no failure");
            };
            assert_eq!((failure.kind, failure.retry_after_s), (kind, Some(7)), "{dialect:?}");
            let event = world.only_event().await;
            assert_eq!(event.outcome, "provider_error");
            assert_eq!((event.charge_nanos, event.usage_source.as_str()), (0, "none"));
            assert_eq!(event.http_status, Some(i32::from(kind.client_status())));
            assert_eq!(
                event.provider_request_id.as_deref(),
                Some(world.sim.journal()[0].upstream_request_id.as_str())
            );
        }
    }
}

#[tokio::test]
async fn a_provider_that_cannot_be_reached_leaves_an_event() {
    let world = World::with(&roomy()).await;
    world.changed("update providers set base_url = 'http://127.0.0.1:9'").await;
    let Err(CallError::Upstream(failure)) = world.call(Dialect::Openai, true, "").await else {
        panic!("a closed port answered");
    };
    assert_eq!(failure.kind, FailureKind::Unreachable);
    assert!(!failure.message.contains("127.0.0.1"), "{failure}");
    assert_eq!(world.only_event().await.outcome, "provider_error");
}

#[tokio::test]
async fn a_provider_that_is_silent_times_out() {
    for (script, stream) in [("hang", false), ("hang", true), ("hang_after=2", true)] {
        let world = World::with(&roomy()).await;
        world.changed("update providers set first_byte_ms = 300, idle_ms = 300").await;
        let reply = world.call(Dialect::Anthropic, stream, script).await;
        match reply {
            Err(CallError::Upstream(failure)) => assert_eq!(failure.kind, FailureKind::TimedOut),
            Ok(reply) => {
                let (bytes, _) = read(reply).await;
                let text = String::from_utf8(bytes).unwrap();
                assert!(text.contains("event: error") && !text.contains("message_stop"), "{text}");
            }
            Err(other) => panic!("{other:?}"),
        }
        assert_eq!(world.only_event().await.outcome, "provider_timeout", "{script} {stream}");
    }
}

#[tokio::test]
async fn a_stream_that_breaks_is_told_and_is_never_free() {
    for dialect in DIALECTS {
        for script in [
            "cut_after=4;frames=9",
            "reset_after=4;frames=9",
            "garbage_after=4;frames=9",
            "error_after=4;frames=9",
        ] {
            let world = World::with(&roomy()).await;
            let reply = world.call(dialect, true, script).await.unwrap();
            let (bytes, broken) = read(reply).await;
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let case = format!("{dialect:?} {script}: {text}");
            assert!(broken || text.contains("error") || script.starts_with("garbage"), "{case}");
            assert!(!text.contains("[DONE]") || script.starts_with("garbage"), "{case}");
            let event = world.only_event().await;
            assert_eq!(event.outcome, "provider_error", "{case}");
            assert!(event.charge_nanos > 0, "{case}");
        }
    }
}

#[tokio::test]
async fn a_stream_that_breaks_before_its_first_frame_is_an_error_of_its_own() {
    let array = Route::GeminiStream { version: "v1", model: "gemini-flash".to_owned(), sse: false };
    for (script, kind) in [
        ("cut_after=0", FailureKind::BadAnswer),
        ("reset_after=0", FailureKind::BadAnswer),
        ("hang_after=0", FailureKind::TimedOut),
    ] {
        let mut routes: Vec<Route> = DIALECTS.map(|dialect| route(dialect, true)).into();
        routes.push(array.clone());
        for route in routes {
            let world = World::with(&roomy()).await;
            world.changed("update providers set idle_ms = 300").await;
            let dialect = route.dialect();
            let reply = world.call_with(route.clone(), body(dialect, true), script).await;
            let Err(CallError::Upstream(failure)) = reply else {
                panic!("{route:?} {script}: {reply:?}");
            };
            assert_eq!(failure.kind, kind, "{route:?} {script}");
            let event = world.only_event().await;
            let status = Some(i32::from(kind.client_status()));
            assert_eq!((event.http_status, event.charge_nanos), (status, 0), "{route:?} {event:?}");
        }
    }
}

#[tokio::test]
async fn a_stream_cut_before_its_output_was_told_pays_for_the_words_and_is_marked() {
    let world = World::with(&roomy()).await;
    let script = "tokens_in=1000;tokens_out=400;reasoning=0;frames=40;cut_after=30";
    read(world.call(Dialect::Anthropic, true, script).await.unwrap()).await;
    let event = world.only_event().await;
    assert_eq!((event.usage_source.as_str(), event.input), ("estimated", 1_000), "{event:?}");
    assert!(event.output > 20, "{event:?}");
}

#[tokio::test]
async fn a_finished_stream_without_usage_is_estimated() {
    for dialect in DIALECTS {
        let world = World::with(&roomy()).await;
        read(world.call(dialect, true, "no_usage").await.unwrap()).await;
        let event = world.only_event().await;
        assert_eq!((event.outcome.as_str(), event.usage_source.as_str()), ("ok", "estimated"));
        assert!(event.input > 0 && event.output > 0 && event.charge_nanos > 0, "{event:?}");
    }
}

#[tokio::test]
async fn a_client_that_leaves_pays_what_the_provider_went_on_to_make() {
    for dialect in DIALECTS {
        let world = World::with(&roomy()).await;
        let script = "tokens_in=1000;tokens_out=320;reasoning=0;frames=40;frame_ms=5";
        let reply = world.call(dialect, true, script).await.unwrap();
        let ReplyBody::Stream(mut frames) = reply.body else { panic!("no stream") };
        frames.recv().await.unwrap().unwrap();
        drop(frames);
        let event = world.only_event().await;
        let case = format!("{dialect:?} {event:?}");
        assert_eq!(
            (event.outcome.as_str(), event.http_status),
            ("client_disconnected", None),
            "{case}"
        );
        assert_eq!(
            (event.usage_source.as_str(), event.charge_nanos),
            ("provider", charge(1_000, 320)),
            "{case}"
        );
        assert_eq!(world.sim.journal()[0].end, sim::End::Complete, "{case}");
    }
}

#[tokio::test]
async fn a_provider_that_is_not_read_on_is_closed_and_the_call_estimated() {
    for dialect in DIALECTS {
        let world = World::with(&roomy()).await;
        world.changed("update providers set on_disconnect = 'abort'").await;
        let reply = world.call(dialect, true, "frames=400;frame_ms=20").await.unwrap();
        let ReplyBody::Stream(mut frames) = reply.body else { panic!("no stream") };
        frames.recv().await.unwrap().unwrap();
        drop(frames);
        let event = world.only_event().await;
        assert_eq!(event.outcome, "client_disconnected");
        assert!(event.charge_nanos > 0, "{dialect:?} {event:?}");
        world.sim.wait_served(1).await;
        assert_eq!(world.sim.journal()[0].end, sim::End::ClientGone);
    }
}

#[tokio::test]
async fn a_client_that_leaves_before_the_answer_leaves_one_event() {
    let world = World::with(&roomy()).await;
    let call =
        world.call(Dialect::Openai, false, "delay_ms=300;tokens_in=10;tokens_out=5;reasoning=0");
    assert!(tokio::time::timeout(Duration::from_millis(100), call).await.is_err());
    let event = world.only_event().await;
    assert_eq!((event.outcome.as_str(), event.http_status), ("client_disconnected", None));
    assert_eq!(event.charge_nanos, charge(10, 5));
}

#[tokio::test]
async fn a_gateway_that_stops_settles_what_runs() {
    let world = World::with(&roomy()).await;
    let reply = world.call(Dialect::Openai, true, "frames=400;frame_ms=20").await.unwrap();
    let readers = TaskTracker::new();
    let reading = readers.spawn(read(reply));
    world.sim_has_open_streams(1).await;
    world.cut.cancel();
    let event = world.only_event().await;
    assert_eq!(event.outcome, "interrupted");
    let (bytes, _) = reading.await.unwrap();
    assert!(String::from_utf8(bytes).unwrap().contains("stopping"));
    let refused = world.call(Dialect::Openai, false, "").await;
    assert_eq!(refused.unwrap_err(), CallError::Draining);
}

#[tokio::test]
async fn an_error_inside_a_200_costs_nothing() {
    let world = World::with(&roomy()).await;
    let failed = world.call(Dialect::Openai, false, "error_after=0").await;
    assert!(matches!(failed, Err(CallError::Upstream(f)) if f.kind == FailureKind::BadAnswer));
    assert_eq!(world.only_event().await.charge_nanos, 0);
}

#[tokio::test]
async fn a_call_that_cannot_be_made_is_no_event() {
    let world = World::with(&roomy()).await;
    let mut unknown = body(Dialect::Openai, false);
    unknown["model"] = "no-such".into();
    let call = world.call_with(route(Dialect::Openai, false), unknown, "").await;
    assert!(matches!(call, Err(CallError::ModelNotFound { .. })));
    let mut other = body(Dialect::Openai, false);
    other["model"] = "anthropic-flash".into();
    let call = world.call_with(route(Dialect::Openai, false), other, "").await;
    assert!(matches!(call, Err(CallError::WrongDialect { .. })));
    let mut huge = body(Dialect::Openai, false);
    huge["max_tokens"] = 8_193.into();
    let call = world.call_with(route(Dialect::Openai, false), huge, "").await;
    assert!(matches!(call, Err(CallError::Invalid { .. })));
    assert_eq!(world.events().await, []);
    assert_eq!(world.sim.served(), 0);
}
