//! What was charged wrongly is given back: to the balance, to the budgets, and alerts are withdrawn.

use domain::admission::Scope;
use domain::id::TenantId;
use domain::money::Nanos;
use domain::window::UnixMs;
use ledger::movement::{Kind, MovementError, Order, RefundOf};
use ledger::report::find_event;
use ledger::{AlertRule, UsageEvent, WriterConfig};
use sqlx::PgPool;
use tokio::task::JoinSet;

use crate::fixture::{HOUR, MONTH, NOON, agreed, booking, books, books_with, event, event_at};
use crate::movement::{ACME, moved, order, put};

/// A call with the month's budget of 1,000 watched, booked on a window, a key's month and a provider's quota besides.
fn watched(charge: i64) -> UsageEvent {
    let mut event = event(1, charge);
    let rule = AlertRule { limit: 1_000, thresholds_percent: vec![80, 100] };
    event.bookings[0].alert = Some(rule);
    let mut window = booking(1, charge);
    (window.meter, window.slice_start) = ("5h_cost".to_owned(), NOON);
    let mut of_key = booking(1, charge);
    (of_key.scope, of_key.scope_id) = (Scope::Key, 10);
    let mut requests = booking(1, 1);
    requests.meter = "month_requests".to_owned();
    let mut quota = booking(1, charge);
    (quota.scope, quota.scope_id, quota.meter) = (Scope::Provider, 1, "day_cost".to_owned());
    event.bookings.extend([window, of_key, requests, quota]);
    event
}

/// What each slice holds.
async fn slices(pool: &PgPool) -> Vec<(String, String, i64)> {
    sqlx::query_as("select scope, meter, used from meter_slices order by 1, 2")
        .fetch_all(pool)
        .await
        .unwrap()
}

fn held(of_money: i64, requests: i64, quota: i64) -> Vec<(String, String, i64)> {
    let row = |scope: &str, meter: &str, used| (scope.to_owned(), meter.to_owned(), used);
    vec![
        row("key", "month_cost", of_money),
        row("provider", "day_cost", quota),
        row("tenant", "5h_cost", of_money),
        row("tenant", "month_cost", of_money),
        row("tenant", "month_requests", requests),
    ]
}

fn back(event: &UsageEvent, amount: i64) -> Kind {
    Kind::Refund { of: RefundOf::Call(event.request_id), amount: Nanos(amount) }
}

/// Thresholds in the order in which they fired, and whether they still stand.
async fn alerts(pool: &PgPool) -> Vec<(i64, bool)> {
    let mut alerts = ledger::alert::list(pool, Some(ACME), 100).await.unwrap();
    alerts.reverse();
    alerts.into_iter().map(|alert| (alert.threshold_percent, !alert.withdrawn)).collect()
}

#[tokio::test]
async fn a_wrong_price_is_mended_and_balance_budget_and_alerts_are_right() {
    let books = books().await;
    let pool = books.pool();
    // A thousandfold price uses the month up at the first call.
    let wrong = watched(900);
    books.append_all([watched(50), wrong.clone()]).await;
    assert_eq!((slices(pool).await, alerts(pool).await), (held(950, 2, 950), vec![(80, true)]));
    let mended = moved(pool, back(&wrong, 899)).await;
    assert_eq!(mended.balance, Nanos(-51));
    // The call was made and the provider was used: only money comes back.
    assert_eq!((slices(pool).await, alerts(pool).await), (held(51, 2, 950), vec![(80, false)]));
    // The event is what it was.
    assert_eq!(find_event(pool, wrong.request_id).await.unwrap().unwrap().event.charge, Nanos(900));
    // What is then really used fires again, once.
    books.append_all([watched(700), watched(60), watched(20), watched(200)]).await;
    let fired = [(80, false), (80, true), (100, true)];
    assert_eq!((slices(pool).await, alerts(pool).await), (held(1_031, 6, 1_930), fired.to_vec()));
    let line = &agreed(pool).await[0];
    assert_eq!((line.month_slices, line.balance), (Some(1_031), -1_031));
}

#[tokio::test]
async fn a_refund_that_is_undone_takes_the_budget_again_and_its_alerts_stand_again() {
    let books = books().await;
    let pool = books.pool();
    let call = watched(1_100);
    books.append_all([call.clone()]).await;
    assert_eq!(alerts(pool).await, [(80, true), (100, true)]);
    let refund = moved(pool, back(&call, 250)).await;
    assert_eq!(alerts(pool).await, [(80, true), (100, false)]);
    moved(pool, Kind::Reversal { transaction_id: refund.transaction_id }).await;
    assert_eq!(slices(pool).await, held(1_100, 1, 1_100));
    assert_eq!(alerts(pool).await, [(80, true), (100, false), (100, true)]);
    // All of it can be given back now.
    moved(pool, back(&call, 1_100)).await;
    assert_eq!(slices(pool).await, held(0, 1, 1_100));
    assert_eq!(agreed(pool).await[0].balance, 0);
}

