//! Numbers that should have been equal, written down before anything is repaired.

use domain::id::{RequestId, TenantId};
use domain::window::UnixMs;
use sqlx::{PgConnection, PgPool};

use crate::error::LedgerError;
use crate::instant::to_ms;
use crate::usage_event::DriftNote;

/// A difference that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drift {
    /// The row.
    pub id: i64,
    /// Whose.
    pub tenant_id: TenantId,
    /// The call, when it is one's.
    pub request_id: Option<RequestId>,
    /// What differed.
    pub note: DriftNote,
    /// When it was seen.
    pub seen_at: UnixMs,
}

/// A difference that is about to be written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found<'a> {
    /// Whose.
    pub tenant_id: TenantId,
    /// The call, when it is one's.
    pub request_id: Option<RequestId>,
    /// What differed.
    pub note: &'a DriftNote,
}

/// Writes differences down, in the caller's transaction: before what they tell of is repaired.
///
/// # Errors
/// When the database cannot be reached.
pub async fn record(connection: &mut PgConnection, found: &[Found<'_>]) -> Result<(), LedgerError> {
    if found.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        r#"insert into drift (kind, tenant_id, request_id, meter, expected, found, cause)
           select * from unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::bigint[],
                                $6::bigint[], $7::text[])"#,
        &found.iter().map(|f| f.note.kind.clone()).collect::<Vec<_>>()[..],
        &found.iter().map(|f| f.tenant_id.0).collect::<Vec<_>>()[..],
        &found.iter().map(|f| f.request_id.map(|id| id.to_string())).collect::<Vec<_>>()[..]
            as &[Option<String>],
        &found.iter().map(|f| f.note.meter.clone()).collect::<Vec<_>>()[..] as &[Option<String>],
        &found.iter().map(|f| f.note.expected).collect::<Vec<_>>()[..],
        &found.iter().map(|f| f.note.found).collect::<Vec<_>>()[..],
        &found.iter().map(|f| f.note.cause.clone()).collect::<Vec<_>>()[..],
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// The newest differences, of one tenant or of all; at most `limit`.
///
/// # Errors
/// When the database cannot be reached.
pub async fn list(
    pool: &PgPool,
    tenant_id: Option<TenantId>,
    limit: i64,
) -> Result<Vec<Drift>, LedgerError> {
    let rows = sqlx::query!(
        r#"select id, kind, tenant_id, request_id, meter, expected, found, cause, seen_at
           from drift
           where $1::bigint is null or tenant_id = $1
           order by id desc
           limit $2"#,
        tenant_id.map(|id| id.0),
        limit,
    )
    .fetch_all(pool)
    .await?;
    let drift = rows.into_iter().map(|row| Drift {
        id: row.id,
        tenant_id: TenantId(row.tenant_id),
        request_id: row.request_id.and_then(|id| id.parse().ok()),
        note: DriftNote {
            kind: row.kind,
            meter: row.meter,
            expected: row.expected,
            found: row.found,
            cause: row.cause,
        },
        seen_at: to_ms(row.seen_at),
    });
    Ok(drift.collect())
}
