//! Grants whose time is over: what was not used up is taken back.

use domain::id::TenantId;
use domain::money::Nanos;
use domain::window::UnixMs;
use sqlx::{PgConnection, PgPool};

use super::MovementError;
use super::post::{self, Posting, Row};
use crate::error::LedgerError;
use crate::grant::{Lot, left};
use crate::instant::{instant, to_ms};

/// Who takes back.
const ACTOR: &str = "expiry";
/// How many grants are ended at once: a portion that takes a second at most.
const PORTION: i64 = 100;

/// Grants that were ended, and whose balance moved by it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expired {
    /// How many grants were ended.
    pub grants: u64,
    /// Whose balance is lower now.
    pub tenants: Vec<TenantId>,
}

/// Ends a portion of the grants whose time is over. Each is a transaction of its own: a run that breaks off in the
/// middle is gone on with by the next one, and of two at the same time one ends a grant.
///
/// # Errors
/// When the database cannot be reached.
pub async fn expire_grants(pool: &PgPool, now: UnixMs) -> Result<Expired, LedgerError> {
    let due = sqlx::query!(
        r#"select g.transaction_id, g.tenant_id from movements g
           where g.kind = 'grant' and g.expires_at <= $1
             and not exists (select from movements e
                             where e.of_transaction = g.transaction_id and e.kind in ('reversal', 'expiry'))
           order by g.expires_at, g.transaction_id
           limit $2"#,
        instant(now)?,
        PORTION,
    )
    .fetch_all(pool)
    .await?;
    let mut expired = Expired::default();
    for grant in due {
        let tenant_id = TenantId(grant.tenant_id);
        let mut change = pool.begin().await?;
        let taken = expire(&mut change, tenant_id, grant.transaction_id).await.map_err(books)?;
        change.commit().await?;
        let Some(taken) = taken else { continue };
        expired.grants += 1;
        if taken > Nanos::ZERO && !expired.tenants.contains(&tenant_id) {
            expired.tenants.push(tenant_id);
        }
    }
    Ok(expired)
}

fn books(error: MovementError) -> LedgerError {
    match error {
        MovementError::Books(error) => error,
        other => LedgerError::Rejected(other.to_string()),
    }
}

/// Ends one grant and says what was taken; nothing when it has ended meanwhile.
async fn expire(
    connection: &mut PgConnection,
    tenant_id: TenantId,
    grant: i64,
) -> Result<Option<Nanos>, MovementError> {
    post::lock(connection, tenant_id).await?;
    // Usage stands still from here on, so that the reading is exact.
    let balance = sqlx::query_scalar!(
        "select balance_nanos from balances where tenant_id = $1 for update",
        tenant_id.0
    )
    .fetch_optional(&mut *connection)
    .await?;
    let balance = Nanos(balance.unwrap_or(0));
    let lots = lots(connection, tenant_id).await?;
    let used = post::used(connection, tenant_id, balance).await?;
    let mut of_each = lots.iter().zip(left(&lots, used));
    let found = of_each.find(|(lot, _)| lot.transaction_id == grant && lot.ended_at.is_none());
    let Some((_, unused)) = found else { return Ok(None) };
    let transaction_id = post::next_transaction(connection).await?;
    let reason = format!("grant {grant} was not used up in its time");
    let posting =
        Posting { transaction_id, tenant_id, kind: "expiry", reason: &reason, actor: ACTOR };
    let mut after = balance;
    if unused > 0 {
        after = posting.post(connection, "credit", Nanos(-unused)).await?;
    }
    let row = Row {
        transaction_id,
        tenant_id,
        kind: "expiry",
        amount: -unused,
        reference: None,
        expires_at: None,
        request_id: None,
        of_transaction: Some(grant),
        usage_at: None,
    };
    row.insert(connection, after).await?;
    Ok(Some(Nanos(unused)))
}

/// Every grant that the tenant ever got.
async fn lots(
    connection: &mut PgConnection,
    tenant_id: TenantId,
) -> Result<Vec<Lot>, MovementError> {
    let rows = sqlx::query!(
        r#"select g.transaction_id, g.amount_nanos, g.expires_at as "expires_at!", g.used_nanos as given_at,
                  e.used_nanos as "ended_at?"
           from movements g
           left join movements e on e.of_transaction = g.transaction_id and e.kind in ('reversal', 'expiry')
           where g.tenant_id = $1 and g.kind = 'grant'
           order by g.transaction_id"#,
        tenant_id.0,
    )
    .fetch_all(connection)
    .await?;
    let lots = rows.into_iter().map(|row| Lot {
        transaction_id: row.transaction_id,
        amount: row.amount_nanos,
        expires_at: to_ms(row.expires_at),
        given_at: row.given_at,
        ended_at: row.ended_at,
    });
    Ok(lots.collect())
}
