//! The books are compared with themselves: first a line of drift, then the repair.

use std::time::Duration;

use domain::id::{RequestId, TenantId};
use domain::money::Nanos;
use domain::window::UnixMs;
use ledger::drift::{BALANCE, LEDGER_USAGE, ROLLUP, SLICE};
use ledger::movement::{Kind, RefundOf};
use ledger::reconcile::{Audit, Extent, HOUSE, Outcome, compare, portion, record, repair, tenant};
use ledger::{Ledger, UsageEvent, WriterConfig};
use sqlx::PgPool;
use tokio::task::JoinSet;

use crate::fixture::{HOUR, MONTH, NOON, agreed, booking, books, event, event_at, rows};
use crate::movement::{ACME, moved};

/// A call that is booked on the month and on a window.
fn call(tenant: i64, charge: i64, at: UnixMs) -> UsageEvent {
    let mut event = event_at(tenant, charge, at);
    let mut window = booking(tenant, charge);
    (window.meter, window.slice_start) = ("5h_cost".to_owned(), UnixMs(at.0 - at.0 % 300_000));
    event.bookings.push(window);
    event
}

async fn run(pool: &PgPool, statement: &'static str) -> u64 {
    sqlx::query(statement).execute(pool).await.unwrap().rows_affected()
}

/// Facts alone: what a repair must never touch.
async fn facts(pool: &PgPool) -> Vec<String> {
    let mut rows = rows(pool).await;
    rows.retain(|row| ["e(", "t(", "l(", "b(", "a("].iter().any(|kind| row.starts_with(kind)));
    rows
}

async fn drift_kinds(pool: &PgPool) -> Vec<(String, i64, i64)> {
    let mut drift = ledger::drift::list(pool, None, 1_000).await.unwrap();
    drift.reverse();
    drift.into_iter().map(|d| (d.note.kind, d.note.expected, d.note.found)).collect()
}

fn seen(kind: &str, expected: i64, found: i64) -> (String, i64, i64) {
    (kind.to_owned(), expected, found)
}

async fn whole(pool: &PgPool) -> Outcome {
    tenant(pool, ACME, Extent::Whole, NOON).await.unwrap()
}

#[tokio::test]
async fn books_that_agree_are_left_as_they_are() {
    let books = books().await;
    let pool = books.pool();
    let refunded = call(1, 40, NOON);
    books.append_all([call(1, 100, NOON), refunded.clone(), call(1, 7, MONTH)]).await;
    let of = RefundOf::Call(refunded.request_id);
    moved(pool, Kind::Refund { of, amount: Nanos(15) }).await;
    let before = rows(pool).await;
    for extent in [Extent::Whole, Extent::Since(NOON), Extent::Since(MONTH)] {
        let outcome = tenant(pool, ACME, extent, NOON).await.unwrap();
        assert_eq!(outcome, Outcome { tenants: 1, ..Outcome::default() }, "{extent:?}");
    }
    assert_eq!(tenant(pool, HOUSE, Extent::Whole, NOON).await.unwrap().found, 0);
    assert_eq!(rows(pool).await, before);
}

#[tokio::test]
async fn damaged_sums_are_written_down_and_then_set_right() {
    let books = books().await;
    let pool = books.pool();
    books.append_all([call(1, 100, NOON), call(1, 40, NOON), call(1, 7, MONTH)]).await;
    let before = rows(pool).await;
    let truth = facts(pool).await;
    // Too high, too low, gone, made up.
    run(pool, "update meter_slices set used = used + 5 where meter = 'month_cost'").await;
    run(pool, "delete from meter_slices where meter = '5h_cost' and used = 140").await;
    run(pool, "insert into meter_slices values (1, 'key', 10, 'month_cost', 1793491200000, 9)")
        .await;
    run(pool, "update usage_rollups set cost_nanos = 1 where charge_nanos = 140").await;
    run(pool, "update usage_rollups set model = 'other' where charge_nanos = 7").await;
    let outcome = whole(pool).await;
    assert_eq!((outcome.found, outcome.repaired, outcome.reported), (6, 6, 0));
    assert_eq!(outcome.mended, [ACME]);
    let expected = [
        seen(ROLLUP, 7, 0),
        seen(ROLLUP, 0, 7),
        seen(ROLLUP, 70, 1),
        seen(SLICE, 0, 9),
        seen(SLICE, 140, 0),
        seen(SLICE, 147, 152),
    ];
    assert_eq!(drift_kinds(pool).await, expected);
    assert_eq!(facts(pool).await, truth);
    let after = rows(pool).await;
    // All is as before, but for a slice of nothing where one was made up.
    let more: Vec<_> = after.iter().filter(|row| !before.contains(row)).collect();
    assert_eq!(more.iter().filter(|row| !row.starts_with("d(")).count(), 1, "{more:?}");
    assert!(before.iter().all(|row| after.contains(row)));
    assert_eq!(whole(pool).await.found, 0);
}

