//! The same seed and the same requests give the same bytes; nothing else matters.

use serde_json::json;

use crate::asks::{chat, gemini, messages, responses};
use crate::wire::{Ask, sim};

fn some_of_everything() -> Vec<Ask> {
    let stream = json!({"stream": true, "stream_options": {"include_usage": true}});
    vec![
        chat(json!({})),
        chat(stream),
        responses(json!({})),
        responses(json!({"stream": true})),
        messages(json!({})),
        messages(json!({"stream": true})),
        gemini("generateContent", json!({})),
        gemini("streamGenerateContent", json!({})),
        gemini("streamGenerateContent?alt=sse", json!({})),
        chat(json!({})).script("status=429;retry_after=3"),
        chat(json!({"stream": true})).script("error_after=2"),
    ]
}

/// Status, request id and body of every answer.
async fn bytes(seed: u64) -> Vec<(u16, Option<String>, Vec<u8>)> {
    let sim = sim(seed).await;
    let mut all = Vec::new();
    for ask in some_of_everything() {
        let answer = ask.answer(sim.addr()).await;
        let id = answer.header("x-request-id").or_else(|| answer.header("request-id"));
        all.push((answer.status, id.map(str::to_owned), answer.body));
    }
    sim.stop().await;
    all
}

#[tokio::test]
async fn the_same_seed_gives_the_same_bytes() {
    let (one, two, other) = (bytes(7).await, bytes(7).await, bytes(8).await);
    assert_eq!(one, two);
    for (one, other) in one.iter().zip(&other) {
        assert_ne!(one, other);
    }
}

#[tokio::test]
async fn the_same_prompt_costs_the_same_but_is_another_answer() {
    let sim = sim(7).await;
    let first = chat(json!({})).answer(sim.addr()).await.json();
    let second = chat(json!({})).answer(sim.addr()).await.json();
    assert_ne!(first["id"], second["id"]);
    assert_eq!((&first["usage"], &first["choices"]), (&second["usage"], &second["choices"]));
}
