//! A stop in the middle of calls: what can end does, what cannot is cut, and all of it is in the
//! books.

use std::time::{Duration, Instant};

use reqwest::{Method, Response};
use serde_json::json;
use sim::{Pace, Sim, SimConfig};

use crate::process::TestWeir;

/// A Weir whose only provider is a simulator that lets `frame` pass between two frames.
pub(crate) async fn with_provider(
    frame: Duration,
    settings: &[(&str, &str)],
) -> (TestWeir, Sim, String) {
    let pace = Pace { frame, ..Pace::default() };
    let sim = Sim::start(SimConfig { pace, ..SimConfig::default() }).await.unwrap();
    let weir = TestWeir::start_with(settings).await;
    let provider = json!({ "name": "sim", "dialect": "openai", "base_url": sim.base_url(),
                           "credential": "sk-sim" });
    let (_, provider) = weir.admin(Method::POST, "/providers", Some(provider)).await;
    let routes = json!([{ "provider_id": provider["id"], "upstream_model": "gpt-5-mini" }]);
    let model = json!({ "name": "gpt-5-mini", "class": "flash", "routes": routes });
    let (_, model) = weir.admin(Method::POST, "/models", Some(model)).await;
    let price = json!({ "prices": { "input": "0.10", "output": "0.40" } });
    let path = format!("/models/{}/prices", model["id"]);
    assert_eq!(weir.admin(Method::POST, &path, Some(price)).await.0, 201);
    let tenant = weir.tenant("acme", "pro").await;
    let (_, key) = weir.key(tenant, "ci").await;
    (weir, sim, key)
}

async fn stream(weir: &TestWeir, key: &str) -> Response {
    let body = json!({ "model": "gpt-5-mini", "stream": true,
                       "messages": [{ "role": "user", "content": "Tell me of weirs." }] });
    let url = weir.url("/v1/chat/completions");
    let response = weir.client.post(url).bearer_auth(key).body(body.to_string()).send().await;
    let response = response.unwrap();
    assert_eq!(response.status(), 200);
    response
}

/// Reads the rest of a stream, however it ends.
async fn rest(mut response: Response) -> String {
    let mut all = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        all.extend_from_slice(&chunk);
    }
    String::from_utf8(all).unwrap()
}

/// How every call in the books ended.
async fn outcomes(pool: &sqlx::PgPool) -> Vec<String> {
    sqlx::query_scalar("select outcome from usage_events").fetch_all(pool).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_ends_in_time_is_read_to_its_end() {
    let (weir, sim, key) =
        with_provider(Duration::from_millis(20), &[("WEIR_DRAIN_S", "30")]).await;
    let mut response = stream(&weir, &key).await;
    let first = response.chunk().await.unwrap().unwrap();
    assert!(first.starts_with(b"data: "));
    let (text, database) = tokio::join!(rest(response), weir.stop());
    assert!(text.trim_end().ends_with("data: [DONE]"), "{text}");
    assert_eq!(outcomes(&database.pool).await, ["ok"]);
    sim.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_does_not_end_in_time_is_cut_and_settled() {
    let (weir, sim, key) =
        with_provider(Duration::from_secs(3_600), &[("WEIR_DRAIN_S", "1")]).await;
    let mut response = stream(&weir, &key).await;
    response.chunk().await.unwrap().unwrap();
    let began = Instant::now();
    let (text, database) = tokio::join!(rest(response), weir.stop());
    assert!(began.elapsed() < Duration::from_secs(20), "it waited for the provider");
    assert!(!text.contains("[DONE]"), "a cut stream must not look whole: {text}");
    assert_eq!(outcomes(&database.pool).await, ["interrupted"]);
    sim.stop().await;
}
