//! What is known of a tenant's meters: read in one statement, whatever its history.

use std::collections::HashSet;

use domain::admission::{Counter, MICRO, Meter, Take, hard_limit, refilled};
use domain::id::{RequestId, TenantId};
use domain::plan::LimitRule;
use domain::window::{Period, UnixMs, Zone, month_period};
use ledger::slice::owner;
use sqlx::PgConnection;
use sqlx::types::Json;

use crate::admission::{LimiterError, Reading};

/// A meter, and where its numbers are at one instant.
#[derive(Debug)]
pub(super) struct Counted<'a> {
    pub(super) meter: &'a Meter,
    /// The period of a month.
    period: Option<Period>,
    /// The first and the last slice that count; the last before the first where no slice does.
    slices: (i64, i64),
}

impl Counted<'_> {
    /// The start of the period whose held amount is meant; 0 where the held amount has no period.
    pub(super) fn period_start(&self) -> UnixMs {
        self.period.map_or(UnixMs(0), |period| period.start)
    }
}

/// Says where the numbers of each meter are.
pub(super) fn count<'a>(
    meters: &'a [Meter],
    zone: &Zone,
    now: UnixMs,
) -> Result<Vec<Counted<'a>>, LimiterError> {
    let mut seen = HashSet::with_capacity(meters.len());
    let mut counted = Vec::with_capacity(meters.len());
    for meter in meters {
        let (period, slices) = match &meter.rule {
            LimitRule::Month { anchor_day, .. } => {
                let period = month_period(now, zone, *anchor_day)?;
                (Some(period), (period.start.0, period.start.0))
            }
            LimitRule::Window { window, .. } => (None, (window.oldest_slice(now).0, i64::MAX)),
            LimitRule::Balance => (None, (0, 0)),
            LimitRule::Bucket { .. } | LimitRule::Lease { .. } => (None, (1, 0)),
        };
        let this = Counted { meter, period, slices };
        if !seen.insert((meter.scope, meter.scope_id, meter.name(), this.period_start())) {
            return Err(LimiterError::SharedCounter(meter.name()));
        }
        counted.push(this);
    }
    Ok(counted)
}

/// What the store knows.
#[derive(Debug)]
pub(super) struct Read {
    /// One counter for each meter, in their order.
    pub(super) counters: Vec<Counter>,
    /// The hold of the request, if it is there.
    pub(super) own: Option<OwnHold>,
    /// Whether the tenant has holds that have expired.
    pub(super) has_expired: bool,
    /// The epoch under which this engine has the authority; nothing when it has not.
    pub(super) authority: Option<i64>,
}

/// The hold of a request that asks again.
#[derive(Debug)]
pub(super) struct OwnHold {
    pub(super) takes: Vec<Take>,
    pub(super) charge_nanos: i64,
    pub(super) admitted_ms: i64,
    pub(super) expires_ms: i64,
}

/// One row for each meter; one row in all, without a meter, when there is none.
struct Row {
    ord: Option<i64>,
    level_micro: Option<i64>,
    level_at_ms: Option<i64>,
    held: Option<i64>,
    starts: Option<Vec<i64>>,
    used: Option<Vec<i64>>,
    balance_nanos: Option<i64>,
    has_expired: bool,
    authority: Option<i64>,
    own_takes: Option<Json<Vec<Take>>>,
    own_charge_nanos: Option<i64>,
    own_admitted_ms: Option<i64>,
    own_expires_ms: Option<i64>,
}

impl Row {
    fn own(&mut self) -> Option<OwnHold> {
        Some(OwnHold {
            takes: self.own_takes.take()?.0,
            charge_nanos: self.own_charge_nanos?,
            admitted_ms: self.own_admitted_ms?,
            expires_ms: self.own_expires_ms?,
        })
    }

    /// The numbers as the law takes them. What was never written is a full bucket, or nothing used and held.
    fn counter(&self, counted: &Counted<'_>, now: UnixMs) -> Counter {
        let held = self.held.unwrap_or(0);
        let used = || self.used.iter().flatten().fold(0_i64, |sum, used| sum.saturating_add(*used));
        match &counted.meter.rule {
            LimitRule::Bucket { capacity, .. } => match (self.level_micro, self.level_at_ms) {
                (Some(level_micro), Some(at)) => Counter::Bucket { level_micro, at: UnixMs(at) },
                _ => Counter::Bucket { level_micro: capacity.saturating_mul(MICRO), at: now },
            },
            LimitRule::Window { .. } => {
                let starts = self.starts.iter().flatten().map(|start| UnixMs(*start));
                let slices = starts.zip(self.used.iter().flatten().copied()).collect();
                Counter::Rolling { slices, held }
            }
            LimitRule::Month { .. } => {
                // Every month has a period: `count` found it.
                let period = counted.period.unwrap_or(Period { start: now, end: now });
                Counter::Month { period, used: used(), held }
            }
            LimitRule::Balance => {
                // The snapshot is what was paid in less what was used; the law wants the two apart.
                let credited = self.balance_nanos.unwrap_or(0).saturating_add(used());
                Counter::Balance { credited, used: used(), held }
            }
            LimitRule::Lease { .. } => Counter::Lease { live: held },
        }
    }
}

