//! OpenAI's chat completions.

use bytes::Bytes;
use domain::usage::Usage;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::splice::Splice;
use super::{Asked, NotJson, Reported, Sorter, Told, answers, invalid, members, newer, output_cap};
use crate::error::CallError;
use crate::json::{Count, CowStr, Members, Prose};

/// Members that decide what a call costs: a request that has one of them twice is not read in two ways.
const METERED: [&str; 6] =
    ["model", "stream", "stream_options", "n", "max_tokens", "max_completion_tokens"];

pub(crate) fn read(body: &[u8]) -> Result<Asked, CallError> {
    let members = members(body, &METERED)?;
    let stream = boolean(members.get("stream"), "stream")?;
    // Both bounds may be given; the call may use the larger.
    let mut cap = None;
    for name in ["max_tokens", "max_completion_tokens"] {
        if let Some(value) = members.get(name) {
            cap = cap.max(Some(output_cap(value.get(), name, 1)?));
        }
    }
    let answers = members.get("n").map_or(Ok(1), |value| answers(value.get(), "n"))?;
    let options = options(members.get("stream_options"))?;
    let wants_usage = match options.as_ref().and_then(|o| o.get("include_usage")) {
        Some(value) => boolean(Some(value), "stream_options.include_usage")?,
        None => false,
    };
    Ok(Asked { model: model(&members)?, stream, output_cap: cap, answers, wants_usage })
}

/// Reads the member `model`.
pub(super) fn model(members: &Members<'_>) -> Result<String, CallError> {
    let value = members.get("model").ok_or_else(|| invalid("model is missing", Some("model")))?;
    serde_json::from_str::<CowStr<'_>>(value.get())
        .map(|CowStr(name)| name.into_owned())
        .map_err(|_| invalid("model must be a string", Some("model")))
}

/// Reads a member that is true, false or absent.
pub(super) fn boolean(value: Option<&RawValue>, name: &str) -> Result<bool, CallError> {
    match value.map(RawValue::get) {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(_) => Err(invalid(format!("{name} must be true or false"), Some(name))),
    }
}

fn options(value: Option<&RawValue>) -> Result<Option<Members<'_>>, CallError> {
    let Some(value) = value else { return Ok(None) };
    let wrong = || invalid("stream_options must be an object", Some("stream_options"));
    let options: Members<'_> = serde_json::from_str(value.get()).map_err(|_| wrong())?;
    if options.repeated(&["include_usage"]).is_some() {
        return Err(invalid("include_usage stands more than once", Some("stream_options")));
    }
    Ok(Some(options))
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
        set(&mut splice, text, &members, "max_completion_tokens", &cap.to_string());
    }
    if asked.stream && !asked.wants_usage {
        match members.get("stream_options") {
            None => set(&mut splice, text, &members, "stream_options", "{\"include_usage\":true}"),
            Some(value) => {
                let options: Members<'_> = serde_json::from_str(value.get())
                    .map_err(|_| invalid("stream_options must be an object", None))?;
                set(&mut splice, value.get(), &options, "include_usage", "true");
            }
        }
    }
    Ok(splice.done())
}

/// Gives a member a value, whether it is absent, null or has another.
pub(super) fn set(
    splice: &mut Splice<'_>,
    object: &str,
    members: &Members<'_>,
    name: &str,
    value: &str,
) {
    match members.0.iter().find(|(key, _)| key == name) {
        Some((_, old)) => splice.replace(old, value.to_owned()),
        None => splice.add_member(object, name, value),
    }
}

#[derive(Debug, Deserialize)]
struct Chunk<'a> {
    #[serde(borrow, default)]
    model: Option<CowText<'a>>,
    #[serde(borrow, default)]
    choices: Option<Vec<Choice<'a>>>,
    #[serde(default)]
    usage: Option<Counts>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

/// A borrowed string; anything else reads as nothing, for a frame is not ours to refuse.
#[derive(Debug)]
pub(super) struct CowText<'a>(pub(super) Option<std::borrow::Cow<'a, str>>);

impl<'de: 'a, 'a> Deserialize<'de> for CowText<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?;
        Ok(Self(serde_json::from_str::<CowStr<'de>>(raw.get()).ok().map(|CowStr(text)| text)))
    }
}

#[derive(Debug, Deserialize)]
struct Choice<'a> {
    #[serde(default)]
    delta: Option<Prose>,
    #[serde(default)]
    message: Option<Prose>,
    #[serde(borrow, default)]
    finish_reason: Option<CowText<'a>>,
}

#[derive(Debug, Default, Deserialize)]
struct Counts {
    prompt_tokens: Option<Count>,
    completion_tokens: Option<Count>,
    total_tokens: Option<Count>,
    prompt_tokens_details: Option<PromptDetails>,
    completion_tokens_details: Option<CompletionDetails>,
}

#[derive(Debug, Default, Deserialize)]
struct PromptDetails {
    cached_tokens: Option<Count>,
    cache_write_tokens: Option<Count>,
    audio_tokens: Option<Count>,
}

