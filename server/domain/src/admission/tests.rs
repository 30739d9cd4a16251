use proptest::prelude::*;

use super::*;
use crate::money::Nanos;

const NOW: UnixMs = UnixMs(1_795_953_600_000);

fn usd(text: &str) -> i64 {
    text.parse::<Nanos>().unwrap().0
}

fn meter(rule: LimitRule) -> Meter {
    Meter { scope: Scope::Tenant, scope_id: 7, rule }
}

fn month(limit: i64, overage_bps: i64) -> Meter {
    meter(LimitRule::Month { metric: Metric::Cost, limit, overage_bps, anchor_day: 1 })
}

fn bucket(metric: Metric, rate_milli_per_s: i64, capacity: i64) -> Meter {
    meter(LimitRule::Bucket { metric, rate_milli_per_s, capacity })
}

fn month_counter(used: i64, held: i64) -> Counter {
    let period = Period { start: UnixMs(0), end: UnixMs(NOW.0 * 2) };
    Counter::Month { period, used, held }
}

fn call(tokens: i64, charge: i64) -> Estimate {
    Estimate { tokens, charge: Nanos(charge) }
}

fn one(meter: &Meter, counter: Counter, estimate: Estimate) -> Decision {
    decide(std::slice::from_ref(meter), &[counter], &estimate, NOW).unwrap()
}

fn refusal(decision: Decision) -> Refusal {
    match decision {
        Decision::Refuse(refusal) => refusal,
        Decision::Admit(takes) => panic!("admitted: {takes:?}"),
    }
}

#[test]
fn two_hundred_holds_on_the_last_ten_dollars_and_the_overage_pass_195_times() {
    // The seed: 0.1025 USD each, from 190 of 200 USD, with 5 % overage.
    let meter = month(usd("200"), 500);
    let (used, hold) = (usd("190"), usd("0.1025"));
    let mut held = 0;
    let admitted = (0..200)
        .filter(|_| {
            let passes =
                matches!(one(&meter, month_counter(used, held), call(1, hold)), Decision::Admit(_));
            held += if passes { hold } else { 0 };
            passes
        })
        .count();
    assert_eq!((admitted, used + held), (195, usd("209.9875")));
}

#[test]
fn a_full_month_says_when_it_starts_afresh_and_not_how_long_to_wait() {
    let meter = month(1_000, 0);
    let no = refusal(one(&meter, month_counter(900, 60), call(1, 41)));
    assert_eq!(
        (no.reason, no.limit, no.used, no.held, no.wanted),
        (Reason::BudgetExhausted, 1_000, 900, 60, 41)
    );
    assert_eq!((no.retry_after_ms, no.resets_at), (None, Some(UnixMs(NOW.0 * 2))));
    assert!(matches!(one(&meter, month_counter(900, 60), call(1, 40)), Decision::Admit(_)));
}

#[test]
fn a_call_that_costs_nothing_passes_when_the_money_is_spent() {
    let spent = one(&month(1_000, 0), month_counter(1_200, 0), call(10, 0));
    assert!(matches!(spent, Decision::Admit(_)));
}

#[test]
fn a_bucket_lets_a_burst_pass_and_tells_the_exact_wait() {
    let meter = bucket(Metric::Requests, 500, 2);
    let level = |micro| Counter::Bucket { level_micro: micro, at: NOW };
    assert!(matches!(one(&meter, level(2 * MICRO), call(1, 0)), Decision::Admit(_)));
    let no = refusal(one(&meter, level(0), call(1, 0)));
    // Half a request per second: a whole one takes two seconds, and not one millisecond less.
    assert_eq!(
        (no.reason, no.retry_after_ms, no.retry_after_s()),
        (Reason::RateLimited, Some(2_000), Some(2))
    );
    let after = |ms| {
        decide(std::slice::from_ref(&meter), &[level(0)], &call(1, 0), NOW.plus_ms(ms)).unwrap()
    };
    assert!(matches!(after(1_999), Decision::Refuse(_)));
    assert!(matches!(after(2_000), Decision::Admit(_)));
}

#[test]
fn a_bucket_in_debt_makes_the_next_call_wait_longer() {
    let meter = bucket(Metric::Tokens, 1_000_000, 60_000);
    let debt = Counter::Bucket { level_micro: -30_000 * MICRO, at: NOW };
    let no = refusal(one(&meter, debt, call(1_000, 0)));
    assert_eq!((no.reason, no.retry_after_ms), (Reason::TokenRateLimited, Some(31_000)));
}

#[test]
fn a_call_larger_than_the_bucket_is_told_that_it_can_never_pass() {
    let meter = bucket(Metric::Tokens, 1_000_000, 60_000);
    let full = Counter::Bucket { level_micro: 60_000 * MICRO, at: NOW };
    let no = refusal(one(&meter, full, call(60_001, 0)));
    assert_eq!((no.reason, no.retry_after_ms), (Reason::ExceedsCapacity, None));
}

#[test]
fn a_bucket_that_never_refills_names_no_wait() {
    let no = refusal(one(
        &bucket(Metric::Requests, 0, 1),
        Counter::Bucket { level_micro: 0, at: NOW },
        call(1, 0),
    ));
    assert_eq!((no.reason, no.retry_after_ms), (Reason::RateLimited, None));
}

#[test]
fn a_clock_that_goes_backwards_refills_nothing() {
    assert_eq!(refilled(5, NOW.plus_ms(10_000), 1_000, 10, NOW), 5);
}

