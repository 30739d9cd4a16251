//! Faults on demand: `key=value;key;…` in a header, in a prompt, or queued beforehand.

use std::collections::VecDeque;
use std::time::Duration;

use serde::Deserialize;

use crate::dialect::Dialect;

/// The request header a script comes in; only the simulator reads it.
pub const SCRIPT_HEADER: &str = "x-sim-script";
/// Longest pause a script can ask for: longer than any time-out of the gateway.
const MAX_PAUSE_MS: u64 = 3_600_000;
/// Most text frames a script can ask for: a stream of some 250 MB, enough to be "endless".
const MAX_FRAMES: u64 = 1_000_000;
/// Most scripts waiting in the queue: a test that queues more has lost count.
pub(crate) const MAX_QUEUED: usize = 1_024;

/// What one request is told to do instead of answering well.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Script {
    /// Answer with this status and the dialect's error body.
    pub(crate) status: Option<u16>,
    /// `Retry-After` text (`RetryInfo` in the Gemini dialect).
    pub(crate) retry_after: Option<String>,
    /// Error code put in place of the usual one of that status.
    pub(crate) code: Option<String>,
    /// `Location` header of a 3xx answer.
    pub(crate) location: Option<String>,
    /// Pause before the headers.
    pub(crate) delay: Option<Duration>,
    /// Pause before each frame.
    pub(crate) frame_gap: Option<Duration>,
    /// Text frames per choice.
    pub(crate) frames: Option<u64>,
    /// Exact figures: whole prompt, its cached and written parts, whole output, its reasoning part.
    pub(crate) tokens_in: Option<u64>,
    pub(crate) cached: Option<u64>,
    pub(crate) cache_write: Option<u64>,
    pub(crate) tool_use: Option<u64>,
    pub(crate) tokens_out: Option<u64>,
    pub(crate) reasoning: Option<u64>,
    /// End cleanly after so many frames, without the terminal frame.
    pub(crate) cut_after: Option<u64>,
    /// TCP reset after so many frames, or at this byte of the body.
    pub(crate) reset_after: Option<u64>,
    pub(crate) reset_at_byte: Option<u64>,
    /// One frame that is not JSON nor UTF-8 after so many frames.
    pub(crate) garbage_after: Option<u64>,
    /// The dialect's in-stream error frame after so many frames, then the end.
    pub(crate) error_after: Option<u64>,
    /// Silence after so many frames.
    pub(crate) hang_after: Option<u64>,
    /// Write in pieces of so many bytes.
    pub(crate) split: Option<usize>,
    /// Never send headers.
    pub(crate) hang: bool,
    /// Say nothing about usage.
    pub(crate) no_usage: bool,
    /// Generate beyond the caller's cap.
    pub(crate) ignore_cap: bool,
    /// Response id put in place of the drawn one.
    pub(crate) id: Option<String>,
    /// Service tier put in place of the served one.
    pub(crate) tier: Option<String>,
}

/// Why a script was not understood.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ScriptError {
    #[error("unknown script key `{0}`")]
    UnknownKey(String),
    #[error("script key `{key}`: `{value}` is not a whole number in {low}..={high}")]
    Number { key: String, value: String, low: u64, high: u64 },
    #[error("script key `{0}` needs a value")]
    NoValue(String),
    #[error("script key `{0}` takes no value")]
    NotAFlag(String),
    #[error("script: {0}")]
    Contradiction(&'static str),
}

impl Script {
    /// Reads `key=value;key;…`; spaces around keys and values are ignored.
    ///
    /// # Errors
    /// A key that is not known, a value out of range, or figures that contradict each other.
    pub(crate) fn parse(text: &str) -> Result<Self, ScriptError> {
        let mut script = Self::default();
        for item in text.split(';').map(str::trim).filter(|item| !item.is_empty()) {
            let (key, value) = match item.split_once('=') {
                Some((key, value)) => (key.trim(), Some(value.trim())),
                None => (item, None),
            };
            if !script.flag(key, value)? && !script.word(key, value)? {
                script.number(key, value)?;
            }
        }
        script.check()?;
        Ok(script)
    }

