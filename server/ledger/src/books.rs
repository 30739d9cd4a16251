//! The equation that the books must keep.

mod month;

use domain::id::TenantId;
use sqlx::PgPool;

pub use self::month::verify_month;
use crate::error::LedgerError;

/// An audit reads every event: it may take minutes, and the plan hangs on what is asked.
pub(crate) const AUDIT: &str = "begin read only; set local statement_timeout = '15min'; set local jit = off; \
                                set local plan_cache_mode = force_custom_plan";

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
    /// Σ of the lines on account `usage` that events were posted by: refunds stand beside them.
    pub ledger_usage: i64,
    /// Σ charge of the rollups.
    pub rollups_charge: i64,
    /// What the tenant's own month slices should hold: what events booked on them, less what was given back. An event
    /// that does not tell counts with its charge.
    pub month_expected: i64,
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
    /// What each place says more than the truth does, by name; nothing when all agree.
    #[must_use]
    pub fn differences(&self) -> Vec<(&'static str, i64)> {
        let more = |found: i64, expected: i64| found.saturating_sub(expected);
        let month = self.month_slices.unwrap_or(self.month_expected);
        let mut differences = vec![
            ("ledger usage", more(self.ledger_usage, self.events_charge)),
            ("slices", more(month, self.month_expected)),
            ("rollups", more(self.rollups_charge, self.events_charge)),
            ("rollup calls", more(self.rollup_requests, self.events)),
            ("rollup cost", more(self.rollups_cost, self.events_cost)),
            ("balance", more(self.balance, self.ledger_balance)),
        ];
        differences.retain(|(_, more)| *more != 0);
        differences
    }

    /// Whether all places agree.
    #[must_use]
    pub fn agrees(&self) -> bool {
        self.differences().is_empty()
    }
}

/// The sums of one tenant, or of all that have any. This is an audit: it reads every event.
///
/// # Errors
/// When the database cannot be reached.
pub async fn verify(
    pool: &PgPool,
    tenant_id: Option<TenantId>,
) -> Result<Vec<BookLine>, LedgerError> {
    let mut audit = pool.begin_with(AUDIT).await?;
    let rows = sqlx::query!(
        r#"select tenant_id as "tenant_id!",
                  coalesce(e.events, 0) as "events!", coalesce(e.charge, 0) as "events_charge!",
                  coalesce(e.cost, 0) as "events_cost!",
                  (coalesce(e.month, 0) - coalesce(g.given, 0))::bigint as "month_expected!",
                  coalesce(r.requests, 0) as "rollup_requests!", coalesce(r.charge, 0) as "rollups_charge!",
                  coalesce(r.cost, 0) as "rollups_cost!",
                  coalesce(l.used, 0) as "ledger_usage!", coalesce(l.balance, 0) as "ledger_balance!",
                  m.used as "month_slices?", coalesce(b.balance_nanos, 0) as "balance!"
           from (select tenant_id, count(*) as events, sum(charge_nanos)::bigint as charge,
                        sum(cost_nanos)::bigint as cost,
                        sum(case when bookings is null then charge_nanos
                                 else substring(bookings from 'tenant/[0-9]+/month_cost/-?[0-9]+/([0-9]+)')::bigint
                            end)::bigint as month
                 from usage_events where ($1::bigint is null or tenant_id = $1) group by tenant_id) e
           full join (select tenant_id, sum(amount)::bigint as given
                      from give_backs
                      where scope = 'tenant' and meter = 'month_cost' and ($1::bigint is null or tenant_id = $1)
                      group by tenant_id) g using (tenant_id)
           full join (select tenant_id, sum(requests)::bigint as requests, sum(charge_nanos)::bigint as charge,
                             sum(cost_nanos)::bigint as cost
                      from usage_rollups where ($1::bigint is null or tenant_id = $1) group by tenant_id) r using (tenant_id)
           full join (select tenant_id,
                             (sum(amount_nanos) filter (where account = 'usage' and kind = 'usage'))::bigint as used,
                             (sum(amount_nanos) filter (where account = 'balance'))::bigint as balance
                      from balance_ledger
                      where tenant_id is not null and ($1::bigint is null or tenant_id = $1)
                      group by tenant_id) l using (tenant_id)
           full join (select tenant_id, sum(used)::bigint as used
                      from meter_slices
                      where scope = 'tenant' and meter = 'month_cost' and ($1::bigint is null or tenant_id = $1)
                      group by tenant_id) m using (tenant_id)
           full join (select tenant_id, balance_nanos from balances where ($1::bigint is null or tenant_id = $1)) b
                using (tenant_id)
           order by 1"#,
        tenant_id.map(|id| id.0),
    )
    .fetch_all(&mut *audit)
    .await?;
    audit.rollback().await?;
    let lines = rows.into_iter().map(|row| BookLine {
        tenant_id: TenantId(row.tenant_id),
        events: row.events,
        rollup_requests: row.rollup_requests,
        events_charge: row.events_charge,
        ledger_usage: row.ledger_usage,
        rollups_charge: row.rollups_charge,
        month_expected: row.month_expected,
        month_slices: row.month_slices,
        ledger_balance: row.ledger_balance,
        balance: row.balance,
        events_cost: row.events_cost,
        rollups_cost: row.rollups_cost,
    });
    Ok(lines.collect())
}

