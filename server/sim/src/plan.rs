//! What will be generated for one request: drawn from its key, or as its script says.

use serde::{Deserialize, Serialize};

use crate::script::Script;
use crate::text::{draw, mix, write_words};

/// A model whose name holds one of these thinks before it answers.
pub(crate) const THINKING_NAMES: [&str; 4] = ["think", "pro", "opus", "sol"];
/// Words in one text frame when the script does not say.
const WORDS_PER_FRAME: u64 = 4;
/// Text frames per choice when the script does not say: a long answer has longer frames.
const MAX_PLAIN_FRAMES: u64 = 256;
/// Words of text over all choices (about 7 MB); tokens beyond it are counted but not spelt out.
const MAX_TEXT_WORDS: u64 = 1 << 20;
/// Visible tokens drawn when nothing else is said: `8..=64`.
const VISIBLE: (u64, u64) = (8, 57);
/// Thinking tokens drawn for a model that thinks: `8..=32`.
const THINKING: (u64, u64) = (8, 25);
/// A prompt of at least so many tokens is partly served from the provider's cache by itself.
const CACHE_FROM: u64 = 1_024;
/// Cached prompts are counted in steps of so many tokens.
const CACHE_STEP: u64 = 128;

/// Token counts of one answer, in one form for all dialects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    /// The whole prompt; the cached and written parts are inside.
    pub input: u64,
    /// Part of the prompt read from a cache.
    pub cached: u64,
    /// Part of the prompt written to the short-lived cache (5 or 30 minutes).
    pub cache_write_short: u64,
    /// Part of the prompt written to the long-lived cache (1 or 12 hours).
    pub cache_write_long: u64,
    /// Results of server tools fed back; outside `input`, reported by Gemini only.
    pub tool_use: u64,
    /// The whole output; thinking is inside.
    pub output: u64,
    /// Part of the output spent on thinking.
    pub reasoning: u64,
}

impl Tokens {
    /// Prompt tokens that were neither read from a cache nor written to one.
    #[must_use]
    pub const fn fresh(&self) -> u64 {
        self.input
            .saturating_sub(self.cached)
            .saturating_sub(self.cache_write_short)
            .saturating_sub(self.cache_write_long)
    }

    /// Output tokens the caller can read.
    #[must_use]
    pub const fn visible(&self) -> u64 {
        self.output.saturating_sub(self.reasoning)
    }
}

/// Which caches a request asked the provider to write.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CacheAsk {
    pub(crate) short: bool,
    pub(crate) long: bool,
    /// The request names a cache that exists: half of its prompt is read from there.
    pub(crate) named: bool,
    /// The route has no cache at all.
    pub(crate) never: bool,
}

/// What the caller asked for, without its words.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) model: String,
    /// Most output tokens of one choice, thinking inside.
    pub(crate) cap: Option<u64>,
    /// Answers side by side (`n`, `candidateCount`).
    pub(crate) choices: u64,
    pub(crate) stream: bool,
    pub(crate) cache: CacheAsk,
}

/// The answer, before it is spelt in a dialect.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) key: u64,
    pub(crate) tokens: Tokens,
    pub(crate) choices: u64,
    /// Text frames per choice.
    pub(crate) frames: u64,
    /// The caller's cap stopped the answer.
    pub(crate) capped: bool,
    /// No word about usage is to be sent.
    pub(crate) silent: bool,
}

impl Plan {
    /// Draws the answer to `ask`, whose prompt has `input` tokens and the given `key`.
    pub(crate) fn new(ask: &Ask, input: u64, key: u64, script: &Script) -> Self {
        let choices = ask.choices.max(1);
        let (output, reasoning, capped) = outputs(ask, choices, key, script);
        let mut tokens = inputs(ask, input, script);
        (tokens.output, tokens.reasoning) = (output, reasoning);
        let words = tokens.visible().div_ceil(choices).min(MAX_TEXT_WORDS);
        let frames =
            script.frames.unwrap_or_else(|| words.div_ceil(WORDS_PER_FRAME).min(MAX_PLAIN_FRAMES));
        Self { key, tokens, choices, frames, capped, silent: script.no_usage }
    }

