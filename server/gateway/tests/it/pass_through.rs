//! What passes, passes as it came.

use domain::usage::Dialect;

use crate::world::{DIALECTS, World, body, read, roomy, route};

#[tokio::test]
async fn a_stream_in_single_bytes_reaches_the_client_as_the_provider_sent_it() {
    for dialect in DIALECTS {
        let world = World::with(&roomy()).await;
        let whole = read(world.call(dialect, true, "id=same").await.unwrap()).await.0;
        let single = read(world.call(dialect, true, "id=same;split=1").await.unwrap()).await.0;
        let text = String::from_utf8_lossy(&whole);
        assert_eq!(single, whole, "{dialect:?}: {text}");
    }
}

#[tokio::test]
async fn usage_is_asked_for_and_shown_only_to_who_asked() {
    let world = World::with(&roomy()).await;
    let mut asks = body(Dialect::Openai, true);
    let hidden =
        read(world.call_with(route(Dialect::Openai, true), asks.clone(), "").await.unwrap())
            .await
            .0;
    asks["stream_options"] = serde_json::json!({"include_usage": true});
    let shown =
        read(world.call_with(route(Dialect::Openai, true), asks, "").await.unwrap()).await.0;
    let with_usage =
        |bytes: &[u8]| String::from_utf8_lossy(bytes).matches("\"prompt_tokens\"").count();
    assert_eq!((with_usage(&hidden), with_usage(&shown)), (0, 1));
    let events = world.events().await;
    assert_eq!(events[0].charge_nanos, events[1].charge_nanos);
    assert!(events.iter().all(|event| event.usage_source == "provider"));
}

#[tokio::test]
async fn the_output_bound_is_written_into_a_request_that_has_none() {
    for dialect in DIALECTS {
        let world = World::with(&roomy()).await;
        let mut unbounded = body(dialect, false);
        let members = unbounded.as_object_mut().unwrap();
        members.remove("max_tokens");
        members.remove("generationConfig");
        // The simulator stops at the bound it is given: the plan's default is 1,024.
        let call = world.call_with(route(dialect, false), unbounded, "tokens_out=5000;reasoning=0");
        read(call.await.unwrap()).await;
        assert_eq!(world.only_event().await.output, 1_024, "{dialect:?}");
    }
}

#[tokio::test]
async fn the_provider_sees_its_own_credential_and_asks_for_plain_bytes() {
    let world = World::with(&roomy()).await;
    read(world.call(Dialect::Openai, false, "").await.unwrap()).await;
    let served = &world.sim.journal()[0];
    assert_eq!(served.accept_encoding.as_deref(), Some("identity"));
    assert_eq!(served.credentials.len(), 1);
}
