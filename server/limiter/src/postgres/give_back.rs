//! The end of a hold: what it set aside goes back, what was used beyond it is owed.

use std::collections::BTreeSet;

use domain::admission::{MICRO, Take, TakeKind};
use domain::id::{RequestId, TenantId};
use domain::plan::Metric;
use domain::window::UnixMs;
use ledger::slice::owner;
use sqlx::PgExecutor;

use super::lock::Locks;
use crate::admission::LimiterError;
use crate::hold::{Actual, Hold};

/// How a hold ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// The call is over, and this is what it used.
    Settled(Actual),
    /// Nothing was used, or nobody said what.
    Unused,
}

impl Ending {
    /// What was used of `metric`. A request that was let through counts, whatever became of it.
    const fn used(self, metric: Metric) -> i64 {
        match (self, metric) {
            (_, Metric::Requests) => 1,
            (Self::Settled(actual), Metric::Tokens | Metric::Cost) => actual.amount(metric),
            (Self::Unused, Metric::Tokens | Metric::Cost) => 0,
        }
    }
}

/// What goes back to one meter.
struct Back<'a> {
    request_id: RequestId,
    owner: TenantId,
    take: &'a Take,
    period_start: UnixMs,
    /// Is taken off what is held.
    held: i64,
    /// Is added to a bucket's level; below zero it is owed.
    level_micro: i64,
    /// The most the bucket holds; 0 for what is no bucket.
    capacity_micro: i64,
}

impl<'a> Back<'a> {
    fn new(request_id: RequestId, tenant_id: TenantId, take: &'a Take, ending: Ending) -> Self {
        let owner = owner(tenant_id, take.scope);
        let back = |period_start, held, level_micro, capacity_micro| Self {
            request_id,
            owner,
            take,
            period_start,
            held,
            level_micro,
            capacity_micro,
        };
        match take.kind {
            TakeKind::Window { period_start, .. } => back(period_start, take.amount, 0, 0),
            TakeKind::Lease => back(UnixMs(0), take.amount, 0, 0),
            TakeKind::Bucket { capacity } => {
                let unused = take.amount.saturating_sub(ending.used(take.metric));
                let micro = |units: i64| units.saturating_mul(MICRO);
                back(UnixMs(0), 0, micro(unused), micro(capacity))
            }
        }
    }
}

/// A hold that is to end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ended<'a> {
    pub(super) request_id: RequestId,
    pub(super) takes: &'a [Take],
    pub(super) ending: Ending,
}

/// Ends one hold, in one statement.
pub(super) async fn end(
    executor: impl PgExecutor<'_>,
    hold: &Hold,
    ending: Ending,
    now: Option<UnixMs>,
) -> Result<(), LimiterError> {
    let locks =
        Locks::of(hold.tenant_id, hold.takes.iter().map(|take| (take.scope, take.scope_id)));
    let ended = Ended { request_id: hold.request_id, takes: &hold.takes, ending };
    give_back(executor, hold.tenant_id, &locks, &[ended], false, now).await.map(drop)
}

/// Ends holds of one tenant and says which of them were still there; with `only_expired`, those that have expired.
///
/// The statement takes the locks before it looks at a row. What it then finds is newer than its snapshot where
/// another one was ahead of it: PostgreSQL looks at such rows again, so that a hold ends once, and each counter is
/// changed from its newest state.
pub(super) async fn give_back(
    executor: impl PgExecutor<'_>,
    tenant_id: TenantId,
    locks: &Locks,
    ended: &[Ended<'_>],
    only_expired: bool,
    now: Option<UnixMs>,
) -> Result<BTreeSet<RequestId>, LimiterError> {
    let backs: Vec<Back<'_>> = ended
        .iter()
        .flat_map(|hold| {
            hold.takes.iter().map(|take| Back::new(hold.request_id, tenant_id, take, hold.ending))
        })
        .collect();
    let gone = sqlx::query_scalar!(
        r#"with locked as materialized (
               select pg_advisory_xact_lock(l.class, l.key)
               from unnest($1::int[], $2::int[]) as l (class, key)),
           clock as materialized (
               select coalesce($3, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now_ms
               from (select count(*) from locked) as all_locked),
           gone as (
               delete from holds h using clock
               where h.request_id = any($4::text[]) and (not $5 or h.expires_ms <= clock.now_ms)
               returning h.request_id),
           back as (
               select b.owner, b.scope, b.scope_id, b.meter, b.period, sum(b.held) as held,
                      sum(greatest(b.level_micro, 0)) as gained_micro, sum(least(b.level_micro, 0)) as owed_micro,
                      max(b.capacity_micro) as capacity_micro
               from unnest($6::text[], $7::bigint[], $8::text[], $9::bigint[], $10::text[], $11::bigint[],
                           $12::bigint[], $13::bigint[], $14::bigint[])
                    as b (request_id, owner, scope, scope_id, meter, period, held, level_micro, capacity_micro)
               join gone on gone.request_id = b.request_id
               group by b.owner, b.scope, b.scope_id, b.meter, b.period),
           given as (
               update meter_states s set
                   held = greatest(s.held - back.held, 0),
                   -- Refilled first, with the arithmetic of domain::admission::refilled, and owed last: what is owed
                   -- must not be paid with what would not have fitted in.
                   level_micro = case when back.capacity_micro = 0 then s.level_micro else
                       least(s.level_micro + greatest(clock.now_ms - s.level_at_ms, 0)::numeric * s.rate_milli
                                 + back.gained_micro, back.capacity_micro) + back.owed_micro end,
                   level_at_ms = case when back.capacity_micro = 0 then s.level_at_ms else
                       greatest(s.level_at_ms, clock.now_ms) end
               from back, clock
               where s.tenant_id = back.owner and s.scope = back.scope and s.scope_id = back.scope_id
                 and s.meter = back.meter and s.period_start_ms = back.period)
           select request_id from gone"#,
        &locks.classes()[..],
        &locks.keys()[..],
        now.map(|now| now.0),
        &ended.iter().map(|hold| hold.request_id.to_string()).collect::<Vec<_>>()[..],
        only_expired,
        &backs.iter().map(|b| b.request_id.to_string()).collect::<Vec<_>>()[..],
        &backs.iter().map(|b| b.owner.0).collect::<Vec<_>>()[..],
        &backs.iter().map(|b| b.take.scope.code().to_owned()).collect::<Vec<_>>()[..],
        &backs.iter().map(|b| b.take.scope_id).collect::<Vec<_>>()[..],
        &backs.iter().map(|b| b.take.meter.clone()).collect::<Vec<_>>()[..],
        &backs.iter().map(|b| b.period_start.0).collect::<Vec<_>>()[..],
        &backs.iter().map(|b| b.held).collect::<Vec<_>>()[..],
        &backs.iter().map(|b| b.level_micro).collect::<Vec<_>>()[..],
        &backs.iter().map(|b| b.capacity_micro).collect::<Vec<_>>()[..],
    )
    .fetch_all(executor)
    .await?;
    let unreadable = |id: String| LimiterError::Unreadable(id);
    gone.into_iter().map(|id| id.parse().map_err(|_| unreadable(id))).collect()
}
