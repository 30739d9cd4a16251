//! Gemini's generateContent and streamGenerateContent.

use bytes::Bytes;
use domain::usage::Usage;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::openai::{CowText, failure, set};
use super::splice::Splice;
use super::{Asked, NotJson, Reported, Sorter, Told, answers, invalid, newer, output_cap};
use crate::error::CallError;
use crate::json::{Count, Members, Prose};

/// The two spellings of the member that holds the bounds; protobuf's JSON accepts both.
const CONFIG: [&str; 2] = ["generationConfig", "generation_config"];
const CAP: [&str; 2] = ["maxOutputTokens", "max_output_tokens"];
const ANSWERS: [&str; 2] = ["candidateCount", "candidate_count"];

/// An object's members; a metered one may stand there once, in one of its spellings.
fn members<'a>(text: &'a str, metered: &[[&'static str; 2]]) -> Result<Members<'a>, CallError> {
    let members: Members<'_> = serde_json::from_str(text)
        .map_err(|error| invalid(format!("not a JSON object: {error}"), None))?;
    for names in metered {
        let count = members.0.iter().filter(|(key, _)| names.iter().any(|n| key == n)).count();
        if count > 1 {
            return Err(invalid(format!("{} stands more than once", names[0]), Some(names[0])));
        }
    }
    Ok(members)
}

fn either<'a>(members: &Members<'a>, names: [&str; 2]) -> Option<&'a RawValue> {
    names.iter().find_map(|name| members.get(name))
}

/// A count may stand in quotes here.
fn plain(value: &RawValue) -> &str {
    value.get().trim_matches('"')
}

fn text(body: &[u8]) -> Result<&str, CallError> {
    std::str::from_utf8(body).map_err(|_| invalid("the body is not UTF-8", None))
}

pub(crate) fn read(body: &[u8], model: &str, stream: bool) -> Result<Asked, CallError> {
    let outer = members(text(body)?, &[CONFIG])?;
    let mut asked =
        Asked { model: model.to_owned(), stream, output_cap: None, answers: 1, wants_usage: true };
    if let Some(config) = either(&outer, CONFIG) {
        let config = members(config.get(), &[CAP, ANSWERS])?;
        if let Some(value) = either(&config, CAP) {
            asked.output_cap = Some(output_cap(plain(value), CAP[0], 1)?);
        }
        if let Some(value) = either(&config, ANSWERS) {
            asked.answers = answers(plain(value), ANSWERS[0])?;
        }
    }
    Ok(asked)
}

