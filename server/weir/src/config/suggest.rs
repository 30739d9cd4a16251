//! "Did you mean": the known name that is nearest to an unknown one.

/// More edits than this are another word, not a slip.
const EDITS_MAX: usize = 3;

/// The candidate with the fewest edits from `name`, if one is near enough.
pub(super) fn nearest<'a>(
    name: &str,
    candidates: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    candidates
        .map(|candidate| (edits(name, candidate), candidate))
        .filter(|(edits, _)| *edits <= EDITS_MAX)
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

/// The Levenshtein distance, by bytes: the names are ASCII.
fn edits(from: &str, to: &str) -> usize {
    let to = to.as_bytes();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (line, byte) in from.bytes().enumerate() {
        let mut diagonal = line;
        row[0] = line + 1;
        for (at, other) in to.iter().enumerate() {
            let change = diagonal + usize::from(byte != *other);
            diagonal = row[at + 1];
            row[at + 1] = change.min(diagonal + 1).min(row[at] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_word_and_another_word_finds_nothing() {
        let words = || ["WEIR_BIND", "WEIR_DATA_DIR", "DATABASE_URL"].into_iter();
        assert_eq!(nearest("WEIR_BNID", words()), Some("WEIR_BIND"));
        assert_eq!(nearest("WEIR_DATADIR", words()), Some("WEIR_DATA_DIR"));
        assert_eq!(nearest("WEIR_COMPLETELY_ELSE", words()), None);
    }
}
