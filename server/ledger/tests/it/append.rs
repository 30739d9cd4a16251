//! An event is written once, with everything that goes with it.

use std::time::Duration;

use domain::admission::Scope;
use domain::id::{ProviderId, TeamId};
use domain::money::Nanos;
use domain::usage::{Outcome, UsageSource};
use domain::window::UnixMs;
use ledger::report::{find_event, spend_by_tenant};
use ledger::{Appended, Attempt, LedgerError, WriterConfig};
use tokio::task::JoinSet;

use crate::fixture::{
    MONTH, NOON, agreed, attempt, booking, books, books_with, count, event, note, rows,
};

#[tokio::test]
async fn an_event_reads_back_as_it_was_written() {
    let books = books().await;
    let mut event = event(7, 3_080_000);
    event.team_id = Some(TeamId(4));
    event.anomaly = Some("negative count".to_owned());
    event.usage_source = UsageSource::Estimated;
    event.outcome = Outcome::ClientDisconnected;
    event.http_status = None;
    event.drift = vec![note("usage_clamped")];
    let failed = Attempt {
        status: None,
        error: Some("reset".to_owned()),
        provider_id: ProviderId(9),
        ..attempt(1, NOON)
    };
    event.attempts = vec![failed, attempt(2, NOON.plus_ms(30))];
    assert_eq!(books.ledger.append(event.clone()).await.unwrap(), Appended::Fresh);

    let stored = find_event(books.pool(), event.request_id).await.unwrap().unwrap();
    assert!(stored.ledger_transaction.is_some());
    let drift = ledger::drift::list(books.pool(), Some(event.tenant_id), 10).await.unwrap();
    assert_eq!((drift[0].request_id, &drift[0].note), (Some(event.request_id), &event.drift[0]));
    (event.bookings, event.drift) = (Vec::new(), Vec::new());
    assert_eq!(stored.event, event);
    assert_eq!(find_event(books.pool(), crate::fixture::fresh_id()).await.unwrap(), None);
}

#[tokio::test]
async fn a_second_event_of_the_same_request_moves_nothing_anywhere() {
    let books = books().await;
    let mut event = event(7, 1_000);
    event.drift = vec![note("estimate")];
    books.ledger.append(event.clone()).await.unwrap();
    let before = rows(books.pool()).await;
    event.charge = Nanos(9_999);
    event.bookings[0].amount = 9_999;
    assert_eq!(books.ledger.append(event).await.unwrap(), Appended::Duplicate);
    assert_eq!(rows(books.pool()).await, before);
    assert_eq!(agreed(books.pool()).await[0].events_charge, 1_000);
}

#[tokio::test]
async fn of_the_same_event_appended_many_times_at_once_one_counts() {
    let books = books().await;
    let event = event(7, 1_000);
    let mut appends = JoinSet::new();
    for _ in 0..50 {
        let (ledger, event) = (books.ledger.clone(), event.clone());
        appends.spawn(async move { ledger.append(event).await.unwrap() });
    }
    let answers = appends.join_all().await;
    assert_eq!(answers.iter().filter(|answer| **answer == Appended::Fresh).count(), 1);
    let line = &agreed(books.pool()).await[0];
    assert_eq!((line.events, line.events_charge, line.month_slices), (1, 1_000, Some(1_000)));
}

#[tokio::test]
async fn one_event_that_cannot_be_written_does_not_sink_the_others() {
    // A batch waits for its hundred events, so that the bad ones are among them.
    let linger = Duration::from_millis(200);
    let config = WriterConfig { batch_rows: 100, linger, ..WriterConfig::default() };
    let books = books_with(config).await;
    let first = event(1, 10);
    books.ledger.append(first.clone()).await.unwrap();
    let mut appends = JoinSet::new();
    for number in 0..100_i64 {
        let mut event = event(1 + number % 3, 10);
        match number {
            17 => event.usage.reasoning = -1,
            // A second set of attempts for an id that has one already, under another instant.
            42 => {
                event.request_id = first.request_id;
                event.admitted_at = NOON.plus_ms(1);
            }
            _ => {}
        }
        let ledger = books.ledger.clone();
        appends.spawn(async move { (number, ledger.append(event).await) });
    }
    for (number, answer) in appends.join_all().await {
        match number {
            17 | 42 => assert!(matches!(answer, Err(LedgerError::Rejected(_))), "{answer:?}"),
            _ => assert_eq!(answer.unwrap(), Appended::Fresh),
        }
    }
    let lines = agreed(books.pool()).await;
    assert_eq!(lines.iter().map(|line| line.events).sum::<i64>(), 99);
}