#[tokio::test]
async fn a_run_that_is_killed_between_the_line_and_the_repair_is_gone_on_with() {
    let books = books().await;
    let pool = books.pool();
    books.append_all([call(1, 100, NOON)]).await;
    run(pool, "update meter_slices set used = 1 where meter = 'month_cost'").await;
    // It looks, writes down, and is gone.
    let compared = compare(pool, ACME, Extent::Whole, NOON).await.unwrap();
    record(pool, &compared).await.unwrap();
    assert_eq!(drift_kinds(pool).await, [seen(SLICE, 100, 1)]);
    let damaged: i64 =
        sqlx::query_scalar("select used from meter_slices where meter = 'month_cost'")
            .fetch_one(pool)
            .await
            .unwrap();
    assert_eq!(damaged, 1, "it was repaired before its time");
    // The next one finds it as it is.
    let outcome = whole(pool).await;
    assert_eq!((outcome.found, outcome.repaired), (1, 1));
    assert_eq!(drift_kinds(pool).await, [seen(SLICE, 100, 1), seen(SLICE, 100, 1)]);
    agreed(pool).await;
}

#[tokio::test]
async fn what_has_moved_since_it_was_seen_is_not_repaired() {
    let books = books().await;
    let pool = books.pool();
    books.append_all([call(1, 100, NOON)]).await;
    run(pool, "update meter_slices set used = 1 where meter = 'month_cost'").await;
    run(pool, "update usage_rollups set charge_nanos = 1").await;
    run(pool, "delete from meter_slices where meter = '5h_cost'").await;
    let stale = compare(pool, ACME, Extent::Whole, NOON).await.unwrap();
    books.append_all([call(1, 40, NOON)]).await;
    assert_eq!(stale.differences.len(), 3);
    for difference in &stale.differences {
        assert!(!repair(pool, difference).await.unwrap(), "{difference:?}");
    }
    assert_eq!(whole(pool).await.repaired, 3);
    let line = &agreed(pool).await[0];
    assert_eq!((line.month_slices, line.rollups_charge), (Some(140), 140));
    // Neither is what was repaired meanwhile.
    for difference in &stale.differences {
        assert!(!repair(pool, difference).await.unwrap(), "{difference:?}");
    }
}

#[tokio::test]
async fn the_ledger_and_balances_are_reported_and_never_touched() {
    let books = books().await;
    let pool = books.pool();
    books.append_all([call(1, 100, NOON)]).await;
    run(pool, "update balances set balance_nanos = 5").await;
    // A posting that no event stands behind.
    run(
        pool,
        "insert into balance_ledger (transaction_id, line, tenant_id, account, kind, amount_nanos, actor)
         values (900, 1, 1, 'balance', 'usage', -8, 't'), (900, 2, 1, 'usage', 'usage', 8, 't')",
    )
    .await;
    let before = facts(pool).await;
    let outcome = whole(pool).await;
    assert_eq!((outcome.found, outcome.repaired, outcome.reported), (2, 0, 2));
    let expected = [seen(LEDGER_USAGE, 100, 108), seen(BALANCE, -108, 5)];
    assert_eq!(drift_kinds(pool).await, expected);
    assert_eq!(facts(pool).await, before);
    assert_eq!(whole(pool).await.reported, 2, "it is told until somebody mends it");
}

