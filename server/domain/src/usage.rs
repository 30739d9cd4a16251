//! What a call used, in token classes that do not overlap.

use serde::{Deserialize, Serialize};

use crate::money::MoneyError;

/// The wire a call speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    /// OpenAI's API and what imitates it.
    Openai,
    /// Anthropic's Messages API.
    Anthropic,
    /// Google's Gemini API.
    Gemini,
}

impl Dialect {
    /// The word used in rows, logs and metrics.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Openai => "openai",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
        }
    }

    /// Reads the word back.
    #[must_use]
    pub fn parse(code: &str) -> Option<Self> {
        [Self::Openai, Self::Anthropic, Self::Gemini].into_iter().find(|d| d.code() == code)
    }
}

/// Tokens of one call in disjoint classes: every billed token is in exactly one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Prompt tokens that were neither read from nor written to a cache.
    pub input: i64,
    /// Prompt tokens read from the provider's cache.
    pub cached_input: i64,
    /// Prompt tokens written to the cache for the short time (5 or 30 minutes).
    pub cache_write_short: i64,
    /// Prompt tokens written to the cache for the long time (1 or 12 hours).
    pub cache_write_long: i64,
    /// Audio tokens of the prompt.
    pub input_audio: i64,
    /// Visible tokens of the answer.
    pub output: i64,
    /// Thinking tokens, which are billed as output.
    pub reasoning: i64,
    /// Audio tokens of the answer.
    pub output_audio: i64,
    /// Image tokens of the answer.
    pub output_image: i64,
}

impl Usage {
    /// All input-side tokens: what the model read. The long-context tier is chosen on it.
    #[must_use]
    pub const fn input_tokens(&self) -> i64 {
        self.input
            .saturating_add(self.cached_input)
            .saturating_add(self.cache_write_short)
            .saturating_add(self.cache_write_long)
            .saturating_add(self.input_audio)
    }

    /// All output-side tokens: what is billed as output.
    #[must_use]
    pub const fn output_tokens(&self) -> i64 {
        self.output
            .saturating_add(self.reasoning)
            .saturating_add(self.output_audio)
            .saturating_add(self.output_image)
    }

    /// Input and output together.
    #[must_use]
    pub const fn total(&self) -> i64 {
        self.input_tokens().saturating_add(self.output_tokens())
    }

    /// Refuses a count below zero.
    pub fn checked(self) -> Result<Self, MoneyError> {
        let classes = [
            self.input,
            self.cached_input,
            self.cache_write_short,
            self.cache_write_long,
            self.input_audio,
            self.output,
            self.reasoning,
            self.output_audio,
            self.output_image,
        ];
        if classes.iter().all(|count| *count >= 0) { Ok(self) } else { Err(MoneyError::OutOfRange) }
    }
}

/// Where the token counts of an event come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UsageSource {
    /// The provider said so.
    Provider,
    /// The provider said nothing: Weir's own count.
    Estimated,
    /// The call failed before any token.
    None,
}

impl UsageSource {
    /// The word used in rows.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Provider => "provider",
            Self::Estimated => "estimated",
            Self::None => "none",
        }
    }
}

/// How an admitted call ended. Each has exactly one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The provider answered to the end.
    Ok,
    /// The provider answered, and withheld the answer.
    Blocked,
    /// The provider said no, broke off, or could not be reached.
    ProviderError,
    /// The provider took longer than its time-out.
    ProviderTimeout,
    /// The client left before the end.
    ClientDisconnected,
    /// Weir was stopped before the end.
    Interrupted,
    /// Found after a crash: the call was forwarded and its end is unknown.
    Orphaned,
}

impl Outcome {
    /// All of them, in the order of the type.
    pub const ALL: [Self; 7] = [
        Self::Ok,
        Self::Blocked,
        Self::ProviderError,
        Self::ProviderTimeout,
        Self::ClientDisconnected,
        Self::Interrupted,
        Self::Orphaned,
    ];

    /// The word used in rows, logs and metrics.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Blocked => "blocked",
            Self::ProviderError => "provider_error",
            Self::ProviderTimeout => "provider_timeout",
            Self::ClientDisconnected => "client_disconnected",
            Self::Interrupted => "interrupted",
            Self::Orphaned => "orphaned",
        }
    }

    /// Reads the word back.
    #[must_use]
    pub fn parse(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.code() == code)
    }

    /// Whether the provider, or the way to it, failed.
    #[must_use]
    pub const fn is_failure(self) -> bool {
        matches!(self, Self::ProviderError | Self::ProviderTimeout | Self::Orphaned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_totals_are_the_sums_of_the_classes() {
        let usage = Usage {
            input: 1,
            cached_input: 2,
            cache_write_short: 4,
            cache_write_long: 8,
            input_audio: 16,
            output: 32,
            reasoning: 64,
            output_audio: 128,
            output_image: 256,
        };
        assert_eq!((usage.input_tokens(), usage.output_tokens(), usage.total()), (31, 480, 511));
    }

    #[test]
    fn a_negative_count_is_refused() {
        assert!(Usage { reasoning: -1, ..Usage::default() }.checked().is_err());
    }

    #[test]
    fn every_outcome_reads_back_as_itself() {
        for outcome in Outcome::ALL {
            assert_eq!(Outcome::parse(outcome.code()), Some(outcome));
        }
        assert_eq!(Outcome::parse("fine"), None);
    }
}
