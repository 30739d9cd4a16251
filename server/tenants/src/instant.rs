//! Instants of the domain as instants of the database.

use domain::window::UnixMs;
use time::OffsetDateTime;

use crate::TenantsError;

const NANOS_PER_MS: i128 = 1_000_000;

/// For a parameter.
pub(crate) fn to_time(at: UnixMs) -> Result<OffsetDateTime, TenantsError> {
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(at.0) * NANOS_PER_MS)
        .map_err(|_| TenantsError::invalid("instant", "outside the calendar"))
}

/// For a parameter that may be null.
pub(crate) fn to_time_opt(at: Option<UnixMs>) -> Result<Option<OffsetDateTime>, TenantsError> {
    at.map(to_time).transpose()
}

/// From a column. What is finer than a millisecond is cut off.
pub(crate) fn from_time(at: OffsetDateTime) -> UnixMs {
    let ms = at.unix_timestamp_nanos().div_euclid(NANOS_PER_MS);
    // The calendar of `time` ends long before 64 bits of milliseconds do.
    UnixMs(i64::try_from(ms).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_survives_the_way_to_the_database_and_back() {
        for ms in [0, -1, 1_795_900_000_999, 253_402_300_799_999] {
            assert_eq!(from_time(to_time(UnixMs(ms)).unwrap()), UnixMs(ms));
        }
        assert!(to_time(UnixMs(i64::MAX)).is_err());
    }
}