    /// Visible tokens of choice number `choice`.
    pub(crate) fn visible(&self, choice: u64) -> u64 {
        share(self.tokens.visible(), choice, self.choices)
    }

    /// Visible tokens that text frame `frame` of `choice` carries.
    pub(crate) fn frame_tokens(&self, choice: u64, frame: u64) -> u64 {
        share(self.visible(choice), frame, self.frames)
    }

    /// The text that frame `frame` of `choice` carries.
    pub(crate) fn frame_text(&self, choice: u64, frame: u64) -> String {
        let words = words_of(self.tokens.visible(), self.choices, choice);
        let (from, to) = (part(words, frame, self.frames), part(words, frame + 1, self.frames));
        let mut out = String::new();
        write_words(&mut out, self.text_key(choice), from, to);
        out
    }

    /// The whole text of `choice`.
    pub(crate) fn text(&self, choice: u64) -> String {
        let words = words_of(self.tokens.visible(), self.choices, choice);
        let mut out = String::new();
        write_words(&mut out, self.text_key(choice), 0, words);
        out
    }

    /// The thinking itself, for a caller who asked to see it.
    pub(crate) fn thoughts(&self) -> String {
        let mut out = String::new();
        write_words(&mut out, mix(self.key), 0, self.tokens.reasoning.min(MAX_TEXT_WORDS));
        out
    }

    /// The counts after `reasoning` thinking and `visible` readable tokens were generated.
    pub(crate) const fn so_far(&self, reasoning: u64, visible: u64) -> Tokens {
        Tokens { output: reasoning.saturating_add(visible), reasoning, ..self.tokens }
    }

    const fn text_key(&self, choice: u64) -> u64 {
        self.key ^ mix(choice.wrapping_add(1))
    }
}

/// Output, reasoning inside it, and whether the cap bit.
fn outputs(ask: &Ask, choices: u64, key: u64, script: &Script) -> (u64, u64, bool) {
    let name = ask.model.to_ascii_lowercase();
    let thinks = THINKING_NAMES.iter().any(|word| name.contains(word));
    let drawn_thinking = if thinks { THINKING.0 + draw(key, 2, THINKING.1) } else { 0 };
    let drawn_visible = match script.frames {
        Some(frames) => frames.saturating_mul(WORDS_PER_FRAME),
        None => VISIBLE.0 + draw(key, 1, VISIBLE.1),
    };
    let reasoning = match (script.reasoning, script.tokens_out) {
        (Some(exact), _) => exact,
        (None, Some(_)) => 0,
        (None, None) => drawn_thinking.saturating_mul(choices),
    };
    let mut output = script
        .tokens_out
        .unwrap_or_else(|| reasoning.saturating_add(drawn_visible.saturating_mul(choices)));
    let Some(cap) = ask.cap.map(|cap| cap.saturating_mul(choices)) else {
        return (output, reasoning, false);
    };
    if script.ignore_cap {
        if script.tokens_out.is_none() {
            output = output.max(cap.saturating_mul(2));
        }
        return (output, reasoning, false);
    }
    // Thinking comes first: a small cap can leave no room for a single word.
    (output.min(cap), reasoning.min(cap), output > cap)
}

/// The prompt and its parts.
fn inputs(ask: &Ask, counted: u64, script: &Script) -> Tokens {
    let input = script.tokens_in.unwrap_or(counted);
    let mut tokens = Tokens { input, tool_use: script.tool_use.unwrap_or(0), ..Tokens::default() };
    if ask.cache.never {
        return tokens;
    }
    if script.tokens_in.is_some() || script.cached.is_some() || script.cache_write.is_some() {
        tokens.cached = script.cached.unwrap_or(0).min(input);
        let write = script.cache_write.unwrap_or(0).min(input - tokens.cached);
        split_write(&mut tokens, write, ask.cache);
    } else if ask.cache.short || ask.cache.long {
        tokens.cached = input / 2;
        split_write(&mut tokens, input / 4, ask.cache);
    } else if ask.cache.named {
        tokens.cached = input / 2;
    } else if input >= CACHE_FROM {
        tokens.cached = input / 2 / CACHE_STEP * CACHE_STEP;
    }
    tokens
}