#[tokio::test]
async fn slices_of_events_that_do_not_tell_are_left_alone_and_counted() {
    let books = books().await;
    let pool = books.pool();
    books.append_all([call(1, 100, NOON), call(1, 40, NOON.plus_ms(HOUR))]).await;
    let silent = "alter table usage_events disable trigger user;
                  update usage_events set bookings = null where charge_nanos = 100;
                  alter table usage_events enable trigger user";
    sqlx::raw_sql(silent).execute(pool).await.unwrap();
    run(pool, "update meter_slices set used = 39 where used = 40").await;
    let outcome = tenant(pool, ACME, Extent::Whole, NOON.plus_ms(2 * HOUR)).await.unwrap();
    // The month and the first window cannot be proved; the second window can.
    assert_eq!((outcome.found, outcome.repaired, outcome.unproven), (1, 1, 2));
    assert_eq!(drift_kinds(pool).await, [seen(SLICE, 40, 39)]);
}

#[tokio::test]
async fn what_all_tenants_share_is_compared_as_the_houses() {
    let books = books().await;
    let pool = books.pool();
    for tenant in [1, 2] {
        let mut event = call(tenant, 10, NOON);
        let mut quota = booking(5, 1);
        (quota.scope, quota.meter) = (domain::admission::Scope::Provider, "day_requests".into());
        quota.slice_start = NOON;
        event.bookings.push(quota);
        books.append_all([event]).await;
    }
    run(pool, "update meter_slices set used = 7 where scope = 'provider'").await;
    assert_eq!(whole(pool).await.found, 0, "it is no tenant's");
    let outcome = tenant(pool, HOUSE, Extent::Whole, NOON).await.unwrap();
    assert_eq!((outcome.found, outcome.repaired), (1, 1));
    assert_eq!(drift_kinds(pool).await, [seen(SLICE, 2, 7)]);
}

#[tokio::test]
async fn forgotten_slices_are_not_brought_back() {
    let books = books().await;
    let pool = books.pool();
    books.append_all([call(1, 10, NOON)]).await;
    let later = NOON.plus_ms(15 * 24 * HOUR);
    ledger::retention::prune_slices(pool, later).await.unwrap();
    assert_eq!(tenant(pool, ACME, Extent::Whole, later).await.unwrap().found, 0);
}

#[tokio::test]
async fn a_round_sees_who_had_traffic_and_the_next_one_what_came_since() {
    let books = books().await;
    let pool = books.pool();
    let long = Duration::from_secs(600);
    books.append_all([call(1, 10, NOON), call(3, 10, NOON), call(7, 10, MONTH)]).await;
    run(pool, "update meter_slices set used = used + 1").await;
    // A portion without time does one tenant and knows where it stopped.
    let (first, over) = portion(pool, Audit::Recent, Duration::ZERO, NOON).await.unwrap();
    assert_eq!((first.tenants, first.repaired, over), (1, 2, false));
    let (rest, over) = portion(pool, Audit::Recent, long, NOON).await.unwrap();
    // The window of the seventh is two weeks old: nothing looks at it any more.
    assert_eq!((rest.tenants, rest.repaired, over), (2, 3, true));
    agreed(pool).await;
    // Events of a minute ago are looked at once more, older ones are not.
    run(pool, "update audits set seen_to = clock_timestamp()").await;
    books.append_all([call(3, 10, NOON)]).await;
    run(pool, "update meter_slices set used = used + 1").await;
    let (next, over) = portion(pool, Audit::Recent, long, NOON).await.unwrap();
    assert_eq!((next.tenants, over, next.mended), (1, true, vec![TenantId(3)]));
}

