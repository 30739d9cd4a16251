//! Changes single values of a JSON text and leaves every other byte as it is.

use bytes::Bytes;
use serde_json::value::RawValue;

/// Changes to one text, collected and then made at once.
pub(crate) struct Splice<'a> {
    text: &'a Bytes,
    edits: Vec<(usize, usize, String)>,
}

impl<'a> Splice<'a> {
    pub(crate) const fn new(text: &'a Bytes) -> Self {
        Self { text, edits: Vec::new() }
    }

    /// Puts `value` in the place of a value that stands in the text.
    pub(crate) fn replace(&mut self, old: &RawValue, value: String) {
        let (start, end) = self.place_of(old.get());
        self.edits.push((start, end, value));
    }

    /// Adds a member to an object that stands in the text; the object must be a slice of it.
    pub(crate) fn add_member(&mut self, object: &str, name: &str, value: &str) {
        let (start, _) = self.place_of(object);
        let Some(brace) = object.find('{') else { return };
        let empty = object[brace + 1..].trim_start().starts_with('}');
        let comma = if empty { "" } else { "," };
        let at = start + brace + 1;
        self.edits.push((at, at, format!("\"{name}\":{value}{comma}")));
    }

    /// The text with its changes; the very same bytes when there are none.
    pub(crate) fn done(mut self) -> Bytes {
        if self.edits.is_empty() {
            return self.text.clone();
        }
        // Stable: members added at one place stay in the order in which they were added.
        self.edits.sort_by_key(|(start, _, _)| *start);
        let added: usize = self.edits.iter().map(|(_, _, new)| new.len()).sum();
        let mut out = Vec::with_capacity(self.text.len() + added);
        let mut from = 0;
        for (start, end, new) in &self.edits {
            out.extend_from_slice(&self.text[from..*start]);
            out.extend_from_slice(new.as_bytes());
            from = *end;
        }
        out.extend_from_slice(&self.text[from..]);
        Bytes::from(out)
    }

    /// Where a slice of the text stands in it.
    fn place_of(&self, part: &str) -> (usize, usize) {
        let start = (part.as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize);
        (start, start + part.len())
    }
}
