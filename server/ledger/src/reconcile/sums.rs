//! The ledger against the events, and the balance against the ledger: reported, never repaired.

use domain::id::TenantId;
use sqlx::PgConnection;

use super::{Compared, Difference, HOUSE};
use crate::drift;
use crate::error::LedgerError;
use crate::usage_event::DriftNote;

fn reported(tenant_id: TenantId, kind: &str, expected: i64, found: i64, cause: &str) -> Difference {
    let (kind, cause) = (kind.to_owned(), cause.to_owned());
    let note = DriftNote { kind, meter: None, expected, found, cause };
    Difference { tenant_id, note, mend: None }
}

/// Compares all of a tenant's ledger.
pub(super) async fn compare(
    snapshot: &mut PgConnection,
    tenant_id: TenantId,
    compared: &mut Compared,
) -> Result<(), LedgerError> {
    let sums = sqlx::query!(
        r#"select (select coalesce(sum(charge_nanos), 0)::bigint from usage_events where tenant_id = $1) as "charge!",
                  coalesce(sum(amount_nanos) filter (where account = 'usage' and kind = 'usage'), 0)::bigint as "used!",
                  coalesce(sum(amount_nanos) filter (where account = 'balance'), 0)::bigint as "balance!",
                  coalesce((select balance_nanos from balances where tenant_id = $1), 0) as "snapshot!"
           from balance_ledger where tenant_id = $1"#,
        tenant_id.0,
    )
    .fetch_one(snapshot)
    .await?;
    if sums.charge != sums.used {
        let cause = "the events' charges and the lines of usage differ";
        let kind = drift::LEDGER_USAGE;
        compared.differences.push(reported(tenant_id, kind, sums.charge, sums.used, cause));
    }
    if sums.balance != sums.snapshot {
        let cause = "the lines of the balance and its snapshot differ";
        let kind = drift::BALANCE;
        compared.differences.push(reported(tenant_id, kind, sums.balance, sums.snapshot, cause));
    }
    Ok(())
}

/// Compares the house's own accounts.
pub(super) async fn compare_house(
    snapshot: &mut PgConnection,
    compared: &mut Compared,
) -> Result<(), LedgerError> {
    let sums = sqlx::query!(
        r#"select (select coalesce(sum(cost_nanos), 0)::bigint from usage_events) as "cost!",
                  coalesce(sum(amount_nanos) filter (where account = 'provider_cost'), 0)::bigint as "posted!"
           from balance_ledger where tenant_id is null"#,
    )
    .fetch_one(snapshot)
    .await?;
    if sums.cost != sums.posted {
        let cause = "the events' costs and the house's lines differ";
        compared.differences.push(reported(
            HOUSE,
            drift::LEDGER_COST,
            sums.cost,
            sums.posted,
            cause,
        ));
    }
    Ok(())
}
