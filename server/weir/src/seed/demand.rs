//! When a tenant's programs call: by the hour, with a day's, a week's and a season's rhythm.

use domain::window::{CalendarError, UnixMs, Zone};
use jiff::civil::Weekday;

use super::cast::{CastTenant, Habit, Rhythm};
use super::dice::Dice;

/// One hour.
pub(crate) const HOUR_MS: i64 = 60 * 60 * 1_000;
/// One day of UTC.
pub(crate) const DAY_MS: i64 = 24 * HOUR_MS;
/// How long the history is.
pub(crate) const HISTORY_DAYS: i64 = 90;

/// Of a thousand calls of a day, how many fall into each local hour.
const OFFICE: [i64; 24] =
    [2, 1, 1, 1, 2, 6, 18, 45, 85, 110, 112, 98, 70, 85, 104, 102, 82, 42, 16, 8, 4, 3, 2, 1];
const EVENING: [i64; 24] =
    [28, 12, 6, 4, 3, 4, 8, 14, 20, 24, 28, 32, 38, 40, 44, 52, 62, 76, 92, 104, 106, 92, 68, 43];
const ALWAYS: [i64; 24] = [
    22, 20, 19, 19, 21, 26, 33, 41, 50, 55, 57, 56, 54, 55, 57, 56, 54, 52, 50, 48, 45, 42, 37, 31,
];
/// The noisy tenant's local hour, and how many calls come at once.
const BURST_HOUR: i64 = 18;
const BURST_CALLS: (i64, i64) = (60, 110);
const BURST_MS: i64 = 4_000;
/// How many days ago the evening with too many guests was, and in which local hours.
const HACKATHON_DAYS_AGO: i64 = 9;
const HACKATHON_HOURS: std::ops::RangeInclusive<i64> = 19..=22;
const HACKATHON_CALLS: (i64, i64) = (130, 180);

/// One call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Call {
    /// When.
    pub(crate) at: UnixMs,
    /// What everything else about it is drawn from.
    pub(crate) seed: u64,
}

/// The hours of a tenant.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Demand<'a> {
    /// What all chance is drawn from.
    pub(crate) seed: u64,
    /// Which of the cast.
    pub(crate) number: u64,
    /// Who.
    pub(crate) tenant: &'a CastTenant,
    /// Where.
    pub(crate) zone: &'a Zone,
    /// The start of the history's last day, in UTC.
    pub(crate) today: UnixMs,
}

impl Demand<'_> {
    /// The calls of the hour that begins at `start`, in order. They do not depend on what the time is now, only
    /// on which day it is.
    pub(crate) fn hour(&self, start: UnixMs) -> Result<Vec<Call>, CalendarError> {
        let hour = u64::try_from(start.0.div_euclid(HOUR_MS)).unwrap_or(0);
        let mut dice = Dice::of(&[self.seed, self.number, hour]);
        let local = Local::of(start, self.zone)?;
        let milli_calls = self.milli_calls(start, local) * dice.between(750, 1_250) / 1_000;
        let rest = u64::try_from(milli_calls % 1_000).unwrap_or(0);
        let count = milli_calls / 1_000 + i64::from(dice.chance(rest));
        let mut calls: Vec<Call> = (0..count)
            .map(|_| Call { at: start.plus_ms(dice.between(0, HOUR_MS - 1)), seed: dice.roll() })
            .collect();
        self.more(start, local, &mut dice, &mut calls);
        calls.sort_unstable();
        Ok(calls)
    }

    /// A thousand times the calls to be expected in an hour.
    fn milli_calls(&self, start: UnixMs, local: Local) -> i64 {
        let tenant = self.tenant;
        let (hours, weekend) = match tenant.rhythm {
            Rhythm::Office => (&OFFICE, 140),
            Rhythm::Evening => (&EVENING, 1_300),
            Rhythm::Always => (&ALWAYS, 700),
        };
        let hour = usize::try_from(local.hour).unwrap_or(0);
        let share = hours.get(hour).copied().unwrap_or(0);
        let day = if local.weekend { weekend } else { 1_000 };
        tenant.calls_per_day * share * day / 1_000 * self.season(start) / 1_000
    }

    /// Of a thousand calls at the end of the history, how many there are at `at`.
    fn season(&self, at: UnixMs) -> i64 {
        let first = self.tenant.at_first_per_mille;
        let days = HISTORY_DAYS - self.today.since_ms(at) / DAY_MS;
        first + (1_000 - first) * days.clamp(0, HISTORY_DAYS) / HISTORY_DAYS
    }

    fn more(&self, start: UnixMs, local: Local, dice: &mut Dice, calls: &mut Vec<Call>) {
        match self.tenant.habit {
            Habit::Steady => {}
            Habit::Bursts => {
                let recent = self.today.since_ms(start) < 2 * DAY_MS;
                if local.hour == BURST_HOUR && (recent || dice.chance(350)) {
                    let from = start.plus_ms(dice.between(0, HOUR_MS - BURST_MS));
                    for _ in 0..dice.between(BURST_CALLS.0, BURST_CALLS.1) {
                        let at = from.plus_ms(dice.between(0, BURST_MS - 1));
                        calls.push(Call { at, seed: dice.roll() });
                    }
                }
            }
            Habit::Hackathon => {
                let days_ago = self.today.since_ms(start).div_euclid(DAY_MS);
                if days_ago == HACKATHON_DAYS_AGO && HACKATHON_HOURS.contains(&local.hour) {
                    for _ in 0..dice.between(HACKATHON_CALLS.0, HACKATHON_CALLS.1) {
                        let at = start.plus_ms(dice.between(0, HOUR_MS - 1));
                        calls.push(Call { at, seed: dice.roll() });
                    }
                }
            }
        }
    }
}

