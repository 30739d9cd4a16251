//! Lists of limits as they are stored, and what no list may say.

use domain::admission::{MAX_COUNT, MICRO, Meter, Scope};
use domain::money::{MAX_LIMIT, ONE_IN_BPS};
use domain::plan::{LimitRule, Metric};
use serde_json::Value;

use crate::TenantsError;

/// One scope has at most so many limits: each is a counter that every call of the scope touches.
const MAX_RULES: usize = 8;
/// The largest overage, 100 %: beyond that the limit is not one.
const MAX_OVERAGE_BPS: i64 = ONE_IN_BPS;
/// The fullest bucket: its level in millionths must stay a number that JSON and Lua hold exactly.
const MAX_CAPACITY: i64 = MAX_COUNT / MICRO;

/// Reads a stored list.
pub(crate) fn read(
    table: &'static str,
    id: i64,
    rules: Value,
) -> Result<Vec<LimitRule>, TenantsError> {
    serde_json::from_value(rules).map_err(|e| TenantsError::unreadable(table, id, e.to_string()))
}

/// Writes a list, unless it says what cannot be kept.
pub(crate) fn write(rules: &[LimitRule]) -> Result<Value, TenantsError> {
    check(rules)?;
    serde_json::to_value(rules).map_err(|e| TenantsError::invalid("limits", e.to_string()))
}

fn check(rules: &[LimitRule]) -> Result<(), TenantsError> {
    if rules.len() > MAX_RULES {
        return Err(TenantsError::invalid("limits", format!("at most {MAX_RULES} of them")));
    }
    let mut names: Vec<&'static str> = Vec::with_capacity(rules.len());
    for rule in rules {
        let meter = Meter { scope: Scope::Tenant, scope_id: 0, rule: rule.clone() };
        let name = meter.name();
        if names.contains(&name) {
            // Both would count in one counter.
            return Err(TenantsError::invalid("limits", format!("two of them are {name}")));
        }
        names.push(name);
        if let Some(why) = wrong(rule) {
            return Err(TenantsError::invalid("limits", format!("{name}: {why}")));
        }
    }
    Ok(())
}

/// What is wrong with one limit.
fn wrong(rule: &LimitRule) -> Option<&'static str> {
    match rule {
        LimitRule::Bucket { rate_milli_per_s, capacity, .. } => {
            let fits = |n: &i64| (1..=MAX_CAPACITY).contains(n);
            (!fits(rate_milli_per_s) || !fits(capacity))
                .then_some("rate and capacity are above 0 and at most 9,007,199,254")
        }
        LimitRule::Window { metric, limit, .. } => wrong_limit(*metric, *limit),
        LimitRule::Month { metric, limit, overage_bps, anchor_day } => {
            if !(0..=MAX_OVERAGE_BPS).contains(overage_bps) {
                Some("the overage is between 0 and 100 %")
            } else if !(1..=31).contains(anchor_day) {
                Some("the period begins on a day from 1 to 31")
            } else {
                wrong_limit(*metric, *limit)
            }
        }
        LimitRule::Balance => None,
        LimitRule::Lease { limit } => wrong_limit(Metric::Requests, *limit),
    }
}

fn wrong_limit(metric: Metric, limit: i64) -> Option<&'static str> {
    match metric {
        Metric::Cost => (!(0..=MAX_LIMIT.0).contains(&limit))
            .then_some("the limit is between 0 and 9,000,000 USD"),
        // Half of what a counter holds, so that the overage still fits.
        Metric::Requests | Metric::Tokens => {
            (!(0..=MAX_COUNT / 2).contains(&limit)).then_some("the limit is out of range")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::window::RollingWindow;

    fn window(metric: Metric, limit: i64) -> LimitRule {
        LimitRule::Window { metric, window: RollingWindow::Day, limit }
    }

    fn month(overage_bps: i64, anchor_day: u8) -> LimitRule {
        LimitRule::Month { metric: Metric::Cost, limit: 1, overage_bps, anchor_day }
    }

    fn bucket(rate_milli_per_s: i64, capacity: i64) -> LimitRule {
        LimitRule::Bucket { metric: Metric::Tokens, rate_milli_per_s, capacity }
    }

    #[test]
    fn limits_that_counters_cannot_keep_are_refused() {
        for rule in [
            window(Metric::Cost, MAX_LIMIT.0 + 1),
            window(Metric::Cost, -1),
            window(Metric::Requests, MAX_COUNT),
            month(-1, 1),
            month(10_001, 1),
            month(0, 0),
            month(0, 32),
            bucket(0, 1),
            bucket(1, 0),
            bucket(1, MAX_CAPACITY + 1),
            LimitRule::Lease { limit: -1 },
        ] {
            assert!(write(std::slice::from_ref(&rule)).is_err(), "{rule:?}");
        }
    }

    #[test]
    fn one_meter_cannot_have_two_limits() {
        let twice = [window(Metric::Cost, 1), window(Metric::Cost, 2)];
        assert!(matches!(write(&twice), Err(TenantsError::Invalid { what: "limits", .. })));
        let apart = [window(Metric::Cost, 1), window(Metric::Tokens, 2)];
        assert!(write(&apart).is_ok());
    }

    #[test]
    fn what_is_written_reads_back() {
        let rules = vec![month(500, 31), bucket(1_000, 60_000), LimitRule::Balance];
        assert_eq!(read("plans", 1, write(&rules).unwrap()).unwrap(), rules);
        let strange = serde_json::json!([{ "rule": "barter" }]);
        assert!(matches!(read("plans", 7, strange), Err(TenantsError::Unreadable { id: 7, .. })));
    }
}
