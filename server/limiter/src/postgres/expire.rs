//! Holds that nobody ended: released, and written down.

use std::collections::{BTreeMap, HashMap};

use domain::admission::{Scope, Take};
use domain::id::{RequestId, TenantId};
use domain::money::Nanos;
use domain::window::UnixMs;
use ledger::DriftNote;
use ledger::drift::{self, Found};
use sqlx::types::Json;
use sqlx::{PgConnection, PgPool};

use super::give_back::{Ended, Ending, give_back};
use super::lock::{self, Locks};
use crate::admission::LimiterError;
use crate::hold::Actual;

/// The kind of drift that an expired hold is.
pub(crate) const HOLD_EXPIRED: &str = "hold_expired";
/// How many expired holds of its tenant one admission ends: their cost must not show on it.
const AT_ADMISSION: i64 = 8;
/// How many expired holds the reaper looks at in one portion.
const PORTION: i64 = 500;
/// How long the empty counters of a past period are kept: its own length, and as much again for calls that were
/// admitted in it and still run.
const PERIODS_KEPT_MS: i64 = 62 * 24 * 60 * 60 * 1_000;
/// How many of them are deleted at once.
const STATES_PORTION: i64 = 5_000;

struct Expired {
    request_id: String,
    takes: Json<Vec<Take>>,
    charge_nanos: i64,
    admitted_ms: i64,
}

/// Ends expired holds of a tenant, the request's own first; says how many. The caller's transaction has the locks.
pub(super) async fn pop(
    connection: &mut PgConnection,
    tenant_id: TenantId,
    locks: &Locks,
    own: Option<RequestId>,
    now: UnixMs,
) -> Result<usize, LimiterError> {
    let own = own.map_or_else(String::new, |id| id.to_string());
    let expired = sqlx::query_as!(
        Expired,
        r#"select request_id, takes as "takes: Json<Vec<Take>>", charge_nanos, admitted_ms
           from holds
           where tenant_id = $1 and expires_ms <= $2
           order by request_id = $3 desc, expires_ms, request_id
           limit $4"#,
        tenant_id.0,
        now.0,
        own,
        AT_ADMISSION,
    )
    .fetch_all(&mut *connection)
    .await?;
    end(connection, tenant_id, locks, &expired, now).await
}

/// Ends these holds if they have expired: one whose event is written with what it says, another with nothing, after it
/// is written down.
async fn end(
    connection: &mut PgConnection,
    tenant_id: TenantId,
    locks: &Locks,
    expired: &[Expired],
    now: UnixMs,
) -> Result<usize, LimiterError> {
    let mut ended = Vec::with_capacity(expired.len());
    let mut notes = BTreeMap::new();
    let written = written(&mut *connection, expired).await?;
    // A hold on a provider whose lock is not taken here is left to the reaper, which takes them all.
    for hold in expired.iter().filter(|hold| locks.cover(&hold.takes)) {
        let unreadable = |_| LimiterError::Unreadable(hold.request_id.clone());
        let request_id: RequestId = hold.request_id.parse().map_err(unreadable)?;
        let event = written.get(&(hold.request_id.as_str(), hold.admitted_ms));
        let ending = event.map_or(Ending::Unused, |actual| Ending::Settled(*actual));
        ended.push(Ended { request_id, takes: &hold.takes, ending });
        if event.is_none() {
            notes.insert(request_id, note(hold.charge_nanos));
        }
    }
    let gone = give_back(&mut *connection, tenant_id, locks, &ended, true, Some(now)).await?;
    notes.retain(|request_id, _| gone.contains(request_id));
    let found: Vec<Found<'_>> = notes
        .iter()
        .map(|(request_id, note)| Found { tenant_id, request_id: Some(*request_id), note })
        .collect();
    drift::record(connection, &found).await?;
    metrics::counter!("weir_limiter_holds_expired_total").increment(gone.len() as u64);
    Ok(gone.len())
}

