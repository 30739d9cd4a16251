//! The rows of a movement.

use domain::id::TenantId;
use domain::money::Nanos;
use sqlx::PgConnection;
use time::OffsetDateTime;

use super::{MovementError, Order, rejected};

/// Lets movements of one tenant pass one by one, until the transaction ends.
pub(super) async fn lock(
    connection: &mut PgConnection,
    tenant_id: TenantId,
) -> Result<(), sqlx::Error> {
    // The engines of admission lock tenants by their bare numbers: these are others.
    sqlx::query!(
        "select pg_advisory_xact_lock(hashtextextended('weir.movements', $1))",
        tenant_id.0
    )
    .fetch_one(connection)
    .await
    .map(drop)
}

/// The number of a new transaction.
pub(super) async fn next_transaction(connection: &mut PgConnection) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar!(r#"select nextval('ledger_transaction_seq') as "id!""#)
        .fetch_one(connection)
        .await
}

/// Who posts, and under which words.
#[derive(Debug, Clone, Copy)]
pub(super) struct Posting<'a> {
    pub(super) transaction_id: i64,
    pub(super) tenant_id: TenantId,
    pub(super) kind: &'a str,
    pub(super) reason: &'a str,
    pub(super) actor: &'a str,
}

impl<'a> Posting<'a> {
    pub(super) fn of(order: &'a Order, transaction_id: i64) -> Self {
        Self {
            transaction_id,
            tenant_id: order.tenant_id,
            kind: order.kind.code(),
            reason: &order.reason,
            actor: &order.actor,
        }
    }

    /// Posts to the tenant's balance against another of its accounts, moves the snapshot, and says what it is then.
    pub(super) async fn post(
        &self,
        connection: &mut PgConnection,
        against: &str,
        amount: Nanos,
    ) -> Result<Nanos, MovementError> {
        let balance = sqlx::query_scalar!(
            r#"with lines as (
                   insert into balance_ledger
                       (transaction_id, line, tenant_id, account, kind, amount_nanos, reason, actor)
                   select $7, l.line, $1, l.account, $4, l.amount, $5, $6
                   from (values (1, 'balance', $2::bigint), (2, $3, -$2::bigint)) as l (line, account, amount))
               insert into balances as b (tenant_id, balance_nanos) values ($1, $2)
               on conflict on constraint balances_pkey do update set
                   balance_nanos = b.balance_nanos + excluded.balance_nanos, updated_at = clock_timestamp()
               returning balance_nanos"#,
            self.tenant_id.0,
            amount.0,
            against,
            self.kind,
            self.reason,
            self.actor,
            self.transaction_id,
        )
        .fetch_one(connection)
        .await?;
        Ok(Nanos(balance))
    }
}

/// What else is known of a movement.
#[derive(Debug)]
pub(super) struct Row<'a> {
    pub(super) transaction_id: i64,
    pub(super) tenant_id: TenantId,
    pub(super) kind: &'static str,
    pub(super) amount: i64,
    pub(super) reference: Option<&'a str>,
    pub(super) expires_at: Option<OffsetDateTime>,
    pub(super) request_id: Option<String>,
    pub(super) of_transaction: Option<i64>,
    pub(super) usage_at: Option<OffsetDateTime>,
}

impl Row<'_> {
    /// Writes the row. The balance's row is locked by now, so that the reading is exact.
    pub(super) async fn insert(
        self,
        connection: &mut PgConnection,
        balance: Nanos,
    ) -> Result<(), MovementError> {
        let used = used(connection, self.tenant_id, balance).await?;
        sqlx::query!(
            r#"insert into movements (transaction_id, tenant_id, kind, amount_nanos, reference, expires_at,
                                      used_nanos, request_id, of_transaction, usage_at)
               values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"#,
            self.transaction_id,
            self.tenant_id.0,
            self.kind,
            self.amount,
            self.reference,
            self.expires_at,
            used,
            self.request_id,
            self.of_transaction,
            self.usage_at,
        )
        .execute(connection)
        .await?;
        Ok(())
    }
}

/// What a tenant has ever used: all that moved without a call, less what is left. Exact while the balance's row is
/// locked.
pub(super) async fn used(
    connection: &mut PgConnection,
    tenant_id: TenantId,
    balance: Nanos,
) -> Result<i64, MovementError> {
    let moved = sqlx::query_scalar!(
        r#"select coalesce(sum(amount_nanos), 0)::bigint as "moved!" from balance_ledger
           where tenant_id = $1 and account = 'balance' and kind <> 'usage'"#,
        tenant_id.0,
    )
    .fetch_one(connection)
    .await?;
    moved.checked_sub(balance.0).ok_or_else(|| rejected("what was used does not fit into 64 bits"))
}