#[tokio::test]
async fn no_call_gets_back_more_than_it_was_charged() {
    let books = books().await;
    let pool = books.pool();
    let (call, other) = (event(1, 100), event(1, 40));
    books.append_all([call.clone(), other]).await;
    moved(pool, back(&call, 60)).await;
    let refused = put(pool, &order(back(&call, 41), None)).await.unwrap_err();
    assert!(refused.to_string().contains("at most 40 nano-USD"), "{refused}");
    let foreign = Order { tenant_id: TenantId(2), ..order(back(&call, 1), None) };
    let refused = put(pool, &foreign).await.unwrap_err();
    assert!(matches!(refused, MovementError::NotFound("call")), "{refused}");
    let unknown = event(1, 100);
    assert!(put(pool, &order(back(&unknown, 1), None)).await.is_err());
    moved(pool, back(&call, 40)).await;
    assert_eq!(agreed(pool).await[0].balance, -40);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn refunds_at_once_and_calls_beside_them_never_give_too_much_or_wait_in_a_circle() {
    let books = books().await;
    let call = watched(100);
    books.append_all([call.clone()]).await;
    let mut all = JoinSet::new();
    for _ in 0..30 {
        let (pool, ledger, call) = (books.db.pool.clone(), books.ledger.clone(), call.clone());
        all.spawn(async move {
            ledger.append(watched(3)).await.unwrap();
            put(&pool, &order(back(&call, 9), None)).await.is_ok()
        });
    }
    let given = all.join_all().await.into_iter().filter(|given| *given).count();
    assert_eq!(given, 11, "99 of 100");
    let line = &agreed(books.pool()).await[0];
    assert_eq!((line.balance, line.month_slices), (-100 - 90 + 99, Some(91)));
}

#[tokio::test]
async fn a_refund_of_a_transaction_goes_to_its_newest_calls_first() {
    // Both calls are one batch.
    let linger = std::time::Duration::from_secs(60);
    let books = books_with(WriterConfig { batch_rows: 2, linger, ..WriterConfig::default() }).await;
    let pool = books.pool();
    // The first goes alone and lets the next two wait for each other.
    books.append_all([event(2, 1)]).await;
    let before = event_at(1, 70, MONTH.plus_ms(-HOUR));
    let mut before = before;
    before.bookings[0].slice_start = UnixMs(MONTH.0 - 31 * 24 * HOUR);
    let after = event_at(1, 50, MONTH);
    let (one, two) =
        tokio::join!(books.ledger.append(before.clone()), books.ledger.append(after.clone()));
    one.unwrap();
    two.unwrap();
    let stored = find_event(pool, after.request_id).await.unwrap().unwrap();
    let usage = stored.ledger_transaction.unwrap();
    let other = find_event(pool, before.request_id).await.unwrap().unwrap();
    assert_eq!(other.ledger_transaction, Some(usage), "they are not one batch");
    moved(pool, back(&after, 20)).await;
    let of = RefundOf::Transaction(usage);
    moved(pool, Kind::Refund { of, amount: Nanos(45) }).await;
    let months: Vec<i64> = sqlx::query_scalar(
        "select used from meter_slices where tenant_id = 1 order by slice_start_ms",
    )
    .fetch_all(pool)
    .await
    .unwrap();
    assert_eq!(months, [70 - 15, 0]);
    let too_much = order(Kind::Refund { of, amount: Nanos(56) }, None);
    let refused = put(pool, &too_much).await.unwrap_err();
    assert!(refused.to_string().contains("at most 55 nano-USD"), "{refused}");
    moved(pool, Kind::Refund { of, amount: Nanos(55) }).await;
    agreed(pool).await;
}

#[tokio::test]
async fn a_correction_of_usage_gives_the_months_budget_back_and_not_below_zero() {
    let books = books().await;
    let pool = books.pool();
    books.append_all([watched(900)]).await;
    let correction = |amount| Kind::Adjustment { amount: Nanos(amount), usage_at: Some(NOON) };
    let first = moved(pool, correction(500)).await;
    assert_eq!(agreed(pool).await[0].month_slices, Some(400));
    assert_eq!(alerts(pool).await, [(80, false)]);
    moved(pool, correction(600)).await;
    assert_eq!(agreed(pool).await[0].month_slices, Some(0));
    // Only what the slice really got back is taken again.
    moved(pool, Kind::Reversal { transaction_id: first.transaction_id }).await;
    let line = &agreed(pool).await[0];
    assert_eq!((line.month_slices, line.balance), (Some(500), -900 + 600));
    // One without a month leaves budgets alone.
    moved(pool, Kind::Adjustment { amount: Nanos(300), usage_at: None }).await;
    assert_eq!(agreed(pool).await[0].month_slices, Some(500));
}

#[tokio::test]
async fn a_call_that_does_not_tell_its_bookings_gives_back_to_its_month() {
    let books = books().await;
    let pool = books.pool();
    let call = event(1, 100);
    books.append_all([call.clone()]).await;
    // As an older program wrote it.
    let silent =
        "alter table usage_events disable trigger user; update usage_events set bookings = null;
                  alter table usage_events enable trigger user";
    sqlx::raw_sql(silent).execute(pool).await.unwrap();
    moved(pool, back(&call, 30)).await;
    assert_eq!(agreed(pool).await[0].month_slices, Some(70));
}
