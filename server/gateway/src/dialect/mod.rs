//! The three wires: what a request asks for, what has to be written into it, and what an answer used.

pub(crate) mod anthropic;
pub(crate) mod gemini;
pub(crate) mod models;
pub(crate) mod openai;
mod splice;

use bytes::Bytes;
use domain::usage::{Dialect, Usage};

use crate::error::CallError;
use crate::json::{Count, Members};

/// Which call of which dialect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// `POST /v1/chat/completions`.
    OpenaiChat,
    /// `POST /v1/messages`.
    AnthropicMessages,
    /// `POST /{version}/models/{model}:generateContent`.
    GeminiGenerate {
        /// `v1` or `v1beta`.
        version: &'static str,
        /// The model of the path.
        model: String,
    },
    /// `POST /{version}/models/{model}:streamGenerateContent`.
    GeminiStream {
        /// `v1` or `v1beta`.
        version: &'static str,
        /// The model of the path.
        model: String,
        /// Whether `alt=sse` was asked for; otherwise the stream is a JSON array.
        sse: bool,
    },
}

impl Route {
    /// The wire it belongs to.
    #[must_use]
    pub const fn dialect(&self) -> Dialect {
        match self {
            Self::OpenaiChat => Dialect::Openai,
            Self::AnthropicMessages => Dialect::Anthropic,
            Self::GeminiGenerate { .. } | Self::GeminiStream { .. } => Dialect::Gemini,
        }
    }

    /// The name used in rows and metrics.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::OpenaiChat => "openai.chat",
            Self::AnthropicMessages => "anthropic.messages",
            Self::GeminiGenerate { .. } => "gemini.generate",
            Self::GeminiStream { .. } => "gemini.stream",
        }
    }

    /// Path and query at the provider, for the model's name there.
    #[must_use]
    pub(crate) fn upstream_path(&self, upstream_model: &str) -> String {
        match self {
            Self::OpenaiChat => "/v1/chat/completions".to_owned(),
            Self::AnthropicMessages => "/v1/messages".to_owned(),
            Self::GeminiGenerate { version, .. } => {
                format!("/{version}/models/{upstream_model}:generateContent")
            }
            Self::GeminiStream { version, sse, .. } => {
                let alt = if *sse { "?alt=sse" } else { "" };
                format!("/{version}/models/{upstream_model}:streamGenerateContent{alt}")
            }
        }
    }
}

/// What a request asks for, as far as it is metered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    /// The model as the client named it.
    pub(crate) model: String,
    /// Whether the answer is to come as a stream.
    pub(crate) stream: bool,
    /// The output bound of one answer, if the request names one.
    pub(crate) output_cap: Option<i64>,
    /// How many answers are asked for.
    pub(crate) answers: i64,
    /// Whether the client itself asked for usage in an OpenAI stream.
    pub(crate) wants_usage: bool,
}

/// The most answers that one request may ask for: OpenAI's own limit for `n`.
pub(crate) const MAX_ANSWERS: i64 = 128;

/// Reads a request.
pub(crate) fn read(route: &Route, body: &[u8]) -> Result<Asked, CallError> {
    match route {
        Route::OpenaiChat => openai::read(body),
        Route::AnthropicMessages => anthropic::read(body),
        Route::GeminiGenerate { model, .. } => gemini::read(body, model, false),
        Route::GeminiStream { model, .. } => gemini::read(body, model, true),
    }
}

/// Writes into a request what it lacks: the output bound, the wish for usage, the provider's name of the model.
pub(crate) fn prepare(
    route: &Route,
    body: &Bytes,
    asked: &Asked,
    upstream_model: &str,
    output_cap: i64,
) -> Result<Bytes, CallError> {
    match route.dialect() {
        Dialect::Openai => openai::prepare(body, asked, upstream_model, output_cap),
        Dialect::Anthropic => anthropic::prepare(body, asked, upstream_model, output_cap),
        Dialect::Gemini => gemini::prepare(body, asked, output_cap),
    }
}

/// What one frame of a stream, or a whole answer, told.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Told {
    /// The frame carries nothing but usage that only Weir asked for.
    pub(crate) usage_only: bool,
    /// The frame is the stream's regular end.
    pub(crate) terminal: bool,
    /// The frame says that the call failed, and how.
    pub(crate) failed: Option<String>,
    /// The provider withheld the answer.
    pub(crate) blocked: bool,
}

/// A text that should have been JSON is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotJson;

/// Reads usage and the rest off an answer, frame by frame: of each number the newest counts.
#[derive(Debug)]
pub(crate) enum Tally {
    Openai(openai::Tally),
    Anthropic(anthropic::Tally),
    Gemini(gemini::Tally),
}

impl Tally {
    pub(crate) fn new(dialect: Dialect) -> Self {
        match dialect {
            Dialect::Openai => Self::Openai(openai::Tally::default()),
            Dialect::Anthropic => Self::Anthropic(anthropic::Tally::default()),
            Dialect::Gemini => Self::Gemini(gemini::Tally::default()),
        }
    }

