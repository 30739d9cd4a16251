//! Refused calls: recorded within bounds, counted beyond.

use domain::admission::{Reason, Refusal, Scope};
use domain::id::{KeyId, TenantId};
use domain::plan::Metric;
use domain::window::UnixMs;
use ledger::RefusedCall;
use ledger::report::find_refusal;

use crate::fixture::{NOON, books, count, fresh_id};

fn call(tenant: i64, at: UnixMs) -> RefusedCall {
    RefusedCall {
        request_id: fresh_id(),
        tenant_id: TenantId(tenant),
        key_id: KeyId(3),
        at,
        route: "/v1/messages".to_owned(),
        model: Some("flash".to_owned()),
        status: 402,
        code: "budget_exhausted".to_owned(),
        limit: Some(Refusal {
            reason: Reason::BudgetExhausted,
            scope: Scope::Team,
            scope_id: 8,
            meter: "month_cost".to_owned(),
            metric: Metric::Cost,
            limit: 100,
            used: 90,
            held: 5,
            wanted: 6,
            resets_at: None,
            retry_after_ms: None,
        }),
        client_request_id: Some("th\0eirs".to_owned()),
    }
}

#[tokio::test]
async fn a_refused_call_is_found_by_its_request_id_with_its_figures() {
    let books = books().await;
    let refused = call(1, NOON);
    books.ledger.refused(refused.clone());
    books.ledger.refused(refused.clone());
    let bare = RefusedCall { limit: None, model: None, ..call(1, NOON) };
    books.ledger.refused(bare.clone());
    let db = books.stop().await;
    let found = find_refusal(&db.pool, refused.request_id).await.unwrap().unwrap();
    assert_eq!(
        (found.scope, found.limit, found.used, found.held, found.wanted),
        (Some(Scope::Team), Some(100), Some(90), Some(5), Some(6))
    );
    assert_eq!((found.status, &*found.code, found.at), (402, "budget_exhausted", NOON));
    assert_eq!(found.client_request_id.as_deref(), Some("theirs"));
    let found = find_refusal(&db.pool, bare.request_id).await.unwrap().unwrap();
    assert_eq!((found.scope, found.limit, found.model), (None, None, None));
    assert_eq!(find_refusal(&db.pool, fresh_id()).await.unwrap(), None);
    assert_eq!(count(&db.pool, "refusals").await, 2);
}

#[tokio::test]
async fn a_storm_is_recorded_up_to_its_bounds_and_counted_beyond() {
    let books = books().await;
    for _ in 0..250 {
        books.ledger.refused(call(1, NOON));
        books.ledger.refused(call(2, NOON));
    }
    assert_eq!(books.ledger.refusals_dropped(), 300);
    books.ledger.refused(call(1, NOON.plus_ms(1_000)));
    let db = books.stop().await;
    assert_eq!(count(&db.pool, "refusals").await, 201);
}
