//! Splits a stream of server-sent events into frames, whatever the chunk borders are.
//!
//! The grammar is the WHATWG one: lines end with LF, CR LF or CR; a blank line ends a frame; the values
//! of several `data` fields are joined with LF; unknown fields and comments are skipped.

use bytes::{Buf, Bytes, BytesMut};

/// The largest frame that is kept to be read, in bytes.
///
/// The last event of a long answer repeats the whole of it, which can be megabytes; a provider that
/// never ends a frame must not take the memory of the process.
pub(crate) const MAX_FRAME_BYTES: usize = 16 * 1024 * 1024;

/// One frame: the bytes as they came, and what its `data` fields say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Everything up to and including the blank line.
    pub(crate) raw: Bytes,
    /// The value of `data`; empty when the frame has none, as a comment has.
    pub(crate) data: Bytes,
}

/// A frame is larger than [`MAX_FRAME_BYTES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a frame is larger than {MAX_FRAME_BYTES} bytes")]
pub(crate) struct FrameTooLarge;

/// Collects bytes and hands out frames.
#[derive(Debug, Default)]
pub(crate) struct Splitter {
    buffer: BytesMut,
    /// Up to here the buffer has been looked at.
    scanned: usize,
    /// Where the line that is being looked at begins.
    line_start: usize,
    /// Whether the frame has a line that is not blank.
    has_line: bool,
    began: bool,
}

impl Splitter {
    /// Takes the next bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole frame, if there is one.
    ///
    /// # Errors
    /// When the frame being collected has grown beyond the limit.
    pub(crate) fn next_frame(&mut self) -> Result<Option<Frame>, FrameTooLarge> {
        while let Some((line_end, after)) = self.next_line_end() {
            let blank = line_end == self.line_start;
            self.scanned = after;
            self.line_start = after;
            if !blank {
                self.has_line = true;
            } else if self.has_line {
                return Ok(Some(self.take(after)));
            }
        }
        if self.buffer.len() > MAX_FRAME_BYTES { Err(FrameTooLarge) } else { Ok(None) }
    }

    /// What is left when the stream has ended: a last frame without its blank line, if there are bytes.
    pub(crate) fn finish(&mut self) -> Option<Frame> {
        let left = self.buffer.len();
        (left > 0).then(|| self.take(left))
    }

    /// Gives up on frames: what was collected so far, as it came.
    pub(crate) fn into_rest(self) -> Bytes {
        self.buffer.freeze()
    }

    /// The end of the current line and the start of the next. A CR at the very end has to wait: a LF may follow.
    fn next_line_end(&self) -> Option<(usize, usize)> {
        let at = self.scanned + memchr::memchr2(b'\n', b'\r', &self.buffer[self.scanned..])?;
        if self.buffer[at] == b'\n' {
            return Some((at, at + 1));
        }
        match self.buffer.get(at + 1) {
            Some(b'\n') => Some((at, at + 2)),
            Some(_) => Some((at, at + 1)),
            None => None,
        }
    }

    fn take(&mut self, len: usize) -> Frame {
        let raw = self.buffer.split_to(len).freeze();
        self.scanned = 0;
        self.line_start = 0;
        self.has_line = false;
        let mut text = raw.clone();
        if !self.began {
            self.began = true;
            // A byte-order mark may open the stream, and is no part of the first field's name.
            if text.starts_with(b"\xef\xbb\xbf") {
                text.advance(3);
            }
        }
        Frame { data: data_of(&text), raw }
    }
}

/// The value of the `data` fields of a frame. One field, which is the rule, is not copied.
fn data_of(frame: &Bytes) -> Bytes {
    let mut found: Option<Bytes> = None;
    let mut joined: Option<Vec<u8>> = None;
    let mut start = 0;
    while start < frame.len() {
        let end = memchr::memchr2(b'\n', b'\r', &frame[start..]).map_or(frame.len(), |i| start + i);
        if let Some(value) = data_value(&frame[start..end]) {
            let value = frame.slice_ref(value);
            match (&found, &mut joined) {
                (None, _) => found = Some(value),
                (Some(_), Some(all)) => {
                    all.push(b'\n');
                    all.extend_from_slice(&value);
                }
                (Some(first), none) => {
                    let mut all = first.to_vec();
                    all.push(b'\n');
                    all.extend_from_slice(&value);
                    *none = Some(all);
                }
            }
        }
        start = end + 1;
    }
    joined.map(Bytes::from).or(found).unwrap_or_default()
}

fn data_value(line: &[u8]) -> Option<&[u8]> {
    let rest = line.strip_prefix(b"data")?;
    if rest.is_empty() {
        return Some(rest);
    }
    let value = rest.strip_prefix(b":")?;
    Some(value.strip_prefix(b" ").unwrap_or(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn split(chunks: &[&[u8]]) -> Vec<Frame> {
        let mut splitter = Splitter::default();
        let mut frames = Vec::new();
        for chunk in chunks {
            splitter.push(chunk);
            while let Some(frame) = splitter.next_frame().unwrap() {
                frames.push(frame);
            }
        }
        frames.extend(splitter.finish());
        frames
    }

    fn data(frames: &[Frame]) -> Vec<&str> {
        frames.iter().map(|f| std::str::from_utf8(&f.data).unwrap()).collect()
    }

    const MIXED: &[u8] = b"\xef\xbb\xbfdata: one\n\n: a comment\r\n\r\nevent: x\r\ndata:two\r\ndata: lines\r\n\r\nid: 7\rdata\rdata: \xc3\xbc\r\rdata: last";

    #[test]
    fn every_line_end_and_field_is_understood() {
        assert_eq!(data(&split(&[MIXED])), ["one", "", "two\nlines", "\n\u{fc}", "last"]);
    }

    #[test]
    fn a_cut_at_every_byte_changes_nothing() {
        let whole = split(&[MIXED]);
        for at in 0..=MIXED.len() {
            assert_eq!(split(&[&MIXED[..at], &MIXED[at..]]), whole, "cut at {at}");
        }
        let single: Vec<&[u8]> = MIXED.chunks(1).collect();
        assert_eq!(split(&single), whole);
    }

    #[test]
    fn a_frame_without_end_is_an_error_and_not_all_the_memory() {
        let mut splitter = Splitter::default();
        splitter.push(&vec![b'x'; MAX_FRAME_BYTES + 1]);
        assert_eq!(splitter.next_frame(), Err(FrameTooLarge));
    }

    proptest! {
        #[test]
        fn no_byte_is_lost_or_moved(bytes in proptest::collection::vec(
            prop::sample::select(b"da: x\r\n".to_vec()), 0..200), step in 1_usize..9) {
            let chunks: Vec<&[u8]> = bytes.chunks(step).collect();
            let out: Vec<u8> = split(&chunks).iter().flat_map(|f| f.raw.to_vec()).collect();
            prop_assert_eq!(out, bytes);
        }
    }
}
