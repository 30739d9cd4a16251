//! `OpenAI` Responses: named events, numbered, with the whole answer repeated at the end.

mod events;

use serde::Serialize;
use serde_json::{Value, json};

use super::chat::served_tier;
use super::{
    Answer, CREATED_AT, Form, Ids, Read, flag_of, json_text, json_value, number_of, text_of,
};
use crate::plan::{Ask, CacheAsk, Plan, Tokens};
use crate::prompt::Prompt;
use crate::refusal::Refusal;

#[derive(Clone, Debug)]
struct ResponsesForm {
    model: String,
    stream: bool,
    instructions: Option<String>,
    cap: Option<u64>,
    tier: String,
}

/// Reads a body of `/v1/responses`.
pub(crate) fn read(body: &Value, prompt: &mut Prompt) -> Read {
    let model = text_of(body, "model")?;
    if flag_of(body, "background")? {
        return Err(Refusal::invalid("background", "background responses are not simulated."));
    }
    let instructions = body.get("instructions").and_then(Value::as_str).map(str::to_owned);
    if let Some(text) = &instructions {
        prompt.text(text);
    }
    match body.get("input") {
        Some(Value::String(text)) => prompt.user_text(text),
        Some(Value::Array(items)) => {
            for item in items {
                let role = item.get("role").and_then(Value::as_str);
                prompt.content(item, role == Some("user"));
                for name in ["output", "arguments"] {
                    prompt.content(item.get(name).unwrap_or(&Value::Null), false);
                }
            }
        }
        _ => return Err(Refusal::invalid("input", "`input` must be a string or an array.")),
    }
    if let Some(tools) = body.get("tools") {
        prompt.json(tools);
    }
    let cap = number_of(body, "max_output_tokens", 1)?;
    let stream = flag_of(body, "stream")?;
    let tier = served_tier(body).unwrap_or_else(|| "default".to_owned());
    let form = ResponsesForm { model: model.clone(), stream, instructions, cap, tier };
    let ask = Ask { model, cap, choices: 1, stream, cache: CacheAsk::default() };
    Ok((ask, Box::new(form)))
}

#[derive(Serialize)]
struct Usage {
    input_tokens: u64,
    input_tokens_details: InputDetails,
    output_tokens: u64,
    output_tokens_details: OutputDetails,
    total_tokens: u64,
}

#[derive(Serialize)]
struct InputDetails {
    cached_tokens: u64,
    cache_write_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_write_tokens_details: Option<WriteDetails>,
}

#[derive(Serialize)]
struct WriteDetails {
    ttl_30m_tokens: u64,
    ttl_12h_tokens: u64,
}

#[derive(Serialize)]
struct OutputDetails {
    reasoning_tokens: u64,
}

impl Usage {
    fn of(tokens: &Tokens) -> Self {
        let written = tokens.cache_write_short.saturating_add(tokens.cache_write_long);
        Self {
            input_tokens: tokens.input,
            input_tokens_details: InputDetails {
                cached_tokens: tokens.cached,
                cache_write_tokens: written,
                cache_write_tokens_details: (written > 0).then_some(WriteDetails {
                    ttl_30m_tokens: tokens.cache_write_short,
                    ttl_12h_tokens: tokens.cache_write_long,
                }),
            },
            output_tokens: tokens.output,
            output_tokens_details: OutputDetails { reasoning_tokens: tokens.reasoning },
            total_tokens: tokens.input.saturating_add(tokens.output),
        }
    }
}

/// The usage object of this route.
pub(crate) fn usage_of(tokens: &Tokens) -> Value {
    json_value(&Usage::of(tokens))
}

