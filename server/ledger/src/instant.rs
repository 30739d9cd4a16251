//! Instants on their way to the database and back.

use domain::window::UnixMs;
use time::OffsetDateTime;

use crate::error::LedgerError;

const NANOS_PER_MS: i128 = 1_000_000;

/// The instant as the database takes it; nothing when it is outside the calendar.
pub(crate) fn to_time(at: UnixMs) -> Option<OffsetDateTime> {
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(at.0) * NANOS_PER_MS).ok()
}

/// The instant as the law of admission takes it. Part of a millisecond is dropped.
pub(crate) fn to_ms(at: OffsetDateTime) -> UnixMs {
    let ms = at.unix_timestamp_nanos().div_euclid(NANOS_PER_MS);
    UnixMs(i64::try_from(ms).unwrap_or(i64::MAX))
}

/// The instant as the database takes it.
pub(crate) fn instant(at: UnixMs) -> Result<OffsetDateTime, LedgerError> {
    to_time(at)
        .ok_or_else(|| LedgerError::Rejected("an instant is outside the calendar".to_owned()))
}
