//! Money that moves without a call, by its orders.

use domain::id::TenantId;
use domain::money::Nanos;
use domain::window::UnixMs;
use ledger::balance::balance;
use ledger::movement::{Kind, Moved, MovementError, Order, expire_grants, record};
use ledger::report::ledger_lines;
use sqlx::PgPool;
use tokio::task::JoinSet;

use crate::fixture::{HOUR, NOON, agreed, books, count, event, rows};

/// The tenant of these tests.
pub(crate) const ACME: TenantId = TenantId(1);

pub(crate) fn order(kind: Kind, reference: Option<&str>) -> Order {
    Order {
        tenant_id: ACME,
        kind,
        actor: "finance@example.com".to_owned(),
        reason: "ticket 12".to_owned(),
        reference: reference.map(ToOwned::to_owned),
    }
}

pub(crate) async fn put(pool: &PgPool, order: &Order) -> Result<Moved, MovementError> {
    let mut change = pool.begin().await.unwrap();
    let moved = record(&mut change, order, NOON).await?;
    change.commit().await.unwrap();
    Ok(moved)
}

pub(crate) async fn moved(pool: &PgPool, kind: Kind) -> Moved {
    put(pool, &order(kind, None)).await.unwrap()
}

fn top_up(amount: i64) -> Kind {
    Kind::TopUp { amount: Nanos(amount) }
}

fn grant(amount: i64, hours: i64) -> Kind {
    Kind::Grant { amount: Nanos(amount), expires_at: NOON.plus_ms(hours * HOUR) }
}

async fn amounts(pool: &PgPool) -> Vec<(String, i64)> {
    let lines = ledger_lines(pool, ACME, None, None, 100).await.unwrap();
    lines.into_iter().rev().map(|line| (line.kind, line.amount.0)).collect()
}

fn expected(lines: &[(&str, i64)]) -> Vec<(String, i64)> {
    lines.iter().map(|(kind, amount)| ((*kind).to_owned(), *amount)).collect()
}

