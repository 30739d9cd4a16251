//! `OpenAI` chat completions and the legacy completions: one answer, two shapes.

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;

use super::{
    Answer, CREATED_AT, Dialect, Form, Frame, Frames, Ids, Read, data_frame, flag_of, json_text,
    json_value, list_of, number_of, text_of,
};
use crate::plan::{Ask, CacheAsk, Plan, Tokens};
use crate::prompt::Prompt;
use crate::refusal::Refusal;

/// Most answers side by side in one request.
const MAX_CHOICES: u64 = 128;
/// Padding of the content frames; it hides the length of a token and is no output.
const PADDING: &str = "obfuscation-pad";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Chat,
    Text,
}

#[derive(Clone, Debug)]
struct ChatForm {
    shape: Shape,
    model: String,
    stream: bool,
    include_usage: bool,
    padded: bool,
    tier: Option<String>,
}

/// Reads a body of `/v1/chat/completions`.
pub(crate) fn read_chat(body: &Value, prompt: &mut Prompt) -> Read {
    for message in list_of(body, "messages")? {
        let user = message.get("role").and_then(Value::as_str) == Some("user");
        prompt.content(message.get("content").unwrap_or(&Value::Null), user);
        if let Some(calls) = message.get("tool_calls") {
            prompt.json(calls);
        }
    }
    if let Some(tools) = body.get("tools") {
        prompt.json(tools);
    }
    let cap = number_of(body, "max_completion_tokens", 1)?;
    let old_cap = number_of(body, "max_tokens", 1)?;
    read(body, Shape::Chat, cap.or(old_cap), 1)
}

/// Reads a body of `/v1/completions`.
pub(crate) fn read_completions(body: &Value, prompt: &mut Prompt) -> Read {
    let mut prompts = 1;
    match body.get("prompt") {
        Some(Value::String(text)) => prompt.user_text(text),
        Some(Value::Array(list)) if list.first().is_some_and(|first| !first.is_number()) => {
            prompts = list.len() as u64;
            for one in list {
                match one {
                    Value::String(text) => prompt.user_text(text),
                    tokens => prompt.json(tokens),
                }
            }
        }
        Some(tokens) => prompt.json(tokens),
        None => prompt.text("<|endoftext|>"),
    }
    let cap = number_of(body, "max_tokens", 0)?;
    read(body, Shape::Text, cap, prompts)
}

fn read(body: &Value, shape: Shape, cap: Option<u64>, prompts: u64) -> Read {
    let model = text_of(body, "model")?;
    let stream = flag_of(body, "stream")?;
    let each = number_of(body, "n", 1)?.unwrap_or(1);
    let choices = each.saturating_mul(prompts);
    if choices > MAX_CHOICES {
        return Err(Refusal::invalid("n", format!("at most {MAX_CHOICES} choices.")));
    }
    let options = body.get("stream_options").filter(|options| !options.is_null());
    if options.is_some() && !stream {
        return Err(Refusal::invalid(
            "stream_options",
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
        ));
    }
    let option = |name| options.and_then(|options| options.get(name)).and_then(Value::as_bool);
    let form = ChatForm {
        shape,
        model: model.clone(),
        stream,
        include_usage: option("include_usage").unwrap_or(false),
        padded: shape == Shape::Chat && option("include_obfuscation").unwrap_or(true),
        tier: served_tier(body),
    };
    let ask = Ask { model, cap, choices, stream, cache: CacheAsk::default() };
    Ok((ask, Box::new(form)))
}

/// The tier an `OpenAI` answer names, when the request named one.
pub(crate) fn served_tier(body: &Value) -> Option<String> {
    let asked = body.get("service_tier").and_then(Value::as_str)?;
    Some(match asked {
        "fast" | "priority" => "priority".to_owned(),
        "flex" | "scale" => asked.to_owned(),
        _ => "default".to_owned(),
    })
}

