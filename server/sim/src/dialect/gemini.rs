//! Gemini: `generateContent` and its kin, as SSE with CRLF or as one JSON array in pieces.

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    Answer, Dialect, Form, Frame, Frames, Ids, Read, json_text, json_value, list_of, number_of,
};
use crate::plan::{Ask, CacheAsk, Plan, Tokens};
use crate::prompt::Prompt;
use crate::refusal::Refusal;

/// Most candidates of one request.
const MAX_CANDIDATES: u64 = 8;
/// The JSON array is written in pieces of so many bytes: borders fall anywhere.
const ARRAY_PIECE_BYTES: usize = 97;

/// How an answer of `generateContent` or `streamGenerateContent` is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    Plain,
    Sse,
    Array,
}

/// The field `name` of `body`, in camel or snake case: protobuf's JSON takes both.
fn either<'a>(body: &'a Value, camel: &str, snake: &str) -> Option<&'a Value> {
    body.get(camel).or_else(|| body.get(snake)).filter(|value| !value.is_null())
}

/// Reads a body of `generateContent` and `streamGenerateContent`.
pub(crate) fn read_generate(
    model: &str,
    framing: Framing,
    body: &Value,
    prompt: &mut Prompt,
) -> Read {
    read_contents(body, prompt)?;
    let config = either(body, "generationConfig", "generation_config").unwrap_or(&Value::Null);
    let number = |camel, snake, low| match number_of(config, camel, low)? {
        Some(number) => Ok(Some(number)),
        None => number_of(config, snake, low),
    };
    let cap = number("maxOutputTokens", "max_output_tokens", 1)?;
    let choices = number("candidateCount", "candidate_count", 1)?.unwrap_or(1);
    if choices > MAX_CANDIDATES {
        let message = format!("at most {MAX_CANDIDATES} candidates.");
        return Err(Refusal::invalid("candidateCount", message));
    }
    let named = either(body, "cachedContent", "cached_content").is_some();
    let form = GenerateForm { model: model.to_owned(), framing };
    let ask = Ask {
        model: model.to_owned(),
        cap,
        choices,
        stream: framing != Framing::Plain,
        cache: CacheAsk { named, ..CacheAsk::default() },
    };
    Ok((ask, Box::new(form)))
}

/// Reads a body of `countTokens`: contents, or a whole request.
pub(crate) fn read_count(model: &str, body: &Value, prompt: &mut Prompt) -> Read {
    let inner = either(body, "generateContentRequest", "generate_content_request");
    read_contents(inner.unwrap_or(body), prompt)?;
    Ok((free(model), Box::new(CountForm)))
}

/// A request that generates nothing.
pub(crate) fn free(model: &str) -> Ask {
    let cache = CacheAsk { never: true, ..CacheAsk::default() };
    Ask { model: model.to_owned(), cap: Some(0), choices: 1, stream: false, cache }
}

fn read_contents(body: &Value, prompt: &mut Prompt) -> Result<(), Refusal> {
    if let Some(system) = either(body, "systemInstruction", "system_instruction") {
        prompt.content(system, false);
    }
    for content in list_of(body, "contents")? {
        let role = content.get("role").and_then(Value::as_str).unwrap_or("user");
        prompt.content(content, role == "user");
    }
    if let Some(tools) = body.get("tools") {
        prompt.json(tools);
    }
    Ok(())
}

