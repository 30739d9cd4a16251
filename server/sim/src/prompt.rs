//! What the caller wrote: counted, hashed and searched for a script, never kept.

use serde_json::Value;

use crate::text::{Hash, mix};

/// How a script inside a prompt begins.
const MARKER: &str = "[[sim:";
/// How it ends.
const MARKER_END: &str = "]]";
/// Bytes of prompt text that count as one token.
const BYTES_PER_TOKEN: u64 = 4;

/// The running sum over the text of one request.
#[derive(Debug)]
pub(crate) struct Prompt {
    hash: Hash,
    bytes: u64,
    script: Option<String>,
}

impl Prompt {
    /// An empty prompt for `model`, hashed under `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        Self { hash: Hash::new(seed), bytes: 0, script: None }
    }

    /// Counts text that is not the user's own: system, history, tool results.
    pub(crate) fn text(&mut self, text: &str) {
        self.bytes = self.bytes.saturating_add(text.len() as u64);
        self.hash.add(text.as_bytes());
        // A border between texts, so that "ab" + "c" and "a" + "bc" differ.
        self.hash.add(&[0xFF]);
    }

    /// Counts text of the user; the first script marker found in it counts.
    pub(crate) fn user_text(&mut self, text: &str) {
        self.text(text);
        if self.script.is_none()
            && let Some((_, rest)) = text.split_once(MARKER)
            && let Some((script, _)) = rest.split_once(MARKER_END)
        {
            self.script = Some(script.to_owned());
        }
    }

    /// Counts a JSON part (tools, token ids) by its text.
    pub(crate) fn json(&mut self, value: &Value) {
        self.text(&value.to_string());
    }

    /// Text under `text` of every part in `content`, which may also be one string.
    pub(crate) fn content(&mut self, content: &Value, user: bool) {
        match content {
            Value::String(text) if user => self.user_text(text),
            Value::String(text) => self.text(text),
            Value::Array(parts) => {
                for part in parts {
                    self.content(part, user);
                }
            }
            Value::Object(part) => {
                for name in ["text", "refusal", "content", "parts"] {
                    if let Some(inner) = part.get(name) {
                        self.content(inner, user);
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Input tokens: bytes of text / 4, rounded up, at least 1.
    pub(crate) fn tokens(&self) -> u64 {
        self.bytes.div_ceil(BYTES_PER_TOKEN).max(1)
    }

    /// The number everything generated for this prompt by `model` is drawn from.
    pub(crate) fn key(&self, model: &str) -> u64 {
        let mut hash = self.hash;
        hash.add(model.as_bytes());
        mix(hash.value())
    }

    /// The script found in the user's text.
    pub(crate) fn script(&self) -> Option<&str> {
        self.script.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn tokens_are_a_quarter_of_the_bytes_rounded_up() {
        let mut prompt = Prompt::new(0);
        assert_eq!(prompt.tokens(), 1);
        prompt.text("abcd");
        assert_eq!(prompt.tokens(), 1);
        prompt.user_text("e");
        assert_eq!(prompt.tokens(), 2);
    }

    #[test]
    fn a_script_is_found_inside_the_users_text_only() {
        let mut prompt = Prompt::new(0);
        prompt.text("[[sim: status=500]]");
        assert_eq!(prompt.script(), None);
        prompt.content(&json!([{"type": "text", "text": "hi [[sim: status=429 ]] there"}]), true);
        prompt.user_text("[[sim: status=503]]");
        assert_eq!(prompt.script().map(str::trim), Some("status=429"));
    }

    #[test]
    fn the_key_depends_on_seed_model_and_text() {
        let key = |seed, model: &str, text: &str| {
            let mut prompt = Prompt::new(seed);
            prompt.text(text);
            prompt.key(model)
        };
        let base = key(1, "m", "hello");
        assert_eq!(base, key(1, "m", "hello"));
        assert_ne!(base, key(2, "m", "hello"));
        assert_ne!(base, key(1, "n", "hello"));
        assert_ne!(base, key(1, "m", "hello!"));
    }
}
