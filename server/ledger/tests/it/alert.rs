//! A threshold fires once.

use domain::id::TenantId;
use ledger::{AlertRule, UsageEvent};
use tokio::task::JoinSet;

use crate::fixture::{books, books_with, event};
use ledger::{Ledger, WriterConfig};

fn watched(tenant: i64, charge: i64) -> UsageEvent {
    let mut event = event(tenant, charge);
    let rule = AlertRule { limit: 1_000, thresholds_percent: vec![80, 100] };
    event.bookings[0].alert = Some(rule);
    event
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_jump_from_79_to_130_percent_fires_both_thresholds_once_whoever_makes_it() {
    let books = books().await;
    // Four processes, each with batches of a few events.
    let config = WriterConfig { batch_rows: 3, ..WriterConfig::default() };
    let ledgers: Vec<_> =
        (0..4).map(|_| Ledger::start(books.db.another_pool(), &books.tasks, config)).collect();
    for tenant in 1..=5 {
        books.append_all([watched(tenant, 790)]).await;
    }
    let mut appends = JoinSet::new();
    for number in 0..255 {
        let ledger = ledgers[number % 4].clone();
        let event = watched(1 + i64::try_from(number % 5).unwrap(), 10);
        appends.spawn(async move { ledger.append(event).await.unwrap() });
    }
    appends.join_all().await;
    let alerts = ledger::alert::list(books.pool(), None, 100).await.unwrap();
    for tenant in 1..=5 {
        let mut fired: Vec<_> = alerts.iter().filter(|a| a.tenant_id == TenantId(tenant)).collect();
        fired.sort_by_key(|alert| alert.threshold_percent);
        let marks: Vec<_> = fired.iter().map(|a| (a.threshold_percent, a.limit)).collect();
        assert_eq!(marks, [(80, 1_000), (100, 1_000)]);
        for alert in fired {
            // At its threshold or a batch beyond, never before.
            let over = alert.used * 100 - alert.limit * alert.threshold_percent;
            assert!((0..3 * 10 * 100).contains(&over), "{alert:?}");
        }
    }
    assert_eq!(alerts.len(), 10);
}

#[tokio::test]
async fn one_call_that_jumps_over_both_thresholds_fires_both_and_is_named() {
    let books = books_with(WriterConfig::default()).await;
    books.append_all([watched(1, 790)]).await;
    let jump = watched(1, 510);
    books.append_all([jump.clone(), watched(1, 500)]).await;
    let alerts = ledger::alert::list(books.pool(), Some(TenantId(1)), 100).await.unwrap();
    let named: Vec<_> =
        alerts.iter().map(|a| (a.threshold_percent, a.used, a.request_id)).collect();
    assert_eq!(named.len(), 2);
    for (_, used, request_id) in named {
        assert_eq!((used, request_id), (1_300, jump.request_id));
    }
}

#[tokio::test]
async fn the_newest_alerts_come_first_and_only_the_tenants_own() {
    let books = books().await;
    books.append_all([watched(1, 850), watched(2, 850), watched(1, 200)]).await;
    let alerts = ledger::alert::list(books.pool(), Some(TenantId(1)), 1).await.unwrap();
    assert_eq!((alerts.len(), alerts[0].threshold_percent), (1, 100));
}
