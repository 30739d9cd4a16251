//! What tenants paid in: double entry, and a snapshot of its sum.

use domain::id::TenantId;
use domain::money::Nanos;
use sqlx::PgPool;

use crate::error::LedgerError;

/// Who moved money, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Movement<'a> {
    /// Whose balance.
    pub tenant_id: TenantId,
    /// How much. A top-up is above zero; an adjustment may have either sign, and is not zero.
    pub amount: Nanos,
    /// Who did it: a user's address, or a job's name.
    pub actor: &'a str,
    /// Why, for the record.
    pub reason: &'a str,
}

/// Money that was moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moved {
    /// The transaction of the ledger.
    pub transaction_id: i64,
    /// The balance after it.
    pub balance: Nanos,
}

/// Books money that a tenant paid in.
///
/// # Errors
/// [`LedgerError::Rejected`] when the amount is not above zero or the balance would not fit.
pub async fn top_up(pool: &PgPool, movement: Movement<'_>) -> Result<Moved, LedgerError> {
    if movement.amount <= Nanos::ZERO {
        return Err(LedgerError::Rejected("a top-up is above zero".to_owned()));
    }
    post(pool, movement, "credit", "top_up").await
}

/// Books a correction in the tenant's favour (above zero) or against it (below).
///
/// # Errors
/// [`LedgerError::Rejected`] when the amount is zero or the balance would not fit.
pub async fn adjustment(pool: &PgPool, movement: Movement<'_>) -> Result<Moved, LedgerError> {
    if movement.amount == Nanos::ZERO {
        return Err(LedgerError::Rejected("an adjustment of nothing".to_owned()));
    }
    post(pool, movement, "adjustment", "adjustment").await
}

/// Posts to the tenant's balance against another of its accounts, and moves the snapshot.
///
/// One statement is one transaction: a caller that goes away cannot leave half of it.
async fn post(
    pool: &PgPool,
    movement: Movement<'_>,
    against: &str,
    kind: &str,
) -> Result<Moved, LedgerError> {
    if movement.actor.is_empty() || movement.reason.is_empty() {
        return Err(LedgerError::Rejected("money moves with an actor and a reason".to_owned()));
    }
    let row = sqlx::query!(
        r#"with posting as materialized (select nextval('ledger_transaction_seq') as id),
           lines as (
               insert into balance_ledger
                   (transaction_id, line, tenant_id, account, kind, amount_nanos, reason, actor)
               select posting.id, l.line, $1, l.account, $4, l.amount, $5, $6
               from posting
               cross join (values (1, 'balance', $2::bigint), (2, $3, -$2::bigint)) as l (line, account, amount))
           insert into balances as b (tenant_id, balance_nanos) values ($1, $2)
           on conflict on constraint balances_pkey do update set
               balance_nanos = b.balance_nanos + excluded.balance_nanos, updated_at = clock_timestamp()
           returning balance_nanos, (select id from posting) as "transaction_id!""#,
        movement.tenant_id.0,
        movement.amount.0,
        against,
        kind,
        movement.reason,
        movement.actor,
    )
    .fetch_one(pool)
    .await?;
    Ok(Moved { transaction_id: row.transaction_id, balance: Nanos(row.balance_nanos) })
}

/// What a tenant paid in and did not use; below zero when it used more.
///
/// # Errors
/// When the database cannot be reached.
pub async fn balance(pool: &PgPool, tenant_id: TenantId) -> Result<Nanos, LedgerError> {
    let amount =
        sqlx::query_scalar!("select balance_nanos from balances where tenant_id = $1", tenant_id.0)
            .fetch_optional(pool)
            .await?;
    Ok(amount.map_or(Nanos::ZERO, Nanos))
}