/// What the calls used of which the events are in the books, by name and instant of admission.
async fn written<'a>(
    connection: &mut PgConnection,
    expired: &'a [Expired],
) -> Result<HashMap<(&'a str, i64), Actual>, LimiterError> {
    if expired.is_empty() {
        return Ok(HashMap::new());
    }
    let ids: Vec<String> = expired.iter().map(|hold| hold.request_id.clone()).collect();
    let rows = sqlx::query!(
        r#"select request_id, (extract(epoch from admitted_at) * 1000)::bigint as "admitted_ms!", charge_nanos,
                  input + cached_input + cache_write_short + cache_write_long + input_audio
                  + output + reasoning + output_audio + output_image as "tokens!"
           from usage_events where request_id = any($1)"#,
        &ids[..],
    )
    .fetch_all(connection)
    .await?;
    let mut written = HashMap::with_capacity(rows.len());
    for row in rows {
        let own = expired.iter().find(|hold| hold.request_id == row.request_id);
        if let Some(own) = own {
            let actual = Actual { tokens: row.tokens, charge: Nanos(row.charge_nanos) };
            written.insert((own.request_id.as_str(), row.admitted_ms), actual);
        }
    }
    Ok(written)
}

fn note(charge_nanos: i64) -> DriftNote {
    DriftNote {
        kind: HOLD_EXPIRED.to_owned(),
        meter: None,
        expected: charge_nanos,
        found: 0,
        cause: "nobody settled the hold in time".to_owned(),
    }
}

/// Ends a portion of the expired holds of all tenants, and says how many.
pub(super) async fn reap(pool: &PgPool, now: Option<UnixMs>) -> Result<u64, LimiterError> {
    let seen_at = lock::clock(pool, now).await?;
    let rows = sqlx::query!(
        r#"select request_id, tenant_id, takes as "takes: Json<Vec<Take>>", charge_nanos, admitted_ms
           from holds
           where expires_ms <= $1
           order by expires_ms
           limit $2"#,
        seen_at.0,
        PORTION,
    )
    .fetch_all(pool)
    .await?;
    let mut by_tenant: BTreeMap<TenantId, Vec<Expired>> = BTreeMap::new();
    for row in rows {
        by_tenant.entry(TenantId(row.tenant_id)).or_default().push(Expired {
            request_id: row.request_id,
            takes: row.takes,
            charge_nanos: row.charge_nanos,
            admitted_ms: row.admitted_ms,
        });
    }
    let mut reaped = 0;
    for (tenant_id, expired) in by_tenant {
        let locks = Locks::of(tenant_id, scopes(&expired));
        let mut transaction = pool.begin().await?;
        let now = locks.take(&mut transaction, now).await?;
        let ended = end(&mut transaction, tenant_id, &locks, &expired, now).await?;
        transaction.commit().await?;
        reaped += ended as u64;
    }
    Ok(reaped)
}

fn scopes(expired: &[Expired]) -> impl Iterator<Item = (Scope, i64)> {
    expired.iter().flat_map(|hold| hold.takes.iter().map(|take| (take.scope, take.scope_id)))
}

/// Deletes a portion of the empty counters of periods long past, and says how many.
pub(super) async fn forget_past_periods(
    pool: &PgPool,
    now: Option<UnixMs>,
) -> Result<u64, LimiterError> {
    let now = lock::clock(pool, now).await?;
    let done = sqlx::query!(
        r#"delete from meter_states
           where held = 0 and (tenant_id, scope, scope_id, meter, period_start_ms) in (
               select tenant_id, scope, scope_id, meter, period_start_ms
               from meter_states
               where period_start_ms > 0 and period_start_ms < $1 and held = 0
               limit $2)"#,
        now.plus_ms(-PERIODS_KEPT_MS).0,
        STATES_PORTION,
    )
    .execute(pool)
    .await?;
    Ok(done.rows_affected())
}
