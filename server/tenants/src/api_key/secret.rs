//! The text of a key, its check sum, and the hash that is all Weir keeps of it.

use std::fmt;

use rand::RngExt;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// What every key begins with: a scanner finds leaked ones by it.
const PREFIX: &str = "weir_sk_";
/// 30 characters out of 62 are 178 random bits.
const RANDOM_CHARS: usize = 30;
/// 62^6 is above 2^32: the check sum fits.
const CHECK_CHARS: usize = 6;
const BODY_CHARS: usize = RANDOM_CHARS + CHECK_CHARS;
/// The digits of base 62, in order of value.
const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// So many characters are shown of either end.
const SHOWN: usize = 4;

/// Why a text is not a key. It never quotes the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyTextError {
    /// It does not begin with `weir_sk_`.
    #[error("not a Weir key: it does not begin with weir_sk_")]
    Prefix,
    /// It is not `weir_sk_` and 36 letters and digits.
    #[error("not a Weir key: 36 letters and digits follow weir_sk_")]
    Form,
    /// Its last six characters do not fit the rest: mistyped or cut.
    #[error("not a Weir key: the check sum is wrong, so it was mistyped or cut")]
    CheckSum,
}

/// The whole text of a key: `weir_sk_`, 30 random characters of base 62, and 6 of check sum.
///
/// The check sum is the CRC-32 (ISO-HDLC, as in zip) of the 30 characters, as a number of six
/// digits in base 62, highest first, with digits in the order 0-9, A-Z, a-z. It cannot be printed, and is
/// overwritten when dropped.
pub struct ApiKeySecret(SecretString);

impl ApiKeySecret {
    /// Makes a new key.
    #[must_use]
    pub fn generate() -> Self {
        let mut rng = rand::rng();
        // With its full length at once: a text that grew would leave copies of its beginning behind.
        let mut text = String::with_capacity(PREFIX.len() + BODY_CHARS);
        text.push_str(PREFIX);
        for _ in 0..RANDOM_CHARS {
            text.push(char::from(BASE62[rng.random_range(0..BASE62.len())]));
        }
        let check = check_sum(&text.as_bytes()[PREFIX.len()..]);
        text.extend(check.into_iter().map(char::from));
        Self(text.into())
    }

    /// Takes a text for a key, if its form and check sum are right. Whether the key exists is another question.
    ///
    /// # Errors
    /// When the text cannot be a key.
    pub fn parse(text: &str) -> Result<Self, KeyTextError> {
        body(text)?;
        Ok(Self(text.into()))
    }

    /// The text, for the one time that it is shown.
    #[must_use]
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }

    /// What is stored of it.
    #[must_use]
    pub fn hash(&self) -> KeyHash {
        KeyHash::of_text(self.expose())
    }

    /// What a person may see of it: `weir_sk_3fK9…x7Qa`.
    #[must_use]
    pub fn masked(&self) -> String {
        let body = self.expose().get(PREFIX.len()..).unwrap_or_default();
        let first = body.get(..SHOWN).unwrap_or_default();
        let last = body.get(body.len().saturating_sub(SHOWN)..).unwrap_or_default();
        format!("{PREFIX}{first}…{last}")
    }
}

impl fmt::Debug for ApiKeySecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

/// The SHA-256 of a key's whole text. A key is found by all of it, never by a part.
#[derive(Clone, Copy)]
pub struct KeyHash(pub [u8; 32]);

impl KeyHash {
    /// The hash of a presented text, unless its form or check sum says that it cannot be a key.
    ///
    /// # Errors
    /// When the text cannot be a key: nothing needs to be looked up then.
    pub fn of_presented(text: &str) -> Result<Self, KeyTextError> {
        body(text)?;
        Ok(Self::of_text(text))
    }

    fn of_text(text: &str) -> Self {
        Self(Sha256::digest(text.as_bytes()).into())
    }
}

impl PartialEq for KeyHash {
    /// In a time that does not depend on where they differ.
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for KeyHash {}

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hash of a key]")
    }
}

/// The part after the prefix, if all of the text is in order.
fn body(text: &str) -> Result<&str, KeyTextError> {
    let body = text.strip_prefix(PREFIX).ok_or(KeyTextError::Prefix)?;
    if body.len() != BODY_CHARS || !body.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return Err(KeyTextError::Form);
    }
    let (random, check) = body.as_bytes().split_at(RANDOM_CHARS);
    if check_sum(random) == check { Ok(body) } else { Err(KeyTextError::CheckSum) }
}

fn check_sum(random: &[u8]) -> [u8; CHECK_CHARS] {
    let mut rest = u64::from(crc32fast::hash(random));
    let mut digits = [b'0'; CHECK_CHARS];
    for digit in digits.iter_mut().rev() {
        *digit = usize::try_from(rest % 62).map_or(b'0', |value| BASE62[value]);
        rest /= 62;
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_key_reads_back_and_no_two_are_the_same() {
        let (one, two) = (ApiKeySecret::generate(), ApiKeySecret::generate());
        assert_eq!(one.expose().len(), 44);
        let again = ApiKeySecret::parse(one.expose()).unwrap();
        assert_eq!(again.hash(), one.hash());
        assert_eq!(KeyHash::of_presented(one.expose()), Ok(one.hash()));
        assert_ne!(one.hash(), two.hash());
    }

    #[test]
    fn the_check_sum_is_the_documented_one() {
        // CRC-32 of "000000000000000000000000000000" (30 zeros), worked out with zlib.
        let zeros = "0".repeat(RANDOM_CHARS);
        assert_eq!(crc32fast::hash(zeros.as_bytes()), 2_011_552_642);
        let text = format!("weir_sk_{zeros}2C8GjS");
        assert!(ApiKeySecret::parse(&text).is_ok());
    }

    #[test]
    fn every_single_mistyped_character_is_noticed() {
        let key = ApiKeySecret::generate();
        for at in PREFIX.len()..key.expose().len() {
            let mut text = key.expose().to_owned();
            let other = if text.as_bytes()[at] == b'a' { "b" } else { "a" };
            text.replace_range(at..=at, other);
            assert_eq!(ApiKeySecret::parse(&text).unwrap_err(), KeyTextError::CheckSum, "at {at}");
        }
    }

    #[test]
    fn other_texts_are_refused_for_what_they_are() {
        let good = ApiKeySecret::generate();
        let long = format!("{}a", good.expose());
        let umlaut = format!("weir_sk_ä{}", "a".repeat(34));
        for (text, why) in [
            ("", KeyTextError::Prefix),
            ("sk-abc", KeyTextError::Prefix),
            ("weir_sk_", KeyTextError::Form),
            (long.as_str(), KeyTextError::Form),
            (&good.expose()[..43], KeyTextError::Form),
            (umlaut.as_str(), KeyTextError::Form),
        ] {
            assert_eq!(ApiKeySecret::parse(text).unwrap_err(), why, "{text}");
        }
    }

    #[test]
    fn a_secret_shows_only_its_ends() {
        let key = ApiKeySecret::generate();
        let (text, masked) = (key.expose(), key.masked());
        assert_eq!(masked, format!("weir_sk_{}…{}", &text[8..12], &text[40..]));
        assert_eq!(format!("{key:?} {:?}", key.hash()), "[redacted] [hash of a key]");
    }
}