/// `usageMetadata`: what is zero is left out, as protobuf's JSON does.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Usage<'a> {
    prompt_token_count: u64,
    #[serde(skip_serializing_if = "is_zero")]
    cached_content_token_count: u64,
    #[serde(skip_serializing_if = "is_zero")]
    candidates_token_count: u64,
    #[serde(skip_serializing_if = "is_zero")]
    thoughts_token_count: u64,
    #[serde(skip_serializing_if = "is_zero")]
    tool_use_prompt_token_count: u64,
    total_token_count: u64,
    prompt_tokens_details: Vec<Modality>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cache_tokens_details: Vec<Modality>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    candidates_tokens_details: Vec<Modality>,
    #[serde(skip_serializing_if = "Option::is_none")]
    service_tier: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Modality {
    modality: &'static str,
    token_count: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The text tokens of one kind, listed when there are any.
fn by_modality(token_count: u64) -> Vec<Modality> {
    (token_count > 0).then_some(Modality { modality: "TEXT", token_count }).into_iter().collect()
}

impl<'a> Usage<'a> {
    /// Thoughts stand outside the candidates; the total holds both.
    fn of(tokens: &Tokens, service_tier: Option<&'a str>) -> Self {
        let total = tokens.input.saturating_add(tokens.output).saturating_add(tokens.tool_use);
        Self {
            prompt_token_count: tokens.input,
            cached_content_token_count: tokens.cached,
            candidates_token_count: tokens.visible(),
            tool_use_prompt_token_count: tokens.tool_use,
            total_token_count: total,
            prompt_tokens_details: by_modality(tokens.input),
            cache_tokens_details: by_modality(tokens.cached),
            candidates_tokens_details: by_modality(tokens.visible()),
            thoughts_token_count: tokens.reasoning,
            service_tier,
        }
    }
}

/// The usage object of these routes.
pub(crate) fn usage_of(tokens: &Tokens) -> Value {
    json_value(&Usage::of(tokens, None))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Response<'a> {
    candidates: Vec<Candidate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage_metadata: Option<Usage<'a>>,
    model_version: &'a str,
    response_id: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Candidate {
    content: Content,
    #[serde(skip_serializing_if = "Option::is_none")]
    finish_reason: Option<&'static str>,
    index: u64,
}

#[derive(Serialize)]
struct Content {
    role: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    parts: Vec<Part>,
}

#[derive(Serialize)]
struct Part {
    text: String,
}

fn candidate(index: u64, text: String, finish_reason: Option<&'static str>) -> Candidate {
    let parts = if text.is_empty() { Vec::new() } else { vec![Part { text }] };
    Candidate { content: Content { parts, role: "model" }, finish_reason, index }
}

const fn finish(plan: &Plan) -> Option<&'static str> {
    Some(if plan.capped { "MAX_TOKENS" } else { "STOP" })
}

#[derive(Clone, Debug)]
struct GenerateForm {
    model: String,
    framing: Framing,
}

impl Form for GenerateForm {
    fn answer(&self, plan: Plan, ids: &Ids, broken: bool) -> Answer {
        let id = ids.response("");
        let tier = ids.tier.clone().unwrap_or_else(|| "standard".to_owned());
        let step = Step::Text(0, 0);
        let named = id.clone();
        let chunks = Chunks { form: self.clone(), id, tier, plan, step, visible: 0 };
        match self.framing {
            Framing::Plain => {
                let body = chunks.whole();
                Answer::json(&named, body, &plan, broken)
            }
            Framing::Sse => {
                Answer { content_type: "text/event-stream", ..Answer::events(&named, chunks) }
            }
            Framing::Array => Answer {
                content_type: "application/json; charset=UTF-8",
                split: Some(ARRAY_PIECE_BYTES),
                ..Answer::events(&named, chunks)
            },
        }
    }
}

struct CountForm;

impl Form for CountForm {
    fn answer(&self, plan: Plan, _ids: &Ids, broken: bool) -> Answer {
        let count = plan.tokens.input;
        let body = pretty(&json!({"totalTokens": count,
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": count}]}));
        Answer::json("", body, &plan, broken)
    }
}

/// JSON with two spaces of indent, as this provider writes it outside of SSE.
pub(crate) fn pretty<T: Serialize>(value: &T) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// Where a stream stands; the numbers are candidate and text frame.
#[derive(Clone, Copy, Debug)]
enum Step {
    Text(u64, u64),
    Close,
    End,
}

struct Chunks {
    form: GenerateForm,
    id: String,
    tier: String,
    plan: Plan,
    step: Step,
    visible: u64,
}

impl Chunks {
    fn whole(&self) -> String {
        let plan = &self.plan;
        let one = |choice| candidate(choice, plan.text(choice), finish(plan));
        pretty(&Response {
            candidates: (0..plan.choices).map(one).collect(),
            usage_metadata: (!plan.silent).then(|| Usage::of(&plan.tokens, Some(&self.tier))),
            model_version: &self.form.model,
            response_id: &self.id,
        })
    }

    /// An answer without a word still has one frame per candidate: it carries the finish reason.
    fn frames(&self) -> u64 {
        self.plan.frames.max(1)
    }

    fn element(&self, choice: u64, frame: u64) -> Response<'_> {
        let last = frame + 1 == self.frames();
        let text = self.plan.frame_text(choice, frame);
        let so_far = self.plan.so_far(self.plan.tokens.reasoning, self.visible);
        Response {
            candidates: vec![candidate(choice, text, finish(&self.plan).filter(|_| last))],
            usage_metadata: (!self.plan.silent).then(|| Usage::of(&so_far, Some(&self.tier))),
            model_version: &self.form.model,
            response_id: &self.id,
        }
    }

    fn framed(&self, element: &Response<'_>, first: bool) -> Bytes {
        Bytes::from(match (self.form.framing, first) {
            (Framing::Array, true) => format!("[{}", pretty(element)),
            (Framing::Array, false) => format!("\n,\n{}", pretty(element)),
            (Framing::Plain | Framing::Sse, _) => format!("data: {}\r\n\r\n", json_text(element)),
        })
    }
}

impl Frames for Chunks {
    fn next_frame(&mut self) -> Option<Frame> {
        let bytes = match self.step {
            Step::Text(choice, frame) => {
                let last_choice = choice + 1 == self.plan.choices;
                self.step = match (last_choice, frame + 1 == self.frames(), self.form.framing) {
                    (false, ..) => Step::Text(choice + 1, frame),
                    (true, false, _) => Step::Text(0, frame + 1),
                    (true, true, Framing::Array) => Step::Close,
                    (true, true, Framing::Plain | Framing::Sse) => Step::End,
                };
                self.visible += self.plan.frame_tokens(choice, frame);
                self.framed(&self.element(choice, frame), (choice, frame) == (0, 0))
            }
            Step::Close => {
                self.step = Step::End;
                Bytes::from_static(b"\n]")
            }
            Step::End => return None,
        };
        let (reasoning, visible) = (self.plan.tokens.reasoning, self.visible);
        Some(Frame { bytes, reasoning, visible, states_usage: !self.plan.silent })
    }

    fn error_frame(&mut self, refusal: &Refusal, request_id: &str) -> Bytes {
        let body = refusal.body(Dialect::Gemini, request_id);
        let first = matches!(self.step, Step::Text(0, 0));
        Bytes::from(match (self.form.framing, first) {
            (Framing::Array, true) => format!("[{body}]"),
            (Framing::Array, false) => format!("\n,\n{body}\n]"),
            (Framing::Plain | Framing::Sse, _) => format!("data: {body}\r\n\r\n"),
        })
    }
}
