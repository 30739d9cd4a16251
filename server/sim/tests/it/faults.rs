//! Every fault a script can ask for, as the other end sees it.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sim::{End, Tokens};

use crate::asks::{PROMPT, chat, gemini, messages, responses};
use crate::wire::{Answer, Ask, Ended, last, only, sim};

fn streams() -> [Ask; 5] {
    [
        chat(json!({"stream": true, "stream_options": {"include_usage": true}})),
        responses(json!({"stream": true})),
        messages(json!({"stream": true})),
        gemini("streamGenerateContent?alt=sse", json!({})),
        gemini("streamGenerateContent", json!({})),
    ]
}

fn has_terminal(answer: &Answer) -> bool {
    let text = answer.text();
    ["[DONE]", "response.completed", "message_stop", "finishReason"]
        .iter()
        .any(|t| text.contains(t))
}

#[tokio::test]
async fn errors_come_in_the_shape_of_the_dialect() {
    let sim = sim(1).await;
    let script = "status=429;retry_after=2";
    let answer = chat(json!({})).script(script).answer(sim.addr()).await;
    assert_eq!((answer.status, answer.header("retry-after")), (429, Some("2")));
    assert_eq!(answer.json()["error"]["code"], "rate_limit_exceeded");
    let served = only(&sim);
    assert_eq!((served.end, served.status), (End::ErrorStatus, 429));
    assert_eq!((served.usage, served.tokens), (None, Tokens::default()));
    assert_eq!(served.script.as_deref(), Some(script));

    let money = "status=429;code=insufficient_quota";
    let body = chat(json!({})).script(money).answer(sim.addr()).await.json();
    assert_eq!(body["error"]["type"], "insufficient_quota");

    let answer = messages(json!({})).script("status=529").answer(sim.addr()).await;
    let body = answer.json();
    assert_eq!((answer.status, &body["error"]["type"]), (529, &json!("overloaded_error")));
    assert_eq!(body["request_id"].as_str(), answer.header("request-id"));

    let answer = gemini("generateContent", json!({})).script(script).answer(sim.addr()).await;
    let error = &answer.json()["error"];
    assert_eq!((&error["code"], &error["status"]), (&json!(429), &json!("RESOURCE_EXHAUSTED")));
    assert_eq!(error["details"][1]["retryDelay"], "2s");
    assert_eq!(answer.header("retry-after"), None, "this dialect has no such header");

    let array = gemini("streamGenerateContent", json!({})).script("status=503");
    let body = array.answer(sim.addr()).await.json();
    assert_eq!(body[0]["error"]["status"], "UNAVAILABLE");

    let moved = chat(json!({})).script("status=302;location=http://192.0.2.1/");
    let answer = moved.answer(sim.addr()).await;
    assert_eq!((answer.status, answer.header("location")), (302, Some("http://192.0.2.1/")));

    let edge = chat(json!({})).script("status=502;garbage_after=0").answer(sim.addr()).await;
    assert_eq!((edge.status, edge.header("content-type")), (502, Some("text/html")));
}

#[tokio::test]
async fn a_cut_stream_ends_cleanly_without_its_terminal_frame() {
    let sim = sim(1).await;
    for ask in streams() {
        let whole = ask.clone().script("cut_after=3").answer(sim.addr()).await;
        assert_eq!(whole.ended, Ended::Clean);
        assert!(!has_terminal(&whole), "{}", whole.text());
        let served = last(&sim);
        assert_eq!((served.end, served.frames_sent), (End::Cut, 3));
        let full = ask.answer(sim.addr()).await;
        assert!(has_terminal(&full));
        let full = last(&sim);
        assert!(served.tokens.output < full.tokens.output, "only what was generated is billed");
        assert_eq!(served.tokens.input, full.tokens.input);
    }
}

#[tokio::test]
async fn a_reset_reaches_the_caller_after_the_frames_before_it() {
    let sim = sim(1).await;
    for ask in streams() {
        let answer = ask.clone().script("reset_after=2").answer(sim.addr()).await;
        assert_eq!(answer.ended, Ended::Reset);
        let served = last(&sim);
        assert_eq!((served.end, served.frames_sent), (End::Reset, 2));
        assert_eq!(served.bytes_sent, answer.body.len() as u64);
    }
}

#[tokio::test]
async fn a_reset_can_fall_on_any_byte() {
    let sim = sim(1).await;
    for at in [0, 1, 100, 333] {
        for ask in streams() {
            let ask = ask.script(&format!("reset_at_byte={at}"));
            let answer = ask.answer(sim.addr()).await;
            assert_eq!((answer.ended, answer.body.len()), (Ended::Reset, at));
            let served = last(&sim);
            assert_eq!((served.end, served.bytes_sent), (End::Reset, at as u64));
        }
    }
}