#[test]
fn a_rolling_window_tells_when_enough_slices_have_ended() {
    let window = RollingWindow::FiveHours;
    let meter = meter(LimitRule::Window { metric: Metric::Cost, window, limit: 100 });
    let first = window.oldest_slice(NOW);
    let second = first.plus_ms(window.slice_ms());
    let stale = first.plus_ms(-window.slice_ms());
    let slices = vec![(stale, 1_000), (first, 30), (second, 60)];
    let counter = Counter::Rolling { slices, held: 5 };
    assert!(matches!(one(&meter, counter.clone(), call(1, 5)), Decision::Admit(_)));
    let no = refusal(one(&meter, counter.clone(), call(1, 30)));
    assert_eq!((no.used, no.held), (90, 5));
    assert_eq!(no.retry_after_ms, Some(window.expires_at(first).since_ms(NOW)));
    let no = refusal(one(&meter, counter, call(1, 40)));
    assert_eq!(no.retry_after_ms, Some(window.expires_at(second).since_ms(NOW)));
}

#[test]
fn a_balance_counts_what_is_held() {
    let meter = meter(LimitRule::Balance);
    let counter = |held| Counter::Balance { credited: 100, used: 50, held };
    assert!(matches!(one(&meter, counter(10), call(1, 40)), Decision::Admit(_)));
    assert_eq!(refusal(one(&meter, counter(11), call(1, 40))).reason, Reason::BalanceExhausted);
}

#[test]
fn a_lease_counts_running_calls() {
    let meter = meter(LimitRule::Lease { limit: 2 });
    assert!(matches!(one(&meter, Counter::Lease { live: 1 }, call(1, 0)), Decision::Admit(_)));
    let no = refusal(one(&meter, Counter::Lease { live: 2 }, call(1, 0)));
    assert_eq!((no.reason, no.retry_after_s()), (Reason::ConcurrencyExhausted, Some(1)));
}

#[test]
fn of_several_refusals_the_one_is_told_that_waiting_helps_least() {
    let meters = [bucket(Metric::Requests, 1_000, 1), month(10, 0), bucket(Metric::Tokens, 1, 5)];
    let empty = Counter::Bucket { level_micro: 0, at: NOW };
    let told = |estimate| {
        let counters = [empty.clone(), month_counter(10, 0), empty.clone()];
        refusal(decide(&meters, &counters, &estimate, NOW).unwrap()).reason
    };
    assert_eq!(told(call(1, 0)), Reason::TokenRateLimited);
    assert_eq!(told(call(1, 5)), Reason::BudgetExhausted);
    assert_eq!(told(call(6, 5)), Reason::ExceedsCapacity);
}

#[test]
fn a_tenant_hears_of_its_own_limits_before_a_providers_quota() {
    let quota = Meter { scope: Scope::Provider, scope_id: 3, rule: LimitRule::Lease { limit: 1 } };
    let full = Counter::Lease { live: 1 };
    let own = bucket(Metric::Requests, 1_000, 1);
    let told = |level_micro| {
        let counters = [full.clone(), Counter::Bucket { level_micro, at: NOW }];
        let meters = [quota.clone(), own.clone()];
        refusal(decide(&meters, &counters, &call(1, 0), NOW).unwrap())
    };
    assert_eq!(told(0).scope, Scope::Tenant);
    assert_eq!(told(MICRO).scope, Scope::Provider);
}

#[test]
fn a_counter_of_another_kind_is_an_error_and_not_an_admission() {
    let wrong = decide(&[month(1, 0)], &[Counter::Lease { live: 0 }], &call(1, 1), NOW);
    assert_eq!(wrong, Err(AdmissionError::CounterMismatch(0)));
    assert_eq!(
        decide(&[month(1, 0)], &[], &call(1, 1), NOW),
        Err(AdmissionError::CounterMismatch(0))
    );
}

#[test]
fn a_hostile_estimate_is_an_error_and_not_an_admission() {
    let negative = decide(&[month(1, 0)], &[month_counter(0, 0)], &call(1, -1), NOW);
    assert_eq!(negative, Err(AdmissionError::OutOfRange(0)));
    let huge = decide(&[month(1, 0)], &[month_counter(0, 0)], &call(1, i64::MAX), NOW);
    assert_eq!(huge, Err(AdmissionError::OutOfRange(0)));
}

#[test]
fn a_jump_from_79_to_130_percent_crosses_both_thresholds_once() {
    assert_eq!(crossed(&[80, 100], 1_000, 790, 1_300), vec![80, 100]);
    assert_eq!(crossed(&[80, 100], 1_000, 800, 999), Vec::<i64>::new());
    assert_eq!(crossed(&[80, 100], 1_000, 799, 800), vec![80]);
}

proptest! {
    #[test]
    fn waiting_exactly_as_told_is_enough_for_a_bucket(
        level in -1_000_000_i64..1_000_000, rate in 1_i64..5_000, capacity in 1_i64..50, wanted in 1_i64..50,
    ) {
        prop_assume!(wanted <= capacity);
        let meter = bucket(Metric::Tokens, rate, capacity);
        let counter = Counter::Bucket { level_micro: level, at: NOW };
        if let Decision::Refuse(no) = one(&meter, counter.clone(), call(wanted, 0)) {
            let wait = no.retry_after_ms.unwrap();
            let later = decide(&[meter], &[counter], &call(wanted, 0), NOW.plus_ms(wait)).unwrap();
            prop_assert!(matches!(later, Decision::Admit(_)));
        }
    }

    #[test]
    fn no_order_of_calls_passes_the_hard_limit(
        limit in 0_i64..10_000, overage in 0_i64..2_000, calls in proptest::collection::vec(0_i64..3_000, 0..40),
    ) {
        let meter = month(limit, overage);
        let mut held = 0;
        for charge in calls {
            if let Decision::Admit(takes) = one(&meter, month_counter(0, held), call(1, charge)) {
                held += takes[0].amount;
            }
            prop_assert!(held <= hard_limit(limit, overage));
        }
    }
}
