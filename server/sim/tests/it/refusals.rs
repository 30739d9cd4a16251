//! What a provider refuses by itself.

use serde_json::json;
use sim::End;

use crate::asks::{chat, gemini, messages};
use crate::wire::{Ask, only, sim};

#[tokio::test]
async fn a_call_without_a_credential_is_401_in_its_dialect() {
    let sim = sim(1).await;
    let bare = |mut ask: Ask| {
        ask.headers.retain(|(name, _)| {
            !["authorization", "x-api-key", "x-goog-api-key"].contains(&name.as_str())
        });
        ask
    };
    let answer = bare(chat(json!({}))).answer(sim.addr()).await;
    assert_eq!((answer.status, &answer.json()["error"]["code"]), (401, &json!("invalid_api_key")));
    let answer = bare(messages(json!({}))).answer(sim.addr()).await;
    assert_eq!(
        (answer.status, &answer.json()["error"]["type"]),
        (401, &json!("authentication_error"))
    );
    let answer = bare(gemini("generateContent", json!({}))).answer(sim.addr()).await;
    assert_eq!(
        (answer.status, &answer.json()["error"]["status"]),
        (401, &json!("UNAUTHENTICATED"))
    );
    let empty = bare(chat(json!({}))).header("authorization", "Bearer ").answer(sim.addr()).await;
    assert_eq!(empty.status, 401);
    assert!(sim.journal().iter().all(|served| served.end == End::ErrorStatus));
}

#[tokio::test]
async fn every_style_of_credential_is_taken_and_only_its_end_is_kept() {
    let sim = sim(1).await;
    let mut ask = chat(json!({}));
    ask.headers.clear();
    ask.target += "?key=query-secret-QQQQ";
    let ask = ask
        .header("authorization", "Bearer sk-secret-AAAA")
        .header("x-api-key", "sk-secret-BBBB")
        .header("x-goog-api-key", "CC")
        .header("accept-encoding", "gzip, deflate")
        .header("weir-request-id", "01WEIR");
    assert_eq!(ask.answer(sim.addr()).await.status, 200);
    let served = only(&sim);
    let seen: Vec<(&str, &str)> =
        served.credentials.iter().map(|one| (&*one.via, one.last4.as_str())).collect();
    assert_eq!(
        seen,
        [
            ("authorization", "AAAA"),
            ("x-api-key", "BBBB"),
            ("x-goog-api-key", "CC"),
            ("query:key", "QQQQ"),
        ]
    );
    assert!(!serde_json::to_string(&served).unwrap().contains("secret"));
    assert_eq!(served.accept_encoding.as_deref(), Some("gzip, deflate"));
    assert_eq!(served.weir_request_id.as_deref(), Some("01WEIR"));
    assert!(served.header_names.split(',').any(|name| name == "x-goog-api-key"));
}

#[tokio::test]
async fn a_wrong_path_or_method_is_404_in_its_dialect() {
    let sim = sim(1).await;
    let ask = |method, target: &str| Ask::new(method, target).header("x-api-key", "k");
    let answer = ask("POST", "/v1/nonsense").answer(sim.addr()).await;
    let message = answer.json()["error"]["message"].clone();
    assert_eq!((answer.status, message), (404, json!("Invalid URL (POST /v1/nonsense)")));
    let answer = ask("GET", "/v1/messages").answer(sim.addr()).await;
    assert_eq!((answer.status, &answer.json()["error"]["type"]), (404, &json!("not_found_error")));
    let answer = ask("POST", "/v1beta/models/g:sing").answer(sim.addr()).await;
    assert_eq!((answer.status, &answer.json()["error"]["status"]), (404, &json!("NOT_FOUND")));
    let answer = ask("GET", "/v1/models/nobody").answer(sim.addr()).await;
    assert_eq!((answer.status, &answer.json()["error"]["code"]), (404, &json!("model_not_found")));
    assert_eq!(ask("GET", "/sim/nothing").answer(sim.addr()).await.status, 404);
}

#[tokio::test]
async fn a_body_that_is_wrong_is_400_and_names_the_field() {
    let sim = sim(1).await;
    let mut broken = chat(json!({}));
    broken.body.truncate(20);
    assert_eq!(broken.answer(sim.addr()).await.status, 400);
    for (ask, param) in [
        (chat(json!({"model": null})), "model"),
        (chat(json!({"messages": []})), "messages"),
        (chat(json!({"max_tokens": -1})), "max_tokens"),
        (chat(json!({"max_completion_tokens": 1.5})), "max_completion_tokens"),
        (chat(json!({"n": 0})), "n"),
        (chat(json!({"stream": "yes"})), "stream"),
        (chat(json!({"stream_options": {"include_usage": true}})), "stream_options"),
    ] {
        let answer = ask.answer(sim.addr()).await;
        assert_eq!((answer.status, &answer.json()["error"]["param"]), (400, &json!(param)));
    }
    let answer = messages(json!({"max_tokens": null})).answer(sim.addr()).await;
    assert_eq!(
        (answer.status, &answer.json()["error"]["message"]),
        (400, &json!("max_tokens: Field required"))
    );
    let mut unversioned = messages(json!({}));
    unversioned.headers.retain(|(name, _)| name != "anthropic-version");
    assert_eq!(unversioned.answer(sim.addr()).await.status, 400);
    let answer = gemini("generateContent", json!({"contents": "text"})).answer(sim.addr()).await;
    assert_eq!(
        (answer.status, &answer.json()["error"]["status"]),
        (400, &json!("INVALID_ARGUMENT"))
    );
    let misspelt = chat(json!({})).script("hnag").answer(sim.addr()).await;
    assert_eq!(misspelt.status, 400);
    assert!(misspelt.text().contains("hnag"));
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_413() {
    let sim = sim(1).await;
    let huge = "x".repeat(32 * 1024 * 1024);
    let ask = messages(json!({"messages": [{"role": "user", "content": huge}]}));
    let answer = ask.answer(sim.addr()).await;
    assert_eq!(
        (answer.status, &answer.json()["error"]["type"]),
        (413, &json!("request_too_large"))
    );
}
