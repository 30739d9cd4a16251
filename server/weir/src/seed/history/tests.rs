use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use domain::admission::hard_limit;
use domain::usage::{Outcome, UsageSource};
use domain::window::Period;

use super::super::cast::{Aim, CAST};
use super::super::stage::rehearsal;
use super::*;

const SEED: u64 = 1;
/// Monday, 30 November 2026, 01:23 UTC: still Sunday in America.
const NOW: UnixMs = UnixMs(1_796_001_780_000);

fn at(text: &str) -> UnixMs {
    UnixMs(text.parse::<jiff::Timestamp>().unwrap().as_millisecond())
}

fn told(now: UnixMs) -> Vec<Day> {
    let stage = rehearsal::stage(first_day(now));
    let mut history = History::new(&stage, SEED, now).unwrap();
    std::iter::from_fn(|| history.next_day().unwrap()).collect()
}

/// The history that ends at [`NOW`], told once for all tests.
fn days() -> &'static [Day] {
    static DAYS: LazyLock<Vec<Day>> = LazyLock::new(|| told(NOW));
    &DAYS
}

/// What each tenant has used of its running month's budget, in percent.
fn percents(now: UnixMs, days: &[Day]) -> BTreeMap<&'static str, i64> {
    let stage = rehearsal::stage(first_day(now));
    let percent = |tenant: &StagedTenant| {
        let period = month_period(now, &tenant.zone, 1).unwrap();
        let limit = tenant.plan.month_cap().unwrap().0.0;
        (tenant.cast.slug, charged(days, tenant.id, period) * 100 / limit)
    };
    stage.tenants.iter().map(percent).collect()
}

fn charged(days: &[Day], tenant: TenantId, period: Period) -> i64 {
    let events = days.iter().flat_map(|day| &day.events);
    events
        .filter(|e| e.tenant_id == tenant && period.contains(e.admitted_at))
        .map(|e| e.charge.0)
        .sum()
}

#[test]
fn on_any_day_of_a_month_one_tenant_is_over_its_budget_and_two_are_near() {
    for now in [
        "2026-11-30T01:23:00Z",
        "2026-12-01T00:20:00Z",
        "2026-12-04T17:00:00Z",
        "2026-12-13T03:00:00Z",
        "2027-01-01T08:20:00Z",
        "2027-03-28T01:30:00Z",
    ] {
        let now = at(now);
        let days = told(now);
        for (slug, percent) in percents(now, &days) {
            let aim = CAST.iter().find(|t| t.slug == slug).unwrap().aim;
            let expected = match aim {
                Aim::Over => 101..106,
                Aim::Near => 81..100,
                Aim::Usual => 0..78,
            };
            assert!(expected.contains(&percent), "{slug} at {now:?}: {percent} %");
        }
    }
}

#[test]
fn the_same_seed_and_instant_tell_the_same_history_and_a_later_one_goes_on_from_it() {
    let (one, two, later) = (days(), told(NOW), told(at("2026-11-30T13:00:00Z")));
    let rows = |days: &[Day]| -> Vec<UsageEvent> {
        days.iter().flat_map(|day| day.events.clone()).collect()
    };
    assert!(rows(one) == rows(&two));
    let before: BTreeSet<_> = rows(&later).into_iter().map(|e| e.request_id).collect();
    let lost = rows(one).iter().filter(|e| !before.contains(&e.request_id)).count();
    assert_eq!(lost, 0);
}

#[test]
fn the_history_has_its_size_its_growth_and_every_kind_of_end() {
    let days = days();
    assert_eq!(days.len(), 91);
    let count = |days: &[Day]| days.iter().map(|day| day.events.len()).sum::<usize>();
    assert!((60_000..100_000).contains(&count(days)), "{}", count(days));
    assert!(count(&days[..14]) < count(&days[76..90]));
    let events = || days.iter().flat_map(|day| &day.events);
    for outcome in Outcome::ALL {
        let seen = events().any(|e| e.outcome == outcome);
        assert_eq!(seen, outcome != Outcome::Orphaned, "{outcome:?}");
    }
    assert!(events().any(|e| e.usage_source == UsageSource::Estimated));
    let statuses: BTreeMap<(u16, String), usize> =
        days.iter().flat_map(|day| &day.refusals).fold(BTreeMap::new(), |mut counts, r| {
            *counts.entry((r.status, r.code.clone())).or_default() += 1;
            counts
        });
    for (status, code) in
        [(402, "budget_exhausted"), (429, "rate_limited"), (429, "window_exhausted")]
    {
        assert!(statuses.get(&(status, code.to_owned())) >= Some(&20), "{statuses:?}");
    }
}

#[test]
fn what_happened_is_in_order_in_its_day_and_over_by_now() {
    let mut ids = BTreeSet::new();
    for day in days() {
        for event in &day.events {
            assert!(
                day.start <= event.admitted_at && event.admitted_at < day.start.plus_ms(DAY_MS)
            );
            assert!(event.admitted_at <= event.ended_at && event.ended_at <= NOW);
            assert!(event.charge <= event.hold && event.charge >= event.cost);
            assert!(event.first_byte_ms <= Some(event.duration_ms));
            assert!(ids.insert(event.request_id), "{}", event.request_id);
        }
        assert!(day.events.is_sorted_by_key(|e| e.admitted_at));
    }
}

#[test]
fn no_budget_was_ever_passed_by_more_than_its_overage() {
    let days = days();
    let stage = rehearsal::stage(first_day(NOW));
    for tenant in &stage.tenants {
        let (limit, overage) = tenant.plan.month_cap().unwrap();
        for month in 0..4 {
            let then = NOW.plus_ms(-month * 29 * DAY_MS);
            let period = month_period(then, &tenant.zone, 1).unwrap();
            let used = charged(days, tenant.id, period);
            assert!(used <= hard_limit(limit.0, overage), "{} {month}", tenant.cast.slug);
        }
    }
}

#[test]
fn marks_are_crossed_once_and_in_their_order() {
    let days = days();
    let mut seen = BTreeSet::new();
    for crossing in days.iter().flat_map(|day| &day.crossings) {
        let Crossing { tenant_id, scope, scope_id, period_start, percent, .. } = crossing.clone();
        assert!(seen.insert((tenant_id, scope, scope_id, period_start, percent)));
        assert!(crossing.used * 100 >= crossing.limit * percent);
    }
    let over = TenantId(1);
    let of_this_month = |percent| {
        seen.iter().any(|(tenant, scope, _, start, p)| {
            (*tenant, *scope, *p) == (over, Scope::Tenant, percent)
                && NOW.since_ms(*start) < 31 * DAY_MS
        })
    };
    assert!(of_this_month(80) && of_this_month(100));
}
