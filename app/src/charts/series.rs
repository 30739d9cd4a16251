//! Many series folded into the few that a person can tell apart.

use std::collections::BTreeMap;

use super::SERIES_MAX;

/// The name of what is left.
pub const OTHER: &str = "Other";

/// Series by size, each with one value per bucket. Sums are those of the input.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Folded {
    /// Names, largest total first; [`OTHER`] comes last when there are more than fit.
    pub names: Vec<String>,
    /// Per bucket, one value per name.
    pub buckets: Vec<Vec<i64>>,
}

/// Sums `rows` of (bucket, series, value) into `buckets` buckets and the largest series.
///
/// Rows of a bucket that does not exist are left out: the caller's month has that many days.
#[must_use]
pub fn fold<'a>(rows: impl IntoIterator<Item = (usize, &'a str, i64)>, buckets: usize) -> Folded {
    let mut by_name: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
    for (bucket, name, value) in rows {
        let values = by_name.entry(name).or_insert_with(|| vec![0; buckets]);
        if let Some(sum) = values.get_mut(bucket) {
            *sum = sum.saturating_add(value);
        }
    }
    let total = |values: &[i64]| values.iter().fold(0_i64, |sum, value| sum.saturating_add(*value));
    let mut series: Vec<(&str, Vec<i64>)> = by_name.into_iter().collect();
    series.sort_by(|one, other| total(&other.1).cmp(&total(&one.1)).then(one.0.cmp(other.0)));

    // One single series too many is shown by its name rather than as "Other".
    let kept = if series.len() <= SERIES_MAX + 1 { series.len() } else { SERIES_MAX };
    let rest = series.split_off(kept);
    let mut names: Vec<String> = series.iter().map(|(name, _)| (*name).to_owned()).collect();
    let mut columns: Vec<Vec<i64>> = series.into_iter().map(|(_, values)| values).collect();
    if !rest.is_empty() {
        let mut sums = vec![0_i64; buckets];
        for (_, values) in rest {
            for (sum, value) in sums.iter_mut().zip(values) {
                *sum = sum.saturating_add(value);
            }
        }
        names.push(OTHER.to_owned());
        columns.push(sums);
    }
    let buckets =
        (0..buckets).map(|bucket| columns.iter().map(|column| column[bucket]).collect()).collect();
    Folded { names, buckets }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_largest_keep_their_names_and_the_rest_are_summed() {
        let rows = [(0, "a", 1), (0, "b", 70), (1, "b", 1), (0, "c", 60), (0, "d", 50)];
        let more = [(0, "e", 40), (0, "f", 30), (1, "g", 2), (9, "b", 1_000)];
        let folded = fold(rows.into_iter().chain(more), 2);
        assert_eq!(folded.names, ["b", "c", "d", "e", "f", "Other"]);
        assert_eq!(folded.buckets, [vec![70, 60, 50, 40, 30, 1], vec![1, 0, 0, 0, 0, 2]]);
    }

    #[test]
    fn a_sixth_series_is_named_when_it_is_the_last() {
        let names: Vec<String> = (0..6).map(|number| format!("m{number}")).collect();
        let folded = fold(names.iter().map(|name| (0, name.as_str(), 1)), 1);
        assert_eq!(folded.names, names);
    }

    proptest! {
        #[test]
        fn nothing_is_lost(rows in prop::collection::vec((0_usize..4, 0_u8..12, 0_i64..1_000_000), 0..60)) {
            let named: Vec<(usize, String, i64)> =
                rows.into_iter().map(|(bucket, name, value)| (bucket, name.to_string(), value)).collect();
            let folded = fold(named.iter().map(|(bucket, name, value)| (*bucket, name.as_str(), *value)), 4);
            let before: i64 = named.iter().map(|row| row.2).sum();
            let after: i64 = folded.buckets.iter().flatten().sum();
            prop_assert_eq!(before, after);
            prop_assert!(folded.names.len() <= SERIES_MAX + 1);
        }
    }
}
