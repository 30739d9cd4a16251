//! Words and numbers drawn from a seed: the same key always gives the same text.

/// The vocabulary. One word is one token. Some words are longer than one byte per letter and one
/// needs escaping in JSON, so that a reader which cuts streams at any byte meets every hard case.
const WORDS: [&str; 64] = [
    "amber",
    "anchor",
    "autumn",
    "basin",
    "bridge",
    "candle",
    "canyon",
    "cedar",
    "circle",
    "clear",
    "copper",
    "coral",
    "crystal",
    "delta",
    "desert",
    "drift",
    "early",
    "ember",
    "évêque",
    "falcon",
    "fern",
    "field",
    "flint",
    "forest",
    "garden",
    "granite",
    "harbor",
    "hollow",
    "island",
    "ivory",
    "juniper",
    "kettle",
    "lantern",
    "ledger",
    "lemon",
    "linen",
    "maple",
    "marble",
    "meadow",
    "meter",
    "mirror",
    "naïve",
    "north",
    "olive",
    "orbit",
    "\"quoted\"",
    "pebble",
    "prairie",
    "quartz",
    "quiet",
    "river",
    "saffron",
    "silver",
    "stone",
    "thicket",
    "timber",
    "über",
    "valley",
    "velvet",
    "window",
    "winter",
    "日本語",
    "🙂",
    "zephyr",
];

/// Spreads the bits of `z` evenly: the finaliser of `SplitMix64`.
pub(crate) const fn mix(z: u64) -> u64 {
    let z = z.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A running hash (FNV-1a, then mixed) that does not depend on the machine or the process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hash(u64);

impl Hash {
    /// A hash that starts from `seed`.
    pub(crate) const fn new(seed: u64) -> Self {
        Self(0xCBF2_9CE4_8422_2325 ^ mix(seed))
    }

    /// Takes `bytes` in.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
        }
    }

    /// The value so far.
    pub(crate) const fn value(self) -> u64 {
        mix(self.0)
    }
}

/// A number in `0..bound` drawn from `key` for one `purpose`; `0` when `bound` is `0`.
pub(crate) fn draw(key: u64, purpose: u64, bound: u64) -> u64 {
    mix(key ^ mix(purpose)).checked_rem(bound).unwrap_or_default()
}

/// Writes words number `from..to` of the text `key` into `out`, each but the first of the whole
/// text with a space before it, so that pieces put together give the text.
pub(crate) fn write_words(out: &mut String, key: u64, from: u64, to: u64) {
    for number in from..to {
        if number > 0 {
            out.push(' ');
        }
        let at = draw(key, number, WORDS.len() as u64);
        out.push_str(usize::try_from(at).ok().and_then(|at| WORDS.get(at)).unwrap_or(&"word"));
    }
}

/// `count` small numbers in the shape of an embedding. Built from bits: no float arithmetic.
pub(crate) fn vector(key: u64, count: usize) -> Vec<f32> {
    (0_u64..)
        .take(count)
        .map(|at| {
            let bits = mix(key ^ at);
            let sign = u32::from(bits & 1 == 1) << 31;
            let mantissa = u32::try_from((bits >> 8) & 0x007F_FFFF).unwrap_or_default();
            f32::from_bits(sign | 0x3D00_0000 | mantissa)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_put_together_give_the_text() {
        let mut whole = String::new();
        write_words(&mut whole, 7, 0, 50);
        let mut pieces = String::new();
        for at in 0..10 {
            write_words(&mut pieces, 7, at * 5, at * 5 + 5);
        }
        assert_eq!(whole, pieces);
        assert_eq!(whole.split(' ').count(), 50);
    }

    #[test]
    fn another_key_gives_another_text() {
        let (mut one, mut two) = (String::new(), String::new());
        write_words(&mut one, 1, 0, 20);
        write_words(&mut two, 2, 0, 20);
        assert_ne!(one, two);
    }

    #[test]
    fn embedding_numbers_are_small_and_finite() {
        let numbers = vector(3, 1000);
        assert!(numbers.iter().all(|n| n.abs() >= 0.03125 && n.abs() < 0.0625));
        assert!(numbers.iter().any(|n| *n < 0.0) && numbers.iter().any(|n| *n > 0.0));
    }

    #[test]
    fn the_hash_is_the_same_on_every_machine() {
        let mut hash = Hash::new(42);
        hash.add(b"weir");
        let mut again = Hash::new(42);
        again.add(b"we");
        again.add(b"ir");
        assert_eq!(hash.value(), again.value());
        assert_eq!(mix(0), 0xE220_A839_7B1D_CDAF);
    }
}
