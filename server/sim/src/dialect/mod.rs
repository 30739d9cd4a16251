//! What the three dialects have in common: requests are read into an [`Ask`], answers are spelt
//! as [`Frames`].

pub(crate) mod anthropic;
pub(crate) mod chat;
pub(crate) mod embeddings;
pub(crate) mod gemini;
pub(crate) mod models;
pub(crate) mod responses;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::plan::{Ask, Plan, Tokens};
use crate::refusal::Refusal;

/// The wire a client and a provider speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dialect {
    /// `/v1/chat/completions`, `/v1/responses`, `/v1/completions`, `/v1/embeddings`.
    Openai,
    /// `/v1/messages`.
    Anthropic,
    /// `/{v1,v1beta}/models/{model}:generateContent` and its kin.
    Gemini,
}

/// When the simulated models were made and all answers given: answers must not depend on a clock.
pub(crate) const CREATED_AT: u64 = 1_795_900_000;

/// One piece of the wire that a reader takes in whole: an event, an array element, a plain body.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) bytes: Bytes,
    /// Thinking tokens generated once this frame is out.
    pub(crate) reasoning: u64,
    /// Readable tokens generated once this frame is out.
    pub(crate) visible: u64,
    /// The frame states exactly these counts.
    pub(crate) states_usage: bool,
}

/// An answer, spelt one frame at a time so that an open stream holds no text.
pub(crate) trait Frames: Send {
    /// The next frame, `None` after the terminal one.
    fn next_frame(&mut self) -> Option<Frame>;

    /// The dialect's own way to say, inside a stream, that it failed.
    fn error_frame(&mut self, refusal: &Refusal, request_id: &str) -> Bytes;
}

/// Names given to one answer.
#[derive(Clone, Debug)]
pub(crate) struct Ids {
    /// Drawn from seed and arrival number; 16 hex digits.
    pub(crate) hex: String,
    /// Of the request: the `x-request-id` or `request-id` header.
    pub(crate) request: String,
    /// Response id asked for by the script.
    pub(crate) scripted: Option<String>,
    /// Service tier asked for by the script.
    pub(crate) tier: Option<String>,
}

impl Ids {
    /// The response id: `prefix` and hex, or what the script says.
    pub(crate) fn response(&self, prefix: &str) -> String {
        self.scripted.clone().unwrap_or_else(|| format!("{prefix}{}", self.hex))
    }
}

/// A spelt answer.
pub(crate) struct Answer {
    /// The response id in the body; empty where the route has none.
    pub(crate) id: String,
    pub(crate) content_type: &'static str,
    /// `content-length`, for an answer that is not a stream.
    pub(crate) length: Option<u64>,
    /// Bytes per write when the script does not say.
    pub(crate) split: Option<usize>,
    pub(crate) frames: Box<dyn Frames>,
}

impl Answer {
    /// A JSON answer; it states usage unless the plan is silent. When a script will break it, it
    /// comes as two frames, its halves, so that there is a border to break it at.
    pub(crate) fn json(id: &str, body: String, plan: &Plan, broken: bool) -> Self {
        let length = body.len() as u64;
        let frame = Frame {
            bytes: Bytes::from(body),
            reasoning: plan.tokens.reasoning,
            visible: plan.tokens.visible(),
            states_usage: !plan.silent,
        };
        Self {
            id: id.to_owned(),
            content_type: "application/json",
            length: Some(length),
            split: None,
            frames: Box::new(Plain { rest: Some(frame), halved: broken }),
        }
    }

    /// An event stream.
    pub(crate) fn events(id: &str, frames: impl Frames + 'static) -> Self {
        Self {
            id: id.to_owned(),
            content_type: "text/event-stream; charset=utf-8",
            length: None,
            split: None,
            frames: Box::new(frames),
        }
    }
}

struct Plain {
    rest: Option<Frame>,
    halved: bool,
}

impl Frames for Plain {
    fn next_frame(&mut self) -> Option<Frame> {
        let mut frame = self.rest.take()?;
        if self.halved {
            self.halved = false;
            let tail = frame.bytes.split_off(frame.bytes.len() / 2);
            self.rest = Some(Frame { bytes: tail, ..frame.clone() });
            frame.states_usage = false;
        }
        Some(frame)
    }

    fn error_frame(&mut self, _refusal: &Refusal, _request_id: &str) -> Bytes {
        Bytes::new()
    }
}

/// A request of one route, read and ready to be answered.
pub(crate) trait Form: Send {
    /// Spells the planned answer.
    fn answer(&self, plan: Plan, ids: &Ids, broken: bool) -> Answer;
}

/// What a route's reader hands back.
pub(crate) type Read = Result<(Ask, Box<dyn Form>), Refusal>;

/// Usage in a route's own wire terms.
pub(crate) type UsageOf = fn(&Tokens) -> Value;

/// `value` as compact JSON text.
pub(crate) fn json_text<T: Serialize>(value: &T) -> String {
    // Our own types have string keys and no failing serialisers.
    serde_json::to_string(value).unwrap_or_default()
}

/// `value` as a JSON tree.
pub(crate) fn json_value<T: Serialize>(value: &T) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

/// `data: …` and a blank line.
pub(crate) fn data_frame<T: Serialize>(value: &T) -> Bytes {
    Bytes::from(format!("data: {}\n\n", json_text(value)))
}

/// `event: …`, `data: …` and a blank line.
pub(crate) fn event_frame<T: Serialize>(name: &str, value: &T) -> Bytes {
    Bytes::from(format!("event: {name}\ndata: {}\n\n", json_text(value)))
}

/// The field `name` of `body` as text.
pub(crate) fn text_of(body: &Value, name: &'static str) -> Result<String, Refusal> {
    match body.get(name) {
        Some(Value::String(text)) if !text.is_empty() => Ok(text.clone()),
        Some(_) => Err(Refusal::invalid(name, format!("`{name}` must be a non-empty string."))),
        None => Err(Refusal::invalid(name, format!("you must provide a `{name}` parameter."))),
    }
}

/// The field `name` of `body` as a flag; missing and null are `false`.
pub(crate) fn flag_of(body: &Value, name: &'static str) -> Result<bool, Refusal> {
    match body.get(name) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(_) => Err(Refusal::invalid(name, format!("`{name}` must be a boolean."))),
    }
}

/// The field `name` of `body` as a whole number of at least `low`; missing and null are `None`.
/// Digits in a string count too: that is how 64-bit numbers look in protobuf's JSON.
pub(crate) fn number_of(
    body: &Value,
    name: &'static str,
    low: u64,
) -> Result<Option<u64>, Refusal> {
    let number = match body.get(name) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Number(number)) => number.as_u64(),
        Some(Value::String(digits)) => digits.parse().ok(),
        Some(_) => None,
    };
    match number {
        Some(number) if number >= low => Ok(Some(number)),
        _ => Err(Refusal::invalid(
            name,
            format!("`{name}` must be a whole number of at least {low}."),
        )),
    }
}

/// The field `name` of `body` as a list that is not empty.
pub(crate) fn list_of<'a>(body: &'a Value, name: &'static str) -> Result<&'a [Value], Refusal> {
    match body.get(name) {
        Some(Value::Array(list)) if !list.is_empty() => Ok(list),
        Some(_) => Err(Refusal::invalid(name, format!("`{name}` must be a non-empty array."))),
        None => Err(Refusal::invalid(name, format!("`{name}` is required."))),
    }
}
