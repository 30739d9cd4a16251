//! The ledger's lines of a batch: double entry, one pair for each tenant and one for the house.

use std::collections::BTreeMap;

use domain::id::TenantId;
use domain::money::Nanos;
use sqlx::PgConnection;

use crate::error::LedgerError;
use crate::usage_event::UsageEvent;

/// Who is named as the actor of postings that come from events.
const ACTOR: &str = "usage";

/// Posts what the events charge and cost, and moves the balances' snapshots with it.
///
/// `transactions` names the transaction of each tenant that is charged: its events carry it.
pub(crate) async fn post(
    connection: &mut PgConnection,
    events: &[&UsageEvent],
    transactions: &BTreeMap<TenantId, i64>,
) -> Result<(), LedgerError> {
    let mut charges: BTreeMap<TenantId, Nanos> = BTreeMap::new();
    let mut cost = Nanos::ZERO;
    for event in events {
        if event.charge != Nanos::ZERO {
            let charge = charges.entry(event.tenant_id).or_default();
            *charge = charge.plus(event.charge).map_err(|_| too_large())?;
        }
        cost = cost.plus(event.cost).map_err(|_| too_large())?;
    }
    if !charges.is_empty() {
        post_charges(connection, &charges, transactions).await?;
        lower_balances(connection, &charges).await?;
    }
    if cost == Nanos::ZERO { Ok(()) } else { post_cost(connection, cost).await }
}

fn too_large() -> LedgerError {
    LedgerError::Rejected("the money of one batch does not fit into 64 bits".to_owned())
}

async fn post_charges(
    connection: &mut PgConnection,
    charges: &BTreeMap<TenantId, Nanos>,
    transactions: &BTreeMap<TenantId, i64>,
) -> Result<(), LedgerError> {
    let transaction = |tenant_id: &TenantId| {
        let missing = || LedgerError::Rejected("a charge has no transaction".to_owned());
        transactions.get(tenant_id).copied().ok_or_else(missing)
    };
    let transactions = charges.keys().map(transaction).collect::<Result<Vec<i64>, _>>()?;
    sqlx::query!(
        r#"insert into balance_ledger (transaction_id, line, tenant_id, account, kind, amount_nanos, actor)
           select c.transaction_id, l.line, c.tenant_id, l.account, 'usage', l.sign * c.charge, $4
           from unnest($1::bigint[], $2::bigint[], $3::bigint[]) as c (transaction_id, tenant_id, charge)
           cross join (values (1, 'balance', -1), (2, 'usage', 1)) as l (line, account, sign)"#,
        &transactions[..],
        &charges.keys().map(|id| id.0).collect::<Vec<_>>()[..],
        &charges.values().map(|charge| charge.0).collect::<Vec<_>>()[..],
        ACTOR,
    )
    .execute(connection)
    .await?;
    Ok(())
}

async fn lower_balances(
    connection: &mut PgConnection,
    charges: &BTreeMap<TenantId, Nanos>,
) -> Result<(), LedgerError> {
    sqlx::query!(
        r#"insert into balances as b (tenant_id, balance_nanos)
           select c.tenant_id, -c.charge
           from unnest($1::bigint[], $2::bigint[]) as c (tenant_id, charge)
           -- Every writer takes the rows in this order, so that none waits for another in a circle.
           order by c.tenant_id
           on conflict on constraint balances_pkey do update set
               balance_nanos = b.balance_nanos + excluded.balance_nanos, updated_at = clock_timestamp()"#,
        &charges.keys().map(|id| id.0).collect::<Vec<_>>()[..],
        &charges.values().map(|charge| charge.0).collect::<Vec<_>>()[..],
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// What providers charge is the house's own: one pair for the batch, whoever the tenants are.
async fn post_cost(connection: &mut PgConnection, cost: Nanos) -> Result<(), LedgerError> {
    sqlx::query!(
        r#"with house as materialized (select nextval('ledger_transaction_seq') as id)
           insert into balance_ledger (transaction_id, line, tenant_id, account, kind, amount_nanos, actor)
           select house.id, l.line, null, l.account, 'usage', l.sign * $1::bigint, $2
           from house
           cross join (values (1, 'provider_cost', 1), (2, 'provider_payable', -1)) as l (line, account, sign)"#,
        cost.0,
        ACTOR,
    )
    .execute(connection)
    .await?;
    Ok(())
}