#[tokio::test]
async fn money_that_does_not_fit_is_refused_and_the_books_go_on() {
    let books = books().await;
    books.append_all([event(1, i64::MAX - 5)]).await;
    let second = books.ledger.append(event(1, 10)).await;
    assert!(matches!(second, Err(LedgerError::Rejected(_))), "{second:?}");
    books.append_all([event(1, 2)]).await;
    assert_eq!(agreed(books.pool()).await[0].events_charge, i64::MAX - 3);
}

#[tokio::test]
async fn a_booking_below_zero_is_refused() {
    let books = books().await;
    let mut event = event(1, 10);
    event.bookings[0].amount = -1;
    let answer = books.ledger.append(event).await;
    assert!(matches!(answer, Err(LedgerError::Rejected(_))), "{answer:?}");
    assert_eq!(count(books.pool(), "usage_events").await, 0);
}

#[tokio::test]
async fn a_zero_byte_in_a_name_does_not_cost_the_event() {
    let books = books().await;
    let mut event = event(1, 10);
    event.client_request_id = Some("a\0b".to_owned());
    event.attempts[0].error = Some("\0".to_owned());
    books.ledger.append(event.clone()).await.unwrap();
    let stored = find_event(books.pool(), event.request_id).await.unwrap().unwrap().event;
    assert_eq!(stored.client_request_id.as_deref(), Some("ab"));
    assert_eq!(stored.attempts[0].error.as_deref(), Some(""));
}

#[tokio::test]
async fn a_lone_event_does_not_wait_for_company() {
    let config = WriterConfig { linger: Duration::from_secs(600), ..WriterConfig::default() };
    let books = books_with(config).await;
    for _ in 0..5 {
        let append = books.ledger.append(event(1, 10));
        tokio::time::timeout(Duration::from_secs(20), append).await.unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_calls_in_flight_share_their_commits() {
    let books = books().await;
    let mut calls = JoinSet::new();
    for number in 0..64 {
        let ledger = books.ledger.clone();
        calls.spawn(async move {
            for _ in 0..40 {
                ledger.append(event(1 + number % 8, 10)).await.unwrap();
            }
        });
    }
    calls.join_all().await;
    let commits: i64 = sqlx::query_scalar("select count(distinct xmin::text) from usage_events")
        .fetch_one(books.pool())
        .await
        .unwrap();
    let events = count(books.pool(), "usage_events").await;
    assert_eq!(events, 64 * 40);
    assert!(commits * 100 <= events * 3, "{commits} commits for {events} events");
    agreed(books.pool()).await;
}

#[tokio::test]
async fn an_event_is_written_although_its_caller_went_away() {
    let books = books().await;
    for _ in 0..20 {
        let mut append = Box::pin(books.ledger.append(event(1, 10)));
        // Polled once, it is in the queue.
        let _ = futures_util::poll!(append.as_mut());
    }
    let db = books.stop().await;
    assert_eq!(agreed(&db.pool).await[0].events, 20);
}

#[tokio::test]
async fn bookings_land_in_their_slices_and_a_providers_belong_to_nobody() {
    let books = books().await;
    for tenant in [1, 2] {
        let mut event = event(tenant, 10);
        let mut quota = booking(tenant, 1);
        (quota.scope, quota.scope_id, quota.meter) = (Scope::Provider, 5, "day_requests".into());
        quota.slice_start = UnixMs(NOON.0);
        event.bookings.push(quota);
        books.ledger.append(event).await.unwrap();
    }
    let slices: Vec<(i64, String, i64, i64)> = sqlx::query_as(
        "select tenant_id, scope, slice_start_ms, used from meter_slices order by 1",
    )
    .fetch_all(books.pool())
    .await
    .unwrap();
    let own = |tenant| (tenant, "tenant".to_owned(), MONTH.0, 10);
    assert_eq!(slices, [(0, "provider".to_owned(), NOON.0, 2), own(1), own(2)]);
    let periods = [1, 2, 3].map(|tenant| ledger::report::TenantPeriod {
        tenant_id: domain::id::TenantId(tenant),
        from: MONTH,
        to: NOON,
    });
    let spend = spend_by_tenant(books.pool(), &periods).await.unwrap();
    assert_eq!(spend.iter().map(|s| s.settled.0).collect::<Vec<_>>(), [10, 10, 0]);
}