    /// True when the answer must be played frame by frame, also where it is not a stream.
    pub(crate) fn breaks_the_body(&self) -> bool {
        self.cut_after.is_some()
            || self.reset_after.is_some()
            || self.reset_at_byte.is_some()
            || self.garbage_after.is_some()
            || self.hang_after.is_some()
    }

    fn flag(&mut self, key: &str, value: Option<&str>) -> Result<bool, ScriptError> {
        let place = match key {
            "hang" => &mut self.hang,
            "no_usage" => &mut self.no_usage,
            "ignore_cap" => &mut self.ignore_cap,
            _ => return Ok(false),
        };
        *place = match value {
            None | Some("1" | "true") => true,
            Some("0" | "false") => false,
            Some(_) => return Err(ScriptError::NotAFlag(key.to_owned())),
        };
        Ok(true)
    }

    fn word(&mut self, key: &str, value: Option<&str>) -> Result<bool, ScriptError> {
        let place = match key {
            "retry_after" => &mut self.retry_after,
            "code" => &mut self.code,
            "location" => &mut self.location,
            "id" => &mut self.id,
            "tier" => &mut self.tier,
            _ => return Ok(false),
        };
        let value = value.filter(|value| !value.is_empty());
        *place = Some(value.ok_or_else(|| ScriptError::NoValue(key.to_owned()))?.to_owned());
        Ok(true)
    }

    fn number(&mut self, key: &str, value: Option<&str>) -> Result<(), ScriptError> {
        match key {
            "status" => {
                self.status = u16::try_from(number(key, value, 300, 599)?).ok();
                return Ok(());
            }
            "split" => {
                self.split = usize::try_from(number(key, value, 1, 1 << 20)?).ok();
                return Ok(());
            }
            "delay_ms" => {
                self.delay = Some(Duration::from_millis(number(key, value, 0, MAX_PAUSE_MS)?));
                return Ok(());
            }
            "frame_ms" => {
                self.frame_gap = Some(Duration::from_millis(number(key, value, 0, MAX_PAUSE_MS)?));
                return Ok(());
            }
            _ => {}
        }
        let (place, low, high) = match key {
            "frames" => (&mut self.frames, 1, MAX_FRAMES),
            "tokens_in" => (&mut self.tokens_in, 0, u64::MAX),
            "cached" => (&mut self.cached, 0, u64::MAX),
            "cache_write" => (&mut self.cache_write, 0, u64::MAX),
            "tool_use" => (&mut self.tool_use, 0, u64::MAX),
            "tokens_out" => (&mut self.tokens_out, 0, u64::MAX),
            "reasoning" => (&mut self.reasoning, 0, u64::MAX),
            "cut_after" => (&mut self.cut_after, 0, u64::MAX),
            "reset_after" => (&mut self.reset_after, 0, u64::MAX),
            "reset_at_byte" => (&mut self.reset_at_byte, 0, u64::MAX),
            "garbage_after" => (&mut self.garbage_after, 0, u64::MAX),
            "error_after" => (&mut self.error_after, 0, u64::MAX),
            "hang_after" => (&mut self.hang_after, 0, u64::MAX),
            _ => return Err(ScriptError::UnknownKey(key.to_owned())),
        };
        *place = Some(number(key, value, low, high)?);
        Ok(())
    }

    fn check(&self) -> Result<(), ScriptError> {
        if let (Some(output), Some(reasoning)) = (self.tokens_out, self.reasoning)
            && reasoning > output
        {
            return Err(ScriptError::Contradiction("reasoning is a part of tokens_out"));
        }
        let parts = self.cached.unwrap_or(0).checked_add(self.cache_write.unwrap_or(0));
        if let Some(input) = self.tokens_in
            && parts.is_none_or(|parts| parts > input)
        {
            return Err(ScriptError::Contradiction(
                "cached and cache_write are parts of tokens_in",
            ));
        }
        Ok(())
    }
}

