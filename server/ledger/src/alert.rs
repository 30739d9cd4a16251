//! Thresholds that were crossed: each once per tenant, scope, period and threshold.

use domain::admission::Scope;
use domain::id::{RequestId, TenantId};
use domain::window::UnixMs;
use sqlx::{PgConnection, PgPool};

use crate::error::LedgerError;
use crate::instant::to_ms;

/// The marks of a month budget that are worth an alert, in percent of its limit.
pub const DEFAULT_THRESHOLDS_PERCENT: [i64; 2] = [80, 100];

/// A threshold that was crossed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alert {
    /// The row.
    pub id: i64,
    /// Whose.
    pub tenant_id: TenantId,
    /// Whose meter.
    pub scope: Scope,
    /// The row of that tenant, team or key.
    pub scope_id: i64,
    /// Which meter.
    pub meter: String,
    /// The start of the period.
    pub period_start: UnixMs,
    /// The threshold, in percent of the limit.
    pub threshold_percent: i64,
    /// The limit then.
    pub limit: i64,
    /// What was used then.
    pub used: i64,
    /// The call that crossed it.
    pub request_id: RequestId,
    /// When.
    pub fired_at: UnixMs,
    /// Whether a correction took it back: what was used fell below the mark again.
    pub withdrawn: bool,
}

/// A threshold that a batch has just crossed.
pub(crate) struct Fired {
    pub(crate) tenant_id: TenantId,
    pub(crate) scope: &'static str,
    pub(crate) scope_id: i64,
    pub(crate) meter: String,
    pub(crate) period_start_ms: i64,
    pub(crate) threshold_percent: i64,
    pub(crate) limit: i64,
    pub(crate) used: i64,
    pub(crate) request_id: RequestId,
}

/// Writes alerts; one that was written before stays as it is. A threshold whose alerts were all withdrawn is in its
/// next round and fires again.
pub(crate) async fn fire(
    connection: &mut PgConnection,
    fired: &[Fired],
) -> Result<(), LedgerError> {
    if fired.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        r#"insert into alerts (tenant_id, scope, scope_id, meter, period_start_ms, threshold_percent,
                               limit_amount, used_amount, request_id, round)
           select f.*, (select count(*)::int from alerts a join withdrawn_alerts w on w.alert_id = a.id
                        where (a.tenant_id, a.scope, a.scope_id, a.meter, a.period_start_ms, a.threshold_percent)
                            = (f.tenant_id, f.scope, f.scope_id, f.meter, f.period_start_ms, f.threshold_percent))
           from unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[], $5::bigint[],
                       $6::bigint[], $7::bigint[], $8::bigint[], $9::text[])
                as f (tenant_id, scope, scope_id, meter, period_start_ms, threshold_percent)
           on conflict on constraint alerts_once_key do nothing"#,
        &fired.iter().map(|f| f.tenant_id.0).collect::<Vec<_>>()[..],
        &fired.iter().map(|f| f.scope.to_owned()).collect::<Vec<_>>()[..],
        &fired.iter().map(|f| f.scope_id).collect::<Vec<_>>()[..],
        &fired.iter().map(|f| f.meter.clone()).collect::<Vec<_>>()[..],
        &fired.iter().map(|f| f.period_start_ms).collect::<Vec<_>>()[..],
        &fired.iter().map(|f| f.threshold_percent).collect::<Vec<_>>()[..],
        &fired.iter().map(|f| f.limit).collect::<Vec<_>>()[..],
        &fired.iter().map(|f| f.used).collect::<Vec<_>>()[..],
        &fired.iter().map(|f| f.request_id.to_string()).collect::<Vec<_>>()[..],
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// The newest alerts, of one tenant or of all; at most `limit`.
///
/// # Errors
/// When the database cannot be reached.
pub async fn list(
    pool: &PgPool,
    tenant_id: Option<TenantId>,
    limit: i64,
) -> Result<Vec<Alert>, LedgerError> {
    let rows = sqlx::query!(
        r#"select id, tenant_id, scope, scope_id, meter, period_start_ms, threshold_percent,
                  limit_amount, used_amount, request_id, fired_at,
                  exists (select from withdrawn_alerts w where w.alert_id = a.id) as "withdrawn!"
           from alerts a
           where $1::bigint is null or tenant_id = $1
           order by id desc
           limit $2"#,
        tenant_id.map(|id| id.0),
        limit,
    )
    .fetch_all(pool)
    .await?;
    let alerts = rows.into_iter().map(|row| {
        Some(Alert {
            id: row.id,
            tenant_id: TenantId(row.tenant_id),
            scope: Scope::parse(&row.scope)?,
            scope_id: row.scope_id,
            meter: row.meter,
            period_start: UnixMs(row.period_start_ms),
            threshold_percent: row.threshold_percent,
            limit: row.limit_amount,
            used: row.used_amount,
            request_id: row.request_id.parse().ok()?,
            fired_at: to_ms(row.fired_at),
            withdrawn: row.withdrawn,
        })
    });
    alerts.collect::<Option<_>>().ok_or_else(|| LedgerError::unreadable("alerts"))
}
