//! Money that people and scripts move: each movement with its line in the audit log.

use domain::money::Nanos;
use ledger::LedgerError;
use ledger::movement::{self, Kind, Moved, MovementError, Order, RefundOf};
use serde_json::{Value, json};
use tenants::{TenantsError, audit, tenant};

use super::{Actor, Desk};
use crate::weir::Weir;

/// Why money did not move.
#[derive(Debug, thiserror::Error)]
pub enum MoneyError {
    /// The books said no.
    #[error(transparent)]
    Movement(#[from] MovementError),
    /// There is no such tenant, or the log could not be written.
    #[error(transparent)]
    Tenants(#[from] TenantsError),
}

impl From<sqlx::Error> for MoneyError {
    fn from(error: sqlx::Error) -> Self {
        Self::Movement(MovementError::Books(LedgerError::from(error)))
    }
}

/// Carries out an order, and tells the engine of admission when money has moved. What was done before under the same
/// reference moves nothing and leaves no second line.
///
/// # Errors
/// As [`movement::record`], and when there is no such tenant.
pub async fn move_money(weir: &Weir, actor: Actor, order: Order) -> Result<Moved, MoneyError> {
    let (tenant_id, told) = (order.tenant_id, weir.clone());
    let deed = async move {
        let moved = carry_out(&told.desk, actor, order).await?;
        if !moved.repeated {
            told.credit_changed(tenant_id).await;
        }
        Ok(moved)
    };
    weir.desk.tasks.spawn(deed).await.map_err(|_| TenantsError::Busy)?
}

async fn carry_out(desk: &Desk, actor: Actor, order: Order) -> Result<Moved, MoneyError> {
    let mut change = desk.pool.begin().await?;
    tenant::find(&mut *change, order.tenant_id).await?;
    let moved = movement::record(&mut change, &order, desk.clock.now()).await?;
    if !moved.repeated {
        let action = format!("money.{}", order.kind.code());
        let target = format!("transaction/{}", moved.transaction_id);
        let detail = detail(&order, &moved);
        let entry = desk.entry(actor, &action, target, Some(order.tenant_id), detail);
        audit::append(&mut *change, &entry).await?;
    }
    change.commit().await?;
    Ok(moved)
}

fn detail(order: &Order, moved: &Moved) -> Value {
    let Nanos(amount) = moved.amount;
    let of = match order.kind {
        Kind::TopUp { .. } => Value::Null,
        Kind::Grant { expires_at, .. } => json!({ "expires_at_ms": expires_at.0 }),
        Kind::Adjustment { usage_at, .. } => json!({ "usage_at_ms": usage_at.map(|at| at.0) }),
        Kind::Refund { of: RefundOf::Call(id), .. } => json!({ "request_id": id }),
        Kind::Refund { of: RefundOf::Transaction(id), .. }
        | Kind::Reversal { transaction_id: id } => json!({ "transaction_id": id }),
    };
    json!({
        "amount_nanos": amount, "balance_nanos": moved.balance.0, "reason": order.reason,
        "reference": order.reference, "of": of,
    })
}
