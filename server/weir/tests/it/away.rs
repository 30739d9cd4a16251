//! PostgreSQL takes no events: calls go on for a while, then they are refused, and nothing has to be restarted.

use std::time::{Duration, Instant};

use reqwest::Response;
use serde_json::{Value, json};

use crate::drain::with_provider;
use crate::process::TestWeir;

/// Longer than the change that is waited for takes.
const PATIENCE: Duration = Duration::from_secs(30);

async fn call(weir: &TestWeir, key: &str) -> Response {
    let body = json!({ "model": "gpt-5-mini",
                       "messages": [{ "role": "user", "content": "Tell me of weirs." }] });
    let url = weir.url("/v1/chat/completions");
    weir.client.post(url).bearer_auth(key).body(body.to_string()).send().await.unwrap()
}

/// Calls until the answer has this status.
async fn until(weir: &TestWeir, key: &str, status: u16) -> Response {
    let began = Instant::now();
    loop {
        let response = call(weir, key).await;
        if response.status() == status {
            return response;
        }
        assert!([200, 503].contains(&response.status().as_u16()), "{response:?}");
        assert!(began.elapsed() < PATIENCE, "{status} does not come");
        // Calls that wait for the books keep their places among those that run: no more than the plan has are made.
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn books_that_stay_away_are_told_with_503_and_forgotten_when_they_are_back() {
    let settings = [("WEIR_SPOOL_ADMIT_SECONDS", "0")];
    let (weir, sim, key) = with_provider(Duration::ZERO, &settings).await;
    let alter = async |sql: &'static str| {
        sqlx::query(sql).execute(weir.pool()).await.unwrap();
    };
    alter("alter table usage_events rename to usage_events_away").await;
    assert_eq!(call(&weir, &key).await.status(), 200, "one call does not wait for the books");
    let refused = until(&weir, &key, 503).await;
    assert_eq!(refused.headers()["retry-after"], "5");
    let body: Value = serde_json::from_str(&refused.text().await.unwrap()).unwrap();
    assert_eq!(body["error"]["code"], "books_unavailable", "{body}");
    assert_eq!(body["error"]["source"], "gateway", "{body}");
    let served = sim.served();
    assert_eq!(call(&weir, &key).await.status(), 503);
    assert_eq!(sim.served(), served, "nothing is forwarded");
    alter("alter table usage_events_away rename to usage_events").await;
    until(&weir, &key, 200).await;
    let database = weir.stop().await;
    let events: i64 = sqlx::query_scalar("select count(*) from usage_events")
        .fetch_one(&database.pool)
        .await
        .unwrap();
    assert_eq!(u64::try_from(events).unwrap(), sim.served(), "every call is in the books");
    sim.stop().await;
}
