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
    let _ = (pool, movement);
    todo!()
}

/// Books a correction in the tenant's favour (above zero) or against it (below).
///
/// # Errors
/// [`LedgerError::Rejected`] when the amount is zero or the balance would not fit.
pub async fn adjustment(pool: &PgPool, movement: Movement<'_>) -> Result<Moved, LedgerError> {
    let _ = (pool, movement);
    todo!()
}

/// What a tenant paid in and did not use; below zero when it used more.
///
/// # Errors
/// When the database cannot be reached.
pub async fn balance(pool: &PgPool, tenant_id: TenantId) -> Result<Nanos, LedgerError> {
    let _ = (pool, tenant_id);
    todo!()
}
