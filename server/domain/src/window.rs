//! Stretches of time that limits cover. All are half-open, and found from an instant alone.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use serde::{Deserialize, Serialize};

/// An instant: milliseconds since 1970-01-01T00:00:00Z.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct UnixMs(pub i64);

impl UnixMs {
    /// This instant moved by `ms`; it stops at the ends of the range instead of wrapping.
    #[must_use]
    pub const fn plus_ms(self, ms: i64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// Milliseconds from `earlier` to here, 0 when the clock went backwards.
    #[must_use]
    pub const fn since_ms(self, earlier: Self) -> i64 {
        let gap = self.0.saturating_sub(earlier.0);
        if gap > 0 { gap } else { 0 }
    }
}

/// The grain of the rollups: it divides every offset that time zones use.
pub const ROLLUP_MS: i64 = 15 * 60 * 1_000;

/// The start of the 15-minute rollup that holds `at`.
#[must_use]
pub const fn rollup_start(at: UnixMs) -> UnixMs {
    UnixMs(at.0 - at.0.rem_euclid(ROLLUP_MS))
}

/// A rolling window: a fixed number of slices, each forgotten as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum RollingWindow {
    /// 60 slices of 5 minutes.
    #[serde(rename = "5h")]
    FiveHours,
    /// 24 slices of one hour.
    #[serde(rename = "day")]
    Day,
    /// 168 slices of one hour.
    #[serde(rename = "week")]
    Week,
}

impl RollingWindow {
    /// The length of one slice.
    #[must_use]
    pub const fn slice_ms(self) -> i64 {
        match self {
            Self::FiveHours => 5 * 60 * 1_000,
            Self::Day | Self::Week => 60 * 60 * 1_000,
        }
    }

    /// How many slices count, the running one included.
    #[must_use]
    pub const fn slices(self) -> i64 {
        match self {
            Self::FiveHours => 60,
            Self::Day => 24,
            Self::Week => 168,
        }
    }

    /// The start of the slice that holds `at`.
    #[must_use]
    pub const fn slice_start(self, at: UnixMs) -> UnixMs {
        UnixMs(at.0 - at.0.rem_euclid(self.slice_ms()))
    }

    /// The start of the oldest slice that still counts at `now`.
    #[must_use]
    pub const fn oldest_slice(self, now: UnixMs) -> UnixMs {
        self.slice_start(now).plus_ms(-self.slice_ms() * (self.slices() - 1))
    }

    /// When the slice that begins at `start` stops counting.
    #[must_use]
    pub const fn expires_at(self, start: UnixMs) -> UnixMs {
        start.plus_ms(self.slice_ms() * self.slices())
    }
}

/// A half-open stretch of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Period {
    /// The first instant in it.
    pub start: UnixMs,
    /// The first instant after it.
    pub end: UnixMs,
}

impl Period {
    /// Whether `at` lies in it.
    #[must_use]
    pub fn contains(&self, at: UnixMs) -> bool {
        self.start <= at && at < self.end
    }
}

/// A calendar cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CalendarError {
    /// The name is not in the time-zone database.
    #[error("unknown time zone {0:?}: use a name such as Europe/Vienna")]
    UnknownZone(String),
    /// The instant is outside the calendar.
    #[error("instant out of range")]
    OutOfRange,
}

/// A named time zone. The names are those of the IANA database, compiled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone(TimeZone);

impl Zone {
    /// Looks a zone up by its name.
    ///
    /// # Errors
    /// When the database has no such zone.
    pub fn named(name: &str) -> Result<Self, CalendarError> {
        TimeZone::get(name).map(Self).map_err(|_| CalendarError::UnknownZone(name.to_owned()))
    }

    /// Coordinated universal time.
    #[must_use]
    pub fn utc() -> Self {
        Self(TimeZone::UTC)
    }

    /// The calendar day of `at` here.
    ///
    /// # Errors
    /// When the instant is outside the calendar.
    pub fn day_of(&self, at: UnixMs) -> Result<Date, CalendarError> {
        let instant = Timestamp::from_millisecond(at.0).map_err(|_| CalendarError::OutOfRange)?;
        Ok(instant.to_zoned_datetime(self.0.clone()).date())
    }

    /// The first instant of a calendar day here. Where midnight does not exist, the first instant after it.
    ///
    /// # Errors
    /// When the day is outside the calendar.
    pub fn start_of(&self, day: Date) -> Result<UnixMs, CalendarError> {
        let midnight = day
            .to_zoned_datetime(self.0.clone())
            .and_then(|zoned| zoned.start_of_day())
            .map_err(|_| CalendarError::OutOfRange)?;
        Ok(UnixMs(midnight.timestamp().as_millisecond()))
    }
}

