//! The list of models, in the shape of whoever asks.

use serde_json::{Value, json};

use super::{CREATED_AT, Dialect};

/// A simulated model. Requests may name any other model too; only this list is shown.
struct Model {
    id: &'static str,
    dialect: Dialect,
    context: u64,
    max_output: u64,
}

const fn model(id: &'static str, dialect: Dialect, context: u64, max_output: u64) -> Model {
    Model { id, dialect, context, max_output }
}

const MODELS: [Model; 14] = [
    model("gpt-6.1-sol", Dialect::Openai, 922_000, 128_000),
    model("gpt-6.1-terra", Dialect::Openai, 922_000, 128_000),
    model("gpt-6-luna", Dialect::Openai, 922_000, 128_000),
    model("gpt-5.4-mini", Dialect::Openai, 272_000, 128_000),
    model("text-embedding-3-small", Dialect::Openai, 8_191, 0),
    model("claude-opus-5-5", Dialect::Anthropic, 1_000_000, 128_000),
    model("claude-sonnet-5-5", Dialect::Anthropic, 1_000_000, 128_000),
    model("claude-haiku-5-5", Dialect::Anthropic, 1_000_000, 64_000),
    model("gemini-4-argon", Dialect::Gemini, 1_048_576, 1_048_576),
    model("gemini-4-hydrogen", Dialect::Gemini, 1_048_576, 65_536),
    model("gemini-3.8-flash", Dialect::Gemini, 1_048_576, 65_536),
    model("gemini-2.5-pro", Dialect::Gemini, 1_048_576, 65_536),
    model("gemini-2.5-flash-lite", Dialect::Gemini, 1_048_576, 65_536),
    model("gemini-embedding-001", Dialect::Gemini, 2_048, 0),
];

/// The body of a list request in `dialect`.
pub(crate) fn list(dialect: Dialect) -> Value {
    let mine: Vec<&Model> = MODELS.iter().filter(|model| model.dialect == dialect).collect();
    let shown: Vec<Value> = mine.iter().map(|model| show(model)).collect();
    match dialect {
        Dialect::Openai => json!({"object": "list", "data": shown}),
        Dialect::Anthropic => json!({"data": shown, "has_more": false,
            "first_id": mine.first().map(|model| model.id),
            "last_id": mine.last().map(|model| model.id)}),
        Dialect::Gemini => json!({"models": shown}),
    }
}

/// The body of a request for one model; `None` when it is not in the list.
pub(crate) fn one(dialect: Dialect, id: &str) -> Option<Value> {
    MODELS.iter().find(|model| model.dialect == dialect && model.id == id).map(show)
}

fn show(model: &Model) -> Value {
    match model.dialect {
        Dialect::Openai => json!({"id": model.id, "object": "model", "created": CREATED_AT,
            "owned_by": "system"}),
        Dialect::Anthropic => json!({"type": "model", "id": model.id, "display_name": model.id,
            "created_at": "2026-11-01T00:00:00Z", "lifecycle": "active",
            "max_input_tokens": model.context, "max_tokens": model.max_output}),
        Dialect::Gemini => {
            let actions = if model.max_output == 0 {
                json!(["embedContent", "batchEmbedContents", "countTokens"])
            } else {
                json!(["generateContent", "streamGenerateContent", "countTokens"])
            };
            json!({"name": format!("models/{}", model.id), "version": "001",
                "displayName": model.id, "description": "A simulated model.",
                "inputTokenLimit": model.context, "outputTokenLimit": model.max_output.max(1),
                "supportedGenerationMethods": actions})
        }
    }
}
