//! What the database itself refuses, whoever asks.

use sqlx::{AssertSqlSafe, PgPool};

use crate::fixture::{books, event, fresh_id, note, rows};
use domain::id::{KeyId, TenantId};

/// Tables of facts that an event fills.
const FACTS: [&str; 6] =
    ["usage_events", "attempts", "balance_ledger", "alerts", "refusals", "drift"];

async fn refusal_code(pool: &PgPool, statement: &str) -> String {
    let done = sqlx::raw_sql(AssertSqlSafe(statement.to_owned())).execute(pool).await;
    match done {
        Err(sqlx::Error::Database(e)) => e.code().unwrap().into_owned(),
        other => panic!("{statement}: {other:?}"),
    }
}

#[tokio::test]
async fn facts_cannot_be_changed_deleted_or_truncated() {
    let books = books().await;
    let mut event = event(1, 900);
    event.drift = vec![note("estimate")];
    let rule = ledger::AlertRule { limit: 1_000, thresholds_percent: vec![80] };
    event.bookings[0].alert = Some(rule);
    books.append_all([event]).await;
    books.ledger.refused(ledger::RefusedCall {
        request_id: fresh_id(),
        tenant_id: TenantId(1),
        key_id: KeyId(1),
        at: crate::fixture::NOON,
        route: "/v1/messages".to_owned(),
        model: None,
        status: 402,
        code: "budget_exhausted".to_owned(),
        limit: None,
        client_request_id: None,
    });
    let db = books.stop().await;
    let before = rows(&db.pool).await;
    for table in FACTS {
        let column = if table == "balance_ledger" { "actor" } else { "tenant_id" };
        let column = if table == "attempts" { "model" } else { column };
        let change = format!("update {table} set {column} = {column}");
        let (delete, truncate) = (format!("delete from {table}"), format!("truncate {table}"));
        for statement in [change, delete, truncate] {
            assert_eq!(refusal_code(&db.pool, &statement).await, "23000", "{statement}");
        }
    }
    assert_eq!(rows(&db.pool).await, before);
}

#[tokio::test]
async fn a_partition_of_the_events_refuses_the_same() {
    let books = books().await;
    books.append_all([event(1, 900)]).await;
    for statement in [
        "update usage_events_2026_11 set charge_nanos = 0",
        "delete from usage_events_2026_11",
        "truncate usage_events_2026_11",
        "truncate usage_events_default",
    ] {
        assert_eq!(refusal_code(books.pool(), statement).await, "23000", "{statement}");
    }
}

#[tokio::test]
async fn postings_that_do_not_add_up_to_nothing_are_refused() {
    let books = books().await;
    for statement in [
        "insert into balance_ledger (transaction_id, line, tenant_id, account, kind, amount_nanos, actor)
         values (900, 1, 1, 'balance', 'top_up', 5, 't')",
        "insert into balance_ledger (transaction_id, line, tenant_id, account, kind, amount_nanos, actor)
         values (901, 1, 1, 'balance', 'top_up', 5, 't'), (901, 2, 1, 'credit', 'top_up', -4, 't'),
                (902, 1, 1, 'credit', 'top_up', -1, 't')",
    ] {
        assert_eq!(refusal_code(books.pool(), statement).await, "23000", "{statement}");
    }
    assert_eq!(rows(books.pool()).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_third_line_cannot_be_slipped_into_a_transaction() {
    let books = books().await;
    books.append_all([event(1, 900)]).await;
    let statement = "insert into balance_ledger (transaction_id, line, tenant_id, account, kind, amount_nanos, actor)
                     select transaction_id, 3, 1, 'balance', 'adjustment', 5, 't' from balance_ledger limit 1";
    assert_eq!(refusal_code(books.pool(), statement).await, "23000");
}
