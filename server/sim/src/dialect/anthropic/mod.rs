//! Anthropic messages.

mod events;

use serde::Serialize;
use serde_json::{Value, json};

use super::{Answer, Form, Ids, Read, flag_of, json_text, json_value, list_of, number_of, text_of};
use crate::plan::{Ask, CacheAsk, Plan, Tokens};
use crate::prompt::Prompt;
use crate::refusal::Refusal;

/// What a signature looks like; nobody checks it here.
const SIGNATURE: &str = "c2ltdWxhdGVkLXRoaW5raW5nLXNpZ25hdHVyZQ==";

#[derive(Clone, Debug)]
struct MessagesForm {
    model: String,
    stream: bool,
    /// The caller asked to see the thinking.
    shows_thinking: bool,
    /// The tier the answer names.
    tier: String,
}

/// Reads a body of `/v1/messages`.
pub(crate) fn read_messages(body: &Value, prompt: &mut Prompt) -> Read {
    let model = text_of(body, "model")?;
    let cap = number_of(body, "max_tokens", 0)?
        .ok_or_else(|| Refusal::invalid("max_tokens", "max_tokens: Field required"))?;
    read_prompt(body, prompt)?;
    let stream = flag_of(body, "stream")?;
    let thinking = body.get("thinking").and_then(|thinking| thinking.get("type"));
    let shows_thinking = matches!(thinking.and_then(Value::as_str), Some("enabled" | "adaptive"));
    let mut cache = CacheAsk::default();
    find_cache_control(body, &mut cache);
    let form =
        MessagesForm { model: model.clone(), stream, shows_thinking, tier: "standard".to_owned() };
    let ask = Ask { model, cap: Some(cap), choices: 1, stream, cache };
    Ok((ask, Box::new(form)))
}

/// Reads a body of `/v1/messages/count_tokens`.
pub(crate) fn read_count(body: &Value, prompt: &mut Prompt) -> Read {
    let model = text_of(body, "model")?;
    read_prompt(body, prompt)?;
    let ask = Ask { model, cap: Some(0), choices: 1, stream: false, cache: CacheAsk::default() };
    Ok((ask, Box::new(CountForm)))
}

fn read_prompt(body: &Value, prompt: &mut Prompt) -> Result<(), Refusal> {
    prompt.content(body.get("system").unwrap_or(&Value::Null), false);
    for message in list_of(body, "messages")? {
        let user = message.get("role").and_then(Value::as_str) == Some("user");
        prompt.content(message.get("content").unwrap_or(&Value::Null), user);
    }
    if let Some(tools) = body.get("tools") {
        prompt.json(tools);
    }
    Ok(())
}