/// `usage` of the chat and completions routes.
#[derive(Clone, Copy, Serialize)]
struct Usage {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
    prompt_tokens_details: PromptDetails,
    completion_tokens_details: CompletionDetails,
}

#[derive(Clone, Copy, Serialize)]
struct PromptDetails {
    cached_tokens: u64,
    cache_write_tokens: u64,
    audio_tokens: u64,
}

#[derive(Clone, Copy, Serialize)]
struct CompletionDetails {
    reasoning_tokens: u64,
    audio_tokens: u64,
    accepted_prediction_tokens: u64,
    rejected_prediction_tokens: u64,
}

impl Usage {
    const fn of(tokens: &Tokens) -> Self {
        Self {
            prompt_tokens: tokens.input,
            completion_tokens: tokens.output,
            total_tokens: tokens.input.saturating_add(tokens.output),
            prompt_tokens_details: PromptDetails {
                cached_tokens: tokens.cached,
                cache_write_tokens: tokens
                    .cache_write_short
                    .saturating_add(tokens.cache_write_long),
                audio_tokens: 0,
            },
            completion_tokens_details: CompletionDetails {
                reasoning_tokens: tokens.reasoning,
                audio_tokens: 0,
                accepted_prediction_tokens: 0,
                rejected_prediction_tokens: 0,
            },
        }
    }
}

/// The usage object of these routes.
pub(crate) fn usage_of(tokens: &Tokens) -> Value {
    json_value(&Usage::of(tokens))
}

/// A whole answer or one chunk of it.
#[derive(Serialize)]
struct Completion<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: Vec<Choice<'a>>,
    /// Missing, null and a figure are three different things here.
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Option<Usage>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    service_tier: Option<&'a str>,
    system_fingerprint: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    obfuscation: Option<&'a str>,
}

#[derive(Serialize)]
struct Choice<'a> {
    index: u64,
    #[serde(flatten)]
    content: Content<'a>,
    logprobs: Option<()>,
    finish_reason: Option<&'static str>,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Content<'a> {
    Message { role: &'static str, content: &'a str, refusal: Option<()> },
    Delta(Delta<'a>),
    Text(&'a str),
}

#[derive(Default, Serialize)]
struct Delta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a str>,
}

impl ChatForm {
    fn id(&self, ids: &Ids) -> String {
        ids.response(if self.shape == Shape::Chat { "chatcmpl-" } else { "cmpl-" })
    }

    const fn object(&self) -> &'static str {
        match (self.shape, self.stream) {
            (Shape::Chat, true) => "chat.completion.chunk",
            (Shape::Chat, false) => "chat.completion",
            (Shape::Text, _) => "text_completion",
        }
    }

    fn completion<'a>(&'a self, id: &'a str, choices: Vec<Choice<'a>>) -> Completion<'a> {
        Completion {
            id,
            object: self.object(),
            created: CREATED_AT,
            model: &self.model,
            choices,
            usage: None,
            service_tier: self.tier.as_deref(),
            system_fingerprint: "fp_sim",
            obfuscation: None,
        }
    }
}

const fn finish(plan: &Plan) -> Option<&'static str> {
    Some(if plan.capped { "length" } else { "stop" })
}

impl Form for ChatForm {
    fn answer(&self, plan: Plan, ids: &Ids, broken: bool) -> Answer {
        let id = self.id(ids);
        let tier = ids.tier.clone().or_else(|| self.tier.clone());
        let form = Self { tier, ..self.clone() };
        if self.stream {
            let start = if self.shape == Shape::Chat { Step::Role(0) } else { Step::Text(0, 0) };
            return Answer::events(
                &id.clone(),
                Chunks { form: self.clone(), id, plan, step: start, visible: 0 },
            );
        }
        let texts: Vec<String> = (0..plan.choices).map(|choice| plan.text(choice)).collect();
        let choices =
            (0..).zip(&texts).map(|(index, text)| spell(self.shape, index, text, &plan)).collect();
        let mut whole = form.completion(&id, choices);
        whole.usage = (!plan.silent).then(|| Some(Usage::of(&plan.tokens)));
        let body = json_text(&whole);
        Answer::json(&id, body, &plan, broken)
    }
}