#[tokio::test]
async fn a_plain_answer_breaks_in_its_middle() {
    let sim = sim(1).await;
    let ask = chat(json!({}));
    let whole = ask.answer(sim.addr()).await.body.len();
    let answer = ask.clone().script("cut_after=1").answer(sim.addr()).await;
    assert_eq!((answer.ended, answer.body.len()), (Ended::Cut, whole / 2));
    let served = last(&sim);
    assert_eq!(served.end, End::Cut);
    assert!(served.tokens.output > 0 && !served.usage_stated);
    let answer = ask.clone().script("reset_after=1").answer(sim.addr()).await;
    assert_eq!((answer.ended, answer.body.len()), (Ended::Reset, whole / 2));
    let answer = ask.clone().script("garbage_after=1").answer(sim.addr()).await;
    assert!(serde_json::from_slice::<Value>(&answer.body).is_err());
    let answer = ask.script("error_after=0").answer(sim.addr()).await;
    assert_eq!((answer.status, &answer.json()["error"]["type"]), (200, &json!("server_error")));
    assert_eq!(last(&sim).end, End::ErrorFrame);
}

#[tokio::test]
async fn garbage_is_no_json_and_no_utf8_and_the_stream_goes_on() {
    let sim = sim(1).await;
    for ask in streams() {
        let answer = ask.script("garbage_after=2").answer(sim.addr()).await;
        assert!(String::from_utf8(answer.body.clone()).is_err());
        assert_eq!((answer.ended, last(&sim).end), (Ended::Clean, End::Complete));
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        assert!(
            ["[DONE]", "response.completed", "message_stop", "STOP"]
                .iter()
                .any(|t| text.contains(t))
        );
    }
}

#[tokio::test]
async fn an_error_inside_a_stream_is_the_dialects_own() {
    let sim = sim(1).await;
    let [chat, responses, messages, sse, array] =
        streams().map(|ask| ask.script("error_after=2;status=429"));
    let end = chat.answer(sim.addr()).await.data().pop().unwrap();
    assert_eq!(end["error"]["code"], "rate_limit_exceeded");
    let answer = responses.answer(sim.addr()).await;
    let (event, data) = answer.events().pop().unwrap();
    let data: Value = serde_json::from_str(&data).unwrap();
    assert_eq!((event.as_str(), &data["code"]), ("error", &json!("rate_limit_exceeded")));
    let answer = messages.answer(sim.addr()).await;
    let (event, data) = answer.events().pop().unwrap();
    let data: Value = serde_json::from_str(&data).unwrap();
    assert_eq!((event.as_str(), &data["error"]["type"]), ("error", &json!("rate_limit_error")));
    assert_eq!(data["request_id"].as_str(), answer.header("request-id"));
    let end = sse.answer(sim.addr()).await.data().pop().unwrap();
    assert_eq!(end["error"]["status"], "RESOURCE_EXHAUSTED");
    let body = array.answer(sim.addr()).await.json();
    assert_eq!(body[2]["error"]["code"], 429);
    let ends: Vec<End> = sim.journal().iter().map(|served| served.end).collect();
    assert_eq!(ends, [End::ErrorFrame; 5]);
}

#[tokio::test]
async fn small_writes_change_nothing_but_the_borders() {
    let sim = sim(1).await;
    for ask in streams() {
        let whole = ask.clone().script("id=same").answer(sim.addr()).await;
        let pieces = ask.script("id=same;split=7").answer(sim.addr()).await;
        assert_eq!(whole.body, pieces.body);
    }
}

#[tokio::test]
async fn pauses_are_kept() {
    let sim = sim(1).await;
    let started = Instant::now();
    chat(json!({})).script("delay_ms=120").answer(sim.addr()).await;
    assert!(started.elapsed() >= Duration::from_millis(120));
    let started = Instant::now();
    let ask = chat(json!({"stream": true})).script("frames=3;frame_ms=30");
    ask.answer(sim.addr()).await;
    // Role, three texts, finish, terminal: five pauses between six frames.
    assert!(started.elapsed() >= Duration::from_millis(150));
}

#[tokio::test]
async fn silence_lasts_until_the_caller_leaves() {
    let sim = sim(1).await;
    let call = chat(json!({})).script("hang").send(sim.addr()).await;
    while sim.stats().arrived == 0 {
        tokio::task::yield_now().await;
    }
    drop(call);
    sim.wait_served(1).await;
    let served = last(&sim);
    assert_eq!((served.end, served.status, served.usage), (End::Hang, 0, None));

    let mut call = chat(json!({"stream": true})).script("hang_after=3").send(sim.addr()).await;
    call.read_until("logprobs\":null,\"finish_reason\":null}]").await;
    drop(call);
    sim.wait_served(2).await;
    let served = last(&sim);
    assert_eq!((served.end, served.status, served.frames_sent), (End::Hang, 200, 3));
    assert!(served.tokens.output > 0);
}

