//! One record: a head of fixed size, then a body. The head's check sum covers everything else of the record.
//!
//! ```text
//! version u8 | kind u8 | body length u32 | CRC32 u32 | request id u128 | body
//! ```
//!
//! Numbers are little-endian. Records follow each other without gaps; what cannot be read ends its segment.

use domain::id::RequestId;

/// The form of records. A reader that finds another one stops and keeps the file.
const VERSION: u8 = 1;
/// The bytes before the body.
const HEAD_BYTES: usize = 26;
/// Where the check sum stands.
const CRC: std::ops::Range<usize> = 6..10;
/// The largest body: an event with its hold takes some kilobytes, and its texts are bounded where they come in.
pub(super) const BODY_BYTES_MAX: usize = 256 * 1024;

/// What a record says about its call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It is about to be forwarded; the body is what to write if nothing more is heard of it.
    Open,
    /// It is over; the body is its event.
    Done,
    /// Its event is in the books.
    Acked,
}

impl Kind {
    const fn byte(self) -> u8 {
        match self {
            Self::Open => 1,
            Self::Done => 2,
            Self::Acked => 3,
        }
    }

    const fn of(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::Open),
            2 => Some(Self::Done),
            3 => Some(Self::Acked),
            _ => None,
        }
    }
}

/// A record that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record<'a> {
    pub(super) kind: Kind,
    pub(super) request_id: RequestId,
    pub(super) body: &'a [u8],
}

/// The bytes of a record; nothing when the body is too large.
pub(super) fn encode(kind: Kind, request_id: RequestId, body: &[u8]) -> Option<Vec<u8>> {
    let len = u32::try_from(body.len()).ok().filter(|_| body.len() <= BODY_BYTES_MAX)?;
    let mut bytes = Vec::with_capacity(HEAD_BYTES + body.len());
    bytes.extend_from_slice(&[VERSION, kind.byte()]);
    bytes.extend_from_slice(&len.to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&request_id.bits().to_le_bytes());
    bytes.extend_from_slice(body);
    let sum = check_sum(&bytes);
    bytes[CRC].copy_from_slice(&sum.to_le_bytes());
    Some(bytes)
}

/// The check sum of a record, whatever stands in the place of its own.
fn check_sum(record: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&record[..CRC.start]);
    hasher.update(&record[CRC.end..]);
    hasher.finalize()
}

/// Reads the record at the start of `bytes`, and says how long it is; nothing when none can be read there.
pub(super) fn decode(bytes: &[u8]) -> Option<(Record<'_>, usize)> {
    let (head, rest) = bytes.split_first_chunk::<HEAD_BYTES>()?;
    let kind = Kind::of(head[1]).filter(|_| head[0] == VERSION)?;
    let len = usize::try_from(u32::from_le_bytes(*head[2..].first_chunk()?)).ok()?;
    if len > BODY_BYTES_MAX {
        return None;
    }
    let body = rest.get(..len)?;
    let size = HEAD_BYTES + len;
    if check_sum(&bytes[..size]) != u32::from_le_bytes(*head[CRC.start..].first_chunk()?) {
        return None;
    }
    let request_id = id_of(u128::from_le_bytes(*head[CRC.end..].first_chunk()?));
    Some((Record { kind, request_id, body }, size))
}

/// The id of these bits.
fn id_of(bits: u128) -> RequestId {
    // 48 bits are left after the shift, so the conversion never falls back.
    RequestId::from_parts(u64::try_from(bits >> 80).unwrap_or(u64::MAX), bits)
}

/// The records of one segment, up to the first that cannot be read.
#[derive(Debug)]
pub(super) struct Records<'a> {
    rest: &'a [u8],
}

impl<'a> Records<'a> {
    pub(super) const fn of(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The bytes that are not read: none when the segment is whole and has been read to its end.
    pub(super) const fn unread(&self) -> usize {
        self.rest.len()
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        let (record, size) = decode(self.rest)?;
        self.rest = &self.rest[size..];
        Some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::Index;

    type Made = (Kind, RequestId, Vec<u8>);

    fn record() -> impl Strategy<Value = Made> {
        let kind = prop_oneof![Just(Kind::Open), Just(Kind::Done), Just(Kind::Acked)];
        let id = (any::<u64>(), any::<u128>()).prop_map(|(ms, r)| RequestId::from_parts(ms, r));
        (kind, id, vec(any::<u8>(), 0..60))
    }

    fn written(records: &[Made]) -> Vec<u8> {
        records.iter().flat_map(|(kind, id, body)| encode(*kind, *id, body).unwrap()).collect()
    }

    fn read(bytes: &[u8]) -> Vec<Made> {
        Records::of(bytes).map(|r| (r.kind, r.request_id, r.body.to_vec())).collect()
    }

    /// How many records end at or before this byte.
    fn whole_before(records: &[Made], byte: usize) -> usize {
        (0..=records.len()).rev().find(|n| written(&records[..*n]).len() <= byte).unwrap()
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(records in vec(record(), 0..8)) {
            let bytes = written(&records);
            let mut reader = Records::of(&bytes);
            prop_assert_eq!(reader.by_ref().count(), records.len());
            prop_assert_eq!(reader.unread(), 0);
            prop_assert_eq!(read(&bytes), records);
        }

        #[test]
        fn a_cut_loses_what_follows_it_and_invents_nothing(
            records in vec(record(), 1..8),
            at in any::<Index>(),
        ) {
            let bytes = written(&records);
            let at = at.index(bytes.len());
            let whole = whole_before(&records, at);
            prop_assert_eq!(read(&bytes[..at]), &records[..whole]);
        }

        #[test]
        fn a_flipped_bit_loses_at_most_what_follows_it_and_invents_nothing(
            records in vec(record(), 1..8),
            at in any::<Index>(),
            bit in 0..8_u8,
        ) {
            let mut bytes = written(&records);
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            let whole = whole_before(&records, at);
            prop_assert_eq!(read(&bytes), &records[..whole]);
        }

        #[test]
        fn noise_is_read_without_harm(bytes in vec(any::<u8>(), 0..400)) {
            let mut reader = Records::of(&bytes);
            let read: usize = reader.by_ref().map(|r| HEAD_BYTES + r.body.len()).sum();
            prop_assert_eq!(read + reader.unread(), bytes.len());
        }
    }

    #[test]
    fn a_body_beyond_the_limit_is_neither_written_nor_read() {
        let id = RequestId::from_parts(1, 2);
        assert!(encode(Kind::Open, id, &vec![0; BODY_BYTES_MAX + 1]).is_none());
        let largest = encode(Kind::Open, id, &vec![0; BODY_BYTES_MAX]).unwrap();
        assert_eq!(largest.len(), HEAD_BYTES + BODY_BYTES_MAX);
        assert!(decode(&largest).is_some());
        let mut lies = largest;
        lies[2..6].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(decode(&lies).is_none());
    }
}
