//! Anthropic's Messages.

use bytes::Bytes;
use domain::usage::Usage;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::openai::{CowText, boolean, failure, model, set};
use super::splice::Splice;
use super::{Asked, NotJson, Reported, Sorter, Told, invalid, members, newer, output_cap};
use crate::error::CallError;
use crate::json::{Count, Prose};

/// Members that decide what a call costs.
const METERED: [&str; 3] = ["model", "stream", "max_tokens"];

pub(crate) fn read(body: &[u8]) -> Result<Asked, CallError> {
    let members = members(body, &METERED)?;
    Ok(Asked {
        model: model(&members)?,
        stream: boolean(members.get("stream"), "stream")?,
        // 0 is legal: it fills the cache and writes nothing.
        output_cap: members
            .get("max_tokens")
            .map(|value| output_cap(value.get(), "max_tokens", 0))
            .transpose()?,
        answers: 1,
        wants_usage: true,
    })
}

pub(crate) fn prepare(
    body: &Bytes,
    asked: &Asked,
    upstream_model: &str,
    cap: i64,
) -> Result<Bytes, CallError> {
    let members = members(body, &METERED)?;
    let text = std::str::from_utf8(body).map_err(|_| invalid("the body is not UTF-8", None))?;
    let mut splice = Splice::new(body);
    if let Some(value) = members.get("model").filter(|_| upstream_model != asked.model) {
        splice.replace(value, serde_json::Value::from(upstream_model).to_string());
    }
    if asked.output_cap.is_none() {
        set(&mut splice, text, &members, "max_tokens", &cap.to_string());
    }
    Ok(splice.done())
}

#[derive(Debug, Deserialize)]
struct Event<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Option<CowText<'a>>,
    #[serde(borrow, default)]
    message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    model: Option<CowText<'a>>,
    #[serde(default)]
    usage: Option<Counts>,
    #[serde(default)]
    content: Option<Prose>,
    #[serde(default)]
    content_block: Option<Prose>,
    #[serde(borrow, default)]
    delta: Option<&'a RawValue>,
    #[serde(borrow, default)]
    stop_reason: Option<CowText<'a>>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
struct Message<'a> {
    #[serde(borrow, default)]
    model: Option<CowText<'a>>,
    #[serde(default)]
    usage: Option<Counts>,
}

#[derive(Debug, Default, Deserialize)]
struct Counts {
    input_tokens: Option<Count>,
    output_tokens: Option<Count>,
    cache_creation_input_tokens: Option<Count>,
    cache_read_input_tokens: Option<Count>,
    cache_creation: Option<Creation>,
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Debug, Default, Deserialize)]
struct Creation {
    ephemeral_5m_input_tokens: Option<Count>,
    ephemeral_1h_input_tokens: Option<Count>,
}

#[derive(Debug, Default, Deserialize)]
struct OutputDetails {
    thinking_tokens: Option<Count>,
}

/// What an Anthropic answer has told so far.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) model: Option<String>,
    pub(crate) prose_bytes: i64,
    input: Option<Count>,
    output: Option<Count>,
    creation: Option<Count>,
    read: Option<Count>,
    short: Option<Count>,
    long: Option<Count>,
    thinking: Option<Count>,
    /// Whether the output was told by more than the start of a stream, whose number is a placeholder.
    output_told: bool,
}

impl Tally {
    pub(crate) fn take(&mut self, json: &[u8]) -> Result<Told, NotJson> {
        let event: Event<'_> = serde_json::from_slice(json).map_err(|_| NotJson)?;
        let kind = event.kind.and_then(|CowText(kind)| kind).unwrap_or_default();
        let mut told = Told { terminal: kind == "message_stop", ..Told::default() };
        if kind == "error" || event.error.is_some() {
            told.failed = Some(event.error.and_then(failure).unwrap_or_default());
        }
        self.serve(event.model);
        if let Some(message) = event.message
            && let Ok(message) = serde_json::from_str::<Message<'_>>(message.get())
        {
            self.serve(message.model);
            self.absorb(message.usage);
        }
        self.output_told |= event.usage.as_ref().is_some_and(|u| u.output_tokens.is_some());
        self.absorb(event.usage);
        if let Some(delta) = event.delta {
            let prose = serde_json::from_str::<Prose>(delta.get()).unwrap_or_default();
            // The delta that ends a message says why it stopped, which is nothing the model wrote.
            if kind == "content_block_delta" {
                self.prose_bytes = self.prose_bytes.saturating_add(prose.0);
            }
            told.blocked |= delta.get().contains("\"refusal\"") && kind == "message_delta";
        }
        told.blocked |=
            matches!(&event.stop_reason, Some(CowText(Some(reason))) if reason == "refusal");
        for prose in [event.content, event.content_block].into_iter().flatten() {
            self.prose_bytes = self.prose_bytes.saturating_add(prose.0);
        }
        Ok(told)
    }

