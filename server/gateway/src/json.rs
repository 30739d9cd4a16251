//! What Weir reads of a JSON text without building it: the outermost members, sizes of texts, and counts.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// The members of an object in their order, values as they stand in the text.
#[derive(Debug)]
pub(crate) struct Members<'a>(pub(crate) Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Members<'a> {
    /// The value of `name`; null counts as absent.
    pub(crate) fn get(&self, name: &str) -> Option<&'a RawValue> {
        let found = self.0.iter().find(|(key, _)| key == name).map(|(_, value)| *value);
        found.filter(|value| value.get() != "null")
    }

    /// The first name of `names` that occurs more than once.
    pub(crate) fn repeated<'n>(&self, names: &[&'n str]) -> Option<&'n str> {
        names.iter().copied().find(|name| self.0.iter().filter(|(key, _)| key == name).count() > 1)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some(CowStr(key)) = map.next_key()? {
                    members.push((key, map.next_value()?));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

/// A text that is borrowed where it has no escapes.
#[derive(Deserialize)]
pub(crate) struct CowStr<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

/// A count as providers write it: a number, or digits in a string (protobuf's JSON does that).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Count {
    /// A whole number; it may be negative, which is for the caller to judge.
    Whole(i64),
    /// Anything else: a fraction, a number beyond 64 bits, a word.
    Unreadable,
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Count;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a count")
            }
            fn visit_i64<E>(self, n: i64) -> Result<Count, E> {
                Ok(Count::Whole(n))
            }
            fn visit_u64<E>(self, n: u64) -> Result<Count, E> {
                Ok(i64::try_from(n).map_or(Count::Unreadable, Count::Whole))
            }
            fn visit_f64<E>(self, n: f64) -> Result<Count, E> {
                // 4096.0 is a count that some servers write; compared as text, nothing is computed.
                let text = n.to_string();
                Ok(text.parse().map_or(Count::Unreadable, Count::Whole))
            }
            fn visit_str<E>(self, text: &str) -> Result<Count, E> {
                Ok(text.parse().map_or(Count::Unreadable, Count::Whole))
            }
            fn visit_bool<E>(self, _: bool) -> Result<Count, E> {
                Ok(Count::Unreadable)
            }
            fn visit_unit<E>(self) -> Result<Count, E> {
                Ok(Count::Unreadable)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Count, A::Error> {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Count::Unreadable)
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Count, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Count::Unreadable)
            }
        }
        deserializer.deserialize_any(Read)
    }
}

/// How much text there is in a JSON value, and how much that is not text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TextSize {
    /// UTF-8 bytes of all strings, names of members included, plus what numbers take.
    pub(crate) bytes: i64,
    /// Parts that carry an image.
    pub(crate) images: i64,
    /// Bytes of parts that carry sound, film or documents, as they stand in the text.
    pub(crate) media_bytes: i64,
    /// Parts that point elsewhere: a file, a cache, an address.
    pub(crate) references: i64,
    /// Objects: each may be a message, which takes a few tokens of its own.
    pub(crate) objects: i64,
}

/// What a number in a prompt may take when it is written out, in bytes: 20 digits.
const NUMBER_BYTES: i64 = 20;

/// Members whose text is a name or a seal and never part of what a model wrote or reads as prose.
const NO_PROSE: [&str; 9] = [
    "role",
    "id",
    "type",
    "index",
    "finish_reason",
    "finishReason",
    "signature",
    "thoughtSignature",
    "thought_signature",
];

/// Measures a whole value.
pub(crate) struct Measure<'s> {
    size: &'s mut TextSize,
    /// The name of the member whose value this is.
    under: Place,
    /// Whether names and short marks are left out: for answers, where only prose is billed.
    prose_only: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Text,
    /// A payload in base 64 whose kind is not known.
    Payload,
    Reference,
    Skipped,
}

impl<'s> Measure<'s> {
    /// Everything in a prompt counts.
    pub(crate) const fn prompt(size: &'s mut TextSize) -> Self {
        Self { size, under: Place::Text, prose_only: false }
    }

    /// Only prose counts: what an answer says.
    pub(crate) const fn answer(size: &'s mut TextSize) -> Self {
        Self { size, under: Place::Text, prose_only: true }
    }

    const fn number(&mut self) {
        self.size.bytes += if self.prose_only { 0 } else { NUMBER_BYTES };
    }

    fn place_of(&self, name: &str) -> Place {
        match name {
            "data" | "file_data" | "fileData" => Place::Payload,
            "file_id" | "fileUri" | "file_uri" | "cachedContent" | "cached_content" => {
                Place::Reference
            }
            _ if self.prose_only && NO_PROSE.contains(&name) => Place::Skipped,
            _ => Place::Text,
        }
    }
}

