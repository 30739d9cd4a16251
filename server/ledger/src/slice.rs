//! What each meter used, by slice or period: the sum of the events, kept in their transaction.

use std::collections::{BTreeMap, HashMap};

use domain::admission::{Scope, crossed};
use domain::id::{RequestId, TenantId};
use domain::window::UnixMs;
use sqlx::{PgConnection, PgPool};

use crate::alert::{self, Fired};
use crate::error::LedgerError;
use crate::usage_event::{AlertRule, Booking, UsageEvent};

/// Whose row a meter's counter is: the tenant's, or nobody's where all tenants share the meter.
#[must_use]
pub const fn owner(tenant_id: TenantId, scope: Scope) -> TenantId {
    match scope {
        Scope::Tenant | Scope::Team | Scope::Key => tenant_id,
        Scope::Provider => TenantId(0),
    }
}

/// One slice. The order of the fields is the order in which rows are locked.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct SliceKey {
    owner: i64,
    scope: &'static str,
    scope_id: i64,
    meter: String,
    slice_start_ms: i64,
}

/// What a batch adds to one slice, and whose call is named if that crosses a threshold.
struct Addition {
    amount: i64,
    alert: Option<(TenantId, RequestId, AlertRule)>,
}

type Additions = BTreeMap<SliceKey, Addition>;

/// Adds what the events booked, and writes an alert for each threshold that this crosses.
pub(crate) async fn add(
    connection: &mut PgConnection,
    events: &[&UsageEvent],
) -> Result<(), LedgerError> {
    let additions = sum(events)?;
    if additions.is_empty() {
        return Ok(());
    }
    let after = upsert(connection, &additions).await?;
    alert::fire(connection, &crossings(&additions, &after)).await
}

/// Adds up per slice: a slice of a busy tenant is written once for the batch.
fn sum(events: &[&UsageEvent]) -> Result<Additions, LedgerError> {
    let mut additions = Additions::new();
    for event in events {
        for booking in event.bookings.iter().filter(|booking| booking.amount != 0) {
            let addition = additions
                .entry(key(event.tenant_id, booking))
                .or_insert(Addition { amount: 0, alert: None });
            addition.amount = addition.amount.checked_add(booking.amount).ok_or_else(too_large)?;
            if let Some(rule) = &booking.alert {
                addition.alert = Some((event.tenant_id, event.request_id, rule.clone()));
            }
        }
    }
    Ok(additions)
}

fn too_large() -> LedgerError {
    LedgerError::Rejected("the amounts of one slice do not fit into 64 bits".to_owned())
}

fn key(tenant_id: TenantId, booking: &Booking) -> SliceKey {
    SliceKey {
        owner: owner(tenant_id, booking.scope).0,
        scope: booking.scope.code(),
        scope_id: booking.scope_id,
        meter: booking.meter.clone(),
        slice_start_ms: booking.slice_start.0,
    }
}

async fn upsert(
    connection: &mut PgConnection,
    additions: &Additions,
) -> Result<HashMap<SliceKey, i64>, LedgerError> {
    let rows = sqlx::query!(
        r#"insert into meter_slices as s (tenant_id, scope, scope_id, meter, slice_start_ms, used)
           select a.owner, a.scope, a.scope_id, a.meter, a.slice_start_ms, a.amount
           from unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[], $5::bigint[], $6::bigint[])
                as a (owner, scope, scope_id, meter, slice_start_ms, amount)
           -- Every writer takes the rows in this order, so that none waits for another in a circle.
           order by a.owner, a.scope collate "C", a.scope_id, a.meter collate "C", a.slice_start_ms
           on conflict on constraint meter_slices_pkey do update set used = s.used + excluded.used
           returning tenant_id, scope, scope_id, meter, slice_start_ms, used"#,
        &additions.keys().map(|k| k.owner).collect::<Vec<_>>()[..],
        &additions.keys().map(|k| k.scope.to_owned()).collect::<Vec<_>>()[..],
        &additions.keys().map(|k| k.scope_id).collect::<Vec<_>>()[..],
        &additions.keys().map(|k| k.meter.clone()).collect::<Vec<_>>()[..],
        &additions.keys().map(|k| k.slice_start_ms).collect::<Vec<_>>()[..],
        &additions.values().map(|a| a.amount).collect::<Vec<_>>()[..],
    )
    .fetch_all(connection)
    .await?;
    let after = rows.into_iter().filter_map(|row| {
        let key = SliceKey {
            owner: row.tenant_id,
            scope: Scope::parse(&row.scope)?.code(),
            scope_id: row.scope_id,
            meter: row.meter,
            slice_start_ms: row.slice_start_ms,
        };
        Some((key, row.used))
    });
    Ok(after.collect())
}

/// The thresholds between what a slice was and what it is. The row is locked until the commit, so no other batch
/// can be in between.
fn crossings(additions: &Additions, after: &HashMap<SliceKey, i64>) -> Vec<Fired> {
    let mut fired = Vec::new();
    for (key, addition) in additions {
        let (Some((tenant_id, request_id, rule)), Some(used)) = (&addition.alert, after.get(key))
        else {
            continue;
        };
        let before = used.saturating_sub(addition.amount);
        for percent in crossed(&rule.thresholds_percent, rule.limit, before, *used) {
            fired.push(Fired {
                tenant_id: *tenant_id,
                scope: key.scope,
                scope_id: key.scope_id,
                meter: key.meter.clone(),
                period_start_ms: key.slice_start_ms,
                threshold_percent: percent,
                limit: rule.limit,
                used: *used,
                request_id: *request_id,
            });
        }
    }
    fired
}

/// What one slice holds; nothing used when it is not there.
///
/// # Errors
/// When the database cannot be reached.
pub async fn used(
    pool: &PgPool,
    tenant_id: TenantId,
    scope: Scope,
    scope_id: i64,
    meter: &str,
    slice_start: UnixMs,
) -> Result<i64, LedgerError> {
    let used = sqlx::query_scalar!(
        r#"select used from meter_slices
           where (tenant_id, scope, scope_id, meter, slice_start_ms) = ($1, $2, $3, $4, $5)"#,
        owner(tenant_id, scope).0,
        scope.code(),
        scope_id,
        meter,
        slice_start.0,
    )
    .fetch_optional(pool)
    .await?;
    Ok(used.unwrap_or(0))
}