    /// Takes a frame of a stream, or the whole of an answer that is none.
    pub(crate) fn take(&mut self, json: &[u8]) -> Result<Told, NotJson> {
        match self {
            Self::Openai(tally) => tally.take(json),
            Self::Anthropic(tally) => tally.take(json),
            Self::Gemini(tally) => tally.take(json),
        }
    }

    /// The usage that the provider reported, or nothing when it reported none.
    pub(crate) fn reported(&self) -> Option<Reported> {
        match self {
            Self::Openai(tally) => tally.reported(),
            Self::Anthropic(tally) => tally.reported(),
            Self::Gemini(tally) => tally.reported(),
        }
    }

    /// Bytes of prose that the answer has had so far.
    pub(crate) const fn prose_bytes(&self) -> i64 {
        match self {
            Self::Openai(tally) => tally.prose_bytes,
            Self::Anthropic(tally) => tally.prose_bytes,
            Self::Gemini(tally) => tally.prose_bytes,
        }
    }

    /// The model that the provider says it ran.
    pub(crate) fn served_model(&self) -> Option<&str> {
        match self {
            Self::Openai(tally) => tally.model.as_deref(),
            Self::Anthropic(tally) => tally.model.as_deref(),
            Self::Gemini(tally) => tally.model.as_deref(),
        }
    }
}

/// Usage as reported, in disjoint classes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Reported {
    pub(crate) usage: Usage,
    /// Where the numbers contradicted each other.
    pub(crate) clamps: Vec<Clamp>,
    /// A count that is no whole number.
    pub(crate) unreadable: bool,
    /// The provider has not told the output yet: what stands here is a placeholder, or nothing.
    pub(crate) output_is_open: bool,
}

/// Two reported numbers that contradict each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Clamp {
    pub(crate) what: &'static str,
    pub(crate) expected: i64,
    pub(crate) found: i64,
}

/// Collects the counts of one report into disjoint classes.
#[derive(Debug, Default)]
pub(crate) struct Sorter {
    clamps: Vec<Clamp>,
    unreadable: bool,
}

impl Sorter {
    /// The count, or 0 when it is absent or no number.
    pub(crate) const fn count(&mut self, count: Option<Count>) -> i64 {
        match count {
            Some(Count::Whole(n)) => n,
            Some(Count::Unreadable) => {
                self.unreadable = true;
                0
            }
            None => 0,
        }
    }

    /// `whole` less `part`; where the part is the larger, 0, and the contradiction is noted.
    pub(crate) fn rest(&mut self, what: &'static str, whole: i64, part: i64) -> i64 {
        let rest = whole.saturating_sub(part);
        if rest < 0 && part >= 0 && whole >= 0 {
            self.note(what, part, whole);
            return 0;
        }
        rest
    }

    /// Notes that two numbers should have been equal.
    pub(crate) fn note(&mut self, what: &'static str, expected: i64, found: i64) {
        self.clamps.push(Clamp { what, expected, found });
    }

    pub(crate) fn report(self, usage: Usage) -> Reported {
        Reported { usage, clamps: self.clamps, unreadable: self.unreadable, output_is_open: false }
    }
}

/// The newer of two counts, field by field: an absent one changes nothing.
pub(crate) fn newer<T>(slot: &mut Option<T>, new: Option<T>) {
    if new.is_some() {
        *slot = new;
    }
}

/// A request that cannot be read.
pub(crate) fn invalid(message: impl Into<String>, param: Option<&str>) -> CallError {
    CallError::Invalid { message: message.into(), param: param.map(ToOwned::to_owned) }
}

/// The outermost members of a body; one that is metered may stand there once, so that it is not read in two ways.
fn members<'a>(body: &'a [u8], metered: &[&str]) -> Result<Members<'a>, CallError> {
    let members: Members<'_> = serde_json::from_slice(body)
        .map_err(|error| invalid(format!("the body is not a JSON object: {error}"), None))?;
    if let Some(name) = members.repeated(metered) {
        return Err(invalid(format!("{name} stands more than once in the body"), Some(name)));
    }
    Ok(members)
}

/// Reads an output bound: a whole number of at least `least`, and nothing that only looks like one.
pub(crate) fn output_cap(text: &str, name: &str, least: i64) -> Result<i64, CallError> {
    text.parse::<i64>().ok().filter(|cap| *cap >= least).ok_or_else(|| {
        invalid(format!("{name} must be a whole number of at least {least}"), Some(name))
    })
}

/// Reads how many answers are asked for.
pub(crate) fn answers(text: &str, name: &str) -> Result<i64, CallError> {
    text.parse::<i64>().ok().filter(|n| (1..=MAX_ANSWERS).contains(n)).ok_or_else(|| {
        invalid(format!("{name} must be a whole number from 1 to {MAX_ANSWERS}"), Some(name))
    })
}
