//! The life of a hold: taken once, ended once.

use domain::admission::Reason;
use domain::money::Nanos;
use domain::plan::{LimitRule, Metric};
use domain::window::{RollingWindow, UnixMs, Zone};
use limiter::{Admission, Verdict};

use crate::fixture::{House, NOON, again, again_at, ask, bucket, event, month};

const LIMITS: fn() -> Vec<LimitRule> = || {
    vec![
        bucket(Metric::Requests, 1_000, 10),
        bucket(Metric::Tokens, 1_000, 1_000),
        LimitRule::Window { metric: Metric::Cost, window: RollingWindow::Week, limit: 5_000 },
        month(10_000, 0),
        LimitRule::Lease { limit: 5 },
    ]
};

in_all_engines!(asking_again_gives_the_same_hold_and_takes_nothing_more);
async fn asking_again_gives_the_same_hold_and_takes_nothing_more(house: House) {
    let call = ask(1, &LIMITS(), 100, 50);
    let first = house.admitted(&call).await;
    let before = house.counters().await;
    let later = limiter::Ask { now: Some(NOON.plus_ms(3_000)), ..call.clone() };
    assert_eq!(house.admitted(&later).await, first);
    assert_eq!(house.counters().await, before);
}

in_all_engines!(settling_books_the_use_gives_back_the_rest_and_twice_changes_nothing);
async fn settling_books_the_use_gives_back_the_rest_and_twice_changes_nothing(house: House) {
    let call = ask(1, &LIMITS(), 100, 50);
    let hold = house.admitted(&call).await;
    house.finish(&hold, 30, 20, NOON).await;
    let readings = house.readings(&call, NOON).await;
    let figures: Vec<_> = readings.iter().map(|r| (r.level, r.used, r.held)).collect();
    assert_eq!(
        figures,
        [(Some(9), 0, 0), (Some(970), 0, 0), (None, 20, 0), (None, 20, 0), (None, 0, 0)]
    );
    let before = house.counters().await;
    house.finish(&hold, 30, 20, NOON).await;
    house.release(&hold, NOON).await;
    assert_eq!(house.counters().await, before);
}

in_all_engines!(a_call_is_not_refused_for_money_that_a_written_call_still_holds);
async fn a_call_is_not_refused_for_money_that_a_written_call_still_holds(house: House) {
    let call = ask(1, &[month(100, 0), LimitRule::Lease { limit: 1 }], 10, 60);
    let hold = house.admitted(&call).await;
    // The event is in the books, and nobody has settled the hold yet: 60 are used, and 60 seem to be held.
    house.ledger.append(event(&hold, 10, 60)).await.unwrap();
    let mut next = again(&call);
    next.estimate.charge = Nanos(40);
    house.admitted(&next).await;
    let reading = house.reading(&call, NOON).await;
    assert_eq!((reading.used, reading.held), (60, 40));
    // Settled late, it changes nothing any more.
    house.release(&hold, NOON).await;
    assert_eq!(house.reading(&call, NOON).await, reading);
}

in_all_engines!(releasing_gives_everything_back_but_the_place_in_the_rate_of_requests);
async fn releasing_gives_everything_back_but_the_place_in_the_rate_of_requests(house: House) {
    let call = ask(1, &LIMITS(), 100, 50);
    let hold = house.admitted(&call).await;
    house.release(&hold, NOON).await;
    let readings = house.readings(&call, NOON).await;
    let figures: Vec<_> = readings.iter().map(|r| (r.level, r.used, r.held)).collect();
    assert_eq!(
        figures,
        [(Some(9), 0, 0), (Some(1_000), 0, 0), (None, 0, 0), (None, 0, 0), (None, 0, 0)]
    );
}

in_all_engines!(tokens_beyond_the_estimate_are_owed_and_the_next_call_waits_for_them);
async fn tokens_beyond_the_estimate_are_owed_and_the_next_call_waits_for_them(house: House) {
    let call = ask(1, &[bucket(Metric::Tokens, 1_000_000, 60_000)], 1_000, 0);
    let hold = house.admitted(&call).await;
    // Settled after a pause in which the bucket filled up again: the debt counts in full all the same.
    let later = NOON.plus_ms(3_600_000);
    house.finish(&hold, 91_000, 0, later).await;
    let reading = house.reading(&call, later).await;
    assert_eq!((reading.level, reading.left()), (Some(-30_000), 0));
    let refusal = house.refused(&again_at(&call, later)).await;
    assert_eq!((refusal.reason, refusal.retry_after_ms), (Reason::TokenRateLimited, Some(31_000)));
    house.admitted(&again_at(&call, later.plus_ms(31_000))).await;
}

in_all_engines!(a_bucket_does_not_overflow_when_tokens_come_back);
async fn a_bucket_does_not_overflow_when_tokens_come_back(house: House) {
    let call = ask(1, &[bucket(Metric::Tokens, 1_000_000, 1_000)], 600, 0);
    let hold = house.admitted(&call).await;
    let later = NOON.plus_ms(60_000);
    house.finish(&hold, 0, 0, later).await;
    assert_eq!(house.reading(&call, later).await.level, Some(1_000));
}