/// What a clock on the wall shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Local {
    hour: i64,
    weekend: bool,
}

impl Local {
    /// On the two days a year when clocks are changed it is an hour off for some hours.
    fn of(at: UnixMs, zone: &Zone) -> Result<Self, CalendarError> {
        let day = zone.day_of(at)?;
        let hour = at.since_ms(zone.start_of(day)?) / HOUR_MS;
        let weekend = matches!(day.weekday(), Weekday::Saturday | Weekday::Sunday);
        Ok(Self { hour: hour.min(23), weekend })
    }
}

/// The start of the day of UTC that holds `at`.
pub(crate) const fn day_start(at: UnixMs) -> UnixMs {
    UnixMs(at.0 - at.0.rem_euclid(DAY_MS))
}

#[cfg(test)]
mod tests {
    use super::super::cast::CAST;
    use super::*;

    /// Monday, 30 November 2026.
    const TODAY: UnixMs = UnixMs(1_795_996_800_000);

    fn calls(slug: &str, today: UnixMs, days: std::ops::Range<i64>) -> Vec<Call> {
        let at = CAST.iter().position(|t| t.slug == slug).unwrap();
        let zone = Zone::named(CAST[at].zone).unwrap();
        let number = u64::try_from(at).unwrap();
        let demand = Demand { seed: 1, number, tenant: &CAST[at], zone: &zone, today };
        let hours = days.start * 24..days.end * 24;
        hours.flat_map(|hour| demand.hour(today.plus_ms(hour * HOUR_MS)).unwrap()).collect()
    }

    #[test]
    fn every_hours_shares_add_up_to_a_day() {
        for hours in [OFFICE, EVENING, ALWAYS] {
            assert_eq!(hours.iter().sum::<i64>(), 1_000);
        }
    }

    #[test]
    fn an_office_works_on_weekdays_and_a_weekday_is_what_it_is_said_to_be() {
        let friday = calls("brightwater-legal", TODAY, -3..-2).len();
        let saturday = calls("brightwater-legal", TODAY, -2..-1).len();
        assert!((110..210).contains(&friday), "{friday}");
        assert!(saturday < friday / 3, "{saturday} against {friday}");
    }

    #[test]
    fn a_tenant_that_grows_called_less_at_first() {
        let first = calls("koru-learning", TODAY, -90..-76).len();
        let last = calls("koru-learning", TODAY, -14..0).len();
        assert!(first * 3 < last * 2, "{first} against {last}");
    }

    #[test]
    fn an_hours_calls_are_in_the_hour_in_order_and_always_the_same() {
        for tenant in &CAST {
            let all = calls(tenant.slug, TODAY, -2..1);
            assert_eq!(all, calls(tenant.slug, TODAY, -2..1));
            assert!(all.windows(2).all(|pair| pair[0].at <= pair[1].at), "{}", tenant.slug);
        }
    }

    #[test]
    fn the_noisy_tenant_calls_many_times_at_once() {
        let all = calls("kestrel-games", TODAY, -1..0);
        let most = all.iter().map(|from| {
            all.iter().filter(|c| c.at >= from.at && c.at < from.at.plus_ms(BURST_MS)).count()
        });
        assert!(most.max().unwrap() >= 60);
    }
}
