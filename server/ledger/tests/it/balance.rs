//! Money that moves without a call.

use domain::id::TenantId;
use domain::money::Nanos;
use ledger::LedgerError;
use ledger::balance::{Movement, adjustment, balance, top_up};
use tokio::task::JoinSet;

use crate::fixture::{agreed, books, count, event};

fn movement(amount: i64) -> Movement<'static> {
    let (tenant_id, amount) = (TenantId(1), Nanos(amount));
    Movement { tenant_id, amount, actor: "finance@example.com", reason: "invoice 12" }
}

#[tokio::test]
async fn paying_in_using_and_correcting_add_up_to_the_balance() {
    let books = books().await;
    assert_eq!(balance(books.pool(), TenantId(1)).await.unwrap(), Nanos::ZERO);
    let paid = top_up(books.pool(), movement(1_000)).await.unwrap();
    assert_eq!(paid.balance, Nanos(1_000));
    books.append_all([event(1, 300), event(1, 50)]).await;
    let mended = adjustment(books.pool(), movement(-25)).await.unwrap();
    assert_eq!(mended.balance, Nanos(625));
    assert!(mended.transaction_id > paid.transaction_id);
    assert_eq!(balance(books.pool(), TenantId(1)).await.unwrap(), Nanos(625));
    let line = &agreed(books.pool()).await[0];
    assert_eq!((line.balance, line.ledger_usage), (625, 350));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_payments_at_once_lose_none() {
    let books = books().await;
    let mut payments = JoinSet::new();
    for number in 0..60 {
        let (pool, ledger) = (books.db.pool.clone(), books.ledger.clone());
        payments.spawn(async move {
            if number % 2 == 0 {
                top_up(&pool, movement(7)).await.unwrap();
            } else {
                ledger.append(event(1, 3)).await.unwrap();
            }
        });
    }
    payments.join_all().await;
    assert_eq!(agreed(books.pool()).await[0].balance, 30 * 7 - 30 * 3);
}

#[tokio::test]
async fn a_movement_that_makes_no_sense_is_refused_and_leaves_no_line() {
    let books = books().await;
    let nobody = Movement { actor: "", ..movement(5) };
    let no_reason = Movement { reason: "", ..movement(5) };
    let refused = [
        top_up(books.pool(), movement(0)).await,
        top_up(books.pool(), movement(-5)).await,
        adjustment(books.pool(), movement(0)).await,
        top_up(books.pool(), nobody).await,
        top_up(books.pool(), no_reason).await,
    ];
    for answer in refused {
        assert!(matches!(answer, Err(LedgerError::Rejected(_))), "{answer:?}");
    }
    top_up(books.pool(), movement(i64::MAX)).await.unwrap();
    let too_much = top_up(books.pool(), movement(1)).await;
    assert!(matches!(too_much, Err(LedgerError::Rejected(_))), "{too_much:?}");
    assert_eq!(count(books.pool(), "balance_ledger").await, 2);
}