/// The `response` object, also carried by the first and last events.
#[derive(Serialize)]
struct Response<'a> {
    id: &'a str,
    object: &'static str,
    created_at: u64,
    status: &'static str,
    background: bool,
    error: Option<Value>,
    incomplete_details: Option<Value>,
    instructions: Option<&'a str>,
    max_output_tokens: Option<u64>,
    model: &'a str,
    output: Vec<Item<'a>>,
    parallel_tool_calls: bool,
    previous_response_id: Option<()>,
    reasoning: Value,
    service_tier: &'a str,
    store: bool,
    temperature: u8,
    text: Value,
    tool_choice: &'static str,
    tools: [(); 0],
    top_p: u8,
    truncation: &'static str,
    usage: Option<Usage>,
    user: Option<()>,
    metadata: Value,
}

impl ResponsesForm {
    fn response<'a>(&'a self, names: &'a Names, status: &'static str) -> Response<'a> {
        Response {
            id: &names.response,
            object: "response",
            created_at: CREATED_AT,
            status,
            background: false,
            error: None,
            incomplete_details: None,
            instructions: self.instructions.as_deref(),
            max_output_tokens: self.cap,
            model: &self.model,
            output: Vec::new(),
            parallel_tool_calls: true,
            previous_response_id: None,
            reasoning: json!({"effort": null, "summary": null}),
            service_tier: &self.tier,
            store: true,
            temperature: 1,
            text: json!({"format": {"type": "text"}}),
            tool_choice: "auto",
            tools: [],
            top_p: 1,
            truncation: "disabled",
            usage: None,
            user: None,
            metadata: json!({}),
        }
    }

    fn finished<'a>(&'a self, names: &'a Names, plan: &Plan) -> Response<'a> {
        let mut response = self.response(names, status(plan));
        if plan.capped {
            response.incomplete_details = Some(json!({"reason": "max_output_tokens"}));
        }
        if plan.tokens.reasoning > 0 {
            response.output.push(Item::reasoning(names));
        }
        if plan.tokens.visible() > 0 || plan.tokens.reasoning == 0 {
            response.output.push(Item::message(names, status(plan), Some(plan.text(0))));
        }
        response.usage = (!plan.silent).then(|| Usage::of(&plan.tokens));
        response
    }
}

impl Form for ResponsesForm {
    fn answer(&self, plan: Plan, ids: &Ids, broken: bool) -> Answer {
        let names = Names::new(ids);
        let tier = ids.tier.clone().unwrap_or_else(|| self.tier.clone());
        let form = Self { tier, ..self.clone() };
        if self.stream {
            let id = names.response.clone();
            return Answer::events(&id, events::Events::new(form, names, plan));
        }
        let body = json_text(&form.finished(&names, &plan));
        Answer::json(&names.response, body, &plan, broken)
    }
}

struct Names {
    response: String,
    reasoning: String,
    message: String,
}

impl Names {
    fn new(ids: &Ids) -> Self {
        let tail = ids.scripted.as_ref().unwrap_or(&ids.hex);
        Self {
            response: ids.response("resp_"),
            reasoning: format!("rs_{tail}"),
            message: format!("msg_{tail}"),
        }
    }
}

const fn status(plan: &Plan) -> &'static str {
    if plan.capped { "incomplete" } else { "completed" }
}

/// An entry of `output`: thinking, or the message.
#[derive(Serialize)]
struct Item<'a> {
    id: &'a str,
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<[(); 0]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<Vec<TextPart>>,
}

#[derive(Serialize)]
struct TextPart {
    r#type: &'static str,
    text: String,
    annotations: [(); 0],
    logprobs: [(); 0],
}

impl TextPart {
    const fn new(text: String) -> Self {
        Self { r#type: "output_text", text, annotations: [], logprobs: [] }
    }
}

impl<'a> Item<'a> {
    fn reasoning(names: &'a Names) -> Self {
        Self {
            id: &names.reasoning,
            r#type: "reasoning",
            summary: Some([]),
            status: None,
            role: None,
            content: None,
        }
    }

    fn message(names: &'a Names, status: &'static str, text: Option<String>) -> Self {
        Self {
            id: &names.message,
            r#type: "message",
            summary: None,
            status: Some(status),
            role: Some("assistant"),
            content: Some(text.map(TextPart::new).into_iter().collect()),
        }
    }
}