#[derive(Debug, Default, Deserialize)]
struct CompletionDetails {
    reasoning_tokens: Option<Count>,
    audio_tokens: Option<Count>,
}

/// What an OpenAI answer has told so far.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) model: Option<String>,
    pub(crate) prose_bytes: i64,
    seen: bool,
    prompt: Option<Count>,
    completion: Option<Count>,
    total: Option<Count>,
    cached: Option<Count>,
    cache_write: Option<Count>,
    input_audio: Option<Count>,
    reasoning: Option<Count>,
    output_audio: Option<Count>,
}

impl Tally {
    pub(crate) fn take(&mut self, json: &[u8]) -> Result<Told, NotJson> {
        if json == b"[DONE]" {
            return Ok(Told { terminal: true, ..Told::default() });
        }
        let chunk: Chunk<'_> = serde_json::from_slice(json).map_err(|_| NotJson)?;
        if let Some(CowText(Some(model))) = chunk.model
            && self.model.as_deref() != Some(&*model)
            && !model.is_empty()
        {
            self.model = Some(model.into_owned());
        }
        let mut told = Told::default();
        let no_choices = chunk.choices.as_ref().is_none_or(Vec::is_empty);
        for choice in chunk.choices.into_iter().flatten() {
            let prose = choice.delta.or(choice.message).unwrap_or_default();
            self.prose_bytes = self.prose_bytes.saturating_add(prose.0);
            if let Some(CowText(Some(reason))) = choice.finish_reason {
                told.blocked |= reason == "content_filter";
            }
        }
        told.failed = chunk.error.and_then(failure);
        if let Some(counts) = chunk.usage {
            told.usage_only = no_choices && told.failed.is_none();
            self.absorb(counts);
        }
        Ok(told)
    }

    fn absorb(&mut self, counts: Counts) {
        self.seen = true;
        newer(&mut self.prompt, counts.prompt_tokens);
        newer(&mut self.completion, counts.completion_tokens);
        newer(&mut self.total, counts.total_tokens);
        let prompt = counts.prompt_tokens_details.unwrap_or_default();
        newer(&mut self.cached, prompt.cached_tokens);
        newer(&mut self.cache_write, prompt.cache_write_tokens);
        newer(&mut self.input_audio, prompt.audio_tokens);
        let completion = counts.completion_tokens_details.unwrap_or_default();
        newer(&mut self.reasoning, completion.reasoning_tokens);
        newer(&mut self.output_audio, completion.audio_tokens);
    }

    pub(crate) fn reported(&self) -> Option<Reported> {
        if !self.seen || (self.prompt.is_none() && self.completion.is_none()) {
            return None;
        }
        let mut sorter = Sorter::default();
        let prompt = sorter.count(self.prompt);
        let cached_input = sorter.count(self.cached);
        let cache_write_short = sorter.count(self.cache_write);
        let input_audio = sorter.count(self.input_audio);
        let inside = cached_input.saturating_add(cache_write_short).saturating_add(input_audio);
        let input = sorter.rest("prompt_tokens", prompt, inside);
        let completion = sorter.count(self.completion);
        // Gemini's OpenAI-compatible endpoint leaves thinking out of completion_tokens, not out of the total.
        let total = sorter.count(self.total);
        let hidden = total.saturating_sub(prompt).saturating_sub(completion).max(0);
        if hidden > 0 {
            sorter.note("total_tokens", prompt.saturating_add(completion), total);
        }
        let reasoning = sorter.count(self.reasoning);
        let output_audio = sorter.count(self.output_audio);
        let output =
            sorter.rest("completion_tokens", completion, reasoning.saturating_add(output_audio));
        Some(sorter.report(Usage {
            input,
            cached_input,
            cache_write_short,
            input_audio,
            output,
            reasoning: reasoning.saturating_add(hidden),
            output_audio,
            ..Usage::default()
        }))
    }
}