#[tokio::test]
async fn the_same_order_under_one_reference_moves_money_once() {
    let books = books().await;
    let pool = books.pool();
    let paid = order(top_up(500), Some("invoice 7"));
    let first = put(pool, &paid).await.unwrap();
    assert_eq!((first.balance, first.repeated), (Nanos(500), false));
    let before = rows(pool).await;
    let again = put(pool, &paid).await.unwrap();
    assert_eq!((again.transaction_id, again.repeated), (first.transaction_id, true));
    // Who asks and why may differ: a person repeats what a job did.
    let by_another = Order { actor: "job".to_owned(), reason: "again".to_owned(), ..paid.clone() };
    assert!(put(pool, &by_another).await.unwrap().repeated);
    for other in [top_up(501), Kind::Adjustment { amount: Nanos(500), usage_at: None }] {
        let answer = put(pool, &order(other, Some("invoice 7"))).await;
        assert!(matches!(answer, Err(MovementError::Conflict(_))), "{answer:?}");
    }
    assert_eq!(rows(pool).await, before);
    // Another tenant has names of its own.
    let of_another = Order { tenant_id: TenantId(2), ..paid };
    assert!(!put(pool, &of_another).await.unwrap().repeated);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_fifty_equal_orders_at_once_one_moves_money() {
    let books = books().await;
    let mut orders = JoinSet::new();
    for _ in 0..50 {
        let pool = books.db.pool.clone();
        orders.spawn(async move { put(&pool, &order(top_up(70), Some("r"))).await.unwrap() });
    }
    let fresh = orders.join_all().await.into_iter().filter(|moved| !moved.repeated).count();
    assert_eq!(fresh, 1);
    assert_eq!(agreed(books.pool()).await[0].balance, 70);
}

#[tokio::test]
async fn a_movement_is_undone_once_and_usage_never() {
    let books = books().await;
    let pool = books.pool();
    let paid = moved(pool, top_up(500)).await;
    let undo = |transaction_id| Kind::Reversal { transaction_id };
    let undone = moved(pool, undo(paid.transaction_id)).await;
    assert_eq!((undone.amount, undone.balance), (Nanos(-500), Nanos(0)));
    for (kind, why) in [
        (undo(paid.transaction_id), "was reversed before"),
        (undo(undone.transaction_id), "move the money again"),
    ] {
        let refused = put(pool, &order(kind, None)).await.unwrap_err();
        assert!(refused.to_string().contains(why), "{refused}");
    }
    books.append_all([event(1, 30)]).await;
    let usage = ledger_lines(pool, ACME, Some("usage"), None, 1).await.unwrap()[0].transaction_id;
    let refused = put(pool, &order(undo(usage), None)).await.unwrap_err();
    assert!(refused.to_string().contains("refund its calls"), "{refused}");
    // Another tenant's movement is none of this one's.
    let foreign = Order { tenant_id: TenantId(2), ..order(undo(paid.transaction_id), None) };
    let refused = put(pool, &foreign).await.unwrap_err();
    assert!(matches!(refused, MovementError::NotFound(_)), "{refused}");
    let lines = [("top_up", 500), ("reversal", -500), ("usage", -30)];
    assert_eq!(amounts(pool).await, expected(&lines));
    agreed(pool).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_twenty_reversals_at_once_one_undoes() {
    let books = books().await;
    let transaction_id = moved(books.pool(), top_up(500)).await.transaction_id;
    let mut undos = JoinSet::new();
    for _ in 0..20 {
        let pool = books.db.pool.clone();
        undos.spawn(async move {
            put(&pool, &order(Kind::Reversal { transaction_id }, None)).await.is_ok()
        });
    }
    assert_eq!(undos.join_all().await.into_iter().filter(|done| *done).count(), 1);
    assert_eq!(agreed(books.pool()).await[0].balance, 0);
}

#[tokio::test]
async fn what_a_grant_has_left_is_taken_back_when_its_time_is_over() {
    let books = books().await;
    let pool = books.pool();
    // The worked example of the README.
    let a = moved(pool, grant(10, 30)).await;
    books.append_all([event(1, 2)]).await;
    moved(pool, grant(5, 15)).await;
    books.append_all([event(1, 4)]).await;
    let at = |hours: i64| NOON.plus_ms(hours * HOUR);
    assert_eq!(expire_grants(pool, at(14)).await.unwrap().grants, 0);
    let expired = expire_grants(pool, at(15)).await.unwrap();
    assert_eq!((expired.grants, expired.tenants), (1, vec![ACME]));
    books.append_all([event(1, 3)]).await;
    assert_eq!(expire_grants(pool, at(40)).await.unwrap().grants, 1);
    assert_eq!(expire_grants(pool, at(99)).await.unwrap().grants, 0);
    let lines = [
        ("grant", 10),
        ("usage", -2),
        ("grant", 5),
        ("usage", -4),
        ("expiry", -1),
        ("usage", -3),
        ("expiry", -5),
    ];
    assert_eq!(amounts(pool).await, expected(&lines));
    assert_eq!(balance(pool, ACME).await.unwrap(), Nanos(0));
    let undo = order(Kind::Reversal { transaction_id: a.transaction_id }, None);
    let refused = put(pool, &undo).await.unwrap_err();
    assert!(refused.to_string().contains("reverse its expiry"), "{refused}");
    agreed(pool).await;
}

#[tokio::test]
async fn a_grant_that_was_used_up_or_undone_is_ended_without_a_line() {
    let books = books().await;
    let pool = books.pool();
    moved(pool, grant(10, 1)).await;
    books.append_all([event(1, 12)]).await;
    let undone = moved(pool, grant(40, 1)).await.transaction_id;
    moved(pool, Kind::Reversal { transaction_id: undone }).await;
    let expired = expire_grants(pool, NOON.plus_ms(HOUR)).await.unwrap();
    assert_eq!((expired.grants, expired.tenants), (1, vec![]));
    let lines = [("grant", 10), ("usage", -12), ("grant", 40), ("reversal", -40)];
    assert_eq!(amounts(pool).await, expected(&lines));
    assert_eq!(agreed(pool).await[0].balance, -2);
}

#[tokio::test]
async fn a_grant_to_a_tenant_in_debt_expires_as_if_it_had_not_been_given() {
    let books = books().await;
    let pool = books.pool();
    books.append_all([event(1, 100)]).await;
    moved(pool, grant(10, 1)).await;
    books.append_all([event(1, 4)]).await;
    expire_grants(pool, NOON.plus_ms(HOUR)).await.unwrap();
    // 4 of the 10 paid for usage; the 6 that did not are gone.
    assert_eq!(agreed(pool).await[0].balance, -100);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn grants_end_once_while_two_jobs_and_many_calls_run() {
    let books = books().await;
    for _ in 0..20 {
        moved(books.pool(), grant(7, 1)).await;
    }
    let mut all = JoinSet::new();
    for _ in 0..2 {
        let pool = books.db.another_pool();
        all.spawn(async move {
            let expired = expire_grants(&pool, NOON.plus_ms(HOUR)).await.unwrap();
            i64::try_from(expired.grants).unwrap()
        });
    }
    for _ in 0..40 {
        let ledger = books.ledger.clone();
        all.spawn(async move {
            ledger.append(event(1, 2)).await.unwrap();
            0
        });
    }
    assert_eq!(all.join_all().await.into_iter().sum::<i64>(), 20);
    let lines = amounts(books.pool()).await;
    let taken: i64 = lines.iter().filter(|(kind, _)| kind == "expiry").map(|(_, n)| n).sum();
    // What was used before the grants ended came out of them: between nothing and all 80.
    assert!((-140..=-60).contains(&taken), "{taken}");
    let line = &agreed(books.pool()).await[0];
    assert_eq!(line.balance, 140 + taken - 80);
}

#[tokio::test]
async fn an_order_that_makes_no_sense_moves_nothing() {
    let books = books().await;
    let pool = books.pool();
    let sound = order(top_up(5), None);
    let wrong = [
        order(top_up(0), None),
        order(grant(-1, 1), None),
        order(grant(5, 0), None),
        order(grant(5, 24 * 5_000), None),
        order(Kind::Adjustment { amount: Nanos(0), usage_at: None }, None),
        order(Kind::Adjustment { amount: Nanos(-5), usage_at: Some(NOON) }, None),
        order(Kind::Adjustment { amount: Nanos(5), usage_at: Some(NOON) }, None),
        order(Kind::Reversal { transaction_id: 99 }, None),
        Order { reason: " ".to_owned(), ..sound.clone() },
        Order { reason: "x".repeat(501), ..sound.clone() },
        Order { actor: "a\0b".to_owned(), ..sound.clone() },
        Order { reference: Some(String::new()), ..sound.clone() },
        Order { reference: Some("x".repeat(201)), ..sound },
    ];
    for order in wrong {
        let answer = put(pool, &order).await;
        assert!(answer.is_err(), "{order:?}: {answer:?}");
    }
    assert_eq!(count(pool, "balance_ledger").await, 0);
    assert_eq!(rows(pool).await, Vec::<String>::new());
}

#[tokio::test]
async fn the_lines_of_a_ledger_are_read_page_by_page() {
    let books = books().await;
    let pool = books.pool();
    for number in 1..=7 {
        moved(pool, top_up(number)).await;
        books.append_all([event(1, 1), event(2, 1)]).await;
    }
    let (mut seen, mut before) = (Vec::new(), None);
    loop {
        let page = ledger_lines(pool, ACME, None, before, 4).await.unwrap();
        let Some(last) = page.last() else { break };
        before = Some(last.cursor);
        seen.extend(page.iter().map(|line| line.amount.0));
    }
    assert_eq!(seen, [-1, 7, -1, 6, -1, 5, -1, 4, -1, 3, -1, 2, -1, 1]);
    let paid = ledger_lines(pool, ACME, Some("top_up"), None, 100).await.unwrap();
    assert_eq!(paid.len(), 7);
    assert!(paid[0].at > UnixMs(0) && paid[0].ended_by.is_none());
}