/// Tenants with books, after `after`, in the order of their ids.
///
/// # Errors
/// When the database cannot be reached.
pub async fn tenants(
    pool: &PgPool,
    after: TenantId,
    limit: i64,
) -> Result<Vec<TenantId>, LedgerError> {
    let ids = sqlx::query_scalar!(
        r#"with recursive of_rollups as (
               -- From one tenant to the next along the index: there are far more rows than tenants.
               (select min(tenant_id) as id from usage_rollups where tenant_id > $1)
               union all
               select (select min(r.tenant_id) from usage_rollups r where r.tenant_id > o.id)
               from of_rollups o where o.id is not null)
           select id as "id!"
           from (select id from of_rollups where id is not null
                 union select tenant_id from balances where tenant_id > $1) as ids (id)
           order by id limit $2"#,
        after.0,
        limit,
    )
    .fetch_all(pool)
    .await?;
    Ok(ids.into_iter().map(TenantId).collect())
}

/// What providers charge the house, from each place that keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HouseLine {
    /// Σ cost of all events, in nano-USD.
    pub events_cost: i64,
    /// Σ of the ledger's lines on account `provider_cost`.
    pub ledger_cost: i64,
    /// Σ of the ledger's lines on account `provider_payable`: the same below zero.
    pub ledger_payable: i64,
}

impl HouseLine {
    /// Whether all places agree.
    #[must_use]
    pub const fn agrees(&self) -> bool {
        self.events_cost == self.ledger_cost && self.ledger_cost == -self.ledger_payable
    }
}

/// The house's sums. This is an audit: it reads every event.
///
/// # Errors
/// When the database cannot be reached.
pub async fn verify_house(pool: &PgPool) -> Result<HouseLine, LedgerError> {
    let mut audit = pool.begin_with(AUDIT).await?;
    let line = sqlx::query_as!(
        HouseLine,
        r#"select (select coalesce(sum(cost_nanos), 0)::bigint from usage_events) as "events_cost!",
                  (coalesce(sum(amount_nanos) filter (where account = 'provider_cost'), 0))::bigint
                      as "ledger_cost!",
                  (coalesce(sum(amount_nanos) filter (where account = 'provider_payable'), 0))::bigint
                      as "ledger_payable!"
           from balance_ledger where tenant_id is null"#,
    )
    .fetch_one(&mut *audit)
    .await?;
    audit.rollback().await?;
    Ok(line)
}
