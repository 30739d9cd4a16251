//! One good request per route, with whatever a test wants on top.

use serde_json::{Value, json};

use crate::wire::Ask;

/// What the user says in all of them.
pub(crate) const PROMPT: &str = "Tell me about weirs, locks and sluices.";

pub(crate) fn chat(extra: Value) -> Ask {
    let body = json!({"model": "gpt-6.1-sol", "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": PROMPT}]}]});
    let ask = Ask::new("POST", "/v1/chat/completions").header("authorization", "Bearer sk-chat");
    ask.body(&merged(body, extra))
}

pub(crate) fn responses(extra: Value) -> Ask {
    let body = json!({"model": "gpt-6.1-sol", "instructions": "Be brief.", "input": PROMPT});
    let ask = Ask::new("POST", "/v1/responses").header("authorization", "Bearer sk-resp");
    ask.body(&merged(body, extra))
}

pub(crate) fn messages(extra: Value) -> Ask {
    let body = json!({"model": "claude-opus-5-5", "max_tokens": 1000, "system": "Be brief.",
        "messages": [{"role": "user", "content": PROMPT}]});
    let ask = Ask::new("POST", "/v1/messages").header("x-api-key", "sk-ant");
    ask.header("anthropic-version", "2023-06-01").body(&merged(body, extra))
}

pub(crate) fn gemini(verb: &str, extra: Value) -> Ask {
    let body = json!({"systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [{"role": "user", "parts": [{"text": PROMPT}]}]});
    let ask = Ask::new("POST", format!("/v1beta/models/gemini-2.5-pro:{verb}"));
    ask.header("x-goog-api-key", "gk-1").body(&merged(body, extra))
}

pub(crate) fn merged(mut body: Value, extra: Value) -> Value {
    if let (Value::Object(fields), Value::Object(more)) = (&mut body, extra) {
        fields.extend(more);
    }
    body
}