fn split_write(tokens: &mut Tokens, write: u64, asked: CacheAsk) {
    tokens.cache_write_long = match (asked.short, asked.long) {
        (true, true) => write / 2,
        (false, true) => write,
        (_, false) => 0,
    };
    tokens.cache_write_short = write - tokens.cache_write_long;
}

/// Words spelt out for `choice`.
fn words_of(visible: u64, choices: u64, choice: u64) -> u64 {
    share(visible, choice, choices).min(MAX_TEXT_WORDS / choices.max(1))
}

/// How much of `whole` lies before border number `border` of `pieces` equal pieces.
fn part(whole: u64, border: u64, pieces: u64) -> u64 {
    if border >= pieces {
        return whole;
    }
    let exact = u128::from(whole) * u128::from(border) / u128::from(pieces.max(1));
    u64::try_from(exact).unwrap_or(whole)
}

/// The size of piece number `at`.
fn share(whole: u64, at: u64, pieces: u64) -> u64 {
    part(whole, at.saturating_add(1), pieces) - part(whole, at, pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(model: &str, cap: Option<u64>, choices: u64) -> Ask {
        Ask { model: model.into(), cap, choices, stream: false, cache: CacheAsk::default() }
    }

    fn plan(ask: &Ask, script: &str) -> Plan {
        Plan::new(ask, 20, 99, &Script::parse(script).unwrap())
    }

    #[test]
    fn only_models_with_a_thinking_name_think() {
        assert_eq!(plan(&ask("gpt-5-mini", None, 1), "").tokens.reasoning, 0);
        for model in ["gpt-6.1-sol", "claude-opus-5-5", "gemini-2.5-pro", "x-THINKER"] {
            assert!(plan(&ask(model, None, 1), "").tokens.reasoning >= 8, "{model}");
        }
    }

    #[test]
    fn the_cap_holds_per_choice_and_thinking_comes_first() {
        let cut = plan(&ask("gemini-2.5-pro", Some(5), 3), "");
        assert_eq!((cut.tokens.output, cut.tokens.reasoning), (15, 15));
        assert!(cut.capped);
        assert_eq!(cut.text(0), "");
        let free = plan(&ask("gpt-5-mini", Some(1000), 3), "");
        assert!(!free.capped);
    }

    #[test]
    fn a_cap_of_zero_leaves_nothing() {
        let none = plan(&ask("claude-haiku-5-5", Some(0), 1), "");
        assert_eq!((none.tokens.output, none.frames, none.capped), (0, 0, true));
    }

    #[test]
    fn a_script_can_ignore_the_cap() {
        let beyond = plan(&ask("gpt-5-mini", Some(100), 2), "ignore_cap");
        assert_eq!(beyond.tokens.output, 400);
        let exact = plan(&ask("gpt-5-mini", Some(100), 2), "ignore_cap;tokens_out=777");
        assert_eq!(exact.tokens.output, 777);
    }

    #[test]
    fn frames_and_choices_add_up_to_the_whole() {
        let plan = plan(&ask("m", None, 3), "tokens_out=1001;reasoning=100;frames=7");
        let mut sum = 0;
        for choice in 0..3 {
            let text: String = (0..7).map(|frame| plan.frame_text(choice, frame)).collect();
            assert_eq!(text, plan.text(choice));
            assert_eq!(text.split(' ').count() as u64, plan.visible(choice));
            sum += (0..7).map(|frame| plan.frame_tokens(choice, frame)).sum::<u64>();
        }
        assert_eq!(sum, 901);
    }

    #[test]
    fn scripted_figures_are_exact_and_disjoint_parts_add_up() {
        let mut ask = ask("gpt-6.1-sol", None, 1);
        ask.cache.long = true;
        let tokens = plan(&ask, "tokens_in=1000;cached=300;cache_write=200;tokens_out=50").tokens;
        assert_eq!(tokens.fresh(), 500);
        assert_eq!((tokens.cache_write_short, tokens.cache_write_long), (0, 200));
        assert_eq!((tokens.output, tokens.reasoning), (50, 0));
    }

    #[test]
    fn huge_figures_do_not_spell_huge_texts() {
        let plan = plan(&ask("m", None, 128), "tokens_out=18446744073709551615");
        assert_eq!(plan.tokens.output, u64::MAX);
        assert!(plan.text(0).len() < 200_000);
    }
}