#[tokio::test]
async fn scripted_figures_reach_the_wire_in_each_dialects_words() {
    let sim = sim(1).await;
    let script = "tokens_in=1000;cached=200;cache_write=100;tokens_out=3200;reasoning=3000";
    let body = chat(json!({})).script(script).answer(sim.addr()).await.json();
    let usage = &body["usage"];
    assert_eq!(
        (&usage["prompt_tokens"], &usage["completion_tokens"]),
        (&json!(1000), &json!(3200))
    );
    assert_eq!(usage["prompt_tokens_details"]["cached_tokens"], 200);
    assert_eq!(usage["prompt_tokens_details"]["cache_write_tokens"], 100);
    assert_eq!(usage["completion_tokens_details"]["reasoning_tokens"], 3000);

    let body = responses(json!({})).script(script).answer(sim.addr()).await.json();
    let details = &body["usage"]["input_tokens_details"];
    assert_eq!(details["cache_write_tokens_details"]["ttl_30m_tokens"], 100);

    let ask = messages(json!({"max_tokens": 5000})).script(script);
    let usage = ask.answer(sim.addr()).await.json()["usage"].clone();
    assert_eq!((&usage["input_tokens"], &usage["output_tokens"]), (&json!(700), &json!(3200)));
    assert_eq!(usage["cache_read_input_tokens"], 200);
    assert_eq!(usage["cache_creation"]["ephemeral_5m_input_tokens"], 100);

    let ask = gemini("generateContent", json!({})).script(&format!("{script};tool_use=50"));
    let usage = ask.answer(sim.addr()).await.json()["usageMetadata"].clone();
    assert_eq!(usage["promptTokenCount"], 1000);
    assert_eq!(
        (&usage["candidatesTokenCount"], &usage["thoughtsTokenCount"]),
        (&json!(200), &json!(3000))
    );
    assert_eq!(
        (&usage["toolUsePromptTokenCount"], &usage["totalTokenCount"]),
        (&json!(50), &json!(4250))
    );
}

#[tokio::test]
async fn usage_can_be_withheld_and_caps_ignored() {
    let sim = sim(1).await;
    for ask in streams() {
        let answer = ask.script("no_usage").answer(sim.addr()).await;
        let text = answer.text();
        assert!(!text.contains("usage\":{") && !text.contains("usageMetadata"), "{text}");
        let served = last(&sim);
        assert!(served.tokens.output > 0 && !served.usage_stated);
    }
    let capped = json!({"model": "gpt-5.4-mini", "max_tokens": 100});
    let body = chat(capped).script("ignore_cap").answer(sim.addr()).await.json();
    assert_eq!(body["usage"]["completion_tokens"], 200);
}

#[tokio::test]
async fn ids_and_tiers_can_be_named() {
    let sim = sim(1).await;
    let script = "id=twice;tier=flex";
    let body = chat(json!({})).script(script).answer(sim.addr()).await.json();
    assert_eq!((&body["id"], &body["service_tier"]), (&json!("twice"), &json!("flex")));
    assert_eq!(last(&sim).response_id, "twice");
    let body = messages(json!({})).script("id=twice;tier=priority").answer(sim.addr()).await.json();
    assert_eq!(
        (&body["id"], &body["usage"]["service_tier"]),
        (&json!("twice"), &json!("priority"))
    );
    let answer = gemini("generateContent", json!({})).script(script).answer(sim.addr()).await;
    assert_eq!(answer.header("x-gemini-service-tier"), Some("flex"));
    assert_eq!(answer.json()["usageMetadata"]["serviceTier"], "flex");
}

#[tokio::test]
async fn a_script_also_comes_in_the_prompt_or_from_the_queue() {
    let sim = sim(1).await;
    let text = format!("{PROMPT} [[sim: status=503]]");
    let marked = gemini("generateContent", json!({"contents": [{"parts": [{"text": text}]}]}));
    assert_eq!(marked.answer(sim.addr()).await.status, 503);
    let over = marked.clone().script("status=500").answer(sim.addr()).await;
    assert_eq!(over.status, 500, "the header wins");

    let queueing = json!({"dialect": "anthropic", "script": "status=402", "times": 2});
    let queue = Ask::new("POST", "/sim/script");
    let answer = queue.clone().body(&queueing).answer(sim.addr()).await;
    assert_eq!((answer.status, answer.json()), (200, json!({"queued": 1})));
    let mut seen = Vec::new();
    for ask in [chat(json!({})), messages(json!({})), messages(json!({})), messages(json!({}))] {
        seen.push(ask.answer(sim.addr()).await.status);
    }
    assert_eq!(seen, [200, 402, 402, 200]);

    let wrong = queue.clone().body(&json!({"script": "stauts=402"})).answer(sim.addr()).await;
    assert_eq!(wrong.status, 400);
    queue.clone().body(&queueing).answer(sim.addr()).await;
    Ask::new("DELETE", "/sim/script").answer(sim.addr()).await;
    assert_eq!(messages(json!({})).answer(sim.addr()).await.status, 200);
}
