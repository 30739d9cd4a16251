//! `GET /v1/models` in three shapes.

use serde_json::{Value, json};

/// A model as a list shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedModel {
    /// The name that clients use.
    pub name: String,
    /// When the operator added it, seconds since 1970.
    pub created_s: i64,
    /// The same, as RFC 3339.
    pub created: String,
    /// The size of its context in tokens, where known.
    pub context_tokens: Option<i64>,
    /// Its largest answer in tokens, where known.
    pub max_output_tokens: Option<i64>,
}

/// OpenAI's list.
#[must_use]
pub fn openai_list(models: &[ListedModel]) -> Value {
    json!({"object": "list", "data": models.iter().map(openai_one).collect::<Vec<_>>()})
}

/// OpenAI's single model.
#[must_use]
pub fn openai_one(model: &ListedModel) -> Value {
    json!({"id": model.name, "object": "model", "created": model.created_s, "owned_by": "weir"})
}

/// Anthropic's list; all models are on its one page.
#[must_use]
pub fn anthropic_list(models: &[ListedModel]) -> Value {
    json!({
        "data": models.iter().map(anthropic_one).collect::<Vec<_>>(),
        "has_more": false,
        "first_id": models.first().map(|m| &m.name),
        "last_id": models.last().map(|m| &m.name),
    })
}

/// Anthropic's single model.
#[must_use]
pub fn anthropic_one(model: &ListedModel) -> Value {
    json!({"type": "model", "id": model.name, "display_name": model.name, "created_at": model.created})
}

/// Gemini's list.
#[must_use]
pub fn gemini_list(models: &[ListedModel]) -> Value {
    json!({"models": models.iter().map(gemini_one).collect::<Vec<_>>()})
}

/// Gemini's single model.
#[must_use]
pub fn gemini_one(model: &ListedModel) -> Value {
    let mut one = json!({
        "name": format!("models/{}", model.name),
        "displayName": model.name,
        "supportedGenerationMethods": ["generateContent", "streamGenerateContent"],
    });
    if let Some(tokens) = model.context_tokens {
        one["inputTokenLimit"] = json!(tokens);
    }
    if let Some(tokens) = model.max_output_tokens {
        one["outputTokenLimit"] = json!(tokens);
    }
    one
}