pub(crate) fn prepare(body: &Bytes, asked: &Asked, cap: i64) -> Result<Bytes, CallError> {
    if asked.output_cap.is_some() {
        return Ok(body.clone());
    }
    let whole = text(body)?;
    let outer = members(whole, &[CONFIG])?;
    let mut splice = Splice::new(body);
    match either(&outer, CONFIG) {
        None => {
            let config = format!("{{\"maxOutputTokens\":{cap}}}");
            let name = CONFIG.into_iter().find(|name| outer.0.iter().any(|(key, _)| key == name));
            set(&mut splice, whole, &outer, name.unwrap_or(CONFIG[0]), &config);
        }
        Some(config) => {
            let inner = members(config.get(), &[CAP, ANSWERS])?;
            let name = CAP.into_iter().find(|name| inner.0.iter().any(|(key, _)| key == name));
            set(&mut splice, config.get(), &inner, name.unwrap_or(CAP[0]), &cap.to_string());
        }
    }
    Ok(splice.done())
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Chunk<'a> {
    #[serde(borrow, default)]
    model_version: Option<CowText<'a>>,
    #[serde(borrow, default)]
    candidates: Option<Vec<Candidate<'a>>>,
    #[serde(default)]
    usage_metadata: Option<Counts>,
    #[serde(borrow, default)]
    prompt_feedback: Option<Feedback<'a>>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate<'a> {
    #[serde(default)]
    content: Option<Prose>,
    #[serde(borrow, default)]
    finish_reason: Option<CowText<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Feedback<'a> {
    #[serde(borrow, default)]
    block_reason: Option<CowText<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Counts {
    prompt_token_count: Option<Count>,
    cached_content_token_count: Option<Count>,
    candidates_token_count: Option<Count>,
    thoughts_token_count: Option<Count>,
    tool_use_prompt_token_count: Option<Count>,
    total_token_count: Option<Count>,
    prompt_tokens_details: Option<Vec<Detail>>,
    cache_tokens_details: Option<Vec<Detail>>,
    candidates_tokens_details: Option<Vec<Detail>>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Detail {
    #[serde(default)]
    modality: String,
    #[serde(default)]
    token_count: Option<Count>,
}

/// What a Gemini answer has told so far.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) model: Option<String>,
    pub(crate) prose_bytes: i64,
    seen: bool,
    prompt: Option<Count>,
    cached: Option<Count>,
    candidates: Option<Count>,
    thoughts: Option<Count>,
    tool_use: Option<Count>,
    total: Option<Count>,
    prompt_details: Option<Vec<Detail>>,
    cache_details: Option<Vec<Detail>>,
    candidates_details: Option<Vec<Detail>>,
}

impl Tally {
    pub(crate) fn take(&mut self, json: &[u8]) -> Result<Told, NotJson> {
        let chunk: Chunk<'_> = serde_json::from_slice(json).map_err(|_| NotJson)?;
        if let Some(CowText(Some(model))) = chunk.model_version {
            self.model = Some(model.into_owned());
        }
        let mut told = Told::default();
        for candidate in chunk.candidates.into_iter().flatten() {
            let prose = candidate.content.unwrap_or_default();
            self.prose_bytes = self.prose_bytes.saturating_add(prose.0);
            if let Some(CowText(Some(reason))) = candidate.finish_reason {
                told.terminal |= !reason.is_empty();
            }
        }
        if let Some(Feedback { block_reason: Some(CowText(Some(_))) }) = chunk.prompt_feedback {
            told.blocked = true;
            told.terminal = true;
        }
        told.failed = chunk.error.and_then(failure);
        if let Some(counts) = chunk.usage_metadata {
            self.absorb(counts);
        }
        Ok(told)
    }

    fn absorb(&mut self, counts: Counts) {
        self.seen = true;
        newer(&mut self.prompt, counts.prompt_token_count);
        newer(&mut self.cached, counts.cached_content_token_count);
        newer(&mut self.candidates, counts.candidates_token_count);
        newer(&mut self.thoughts, counts.thoughts_token_count);
        newer(&mut self.tool_use, counts.tool_use_prompt_token_count);
        newer(&mut self.total, counts.total_token_count);
        newer(&mut self.prompt_details, counts.prompt_tokens_details);
        newer(&mut self.cache_details, counts.cache_tokens_details);
        newer(&mut self.candidates_details, counts.candidates_tokens_details);
    }

    pub(crate) fn reported(&self) -> Option<Reported> {
        if !self.seen
            || (self.prompt.is_none() && self.candidates.is_none() && self.total.is_none())
        {
            return None;
        }
        let mut sorter = Sorter::default();
        let prompt = sorter.count(self.prompt);
        let cached_input = sorter.count(self.cached);
        let heard = of_modality(&mut sorter, self.prompt_details.as_deref(), "AUDIO");
        let heard_before = of_modality(&mut sorter, self.cache_details.as_deref(), "AUDIO");
        let input_audio = sorter.rest("cacheTokensDetails", heard, heard_before);
        let fresh =
            sorter.rest("promptTokenCount", prompt, cached_input.saturating_add(input_audio));
        let tool_use = sorter.count(self.tool_use);
        let (written, reasoning) = self.output(&mut sorter, prompt, tool_use);
        let output_audio = of_modality(&mut sorter, self.candidates_details.as_deref(), "AUDIO");
        let output_image = of_modality(&mut sorter, self.candidates_details.as_deref(), "IMAGE");
        let output =
            sorter.rest("candidatesTokenCount", written, output_audio.saturating_add(output_image));
        // Some models tell the candidates only at the end: words that came before are not in the count.
        let output_is_open = self.prose_bytes > 0 && self.candidates.is_none() && written == 0;
        let usage = Usage {
            input: fresh.saturating_add(tool_use),
            cached_input,
            input_audio,
            output,
            reasoning,
            output_audio,
            output_image,
            ..Usage::default()
        };
        Some(Reported { output_is_open, ..sorter.report(usage) })
    }

    /// Visible and thinking tokens. Thinking comes on top of the candidates, except where the total says
    /// that it is inside them; where the total knows of more output, the total is right.
    fn output(&self, sorter: &mut Sorter, prompt: i64, tool_use: i64) -> (i64, i64) {
        let candidates = sorter.count(self.candidates);
        let thoughts = sorter.count(self.thoughts);
        let apart = candidates.saturating_add(thoughts);
        let Some(Count::Whole(total)) = self.total else {
            return (candidates, thoughts);
        };
        let told = total.saturating_sub(prompt).saturating_sub(tool_use);
        if told == apart {
            return (candidates, thoughts);
        }
        if told == candidates && thoughts <= candidates {
            return (candidates.saturating_sub(thoughts), thoughts);
        }
        sorter.note(
            "totalTokenCount",
            prompt.saturating_add(tool_use).saturating_add(apart),
            total,
        );
        if told > apart {
            (candidates, told.saturating_sub(candidates))
        } else {
            (candidates, thoughts)
        }
    }
}

fn of_modality(sorter: &mut Sorter, details: Option<&[Detail]>, modality: &str) -> i64 {
    details
        .unwrap_or_default()
        .iter()
        .filter(|detail| detail.modality == modality)
        .fold(0_i64, |sum, detail| sum.saturating_add(sorter.count(detail.token_count)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prepared(body: &'static str) -> String {
        let body = Bytes::from_static(body.as_bytes());
        let asked = read(&body, "m", false).unwrap();
        String::from_utf8(prepare(&body, &asked, 512).unwrap().to_vec()).unwrap()
    }

    #[test]
    fn a_missing_bound_is_written_where_it_belongs() {
        assert_eq!(prepared("{}"), r#"{"generationConfig":{"maxOutputTokens":512}}"#);
        assert_eq!(
            prepared(r#"{"contents":[],"generationConfig":{"topK":1}}"#),
            r#"{"contents":[],"generationConfig":{"maxOutputTokens":512,"topK":1}}"#
        );
        assert_eq!(
            prepared(r#"{"generation_config":{"max_output_tokens":null}}"#),
            r#"{"generation_config":{"max_output_tokens":512}}"#
        );
        assert_eq!(
            prepared(r#"{"generationConfig":null}"#),
            r#"{"generationConfig":{"maxOutputTokens":512}}"#
        );
        let complete = r#"{"generationConfig":{"maxOutputTokens":"9"}}"#;
        assert_eq!(prepared(complete), complete);
    }

    #[test]
    fn two_spellings_of_one_bound_are_refused() {
        let twice = br#"{"generationConfig":{"maxOutputTokens":1,"max_output_tokens":9}}"#;
        assert!(read(twice, "m", false).is_err());
        assert!(read(br#"{"generationConfig":{"candidateCount":0}}"#, "m", false).is_err());
    }

    fn usage(frames: &[&str]) -> Reported {
        let mut tally = Tally::default();
        for frame in frames {
            tally.take(frame.as_bytes()).unwrap();
        }
        tally.reported().unwrap()
    }

    #[test]
    fn cached_is_inside_the_prompt_and_thoughts_and_tools_come_on_top() {
        let usage = usage(&[
            r#"{"usageMetadata":{"promptTokenCount":12020,"cachedContentTokenCount":12000,
            "candidatesTokenCount":7,"thoughtsTokenCount":188,"toolUsePromptTokenCount":5,"totalTokenCount":12220}}"#,
        ]);
        assert_eq!((usage.usage.input, usage.usage.cached_input), (25, 12_000));
        assert_eq!(
            (usage.usage.output, usage.usage.reasoning, usage.usage.total()),
            (7, 188, 12_220)
        );
        assert!(usage.clamps.is_empty());
    }

    #[test]
    fn totals_run_and_the_last_one_counts() {
        let usage = usage(&[
            r#"{"candidates":[{"content":{"parts":[{"text":"He"}]}}],"usageMetadata":{"promptTokenCount":20,"totalTokenCount":208,"thoughtsTokenCount":188}}"#,
            r#"{"candidates":[{"content":{"parts":[{"text":"llo"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":"20","candidatesTokenCount":7,"thoughtsTokenCount":188,"totalTokenCount":215}}"#,
        ]);
        assert_eq!(usage.usage, Usage { input: 20, output: 7, reasoning: 188, ..Usage::default() });
    }

    #[test]
    fn an_answer_cut_while_thinking_bills_prompt_and_thoughts() {
        let usage = usage(&[
            r#"{"usageMetadata":{"promptTokenCount":20,"thoughtsTokenCount":100,"totalTokenCount":120}}"#,
        ]);
        assert_eq!(usage.usage, Usage { input: 20, reasoning: 100, ..Usage::default() });
    }

    #[test]
    fn thoughts_inside_the_candidates_are_not_billed_twice() {
        let usage = usage(&[
            r#"{"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":100,"thoughtsTokenCount":60,"totalTokenCount":110}}"#,
        ]);
        assert_eq!((usage.usage.output, usage.usage.reasoning), (40, 60));
    }

    #[test]
    fn sound_has_its_own_class() {
        let usage = usage(&[
            r#"{"usageMetadata":{"promptTokenCount":150,"candidatesTokenCount":1,"totalTokenCount":151,
            "promptTokensDetails":[{"modality":"TEXT","tokenCount":50},{"modality":"AUDIO","tokenCount":100}]}}"#,
        ]);
        assert_eq!((usage.usage.input, usage.usage.input_audio), (50, 100));
    }

    #[test]
    fn a_blocked_prompt_is_told() {
        let told = Tally::default().take(br#"{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":4,"totalTokenCount":4}}"#).unwrap();
        assert!(told.blocked && told.terminal);
    }
}