/// Reads everything that a verdict needs.
pub(super) async fn read(
    connection: &mut PgConnection,
    tenant_id: TenantId,
    counted: &[Counted<'_>],
    request_id: Option<RequestId>,
    now: UnixMs,
) -> Result<Read, LimiterError> {
    let mut rows = rows(connection, tenant_id, counted, request_id, now).await?;
    let own = rows.first_mut().and_then(Row::own);
    let has_expired = rows.first().is_some_and(|row| row.has_expired);
    let authority = rows.first().and_then(|row| row.authority);
    rows.retain(|row| row.ord.is_some());
    let counters =
        counted.iter().zip(&rows).map(|(counted, row)| row.counter(counted, now)).collect();
    Ok(Read { counters, own, has_expired, authority })
}

async fn rows(
    connection: &mut PgConnection,
    tenant_id: TenantId,
    counted: &[Counted<'_>],
    request_id: Option<RequestId>,
    now: UnixMs,
) -> Result<Vec<Row>, LimiterError> {
    let meters = || counted.iter().map(|counted| counted.meter);
    let rows = sqlx::query_as!(
        Row,
        r#"select m.ord as "ord?", s.level_micro as "level_micro?", s.level_at_ms as "level_at_ms?",
                  s.held as "held?", u.starts as "starts?", u.used as "used?",
                  (select balance_nanos from balances where tenant_id = $1) as balance_nanos,
                  exists (select from holds e where e.tenant_id = $1 and e.expires_ms <= $2) as "has_expired!",
                  (select epoch from limiter_authority where mode = 'postgres' and ready) as authority,
                  own.takes as "own_takes?: Json<Vec<Take>>", own.charge_nanos as "own_charge_nanos?",
                  own.admitted_ms as "own_admitted_ms?", own.expires_ms as "own_expires_ms?"
           from (values (1)) as one (row)
           left join holds own on own.request_id = $3
           left join unnest($4::bigint[], $5::text[], $6::bigint[], $7::text[], $8::bigint[], $9::bigint[],
                            $10::bigint[])
                with ordinality as m (owner, scope, scope_id, meter, period, first, last, ord) on true
           left join lateral (
               select level_micro, level_at_ms, held from meter_states s
               where s.tenant_id = m.owner and s.scope = m.scope and s.scope_id = m.scope_id
                 and s.meter = m.meter and s.period_start_ms = m.period
               offset 0) s on true
           left join lateral (
               -- Oldest first, as the index has them.
               select array_agg(l.slice_start_ms) as starts, array_agg(l.used) as used
               from (select slice_start_ms, used from meter_slices l
                     where m.first <= m.last and l.tenant_id = m.owner and l.scope = m.scope
                       and l.scope_id = m.scope_id and l.meter = m.meter
                       and l.slice_start_ms between m.first and m.last
                     order by slice_start_ms) l) u on true
           order by m.ord"#,
        tenant_id.0,
        now.0,
        request_id.map(|id| id.to_string()),
        &meters().map(|m| owner(tenant_id, m.scope).0).collect::<Vec<_>>()[..],
        &meters().map(|m| m.scope.code().to_owned()).collect::<Vec<_>>()[..],
        &meters().map(|m| m.scope_id).collect::<Vec<_>>()[..],
        &meters().map(|m| m.name().to_owned()).collect::<Vec<_>>()[..],
        &counted.iter().map(|c| c.period_start().0).collect::<Vec<_>>()[..],
        &counted.iter().map(|c| c.slices.0).collect::<Vec<_>>()[..],
        &counted.iter().map(|c| c.slices.1).collect::<Vec<_>>()[..],
    )
    .fetch_all(connection)
    .await?;
    Ok(rows)
}

/// The counters as a person reads them.
pub(super) fn readings(counted: &[Counted<'_>], counters: &[Counter], now: UnixMs) -> Vec<Reading> {
    counted.iter().zip(counters).map(|(counted, counter)| reading(counted, counter, now)).collect()
}

fn reading(counted: &Counted<'_>, counter: &Counter, now: UnixMs) -> Reading {
    let meter = counted.meter;
    let (limit, stop) = match &meter.rule {
        LimitRule::Bucket { capacity, .. } => (*capacity, *capacity),
        LimitRule::Window { limit, .. } | LimitRule::Lease { limit } => (*limit, *limit),
        LimitRule::Month { limit, overage_bps, .. } => (*limit, hard_limit(*limit, *overage_bps)),
        LimitRule::Balance => (0, 0),
    };
    let mut reading = Reading {
        scope: meter.scope,
        scope_id: meter.scope_id,
        meter: meter.name().to_owned(),
        metric: meter.metric(),
        limit,
        hard_limit: stop,
        used: 0,
        held: 0,
        level: None,
        resets_at: None,
    };
    match counter {
        Counter::Bucket { level_micro, at } => {
            if let LimitRule::Bucket { rate_milli_per_s, capacity, .. } = &meter.rule {
                let level = refilled(*level_micro, *at, *rate_milli_per_s, *capacity, now);
                reading.level = Some(level.div_euclid(MICRO));
            }
        }
        Counter::Rolling { slices, held } => {
            reading.used = slices.iter().fold(0, |sum, (_, used)| sum.saturating_add(*used));
            reading.held = *held;
        }
        Counter::Month { period, used, held } => {
            (reading.used, reading.held, reading.resets_at) = (*used, *held, Some(period.end));
        }
        Counter::Balance { credited, used, held } => {
            (reading.limit, reading.hard_limit) = (*credited, *credited);
            (reading.used, reading.held) = (*used, *held);
        }
        Counter::Lease { live } => reading.held = *live,
    }
    reading
}
