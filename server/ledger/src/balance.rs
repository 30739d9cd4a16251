//! What a tenant paid in and did not use; and the two movements that need no more words than who, how much and why.

use domain::id::TenantId;
use domain::money::Nanos;
use domain::window::UnixMs;
use sqlx::PgPool;

use crate::error::LedgerError;
use crate::movement::{self, Kind, Moved, MovementError, Order};

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

/// Books money that a tenant paid in. Run it on a task that nobody breaks off.
///
/// # Errors
/// [`LedgerError::Rejected`] when the amount is not above zero or the balance would not fit.
pub async fn top_up(pool: &PgPool, movement: Movement<'_>) -> Result<Moved, LedgerError> {
    alone(pool, movement, Kind::TopUp { amount: movement.amount }).await
}

/// Books a correction in the tenant's favour (above zero) or against it (below); budgets stay as they are. Run it on
/// a task that nobody breaks off.
///
/// # Errors
/// [`LedgerError::Rejected`] when the amount is zero or the balance would not fit.
pub async fn adjustment(pool: &PgPool, movement: Movement<'_>) -> Result<Moved, LedgerError> {
    alone(pool, movement, Kind::Adjustment { amount: movement.amount, usage_at: None }).await
}

/// Carries one order out in a transaction of its own.
async fn alone(pool: &PgPool, movement: Movement<'_>, kind: Kind) -> Result<Moved, LedgerError> {
    let order = Order {
        tenant_id: movement.tenant_id,
        kind,
        actor: movement.actor.to_owned(),
        reason: movement.reason.to_owned(),
        reference: None,
    };
    let mut change = pool.begin().await?;
    // Neither of the two looks at the clock.
    let moved =
        movement::record(&mut change, &order, UnixMs(0)).await.map_err(|error| match error {
            MovementError::Books(error) => error,
            other => LedgerError::Rejected(other.to_string()),
        })?;
    change.commit().await?;
    Ok(moved)
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