fn number(key: &str, value: Option<&str>, low: u64, high: u64) -> Result<u64, ScriptError> {
    let value = value.ok_or_else(|| ScriptError::NoValue(key.to_owned()))?;
    value.parse().ok().filter(|number| (low..=high).contains(number)).ok_or_else(|| {
        ScriptError::Number { key: key.to_owned(), value: value.to_owned(), low, high }
    })
}

/// The body of `POST /sim/script`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Queueing {
    /// Only requests of this dialect take the script; any when missing.
    #[serde(default)]
    pub(crate) dialect: Option<Dialect>,
    /// The script's text.
    pub(crate) script: String,
    /// How many requests take it.
    #[serde(default = "once")]
    pub(crate) times: u32,
}

const fn once() -> u32 {
    1
}

/// Scripts waiting for the next requests, first come first served.
#[derive(Debug, Default)]
pub(crate) struct Queue(VecDeque<Queueing>);

impl Queue {
    /// Puts a script at the end; `false` when the queue is full.
    pub(crate) fn push(&mut self, entry: Queueing) -> bool {
        if self.0.len() >= MAX_QUEUED {
            return false;
        }
        if entry.times > 0 {
            self.0.push_back(entry);
        }
        true
    }

    /// The script the next request of `dialect` has to follow.
    pub(crate) fn take(&mut self, dialect: Dialect) -> Option<String> {
        let at = self.0.iter().position(|entry| entry.dialect.is_none_or(|d| d == dialect))?;
        let entry = self.0.get_mut(at)?;
        entry.times = entry.times.saturating_sub(1);
        let script = entry.script.clone();
        if entry.times == 0 {
            self.0.remove(at);
        }
        Some(script)
    }

    /// Forgets all waiting scripts.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// How many scripts wait.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_reads_numbers_words_and_flags() {
        let script = Script::parse(
            " status=429 ; retry_after = Wed, 21 Oct 2026 07:28:00 GMT;hang; split=3",
        )
        .unwrap();
        assert_eq!(script.status, Some(429));
        assert_eq!(script.retry_after.as_deref(), Some("Wed, 21 Oct 2026 07:28:00 GMT"));
        assert!(script.hang && !script.no_usage);
        assert_eq!(script.split, Some(3));
        assert_eq!(Script::parse(" ; "), Ok(Script::default()));
    }

    #[test]
    fn a_misspelt_script_is_refused() {
        assert_eq!(Script::parse("statsu=429"), Err(ScriptError::UnknownKey("statsu".into())));
        assert!(Script::parse("status=42").is_err());
        assert!(Script::parse("split=0").is_err());
        assert!(Script::parse("cut_after").is_err());
        assert!(Script::parse("hang=maybe").is_err());
        assert!(Script::parse("tokens_out=5;reasoning=6").is_err());
        assert!(Script::parse("tokens_in=5;cached=3;cache_write=3").is_err());
    }

    #[test]
    fn queued_scripts_go_to_their_dialect_as_often_as_asked() {
        let mut queue = Queue::default();
        let entry =
            |dialect, script: &str, times| Queueing { dialect, script: script.into(), times };
        assert!(queue.push(entry(Some(Dialect::Gemini), "status=500", 1)));
        assert!(queue.push(entry(None, "status=503", 2)));
        assert_eq!(queue.take(Dialect::Openai).as_deref(), Some("status=503"));
        assert_eq!(queue.take(Dialect::Gemini).as_deref(), Some("status=500"));
        assert_eq!(queue.take(Dialect::Gemini).as_deref(), Some("status=503"));
        assert_eq!(queue.take(Dialect::Anthropic), None);
        assert_eq!(queue.len(), 0);
    }
}
