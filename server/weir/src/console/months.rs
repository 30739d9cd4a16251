//! A tenant's months: which instants they cover, what they cap, how far they have gone.

use app::views::Month;
use domain::plan::{LimitRule, Metric, Plan};
use domain::window::{CalendarError, Period, UnixMs, Zone, month_period};
use jiff::civil::Date;

/// One month of one tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TenantMonth {
    /// Its name: the calendar month it begins in.
    pub(super) month: Month,
    /// The instants it covers.
    pub(crate) period: Period,
    /// Whether it is the running one.
    pub(crate) running: bool,
}

impl TenantMonth {
    /// How much of it has passed, in thousandths.
    pub(super) fn elapsed_permille(&self, now: UnixMs) -> i64 {
        let length = self.period.end.since_ms(self.period.start).max(1);
        let passed = now.since_ms(self.period.start).min(length);
        passed.saturating_mul(1_000) / length
    }
}

/// The day on which a plan's months begin.
pub(crate) fn anchor_day(plan: Option<&Plan>) -> u8 {
    let rules = plan.map_or(&[][..], |plan| &plan.rules);
    let anchor = rules.iter().find_map(|rule| match rule {
        LimitRule::Month { metric: Metric::Cost, anchor_day, .. } => Some(*anchor_day),
        LimitRule::Month { .. }
        | LimitRule::Bucket { .. }
        | LimitRule::Window { .. }
        | LimitRule::Balance
        | LimitRule::Lease { .. } => None,
    });
    anchor.unwrap_or(1)
}

/// The month that is asked for, or the running one.
pub(crate) fn month(
    wanted: Option<Month>,
    zone: &Zone,
    anchor_day: u8,
    now: UnixMs,
) -> Result<TenantMonth, CalendarError> {
    let at = match wanted {
        None => now,
        Some(month) => {
            let last = i8::try_from(month.days()).unwrap_or(28);
            let day = i8::try_from(anchor_day).unwrap_or(1).clamp(1, last);
            let begins = Date::new(month.year(), month.month(), day);
            zone.start_of(begins.map_err(|_| CalendarError::OutOfRange)?)?
        }
    };
    let period = month_period(at, zone, anchor_day)?;
    let begins = zone.day_of(period.start)?;
    let month = Month::new(begins.year(), begins.month()).ok_or(CalendarError::OutOfRange)?;
    Ok(TenantMonth { month, period, running: period.contains(now) })
}

/// What a plan lets be spent in a month.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Caps {
    /// The cap.
    pub(super) cap_nanos: Option<i64>,
    /// Where calls are refused: the cap with its overage.
    pub(super) hard_stop_nanos: Option<i64>,
}

impl Caps {
    /// The caps of a plan.
    pub(super) fn of(plan: Option<&Plan>) -> Self {
        let Some((cap, overage_bps)) = plan.and_then(Plan::month_cap) else {
            return Self::default();
        };
        let hard = domain::admission::hard_limit(cap.0, overage_bps);
        Self { cap_nanos: Some(cap.0), hard_stop_nanos: Some(hard) }
    }

    /// What was spent as a part of the cap, in thousandths; nothing without a cap. A cap of zero
    /// is full.
    pub(super) fn used_permille(&self, spent_nanos: i64) -> Option<i64> {
        let part = |cap: i64| match cap {
            0 => 1_000,
            cap => {
                i64::try_from(i128::from(spent_nanos) * 1_000 / i128::from(cap)).unwrap_or(i64::MAX)
            }
        };
        self.cap_nanos.map(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> UnixMs {
        UnixMs(text.parse::<jiff::Timestamp>().unwrap().as_millisecond())
    }

    #[test]
    fn the_running_month_is_the_tenants_own() {
        let kathmandu = Zone::named("Asia/Kathmandu").unwrap();
        let now = at("2026-11-30T18:20:00Z");
        let running = month(None, &kathmandu, 1, now).unwrap();
        assert_eq!(running.month.to_string(), "2026-12");
        assert!(running.running);
        let asked = month(Month::parse("2026-11"), &kathmandu, 1, now).unwrap();
        assert_eq!(asked.period.end, running.period.start);
        assert!(!asked.running);
        assert_eq!(asked.elapsed_permille(now), 1_000);
    }

    #[test]
    fn a_month_that_begins_late_is_named_by_its_beginning() {
        let now = at("2026-11-10T00:00:00Z");
        let running = month(None, &Zone::utc(), 15, now).unwrap();
        assert_eq!(running.month.to_string(), "2026-10");
        let asked = month(Month::parse("2027-02"), &Zone::utc(), 31, now).unwrap();
        assert_eq!(asked.month.to_string(), "2027-02");
        assert_eq!(asked.period.start, at("2027-02-28T00:00:00Z"));
        assert_eq!(asked.elapsed_permille(now), 0, "it has not begun");
    }
}