/// The billing month that holds `at`: from the anchor day to the next, in the tenant's zone.
///
/// In a month that is too short, its last day stands in for the anchor, so that each month has one period.
///
/// # Errors
/// When the instant is outside the calendar.
pub fn month_period(at: UnixMs, zone: &Zone, anchor_day: u8) -> Result<Period, CalendarError> {
    let day = zone.day_of(at)?;
    let first = day.first_of_month();
    let anchored = |first: Date| -> Date {
        let wanted = i8::try_from(anchor_day.clamp(1, 31)).unwrap_or(31);
        let last = first.days_in_month();
        first.with().day(wanted.min(last)).build().unwrap_or(first)
    };
    let shift =
        |months: i32| first.checked_add(months.months()).map_err(|_| CalendarError::OutOfRange);
    let this_month = anchored(first);
    let (start, end) = if day < this_month {
        (anchored(shift(-1)?), this_month)
    } else {
        (this_month, anchored(shift(1)?))
    };
    Ok(Period { start: zone.start_of(start)?, end: zone.start_of(end)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(text: &str) -> UnixMs {
        UnixMs(text.parse::<Timestamp>().unwrap().as_millisecond())
    }

    fn month(instant: &str, zone: &str, anchor: u8) -> (UnixMs, UnixMs) {
        let period = month_period(at(instant), &Zone::named(zone).unwrap(), anchor).unwrap();
        (period.start, period.end)
    }

    #[test]
    fn the_last_millisecond_belongs_to_the_old_month_and_the_next_to_the_new() {
        let old = month("2026-11-30T23:59:59.999Z", "UTC", 1);
        let new = month("2026-12-01T00:00:00Z", "UTC", 1);
        assert_eq!(old, (at("2026-11-01T00:00:00Z"), at("2026-12-01T00:00:00Z")));
        assert_eq!(new, (at("2026-12-01T00:00:00Z"), at("2027-01-01T00:00:00Z")));
    }

    #[test]
    fn a_month_is_the_tenants_own() {
        let kathmandu = month("2026-11-30T18:15:00Z", "Asia/Kathmandu", 1);
        assert_eq!(kathmandu.0, at("2026-11-30T18:15:00Z"));
        let los_angeles = month("2026-11-15T00:00:00Z", "America/Los_Angeles", 1);
        assert_eq!(los_angeles, (at("2026-11-01T07:00:00Z"), at("2026-12-01T08:00:00Z")));
    }

    #[test]
    fn an_anchor_on_day_31_gives_one_period_a_month() {
        let february = month("2027-02-15T12:00:00Z", "UTC", 31);
        assert_eq!(february, (at("2027-01-31T00:00:00Z"), at("2027-02-28T00:00:00Z")));
        let leap = month("2028-02-29T00:00:00Z", "UTC", 31);
        assert_eq!(leap, (at("2028-02-29T00:00:00Z"), at("2028-03-31T00:00:00Z")));
    }

    #[test]
    fn an_unknown_zone_is_named() {
        assert!(matches!(Zone::named("Mars/Olympus"), Err(CalendarError::UnknownZone(_))));
    }

    #[test]
    fn a_rolling_window_forgets_whole_slices() {
        let now = at("2026-11-30T12:07:30Z");
        let window = RollingWindow::FiveHours;
        assert_eq!(window.slice_start(now), at("2026-11-30T12:05:00Z"));
        assert_eq!(window.oldest_slice(now), at("2026-11-30T07:10:00Z"));
        assert_eq!(window.expires_at(at("2026-11-30T07:10:00Z")), at("2026-11-30T12:10:00Z"));
    }

    proptest! {
        #[test]
        fn periods_follow_each_other_without_gap_or_overlap(
            ms in 1_500_000_000_000_i64..2_500_000_000_000,
            anchor in 1_u8..=31,
            zone in prop::sample::select(vec![
                "UTC", "Asia/Kathmandu", "America/Los_Angeles", "Australia/Lord_Howe", "Africa/Cairo",
                "America/Sao_Paulo", "Pacific/Apia",
            ]),
        ) {
            let zone = Zone::named(zone).unwrap();
            let period = month_period(UnixMs(ms), &zone, anchor).unwrap();
            prop_assert!(period.contains(UnixMs(ms)));
            let next = month_period(period.end, &zone, anchor).unwrap();
            prop_assert_eq!(next.start, period.end);
            let last = month_period(period.end.plus_ms(-1), &zone, anchor).unwrap();
            prop_assert_eq!(last, period);
        }
    }
}
