//! Names of things: small integers for rows, a ULID for a request.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

macro_rules! row_id {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub i64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

row_id! {
    /// Who pays.
    TenantId,
    /// A part of a tenant.
    TeamId,
    /// An API key of a tenant.
    KeyId,
    /// One version of a plan.
    PlanId,
    /// A provider that calls are forwarded to.
    ProviderId,
    /// A model that clients may name.
    ModelId,
    /// One dated row of prices.
    PriceId,
    /// A person who signs in.
    UserId,
}

/// The characters of Crockford's base 32, in order of value.
const CROCKFORD: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
/// How many characters a request id has: 128 bits, five to a character.
pub const REQUEST_ID_LEN: usize = 26;

/// The id of one request: a ULID, 48 bits of milliseconds and 80 random bits.
///
/// It sorts by time and is made at the edge, before anything else happens to the request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(u128);

impl RequestId {
    /// Builds an id from the milliseconds since 1970 and 80 bits of randomness (higher bits are dropped).
    #[must_use]
    pub const fn from_parts(unix_ms: u64, random: u128) -> Self {
        let ms = (unix_ms as u128) & 0xffff_ffff_ffff;
        Self((ms << 80) | (random & 0xffff_ffff_ffff_ffff_ffff))
    }

    /// The 128 bits of the id.
    #[must_use]
    pub const fn bits(self) -> u128 {
        self.0
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0_u8; REQUEST_ID_LEN];
        let mut rest = self.0;
        for place in text.iter_mut().rev() {
            *place = CROCKFORD[usize::from((rest & 31) as u8)];
            rest >>= 5;
        }
        f.write_str(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not a request id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a request id: expected 26 characters of Crockford base 32")]
pub struct NotARequestId;

impl FromStr for RequestId {
    type Err = NotARequestId;

    fn from_str(text: &str) -> Result<Self, NotARequestId> {
        if text.len() != REQUEST_ID_LEN {
            return Err(NotARequestId);
        }
        let mut bits: u128 = 0;
        for (at, byte) in text.bytes().enumerate() {
            let upper = byte.to_ascii_uppercase();
            let value = CROCKFORD.iter().position(|c| *c == upper).ok_or(NotARequestId)?;
            // 26 characters hold 130 bits: the first may not use its two highest.
            if at == 0 && value > 7 {
                return Err(NotARequestId);
            }
            bits = (bits << 5) | value as u128;
        }
        Ok(Self(bits))
    }
}

impl Serialize for RequestId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for RequestId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_id_reads_back_as_itself_and_sorts_by_time() {
        let early = RequestId::from_parts(1_795_900_000_000, u128::MAX);
        let late = RequestId::from_parts(1_795_900_000_001, 0);
        assert_eq!(early.to_string().parse::<RequestId>(), Ok(early));
        assert!(early < late && early.to_string() < late.to_string());
    }

    #[test]
    fn text_that_is_no_request_id_is_refused() {
        for text in ["", "abc", "81ARZ3NDEKTSV4RRFFQ69G5FAV", "01ARZ3NDEKTSV4RRFFQ69G5FAU"] {
            assert_eq!(text.parse::<RequestId>(), Err(NotARequestId), "{text}");
        }
    }
}