#[tokio::test]
async fn everything_is_compared_once_a_day_in_portions() {
    let books = books().await;
    let pool = books.pool();
    books.append_all([call(1, 10, MONTH), call(2, 10, NOON), call(9, 10, NOON)]).await;
    run(pool, "update usage_rollups set requests = 4").await;
    let mut tenants = Vec::new();
    loop {
        let (outcome, over) = portion(pool, Audit::Whole, Duration::ZERO, NOON).await.unwrap();
        tenants.push(outcome.tenants);
        if over {
            break;
        }
    }
    // The house goes with the first; the last portion finds nobody left.
    assert_eq!(tenants, [2, 1, 1, 0]);
    agreed(pool).await;
    let again = portion(pool, Audit::Whole, Duration::ZERO, NOON).await.unwrap();
    assert_eq!(again, (Outcome::default(), true), "the day is not over");
    run(pool, "update audits set seen_to = seen_to - interval '24 hours'").await;
    let again = portion(pool, Audit::Whole, Duration::ZERO, NOON).await.unwrap();
    assert!(!again.1 && again.0.tenants == 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_at_once_under_load_repair_what_was_damaged_and_nothing_else() {
    let books = books().await;
    let pool = books.pool();
    books.append_all((0..20).map(|_| call(1, 10, NOON))).await;
    let config = WriterConfig { batch_rows: 6, ..WriterConfig::default() };
    let ledgers: Vec<_> =
        (0..2).map(|_| Ledger::start(books.db.another_pool(), &books.tasks, config)).collect();
    let mut all = JoinSet::new();
    for number in 0..300 {
        let ledger: Ledger = ledgers[number % 2].clone();
        all.spawn(async move {
            ledger.append(call(1, 10, NOON)).await.unwrap();
            0
        });
    }
    // Undamaged books show nothing, however many calls go on.
    for _ in 0..2 {
        let pool = books.db.another_pool();
        all.spawn(async move {
            let mut found = 0;
            for _ in 0..15 {
                found += tenant(&pool, ACME, Extent::Whole, NOON).await.unwrap().found;
            }
            found
        });
    }
    assert_eq!(all.join_all().await.into_iter().sum::<u64>(), 0);
    run(pool, "update meter_slices set used = used + 1000").await;
    let mut all = JoinSet::new();
    for number in 0..200 {
        let ledger: Ledger = ledgers[number % 2].clone();
        all.spawn(async move {
            ledger.append(call(1, 10, NOON)).await.unwrap();
            0
        });
    }
    for _ in 0..2 {
        let pool = books.db.another_pool();
        all.spawn(async move {
            let mut repaired = 0;
            for _ in 0..10 {
                repaired += tenant(&pool, ACME, Extent::Whole, NOON).await.unwrap().repaired;
            }
            repaired
        });
    }
    let repaired = all.join_all().await.into_iter().sum::<u64>() + whole(pool).await.repaired;
    assert_eq!(repaired, 2, "each of the two slices once");
    assert_eq!(agreed(pool).await[0].events, 520);
    let too_high = drift_kinds(pool).await.into_iter();
    assert!(
        too_high
            .into_iter()
            .all(|(kind, expected, found)| { kind == SLICE && found - expected == 1_000 })
    );
}

#[tokio::test]
async fn every_event_of_a_month_is_in_that_months_equation_and_in_no_other() {
    let books = books().await;
    let pool = books.pool();
    let before = MONTH.plus_ms(-31 * 24 * HOUR);
    let mut old = call(1, 30, MONTH.plus_ms(-1));
    old.bookings[0].slice_start = before;
    let charges = [(1_u64, 10), (2, 20)];
    books.append_all([old]).await;
    for (id, charge) in charges {
        let mut event = event(1, charge);
        event.request_id = RequestId::from_parts(MONTH.0.cast_unsigned(), u128::from(id) << 60);
        books.append_all([event]).await;
    }
    let month = |start, end| domain::window::Period { start, end };
    let october = ledger::books::verify_month(pool, ACME, month(before, MONTH)).await.unwrap();
    let end = MONTH.plus_ms(30 * 24 * HOUR);
    let november = ledger::books::verify_month(pool, ACME, month(MONTH, end)).await.unwrap();
    for (line, events, charge) in [(&october, 1, 30), (&november, 2, 30)] {
        assert!(line.agrees(), "{line:?}");
        let sums = (line.events, line.events_charge, line.ledger_usage, line.month_slices);
        assert_eq!(sums, (events, charge, charge, Some(charge)));
    }
    run(pool, "update meter_slices set used = used - 1 where meter = 'month_cost' and used = 30")
        .await;
    let october = ledger::books::verify_month(pool, ACME, month(before, MONTH)).await.unwrap();
    assert_eq!(october.differences(), [("slices", -1)]);
}
