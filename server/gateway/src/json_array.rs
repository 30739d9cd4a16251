//! Splits a JSON array that arrives in pieces into its elements: Gemini's stream without `alt=sse`.

/// The largest element that is kept to be read, in bytes; the reason is that of the SSE limit.
pub(crate) const MAX_ELEMENT_BYTES: usize = crate::sse::MAX_FRAME_BYTES;

/// Collects bytes and hands out the objects of the outermost array, or a single outermost object.
#[derive(Debug, Default)]
pub(crate) struct Elements {
    element: Vec<u8>,
    /// How many braces and brackets are open inside the element.
    depth: usize,
    in_string: bool,
    escaped: bool,
    overflowed: bool,
    /// Whether the outermost array has been opened, and closed again.
    opened: bool,
    closed: bool,
    /// Whether something stood between the elements that has no place there.
    garbled: bool,
}

impl Elements {
    /// Takes the next bytes and calls `each` with every object that they complete.
    pub(crate) fn push(&mut self, bytes: &[u8], mut each: impl FnMut(&[u8])) {
        for byte in bytes {
            if self.depth == 0 {
                match byte {
                    b'[' => self.opened = true,
                    b']' => self.closed = true,
                    b'{' => {
                        self.element.clear();
                        self.element.push(b'{');
                        self.depth = 1;
                    }
                    b',' | b' ' | b'\n' | b'\r' | b'\t' => {}
                    _ => self.garbled = true,
                }
                continue;
            }
            if self.element.len() < MAX_ELEMENT_BYTES {
                self.element.push(*byte);
            } else {
                self.overflowed = true;
            }
            self.inside(*byte);
            if self.depth == 0 && !self.overflowed {
                each(&self.element);
            }
        }
    }

    /// Whether the next byte would begin a new element, so that one of our own may be put in.
    pub(crate) const fn between_elements(&self) -> bool {
        self.depth == 0 && self.opened && !self.closed
    }

    /// Whether the bytes so far cannot be the beginning of an array of objects.
    pub(crate) const fn is_garbled(&self) -> bool {
        self.garbled
    }

    /// Whether the array was closed.
    pub(crate) const fn is_closed(&self) -> bool {
        self.closed
    }

    const fn inside(&mut self, byte: u8) {
        if self.in_string {
            if self.escaped {
                self.escaped = false;
            } else if byte == b'\\' {
                self.escaped = true;
            } else if byte == b'"' {
                self.in_string = false;
            }
            return;
        }
        match byte {
            b'"' => self.in_string = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth -= 1,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &[u8] =
        b"[{\n \"a\": \"} ] \\\" {\", \"b\": [1, {\"c\": 2}]\n}\n,\r\n{\"d\":3}]\n";

    fn split(chunks: &[&[u8]]) -> Vec<String> {
        let mut elements = Elements::default();
        let mut found = Vec::new();
        for chunk in chunks {
            elements.push(chunk, |e| found.push(String::from_utf8(e.to_vec()).unwrap()));
        }
        assert!(elements.is_closed());
        found
    }

    #[test]
    fn a_cut_at_every_byte_gives_the_same_elements() {
        let whole = split(&[STREAM]);
        assert_eq!(whole.len(), 2);
        assert_eq!(whole[1], "{\"d\":3}");
        for at in 0..=STREAM.len() {
            assert_eq!(split(&[&STREAM[..at], &STREAM[at..]]), whole, "cut at {at}");
        }
    }

    #[test]
    fn garbage_between_elements_is_seen() {
        let mut elements = Elements::default();
        elements.push(b"[{\"a\":1},\xff\xfe,{\"b\":2}]", |_| {});
        assert!(elements.is_garbled());
        let mut whole = Elements::default();
        whole.push(STREAM, |_| {});
        assert!(!whole.is_garbled());
    }

    #[test]
    fn an_object_without_an_array_is_an_element_too() {
        let mut elements = Elements::default();
        let mut count = 0;
        elements.push(b"{\"error\":{}}", |_| count += 1);
        assert_eq!((count, elements.between_elements()), (1, false));
    }
}
