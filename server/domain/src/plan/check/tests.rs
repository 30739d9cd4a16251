use super::*;
use crate::admission::hard_limit;
use crate::id::PlanId;
use crate::money::Nanos;
use crate::plan::{DenyMode, ModelAccess};
use crate::window::RollingWindow;

fn window(metric: Metric, limit: i64) -> LimitRule {
    LimitRule::Window { metric, window: RollingWindow::Day, limit }
}

fn month(metric: Metric, limit: i64, overage_bps: i64, anchor_day: u8) -> LimitRule {
    LimitRule::Month { metric, limit, overage_bps, anchor_day }
}

fn bucket(rate_milli_per_s: i64, capacity: i64) -> LimitRule {
    LimitRule::Bucket { metric: Metric::Tokens, rate_milli_per_s, capacity }
}

fn one(rule: LimitRule) -> Result<(), PlanError> {
    check_rules(&[rule])
}

#[test]
fn a_limit_that_a_counter_cannot_hold_is_refused_and_the_largest_that_it_can_is_not() {
    for rule in [
        window(Metric::Cost, MAX_LIMIT.0 + 1),
        window(Metric::Cost, -1),
        window(Metric::Requests, MAX_COUNT),
        month(Metric::Cost, MAX_LIMIT.0 + 1, 0, 1),
        month(Metric::Tokens, MAX_NUMBER + 1, 0, 1),
        month(Metric::Cost, 1, -1, 1),
        month(Metric::Cost, 1, 10_001, 1),
        month(Metric::Cost, 1, 0, 0),
        month(Metric::Cost, 1, 0, 32),
        bucket(0, 1),
        bucket(1, 0),
        bucket(-1, 1),
        bucket(1, MAX_CAPACITY + 1),
        LimitRule::Lease { limit: 0 },
        LimitRule::Lease { limit: -1 },
    ] {
        assert!(one(rule.clone()).is_err(), "{rule:?}");
    }
    for rule in [
        window(Metric::Cost, MAX_LIMIT.0),
        window(Metric::Cost, 0),
        window(Metric::Requests, MAX_NUMBER),
        month(Metric::Tokens, MAX_NUMBER, 10_000, 31),
        bucket(1, MAX_CAPACITY),
        LimitRule::Lease { limit: 1 },
        LimitRule::Balance,
    ] {
        assert_eq!(one(rule.clone()), Ok(()), "{rule:?}");
    }
}

#[test]
fn the_largest_numbers_stay_exact_in_a_counter() {
    let overfull = MAX_CAPACITY.checked_mul(MICRO).unwrap();
    assert!(overfull < MAX_COUNT);
    assert!(hard_limit(MAX_NUMBER, MAX_OVERAGE_BPS) <= MAX_COUNT);
    const { assert!(MAX_LIMIT.0 <= MAX_COUNT) };
}

#[test]
fn the_error_says_which_meter_and_what_is_allowed() {
    let told = one(month(Metric::Cost, MAX_LIMIT.0 + 1, 0, 1)).unwrap_err().to_string();
    assert!(told.contains("month_cost") && told.contains("9,000,000 USD"), "{told}");
}

#[test]
fn one_meter_cannot_have_two_limits_and_no_scope_more_than_eight() {
    let twice = [window(Metric::Cost, 1), window(Metric::Cost, 2)];
    assert_eq!(check_rules(&twice), Err(PlanError::Repeated("day_cost")));
    assert_eq!(check_rules(&[window(Metric::Cost, 1), window(Metric::Tokens, 2)]), Ok(()));
    let many = vec![LimitRule::Balance; MAX_RULES + 1];
    assert_eq!(check_rules(&many), Err(PlanError::TooManyRules));
}

#[test]
fn a_providers_quota_has_no_month_and_no_balance() {
    assert_eq!(check_quota(&[bucket(1, 1), LimitRule::Lease { limit: 1 }]), Ok(()));
    assert_eq!(check_quota(&[window(Metric::Cost, 1)]), Ok(()));
    for rule in [month(Metric::Cost, 1, 0, 1), LimitRule::Balance] {
        assert!(matches!(check_quota(&[rule]), Err(PlanError::Rule { .. })));
    }
}

fn plan() -> Plan {
    Plan {
        id: PlanId(1),
        name: "pro".to_owned(),
        version: 1,
        rules: vec![],
        models: ModelAccess::All,
        markup_bps: 0,
        default_max_output_tokens: 1,
        max_output_tokens: 1,
        deny_mode: DenyMode::Wait,
        request_fee: Nanos::ZERO,
        terms: CallTerms::default(),
    }
}

#[test]
fn every_number_of_a_plan_has_its_range() {
    assert_eq!(plan().check(), Ok(()));
    type Spoil = fn(&mut Plan);
    let wrong: [(&str, Spoil); 14] = [
        ("name", |plan| plan.name = " ".to_owned()),
        ("markup_bps", |plan| plan.markup_bps = -1),
        ("markup_bps", |plan| plan.markup_bps = MAX_MARKUP_BPS + 1),
        ("max_output_tokens", |plan| plan.max_output_tokens = 0),
        ("max_output_tokens", |plan| plan.max_output_tokens = MAX_OUTPUT_TOKENS + 1),
        ("default_max_output_tokens", |plan| plan.default_max_output_tokens = 2),
        ("request_fee_nanos", |plan| plan.request_fee = Nanos(-1)),
        ("request_fee_nanos", |plan| plan.request_fee = Nanos(MAX_LIMIT.0 + 1)),
        ("max_request_charge_nanos", |plan| plan.terms.max_charge = Some(Nanos(-1))),
        ("max_request_tokens", |plan| plan.terms.max_tokens = Some(0)),
        ("max_wait_ms", |plan| plan.terms.max_wait_ms = MAX_WAIT_MS + 1),
        ("max_wait_ms", |plan| plan.terms.max_wait_ms = -1),
        ("weight", |plan| plan.terms.weight = 0),
        ("weight", |plan| plan.terms.weight = MAX_WEIGHT + 1),
    ];
    for (name, spoil) in wrong {
        let mut spoiled = plan();
        spoil(&mut spoiled);
        let told = spoiled.check().unwrap_err();
        assert!(matches!(told, PlanError::Term { field, .. } if field == name), "{name}: {told}");
    }
}