/// Looks for `cache_control` anywhere in the body and notes which time to live it asks for.
fn find_cache_control(value: &Value, cache: &mut CacheAsk) {
    match value {
        Value::Object(fields) => {
            for (name, inner) in fields {
                if name == "cache_control" && inner.is_object() {
                    let long = inner.get("ttl").and_then(Value::as_str) == Some("1h");
                    cache.long |= long;
                    cache.short |= !long;
                } else {
                    find_cache_control(inner, cache);
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| find_cache_control(item, cache)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

struct CountForm;

impl Form for CountForm {
    fn answer(&self, plan: Plan, _ids: &Ids, broken: bool) -> Answer {
        let body = json_text(&json!({"input_tokens": plan.tokens.input}));
        Answer::json("", body, &plan, broken)
    }
}

#[derive(Serialize)]
struct Usage<'a> {
    input_tokens: u64,
    /// The cache fields come together, and only when a cache was asked for.
    #[serde(flatten)]
    cache: Option<CacheUsage>,
    output_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_tokens_details: Option<OutputDetails>,
    #[serde(skip_serializing_if = "Option::is_none")]
    service_tier: Option<&'a str>,
}

#[derive(Serialize)]
struct CacheUsage {
    cache_creation_input_tokens: u64,
    cache_read_input_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_creation: Option<CacheSplit>,
}

#[derive(Serialize)]
struct CacheSplit {
    ephemeral_5m_input_tokens: u64,
    ephemeral_1h_input_tokens: u64,
}

#[derive(Serialize)]
struct OutputDetails {
    thinking_tokens: u64,
}

impl<'a> Usage<'a> {
    /// `full` is the form of a message; a `message_delta` has neither split nor tier.
    fn of(tokens: &Tokens, full: bool, tier: Option<&'a str>) -> Self {
        let written = tokens.cache_write_short.saturating_add(tokens.cache_write_long);
        let cache = (written > 0 || tokens.cached > 0).then_some(CacheUsage {
            cache_creation_input_tokens: written,
            cache_read_input_tokens: tokens.cached,
            cache_creation: full.then_some(CacheSplit {
                ephemeral_5m_input_tokens: tokens.cache_write_short,
                ephemeral_1h_input_tokens: tokens.cache_write_long,
            }),
        });
        let thinking = OutputDetails { thinking_tokens: tokens.reasoning };
        Self {
            input_tokens: tokens.fresh(),
            cache,
            output_tokens: tokens.output,
            output_tokens_details: (tokens.reasoning > 0).then_some(thinking),
            service_tier: tier,
        }
    }
}

/// The usage object of this route.
pub(crate) fn usage_of(tokens: &Tokens) -> Value {
    json_value(&Usage::of(tokens, true, None))
}

#[derive(Serialize)]
struct Message<'a> {
    id: &'a str,
    r#type: &'static str,
    role: &'static str,
    model: &'a str,
    content: Vec<Part<'a>>,
    stop_reason: Option<&'static str>,
    stop_sequence: Option<()>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Usage<'a>>,
}

/// A content block or a delta of one: which fields it has depends on its type.
#[derive(Default, Serialize)]
struct Part<'a> {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signature: Option<&'a str>,
}

impl<'a> Part<'a> {
    const fn text(r#type: &'static str, text: &'a str) -> Self {
        Self { r#type, text: Some(text), thinking: None, signature: None }
    }

    const fn thinking(r#type: &'static str, thinking: &'a str) -> Self {
        Self { r#type, text: None, thinking: Some(thinking), signature: None }
    }

    const fn signed(self, signature: &'a str) -> Self {
        Self { signature: Some(signature), ..self }
    }
}

impl MessagesForm {
    fn message<'a>(&'a self, id: &'a str, usage: Option<Usage<'a>>) -> Message<'a> {
        Message {
            id,
            r#type: "message",
            role: "assistant",
            model: &self.model,
            content: Vec::new(),
            stop_reason: None,
            stop_sequence: None,
            usage,
        }
    }

    fn usage(&self, plan: &Plan, tokens: &Tokens) -> Option<Usage<'_>> {
        (!plan.silent).then(|| Usage::of(tokens, true, Some(&self.tier)))
    }

    const fn thinks_aloud(&self, plan: &Plan) -> bool {
        self.shows_thinking && plan.tokens.reasoning > 0
    }
}

const fn stop_reason(plan: &Plan) -> Option<&'static str> {
    Some(if plan.capped { "max_tokens" } else { "end_turn" })
}

impl Form for MessagesForm {
    fn answer(&self, plan: Plan, ids: &Ids, broken: bool) -> Answer {
        let id = ids.response("msg_");
        let tier = ids.tier.clone().unwrap_or_else(|| self.tier.clone());
        let form = Self { tier, ..self.clone() };
        if self.stream {
            return Answer::events(&id.clone(), events::Events::new(form, id, plan));
        }
        let (thoughts, text) = (plan.thoughts(), plan.text(0));
        let mut message = form.message(&id, form.usage(&plan, &plan.tokens));
        if self.thinks_aloud(&plan) {
            message.content.push(Part::thinking("thinking", &thoughts).signed(SIGNATURE));
        }
        if plan.tokens.visible() > 0 {
            message.content.push(Part::text("text", &text));
        }
        message.stop_reason = stop_reason(&plan);
        let body = json_text(&message);
        Answer::json(&id, body, &plan, broken)
    }
}