/// The message of an error member; null, false and the empty string are no error, as the SDKs see it.
pub(super) fn failure(error: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    struct Error<'a> {
        #[serde(borrow, default)]
        message: Option<CowText<'a>>,
    }
    if matches!(error.get(), "null" | "false" | "\"\"" | "0") {
        return None;
    }
    let message = serde_json::from_str::<Error<'_>>(error.get()).ok().and_then(|e| e.message?.0);
    Some(message.map_or_else(|| "the provider reported an error".to_owned(), Into::into))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prepared(body: &str, upstream_model: &str) -> String {
        let body = Bytes::copy_from_slice(body.as_bytes());
        let asked = read(&body).unwrap();
        String::from_utf8(prepare(&body, &asked, upstream_model, 512).unwrap().to_vec()).unwrap()
    }

    #[test]
    fn what_is_missing_is_written_in_and_every_other_byte_stays() {
        assert_eq!(
            prepared("{ \"model\" : \"m\",\n\"messages\":[] , \"stream\":true}", "m"),
            "{\"max_completion_tokens\":512,\"stream_options\":{\"include_usage\":true}, \"model\" : \"m\",\n\"messages\":[] , \"stream\":true}"
        );
        assert_eq!(
            prepared(
                r#"{"model":"m","max_tokens":9,"stream":true,"stream_options":{"include_usage":false}}"#,
                "m"
            ),
            r#"{"model":"m","max_tokens":9,"stream":true,"stream_options":{"include_usage":true}}"#
        );
        assert_eq!(
            prepared(r#"{"model":"m","max_tokens":9,"stream":true,"stream_options":{}}"#, "m"),
            r#"{"model":"m","max_tokens":9,"stream":true,"stream_options":{"include_usage":true}}"#
        );
        assert_eq!(
            prepared(r#"{"model":"m","max_completion_tokens":null}"#, "big \"m\""),
            r#"{"model":"big \"m\"","max_completion_tokens":512}"#
        );
        let complete = r#"{"model":"m","max_tokens":9}"#;
        assert_eq!(prepared(complete, "m"), complete);
    }

    #[test]
    fn the_larger_of_two_bounds_counts() {
        let asked = read(br#"{"model":"m","max_tokens":100,"max_completion_tokens":900,"n":3}"#);
        assert_eq!(asked.map(|a| (a.output_cap, a.answers)), Ok((Some(900), 3)));
    }

    #[test]
    fn a_bound_that_is_no_count_is_refused() {
        for value in ["-1", "0", "1.5", "\"100\"", "true", "[]", "1e308", "9223372036854775808"] {
            let body = format!("{{\"model\":\"m\",\"max_tokens\":{value}}}");
            assert!(read(body.as_bytes()).is_err(), "{value}");
        }
        for value in ["0", "129", "-1", "\"2\"", "1.0"] {
            assert!(
                read(format!("{{\"model\":\"m\",\"n\":{value}}}").as_bytes()).is_err(),
                "{value}"
            );
        }
    }

    #[test]
    fn a_metered_member_that_stands_twice_is_refused() {
        assert!(read(br#"{"model":"cheap","model":"dear"}"#).is_err());
        assert!(read(br#"{"model":"cheap","mod\u0065l":"dear"}"#).is_err());
    }

    fn usage(frames: &[&str]) -> Option<Reported> {
        let mut tally = Tally::default();
        for frame in frames {
            tally.take(frame.as_bytes()).unwrap();
        }
        tally.reported()
    }

    #[test]
    fn cached_written_and_thinking_tokens_are_parts_and_not_extras() {
        let reported = usage(&[r#"{"model":"m","choices":[],"usage":{"prompt_tokens":3300,"completion_tokens":120,
            "total_tokens":3420,"prompt_tokens_details":{"cached_tokens":2048,"cache_write_tokens":1024},
            "completion_tokens_details":{"reasoning_tokens":64}}}"#]).unwrap();
        let usage = reported.usage;
        assert_eq!((usage.input, usage.cached_input, usage.cache_write_short), (228, 2048, 1024));
        assert_eq!((usage.output, usage.reasoning, usage.total()), (56, 64, 3420));
        assert!(reported.clamps.is_empty());
    }

    #[test]
    fn the_newest_number_counts_and_null_changes_nothing() {
        let reported = usage(&[
            r#"{"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":10,"completion_tokens":1}}"#,
            r#"{"choices":[{"delta":{"content":"b"}}],"usage":{"prompt_tokens":10,"completion_tokens":2}}"#,
            r#"{"choices":[],"usage":null}"#,
        ]);
        assert_eq!(reported.map(|r| (r.usage.input, r.usage.output)), Some((10, 2)));
        assert_eq!(usage(&[r#"{"choices":[]}"#]), None);
    }

    #[test]
    fn more_cached_than_prompt_is_clamped_and_noted() {
        let reported = usage(&[r#"{"usage":{"prompt_tokens":5,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":8}}}"#]).unwrap();
        assert_eq!((reported.usage.input, reported.usage.cached_input), (0, 8));
        assert_eq!(reported.clamps, [Clamp { what: "prompt_tokens", expected: 8, found: 5 }]);
    }
    use crate::dialect::Clamp;

    #[test]
    fn an_error_frame_is_a_failure_and_a_usage_chunk_is_told_apart() {
        let mut tally = Tally::default();
        let told =
            tally.take(br#"{"error":{"message":"overloaded","type":"server_error"}}"#).unwrap();
        assert_eq!(told.failed.as_deref(), Some("overloaded"));
        assert!(
            tally
                .take(br#"{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}"#)
                .unwrap()
                .usage_only
        );
        let with_text = br#"{"choices":[{"delta":{"content":"x"}}],"usage":{"prompt_tokens":1}}"#;
        assert!(!tally.take(with_text).unwrap().usage_only);
        assert!(tally.take(b"[DONE]").unwrap().terminal);
        assert_eq!(tally.take(b"{garbage").map(|_| ()), Err(NotJson));
    }
}