in_all_engines!(a_call_over_the_end_of_the_month_counts_in_the_month_of_its_admission);
async fn a_call_over_the_end_of_the_month_counts_in_the_month_of_its_admission(house: House) {
    // The last millisecond of November 2026 in Kathmandu, 5:45 ahead of UTC.
    let midnight = UnixMs(1_796_062_500_000);
    let zone = Zone::named("Asia/Kathmandu").unwrap();
    let call = limiter::Ask {
        zone: zone.clone(),
        now: Some(midnight.plus_ms(-1)),
        ..ask(1, &[month(100, 0)], 1, 80)
    };
    let hold = house.admitted(&call).await;
    assert_eq!(hold.admitted_at, midnight.plus_ms(-1));
    let december = limiter::Ask { now: Some(midnight), ..again(&call) };
    let other = house.admitted(&december).await;
    house.finish(&hold, 1, 70, midnight.plus_ms(5_000)).await;
    house.release(&other, midnight.plus_ms(5_000)).await;

    let november = house.reading(&call, midnight.plus_ms(-1)).await;
    assert_eq!((november.used, november.held, november.resets_at), (70, 0, Some(midnight)));
    let reading = house.reading(&call, midnight.plus_ms(5_000)).await;
    assert_eq!((reading.used, reading.held, reading.left()), (0, 0, 100));
}

in_all_engines!(only_windows_are_booked_and_only_months_alert);
async fn only_windows_are_booked_and_only_months_alert(house: House) {
    let hold = house.admitted(&ask(1, &LIMITS(), 100, 50)).await;
    let bookings = hold.bookings(30, Nanos(20));
    let booked: Vec<_> =
        bookings.iter().map(|b| (&*b.meter, b.amount, b.alert.is_some())).collect();
    assert_eq!(booked, [("week_cost", 20, false), ("month_cost", 20, true)]);
    let hour = NOON.0 - NOON.0.rem_euclid(3_600_000);
    assert_eq!(bookings[0].slice_start, UnixMs(hour));
    assert_eq!(bookings[1].alert.as_ref().unwrap().limit, 10_000);
}

in_all_engines!(the_month_alert_fires_when_the_events_of_holds_cross_it);
async fn the_month_alert_fires_when_the_events_of_holds_cross_it(house: House) {
    let call = ask(1, &[month(1_000, 5_000)], 1, 790);
    let first = house.admitted(&call).await;
    house.finish(&first, 1, 790, NOON).await;
    let second = limiter::Ask {
        estimate: domain::admission::Estimate { tokens: 1, charge: Nanos(510) },
        ..again(&call)
    };
    let second = house.admitted(&second).await;
    house.finish(&second, 1, 510, NOON).await;
    let mut fired: Vec<_> = ledger::alert::list(&house.db.pool, None, 10).await.unwrap();
    fired.sort_by_key(|alert| alert.threshold_percent);
    let marks: Vec<_> = fired.iter().map(|a| (a.threshold_percent, a.limit, a.used)).collect();
    assert_eq!(marks, [(80, 1_000, 1_300), (100, 1_000, 1_300)]);
}

in_all_engines!(a_renewed_hold_lives_on_and_one_that_is_gone_does_not_come_back);
async fn a_renewed_hold_lives_on_and_one_that_is_gone_does_not_come_back(house: House) {
    let hold = house.admitted(&ask(1, &LIMITS(), 1, 1)).await;
    let later = NOON.plus_ms(600_000);
    let until = house.engine.renew(&hold, Some(later)).await.unwrap();
    assert_eq!(until, Some(later.plus_ms(limiter::HOLD_TTL_MS)));
    house.release(&hold, later).await;
    assert_eq!(house.engine.renew(&hold, Some(later)).await.unwrap(), None);
}

in_all_engines!(a_caller_that_goes_away_at_any_moment_leaves_no_hold);
async fn a_caller_that_goes_away_at_any_moment_leaves_no_hold(house: House) {
    let call = ask(1, &[month(1_000_000, 0), LimitRule::Lease { limit: 1_000 }], 1, 10);
    let mut left = 0;
    for wait_us in 0..200_u64 {
        let (engine, ask) = (house.engine.clone(), again(&call));
        let patience = std::time::Duration::from_micros(wait_us * 25);
        match tokio::time::timeout(patience, engine.admit(&ask)).await {
            Ok(verdict) => house.release(&crate::fixture::admitted(verdict.unwrap()), NOON).await,
            Err(_) => left += 1,
        }
    }
    assert!(left > 0, "every caller waited: the test has shown nothing");
    house.tasks.close();
    drop(house.ledger);
    house.tasks.wait().await;
    let readings =
        house.engine.readings(call.tenant_id, &call.zone, &call.meters, Some(NOON)).await.unwrap();
    let held: Vec<_> = readings.iter().map(|reading| reading.held).collect();
    assert_eq!(held, [0, 0], "{left} callers had gone away");
    assert_eq!(house.engine.held_by_tenant().await.unwrap(), []);
}

in_all_engines!(settles_and_asks_at_the_same_time_lose_nothing);
async fn settles_and_asks_at_the_same_time_lose_nothing(house: House) {
    let rules = [
        month(1_000_000, 0),
        LimitRule::Lease { limit: 1_000 },
        bucket(Metric::Tokens, 0, 100_000),
    ];
    let call = ask(1, &rules, 10, 10);
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..120 {
        let (engine, ask) = (house.another_engine_every(number), again(&call));
        calls.spawn(async move {
            let Verdict::Admit(hold) = engine.admit(&ask).await.unwrap() else { return 0 };
            let actual = limiter::Actual { tokens: 7, charge: Nanos(5) };
            engine.settle(&hold, &actual, Some(NOON)).await.unwrap();
            engine.settle(&hold, &actual, Some(NOON)).await.unwrap();
            1
        });
    }
    let passed: i64 = calls.join_all().await.into_iter().sum();
    let readings = house.readings(&call, NOON).await;
    let figures: Vec<_> = readings.iter().map(|r| (r.level, r.held)).collect();
    assert_eq!(passed, 120);
    assert_eq!(figures, [(None, 0), (None, 0), (Some(100_000 - 7 * 120), 0)]);
}