impl<'de> DeserializeSeed<'de> for Measure<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Measure<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        let bytes = i64::try_from(text.len()).unwrap_or(i64::MAX);
        if text.starts_with("data:image/") {
            self.size.images += 1;
            return Ok(());
        }
        match self.under {
            _ if text.starts_with("data:") => self.size.media_bytes += bytes,
            Place::Payload => self.size.media_bytes += bytes,
            Place::Reference => self.size.references += 1,
            Place::Text => self.size.bytes += bytes,
            Place::Skipped => {}
        }
        Ok(())
    }
    fn visit_i64<E>(mut self, _: i64) -> Result<(), E> {
        self.number();
        Ok(())
    }
    fn visit_u64<E>(mut self, _: u64) -> Result<(), E> {
        self.number();
        Ok(())
    }
    fn visit_f64<E>(mut self, _: f64) -> Result<(), E> {
        self.number();
        Ok(())
    }
    fn visit_bool<E>(mut self, _: bool) -> Result<(), E> {
        self.number();
        Ok(())
    }
    fn visit_unit<E>(mut self) -> Result<(), E> {
        self.number();
        Ok(())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let (under, prose_only) = (self.under, self.prose_only);
        while seq.next_element_seed(Measure { size: self.size, under, prose_only })?.is_some() {}
        Ok(())
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let before = self.size.media_bytes;
        let mut image = false;
        self.size.objects += 1;
        while let Some(CowStr(name)) = map.next_key()? {
            if !self.prose_only {
                self.size.bytes += i64::try_from(name.len()).unwrap_or(i64::MAX);
            }
            let under = self.place_of(&name);
            if matches!(&*name, "mimeType" | "mime_type" | "media_type") {
                let kind: &RawValue = map.next_value()?;
                image |= kind.get().starts_with("\"image/");
                continue;
            }
            map.next_value_seed(Measure { size: self.size, under, prose_only: self.prose_only })?;
        }
        // The payload beside an image's media type is that image: its size says nothing about tokens.
        if image && self.size.media_bytes > before {
            self.size.media_bytes = before;
            self.size.images += 1;
        }
        Ok(())
    }
}

/// A part of an answer, of which only the size of its prose is of interest.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Prose(pub(crate) i64);

impl<'de> Deserialize<'de> for Prose {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut size = TextSize::default();
        Measure::answer(&mut size).deserialize(deserializer)?;
        Ok(Self(size.bytes.saturating_add(size.media_bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measure(json: &str) -> TextSize {
        let mut size = TextSize::default();
        Measure::prompt(&mut size)
            .deserialize(&mut serde_json::Deserializer::from_str(json))
            .unwrap();
        size
    }

    #[test]
    fn text_counts_by_its_utf8_bytes_wherever_it_stands() {
        assert_eq!(measure(r#"{"ab":["c\u00fc",{"d":"efg"}]}"#).bytes, 2 + 3 + 1 + 3);
    }

    #[test]
    fn the_payload_of_an_image_does_not_count_by_its_size() {
        for json in [
            r#"{"image_url":{"url":"data:image/png;base64,AAAAAAAAAAAAAAAAAAAA"}}"#,
            r#"{"inlineData":{"mimeType":"image/png","data":"AAAAAAAAAAAAAAAAAAAA"}}"#,
            r#"{"source":{"type":"base64","data":"AAAAAAAAAAAAAAAAAAAA","media_type":"image/png"}}"#,
        ] {
            let size = measure(json);
            assert_eq!((size.images, size.media_bytes), (1, 0), "{json}");
        }
        let sound = measure(r#"{"inline_data":{"mime_type":"audio/wav","data":"AAAAAAAA"}}"#);
        assert_eq!((sound.images, sound.media_bytes), (0, 8));
    }

    #[test]
    fn members_keep_their_order_and_repeated_names_are_seen_through_escapes() {
        let members: Members<'_> =
            serde_json::from_str(r#"{"model":"a","n":1,"mod\u0065l":"b"}"#).unwrap();
        assert_eq!(members.repeated(&["n", "model"]), Some("model"));
        assert_eq!(members.get("n").unwrap().get(), "1");
    }

    #[test]
    fn a_count_is_a_whole_number_however_it_is_written() {
        let read = |text: &str| serde_json::from_str::<Count>(text).unwrap();
        assert_eq!(
            (read("7"), read("\"7\""), read("7.0"), read("-1")),
            (Count::Whole(7), Count::Whole(7), Count::Whole(7), Count::Whole(-1))
        );
        for text in ["1.5", "1e308", "9223372036854775808", "\"x\"", "true", "[1]", "{}"] {
            assert_eq!(read(text), Count::Unreadable, "{text}");
        }
    }
}