fn spell<'a>(shape: Shape, index: u64, text: &'a str, plan: &Plan) -> Choice<'a> {
    let content = match shape {
        Shape::Chat => Content::Message { role: "assistant", content: text, refusal: None },
        Shape::Text => Content::Text(text),
    };
    Choice { index, content, logprobs: None, finish_reason: finish(plan) }
}

/// Where a stream stands; the numbers are choice and text frame.
#[derive(Clone, Copy, Debug)]
enum Step {
    Role(u64),
    Text(u64, u64),
    Finish(u64),
    Usage,
    Done,
    End,
}

struct Chunks {
    form: ChatForm,
    id: String,
    plan: Plan,
    step: Step,
    visible: u64,
}

impl Chunks {
    fn after(&self, step: Step) -> Step {
        let last = self.plan.choices - 1;
        match step {
            Step::Role(choice) if choice < last => Step::Role(choice + 1),
            Step::Role(_) => Step::Text(0, 0),
            Step::Text(choice, frame) if choice < last => Step::Text(choice + 1, frame),
            Step::Text(_, frame) => Step::Text(0, frame + 1),
            Step::Finish(choice) if choice < last => Step::Finish(choice + 1),
            Step::Finish(_) if self.form.include_usage && !self.plan.silent => Step::Usage,
            Step::Finish(_) | Step::Usage => Step::Done,
            Step::Done | Step::End => Step::End,
        }
    }

    fn chunk(&self, index: u64, delta: Delta<'_>, finish_reason: Option<&'static str>) -> Bytes {
        let has_text = delta.content.is_some_and(|text| !text.is_empty());
        let content = match self.form.shape {
            Shape::Chat => Content::Delta(delta),
            Shape::Text => Content::Text(delta.content.unwrap_or_default()),
        };
        let choice = Choice { index, content, logprobs: None, finish_reason };
        let mut chunk = self.form.completion(&self.id, vec![choice]);
        chunk.usage = self.form.include_usage.then_some(None);
        let pad = usize::try_from(self.visible % PADDING.len() as u64).unwrap_or_default();
        chunk.obfuscation = (has_text && self.form.padded).then(|| &PADDING[pad..]);
        data_frame(&chunk)
    }
}

impl Frames for Chunks {
    fn next_frame(&mut self) -> Option<Frame> {
        if let Step::Text(0, frame) = self.step
            && frame >= self.plan.frames
        {
            self.step = Step::Finish(0);
        }
        let step = self.step;
        self.step = self.after(step);
        let mut reasoning = self.plan.tokens.reasoning;
        let bytes = match step {
            Step::Role(choice) => {
                reasoning = 0;
                let delta = Delta { role: Some("assistant"), content: Some("") };
                self.chunk(choice, delta, None)
            }
            Step::Text(choice, frame) => {
                self.visible += self.plan.frame_tokens(choice, frame);
                let text = self.plan.frame_text(choice, frame);
                self.chunk(choice, Delta { role: None, content: Some(&text) }, None)
            }
            Step::Finish(choice) => self.chunk(choice, Delta::default(), finish(&self.plan)),
            Step::Usage => {
                let mut chunk = self.form.completion(&self.id, Vec::new());
                chunk.usage = Some(Some(Usage::of(&self.plan.tokens)));
                data_frame(&chunk)
            }
            Step::Done => Bytes::from_static(b"data: [DONE]\n\n"),
            Step::End => return None,
        };
        let states_usage = matches!(step, Step::Usage);
        Some(Frame { bytes, reasoning, visible: self.visible, states_usage })
    }

    fn error_frame(&mut self, refusal: &Refusal, request_id: &str) -> Bytes {
        Bytes::from(format!("data: {}\n\n", refusal.body(Dialect::Openai, request_id)))
    }
}