    fn serve(&mut self, model: Option<CowText<'_>>) {
        if let Some(CowText(Some(model))) = model {
            self.model = Some(model.into_owned());
        }
    }

    fn absorb(&mut self, counts: Option<Counts>) {
        let Some(counts) = counts else { return };
        newer(&mut self.input, counts.input_tokens);
        newer(&mut self.output, counts.output_tokens);
        newer(&mut self.creation, counts.cache_creation_input_tokens);
        newer(&mut self.read, counts.cache_read_input_tokens);
        let creation = counts.cache_creation.unwrap_or_default();
        newer(&mut self.short, creation.ephemeral_5m_input_tokens);
        newer(&mut self.long, creation.ephemeral_1h_input_tokens);
        newer(&mut self.thinking, counts.output_tokens_details.unwrap_or_default().thinking_tokens);
    }

    pub(crate) fn reported(&self) -> Option<Reported> {
        if self.input.is_none() && self.output.is_none() {
            return None;
        }
        let mut sorter = Sorter::default();
        let cache_write_long = sorter.count(self.long);
        let short = sorter.count(self.short);
        // The sum may have grown since the split was told: the surplus is short.
        let cache_write_short = match self.creation {
            Some(_) => {
                let sum = sorter.count(self.creation);
                sorter.rest("cache_creation_input_tokens", sum, cache_write_long)
            }
            None => short,
        };
        let output = sorter.count(self.output);
        let reasoning = sorter.count(self.thinking);
        let visible = sorter.rest("output_tokens", output, reasoning);
        let usage = Usage {
            input: sorter.count(self.input),
            cached_input: sorter.count(self.read),
            cache_write_short,
            cache_write_long,
            output: visible,
            reasoning,
            ..Usage::default()
        };
        Some(Reported { output_is_open: !self.output_told, ..sorter.report(usage) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_bound_is_written_in() {
        let body = Bytes::from_static(br#"{"model":"m","messages":[]}"#);
        let asked = read(&body).unwrap();
        let out = prepare(&body, &asked, "m", 512).unwrap();
        assert_eq!(&out[..], br#"{"max_tokens":512,"model":"m","messages":[]}"#);
        assert_eq!(read(br#"{"model":"m","max_tokens":0}"#).unwrap().output_cap, Some(0));
    }

    const STREAM: [&str; 6] = [
        r#"{"type":"message_start","message":{"id":"msg_1","role":"assistant","model":"claude","content":[],"usage":{"input_tokens":27,"cache_creation_input_tokens":4096,"cache_read_input_tokens":12000,"cache_creation":{"ephemeral_5m_input_tokens":1024,"ephemeral_1h_input_tokens":3072},"output_tokens":1}}}"#,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi you"}}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":200}}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":27,"cache_creation_input_tokens":4096,"cache_read_input_tokens":12000,"output_tokens":310,"output_tokens_details":{"thinking_tokens":200}}}"#,
        r#"{"type":"message_stop"}"#,
    ];

    #[test]
    fn a_delta_replaces_the_start_and_the_split_stays() {
        let mut tally = Tally::default();
        let terminal: Vec<bool> =
            STREAM.iter().map(|frame| tally.take(frame.as_bytes()).unwrap().terminal).collect();
        let usage = tally.reported().unwrap().usage;
        assert_eq!(terminal, [false, false, false, false, false, true]);
        assert_eq!((usage.input, usage.cached_input), (27, 12_000));
        assert_eq!((usage.cache_write_short, usage.cache_write_long), (1_024, 3_072));
        assert_eq!((usage.output, usage.reasoning), (110, 200));
        assert_eq!((tally.model.as_deref(), tally.prose_bytes), (Some("claude"), 6));
    }

    #[test]
    fn the_output_is_open_until_a_delta_tells_it() {
        let mut tally = Tally::default();
        let open: Vec<bool> = STREAM
            .iter()
            .map(|frame| {
                tally.take(frame.as_bytes()).unwrap();
                tally.reported().unwrap().output_is_open
            })
            .collect();
        assert_eq!(open, [true, true, true, false, false, false]);
    }

    #[test]
    fn a_whole_answer_is_read_like_a_stream() {
        let mut tally = Tally::default();
        let told = tally.take(br#"{"id":"msg_1","type":"message","model":"claude","content":[{"type":"text","text":"Hello"}],"stop_reason":"end_turn","usage":{"input_tokens":5,"output_tokens":2}}"#).unwrap();
        assert_eq!((told.failed, tally.prose_bytes), (None, 5));
        assert_eq!(
            tally.reported().unwrap().usage,
            Usage { input: 5, output: 2, ..Usage::default() }
        );
    }

    #[test]
    fn an_error_event_is_a_failure() {
        let told = Tally::default().take(
            br#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
        );
        assert_eq!(told.unwrap().failed.as_deref(), Some("Overloaded"));
    }
}
