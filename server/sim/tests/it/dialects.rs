//! Every route, plain and streamed: parsed, added up, and compared with the journal.

use serde_json::{Value, json};
use sim::{Dialect, End, Served, Sim};

use crate::asks::{chat, gemini, merged, messages, responses};
use crate::wire::{Answer, Ask, Ended, last, sim};

fn words(text: &str) -> u64 {
    if text.is_empty() { 0 } else { text.split(' ').count() as u64 }
}

/// `(9 + 39 bytes) / 4`
const INPUT: u64 = 12;

/// What holds for every answer that was not broken.
async fn served_well(sim: &Sim, ask: &Ask) -> (Answer, Served) {
    let answer = ask.answer(sim.addr()).await;
    assert_eq!((answer.status, answer.ended), (200, Ended::Clean), "{}", answer.text());
    let served = last(sim);
    assert_eq!(served.end, End::Complete);
    assert_eq!(served.bytes_sent, answer.body.len() as u64);
    let name = if served.dialect == Dialect::Anthropic { "request-id" } else { "x-request-id" };
    assert_eq!(answer.header(name), Some(served.upstream_request_id.as_str()));
    (answer, served)
}

#[tokio::test]
async fn openai_chat_adds_up_plain_and_streamed() {
    let sim = sim(1).await;
    let (plain, served) = served_well(&sim, &chat(json!({}))).await;
    let body = plain.json();
    assert_eq!(body["object"], "chat.completion");
    assert_eq!(body["id"], served.response_id.as_str());
    let text = body["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
    let usage = &body["usage"];
    assert_eq!(served.usage.as_ref(), Some(usage));
    assert_eq!(usage["prompt_tokens"], INPUT);
    assert_eq!(served.tokens.visible(), words(&text));
    assert!(served.tokens.reasoning > 0, "sol thinks");
    assert_eq!(usage["completion_tokens"], served.tokens.output);
    assert_eq!(usage["completion_tokens_details"]["reasoning_tokens"], served.tokens.reasoning);
    assert_eq!(usage["total_tokens"], INPUT + served.tokens.output);

    let asked = json!({"stream": true, "stream_options": {"include_usage": true}});
    let (stream, again) = served_well(&sim, &chat(asked)).await;
    assert_eq!(stream.header("content-type"), Some("text/event-stream; charset=utf-8"));
    assert!(stream.text().ends_with("\n\ndata: [DONE]\n\n"));
    let chunks = stream.data();
    let (end, chunks) = chunks.split_last().unwrap();
    assert_eq!(end["choices"], json!([]));
    assert_eq!(&end["usage"], usage, "same prompt, same figures");
    assert!(again.usage_stated);
    let mut streamed = String::new();
    for chunk in chunks {
        assert_eq!(chunk.get("usage"), Some(&Value::Null));
        streamed += chunk["choices"][0]["delta"]["content"].as_str().unwrap_or_default();
    }
    assert_eq!(streamed, text);
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    assert_eq!(chunks.last().unwrap()["choices"][0]["finish_reason"], "stop");
}

#[tokio::test]
async fn openai_says_nothing_about_usage_unless_asked() {
    let sim = sim(1).await;
    let (stream, served) = served_well(&sim, &chat(json!({"stream": true}))).await;
    assert!(!stream.text().contains("usage"));
    assert!(stream.text().contains("obfuscation"));
    assert!(!served.usage_stated);
    assert!(served.tokens.output > 0);
    let plain = json!({"stream": true, "stream_options": {"include_obfuscation": false}});
    assert!(!served_well(&sim, &chat(plain)).await.0.text().contains("obfuscation"));
}

#[tokio::test]
async fn openai_choices_are_capped_each_and_counted_together() {
    let sim = sim(1).await;
    let ask = chat(json!({"model": "gpt-5.4-mini", "n": 3, "max_tokens": 9,
        "max_completion_tokens": 5}));
    let (plain, served) = served_well(&sim, &ask).await;
    let body = plain.json();
    let choices = body["choices"].as_array().unwrap();
    assert_eq!(choices.len(), 3);
    for choice in choices {
        assert_eq!(choice["finish_reason"], "length");
        assert_eq!(words(choice["message"]["content"].as_str().unwrap()), 5);
    }
    assert_ne!(choices[0]["message"], choices[1]["message"]);
    assert_eq!(served.tokens.output, 15);

    let ask = chat(json!({"model": "gpt-5.4-mini", "n": 3, "max_tokens": 5, "stream": true}));
    let (stream, served) = served_well(&sim, &ask).await;
    let mut texts = [const { String::new() }; 3];
    for chunk in stream.data() {
        let choice = &chunk["choices"][0];
        let index = usize::try_from(choice["index"].as_u64().unwrap()).unwrap();
        texts[index] += choice["delta"]["content"].as_str().unwrap_or_default();
    }
    for (text, choice) in texts.iter().zip(choices) {
        assert_eq!(text.as_str(), choice["message"]["content"]);
    }
    assert_eq!(served.tokens.output, 15);
}

#[tokio::test]
async fn openai_legacy_completions_answer_every_prompt() {
    let sim = sim(1).await;
    let ask = |extra| {
        let body = json!({"model": "gpt-3.5-turbo-instruct", "prompt": ["a", "b"],
            "max_tokens": 4});
        let ask = Ask::new("POST", "/v1/completions").header("authorization", "Bearer k");
        ask.body(&merged(body, extra))
    };
    let (plain, served) = served_well(&sim, &ask(json!({}))).await;
    let body = plain.json();
    assert_eq!(body["object"], "text_completion");
    assert_eq!(served.tokens.output, 8);
    assert_eq!(body["usage"]["completion_tokens"], 8);
    let (stream, _) = served_well(&sim, &ask(json!({"stream": true}))).await;
    let first: String = stream
        .data()
        .iter()
        .filter(|chunk| chunk["choices"][0]["index"] == 0)
        .map(|chunk| chunk["choices"][0]["text"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(body["choices"][0]["text"], first);
}

#[tokio::test]
async fn openai_responses_come_in_the_order_of_the_wire() {
    let sim = sim(1).await;
    let (plain, served) = served_well(&sim, &responses(json!({}))).await;
    let body = plain.json();
    assert_eq!(
        (&body["status"], &body["output"][0]["type"]),
        (&json!("completed"), &json!("reasoning"))
    );
    let text = body["output"][1]["content"][0]["text"].as_str().unwrap();
    assert_eq!(words(text), served.tokens.visible());
    assert_eq!(served.usage.as_ref(), Some(&body["usage"]));

    let (stream, _) = served_well(&sim, &responses(json!({"stream": true}))).await;
    assert!(!stream.text().contains("[DONE]"));
    let events = stream.events();
    let mut kinds: Vec<&str> = events.iter().map(|(event, _)| event.as_str()).collect();
    kinds.dedup();
    assert_eq!(
        kinds,
        [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.output_item.done",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.completed",
        ]
    );
    let mut streamed = String::new();
    for (number, ((event, _), data)) in events.iter().zip(stream.data()).enumerate() {
        assert_eq!((&data["type"], &data["sequence_number"]), (&json!(event), &json!(number)));
        streamed += data["delta"].as_str().unwrap_or_default();
    }
    assert_eq!(streamed, text);
    let end = stream.data().pop().unwrap();
    assert_eq!(end["response"]["usage"], body["usage"]);

    let cut = responses(json!({"stream": true, "max_output_tokens": 3}));
    let (stream, served) = served_well(&sim, &cut).await;
    let end = stream.data().pop().unwrap();
    assert_eq!(end["type"], "response.incomplete");
    assert_eq!(end["response"]["incomplete_details"]["reason"], "max_output_tokens");
    assert_eq!(served.tokens.output, 3);
}

#[tokio::test]
async fn openai_embeddings_are_the_same_numbers_in_both_encodings() {
    let sim = sim(1).await;
    let ask = |extra| {
        let body = json!({"model": "text-embedding-3-small", "input": ["12345", "678"],
            "dimensions": 4});
        let ask = Ask::new("POST", "/v1/embeddings").header("authorization", "Bearer k");
        ask.body(&merged(body, extra))
    };
    let (plain, served) = served_well(&sim, &ask(json!({}))).await;
    let body = plain.json();
    assert_eq!(body["usage"], json!({"prompt_tokens": 2, "total_tokens": 2}));
    assert_eq!(served.usage.as_ref(), Some(&body["usage"]));
    assert_eq!((served.tokens.input, served.tokens.output), (2, 0));
    let numbers = body["data"][1]["embedding"].as_array().unwrap();
    assert_eq!(numbers.len(), 4);
    let (coded, _) = served_well(&sim, &ask(json!({"encoding_format": "base64"}))).await;
    let text = coded.json()["data"][1]["embedding"].as_str().unwrap().to_owned();
    assert_eq!(text.len(), 24, "sixteen bytes in base64");
}

#[tokio::test]
async fn anthropic_streams_a_provisional_count_and_then_the_truth() {
    let sim = sim(1).await;
    let (plain, served) = served_well(&sim, &messages(json!({}))).await;
    let body = plain.json();
    let text = body["content"][0]["text"].as_str().unwrap();
    assert_eq!(words(text), served.tokens.visible());
    assert_eq!(body["usage"]["input_tokens"], INPUT);
    assert_eq!(body["usage"]["output_tokens"], served.tokens.output);
    assert!(body["usage"].get("cache_read_input_tokens").is_none());
    assert_eq!(body["stop_reason"], "end_turn");

    let (stream, again) = served_well(&sim, &messages(json!({"stream": true}))).await;
    assert_eq!(again.tokens, served.tokens);
    let events = stream.events();
    let mut kinds: Vec<&str> = events.iter().map(|(event, _)| event.as_str()).collect();
    kinds.dedup();
    assert_eq!(
        kinds,
        [
            "message_start",
            "content_block_start",
            "ping",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop",
        ]
    );
    let data = stream.data();
    let provisional = data[0]["message"]["usage"]["output_tokens"].as_u64().unwrap();
    assert!((1..=8).contains(&provisional));
    let streamed: String = data.iter().filter_map(|data| data["delta"]["text"].as_str()).collect();
    assert_eq!(streamed, text);
    let delta = data.iter().find(|data| data["type"] == "message_delta").unwrap();
    assert_eq!(delta["usage"]["output_tokens"], served.tokens.output);
    assert_eq!(delta["usage"]["input_tokens"], INPUT);
}

#[tokio::test]
async fn anthropic_counts_caches_apart_when_asked_for_them() {
    let sim = sim(1).await;
    let mark = |ttl| json!({"type": "ephemeral", "ttl": ttl});
    let system = json!([{"type": "text", "text": "x".repeat(300), "cache_control": mark("5m")},
        {"type": "text", "text": "y".repeat(61), "cache_control": mark("1h")}]);
    let ask = messages(json!({"system": system, "stream": true, "thinking":
        {"type": "enabled", "budget_tokens": 1024}}));
    let (stream, served) = served_well(&sim, &ask).await;
    let data = stream.data();
    let start = &data[0]["message"]["usage"];
    let split = &start["cache_creation"];
    assert_eq!(served.tokens.input, 100);
    assert_eq!(
        (&start["input_tokens"], &start["cache_read_input_tokens"]),
        (&json!(25), &json!(50))
    );
    assert_eq!(start["cache_creation_input_tokens"], 25);
    assert_eq!(split["ephemeral_5m_input_tokens"], 13);
    assert_eq!(split["ephemeral_1h_input_tokens"], 12);
    let delta = data.iter().find(|data| data["type"] == "message_delta").unwrap();
    assert_eq!(delta["usage"]["cache_read_input_tokens"], 50);
    assert!(delta["usage"].get("cache_creation").is_none(), "the split is in the start only");
    let kinds: Vec<&Value> =
        data.iter().map(|data| &data["content_block"]["type"]).filter(|k| k.is_string()).collect();
    assert_eq!(kinds, ["thinking", "text"]);
    let thoughts = data.iter().find_map(|data| data["delta"]["thinking"].as_str()).unwrap();
    assert_eq!(words(thoughts), served.tokens.reasoning);
}

#[tokio::test]
async fn anthropic_cap_of_zero_bills_the_prompt_only() {
    let sim = sim(1).await;
    let (plain, served) = served_well(&sim, &messages(json!({"max_tokens": 0}))).await;
    let body = plain.json();
    assert_eq!((&body["content"], &body["stop_reason"]), (&json!([]), &json!("max_tokens")));
    assert_eq!((served.tokens.input, served.tokens.output), (INPUT, 0));
}

#[tokio::test]
async fn gemini_counts_thoughts_outside_the_candidates() {
    let sim = sim(1).await;
    let ask = gemini("generateContent", json!({"generationConfig": {"candidateCount": 2}}));
    let (plain, served) = served_well(&sim, &ask).await;
    assert!(plain.text().starts_with("{\n  \"candidates\": ["));
    let body = plain.json();
    let usage = &body["usageMetadata"];
    let spoken: u64 = body["candidates"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| words(one["content"]["parts"][0]["text"].as_str().unwrap()))
        .sum();
    assert_eq!(usage["candidatesTokenCount"], spoken);
    assert_eq!(usage["thoughtsTokenCount"], served.tokens.reasoning);
    assert_eq!(usage["totalTokenCount"], INPUT + spoken + served.tokens.reasoning);
    assert!(usage.get("cachedContentTokenCount").is_none(), "zero is left out");
}

#[tokio::test]
async fn gemini_streams_the_same_as_sse_and_as_an_array() {
    let sim = sim(1).await;
    let (sse, first) = served_well(&sim, &gemini("streamGenerateContent?alt=sse", json!({}))).await;
    assert!(sse.text().contains("\r\n\r\n") && !sse.text().replace("\r\n", "").contains('\n'));
    let (array, second) = served_well(&sim, &gemini("streamGenerateContent", json!({}))).await;
    assert!(array.text().starts_with("[{") && array.text().ends_with("}\n]"));
    assert!(array.text().contains("\n}\n,\n{\n"));
    assert_eq!(first.tokens, second.tokens);
    let elements: Vec<Value> = serde_json::from_slice(&array.body).unwrap();
    let mut before = 0;
    for (mut event, mut element) in sse.data().into_iter().zip(elements.clone()) {
        let total = event["usageMetadata"]["totalTokenCount"].as_u64().unwrap();
        assert!(total > before, "usage is cumulative");
        before = total;
        // Only the id of the answer differs.
        event["responseId"] = Value::Null;
        element["responseId"] = Value::Null;
        assert_eq!(event, element);
    }
    let end = elements.last().unwrap();
    assert_eq!(end["candidates"][0]["finishReason"], "STOP");
    assert_eq!(before, INPUT + first.tokens.output);
    let text: String = elements
        .iter()
        .map(|one| one["candidates"][0]["content"]["parts"][0]["text"].as_str().unwrap())
        .collect();
    assert_eq!(words(&text), first.tokens.visible());
}

#[tokio::test]
async fn gemini_cap_holds_thoughts_and_words_together() {
    let sim = sim(1).await;
    for name in ["maxOutputTokens", "max_output_tokens"] {
        let config = json!({"generation_config": {name: "4"}});
        let ask = gemini("streamGenerateContent?alt=sse", config);
        let (stream, served) = served_well(&sim, &ask).await;
        assert_eq!((served.tokens.output, served.tokens.visible()), (4, 0));
        let end = stream.data().pop().unwrap();
        assert_eq!(end["candidates"][0]["finishReason"], "MAX_TOKENS");
        assert!(end["usageMetadata"].get("candidatesTokenCount").is_none());
    }
}

#[tokio::test]
async fn gemini_embeds_one_and_many() {
    let sim = sim(1).await;
    let content = json!({"parts": [{"text": "12345678"}]});
    let one = json!({"content": content, "outputDimensionality": 3});
    let ask = |verb: &str, body: &Value| {
        let ask = Ask::new("POST", format!("/v1/models/gemini-embedding-001:{verb}"));
        ask.header("x-goog-api-key", "k").body(body)
    };
    let (single, _) = served_well(&sim, &ask("embedContent", &one)).await;
    assert_eq!(single.json()["embedding"]["values"].as_array().unwrap().len(), 3);
    let many = json!({"requests": [one, {"content": content}]});
    let (batch, served) = served_well(&sim, &ask("batchEmbedContents", &many)).await;
    let body = batch.json();
    assert_eq!(body["embeddings"][1]["values"].as_array().unwrap().len(), 768);
    assert_eq!(body["usageMetadata"]["promptTokenCount"], 4);
    assert_eq!(served.usage.as_ref(), Some(&body["usageMetadata"]));
}

#[tokio::test]
async fn counting_tokens_agrees_with_the_call_and_bills_nothing() {
    let sim = sim(1).await;
    let mut count = messages(json!({}));
    count.target = "/v1/messages/count_tokens".to_owned();
    let (answer, served) = served_well(&sim, &count).await;
    assert_eq!(answer.json(), json!({"input_tokens": INPUT}));
    assert_eq!((served.usage, served.tokens.input), (None, 0));
    let (answer, served) = served_well(&sim, &gemini("countTokens", json!({}))).await;
    assert_eq!(answer.json()["totalTokens"], INPUT);
    assert_eq!(served.usage, None);
}

#[tokio::test]
async fn models_are_listed_in_the_shape_of_whoever_asks() {
    let sim = sim(1).await;
    let list = |target: &str, header: (&str, &str)| {
        Ask::new("GET", target).header(header.0, header.1).header("x-api-key", "k")
    };
    let openai = list("/v1/models", ("accept", "*/*"));
    let body = served_well(&sim, &openai).await.0.json();
    assert_eq!((&body["object"], &body["data"][0]["object"]), (&json!("list"), &json!("model")));
    let id = body["data"][0]["id"].as_str().unwrap();
    let one = list(&format!("/v1/models/{id}"), ("accept", "*/*"));
    assert_eq!(served_well(&sim, &one).await.0.json(), body["data"][0]);

    let anthropic = list("/v1/models", ("anthropic-version", "2026-10-21"));
    let body = served_well(&sim, &anthropic).await.0.json();
    assert_eq!((&body["has_more"], &body["data"][0]["type"]), (&json!(false), &json!("model")));

    let gemini = list("/v1beta/models", ("accept", "*/*"));
    let body = served_well(&sim, &gemini).await.0.json();
    let name = body["models"][0]["name"].as_str().unwrap();
    let one = list(&format!("/v1beta/{name}"), ("accept", "*/*"));
    assert_eq!(served_well(&sim, &one).await.0.json(), body["models"][0]);
}
