//! The equation that the books must keep.

use domain::id::TenantId;
use sqlx::PgPool;

use crate::error::LedgerError;

/// One tenant's sums, taken from each place that keeps them, in one snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BookLine {
    /// Whose.
    pub tenant_id: TenantId,
    /// How many events.
    pub events: i64,
    /// Calls in the rollups.
    pub rollup_requests: i64,
    /// Σ charge of the events, in nano-USD.
    pub events_charge: i64,
    /// Σ of the ledger's lines on account `usage`.
    pub ledger_usage: i64,
    /// Σ charge of the rollups.
    pub rollups_charge: i64,
    /// Σ of the tenant's own month slices; nothing when no event was booked on a month budget.
    pub month_slices: Option<i64>,
    /// Σ of the ledger's lines on account `balance`.
    pub ledger_balance: i64,
    /// The snapshot of the balance.
    pub balance: i64,
    /// Σ cost of the events.
    pub events_cost: i64,
    /// Σ cost of the rollups.
    pub rollups_cost: i64,
}

impl BookLine {
    /// Whether all places agree.
    #[must_use]
    pub fn agrees(&self) -> bool {
        self.events == self.rollup_requests
            && self.events_charge == self.ledger_usage
            && self.events_charge == self.rollups_charge
            && self.month_slices.is_none_or(|sum| sum == self.events_charge)
            && self.ledger_balance == self.balance
            && self.events_cost == self.rollups_cost
    }
}

/// The sums of one tenant, or of all that have any.
///
/// # Errors
/// When the database cannot be reached.
pub async fn verify(
    pool: &PgPool,
    tenant_id: Option<TenantId>,
) -> Result<Vec<BookLine>, LedgerError> {
    let _ = (pool, tenant_id);
    todo!()
}
