//! A tenant's ledger, line by line: what its balance moved by, and why.

use domain::id::{RequestId, TenantId};
use domain::money::Nanos;
use domain::window::UnixMs;
use sqlx::PgPool;
use time::OffsetDateTime;

use crate::error::LedgerError;
use crate::instant::to_ms;

/// The most lines on one page.
const MAX_PAGE: i64 = 1_000;
const NANOS_PER_MICRO: i128 = 1_000;

/// Where a page of lines begins: before this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LedgerCursor {
    /// When the line was posted, in microseconds since 1970: the grain of the database.
    pub at_micros: i64,
    /// Its transaction.
    pub transaction_id: i64,
}

/// One movement of a tenant's balance, or the usage of one batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerLine {
    /// The transaction.
    pub transaction_id: i64,
    /// `usage`, `top_up`, `grant`, `adjustment`, `refund`, `reversal` or `expiry`.
    pub kind: String,
    /// What the balance moved by.
    pub amount: Nanos,
    /// Why; empty for usage.
    pub reason: String,
    /// Who.
    pub actor: String,
    /// When.
    pub at: UnixMs,
    /// The name its caller gave it.
    pub reference: Option<String>,
    /// Of a grant: from when it may be taken back.
    pub expires_at: Option<UnixMs>,
    /// Of a refund of one call: which.
    pub request_id: Option<RequestId>,
    /// Of a refund the usage, of a reversal the movement, of an expiry the grant.
    pub of_transaction: Option<i64>,
    /// Which transaction undid it, or ended it if it is a grant.
    pub ended_by: Option<i64>,
    /// The cursor of the page after this line.
    pub cursor: LedgerCursor,
}

/// A tenant's newest lines before `before`, newest first, of one kind or of all; at most `limit`, and never more than
/// 1,000.
///
/// # Errors
/// When the database cannot be reached.
pub async fn ledger_lines(
    pool: &PgPool,
    tenant_id: TenantId,
    kind: Option<&str>,
    before: Option<LedgerCursor>,
    limit: i64,
) -> Result<Vec<LedgerLine>, LedgerError> {
    let before_at = before.map(|cursor| time_of(cursor.at_micros)).transpose()?;
    let rows = sqlx::query!(
        r#"select l.transaction_id, l.kind, l.amount_nanos, l.reason, l.actor, l.at,
                  m.reference as "reference?", m.expires_at as "expires_at?", m.request_id as "request_id?",
                  m.of_transaction as "of_transaction?", e.transaction_id as "ended_by?"
           from balance_ledger l
           left join movements m on m.transaction_id = l.transaction_id
           left join movements e on e.of_transaction = l.transaction_id and e.kind in ('reversal', 'expiry')
           where l.tenant_id = $1 and l.account = 'balance' and ($2::text is null or l.kind = $2)
             and l.at <= coalesce($3::timestamptz, 'infinity')
             and ($3::timestamptz is null or (l.at, l.transaction_id) < ($3, $4))
           order by l.at desc, l.transaction_id desc
           limit $5"#,
        tenant_id.0,
        kind,
        before_at,
        before.map(|cursor| cursor.transaction_id),
        limit.clamp(0, MAX_PAGE),
    )
    .fetch_all(pool)
    .await?;
    let lines = rows.into_iter().map(|row| LedgerLine {
        transaction_id: row.transaction_id,
        kind: row.kind,
        amount: Nanos(row.amount_nanos),
        reason: row.reason,
        actor: row.actor,
        at: to_ms(row.at),
        reference: row.reference,
        expires_at: row.expires_at.map(to_ms),
        request_id: row.request_id.and_then(|id| id.parse().ok()),
        of_transaction: row.of_transaction,
        ended_by: row.ended_by,
        cursor: LedgerCursor { at_micros: micros_of(row.at), transaction_id: row.transaction_id },
    });
    Ok(lines.collect())
}

fn micros_of(at: OffsetDateTime) -> i64 {
    // The database's calendar fits.
    i64::try_from(at.unix_timestamp_nanos().div_euclid(NANOS_PER_MICRO)).unwrap_or(i64::MAX)
}

fn time_of(micros: i64) -> Result<OffsetDateTime, LedgerError> {
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(micros) * NANOS_PER_MICRO)
        .map_err(|_| LedgerError::Rejected("an instant is outside the calendar".to_owned()))
}
