//! A movement undone: the same lines with the other sign, once.

use domain::money::Nanos;
use sqlx::PgConnection;

use super::post::Posting;
use super::{MovementError, rejected};
use crate::give_back;

/// Undoes one movement of the tenant; says by how much the balance moved and what it is.
pub(super) async fn undo(
    connection: &mut PgConnection,
    posting: &Posting<'_>,
    transaction_id: i64,
) -> Result<(Nanos, Nanos), MovementError> {
    let moved = may_be_undone(connection, posting, transaction_id).await?;
    let amount =
        moved.checked_neg().ok_or_else(|| rejected("the reversal does not fit into 64 bits"))?;
    give_back::take_again(connection, posting.tenant_id, transaction_id, posting.transaction_id)
        .await?;
    let balance = sqlx::query_scalar!(
        r#"with lines as (
               insert into balance_ledger
                   (transaction_id, line, tenant_id, account, kind, amount_nanos, reason, actor)
               select $2, line, tenant_id, account, 'reversal', -amount_nanos, $4, $5
               from balance_ledger where transaction_id = $3)
           update balances set balance_nanos = balance_nanos + $6, updated_at = clock_timestamp()
           where tenant_id = $1
           returning balance_nanos"#,
        posting.tenant_id.0,
        posting.transaction_id,
        transaction_id,
        posting.reason,
        posting.actor,
        amount,
    )
    .fetch_one(connection)
    .await?;
    Ok((Nanos(amount), Nanos(balance)))
}

/// What a movement moved the balance by, if it may be undone.
async fn may_be_undone(
    connection: &mut PgConnection,
    posting: &Posting<'_>,
    transaction_id: i64,
) -> Result<i64, MovementError> {
    let line = sqlx::query!(
        r#"select l.kind, l.amount_nanos, e.kind as "ended_as?", e.transaction_id as "ended_by?"
           from balance_ledger l
           left join movements e on e.of_transaction = l.transaction_id and e.kind in ('reversal', 'expiry')
           where l.transaction_id = $1 and l.tenant_id = $2 and l.account = 'balance'"#,
        transaction_id,
        posting.tenant_id.0,
    )
    .fetch_optional(connection)
    .await?
    .ok_or(MovementError::NotFound("movement"))?;
    match (&*line.kind, line.ended_as.as_deref(), line.ended_by) {
        ("usage", ..) => Err(rejected("usage is not reversed: refund its calls")),
        ("reversal", ..) => Err(rejected("a reversal is not reversed: move the money again")),
        (_, Some("expiry"), Some(by)) => Err(MovementError::Conflict(format!(
            "the grant has expired: reverse its expiry, transaction {by}"
        ))),
        (_, Some(_), Some(by)) => Err(MovementError::Conflict(format!(
            "the movement was reversed before, by transaction {by}"
        ))),
        _ => Ok(line.amount_nanos),
    }
}
