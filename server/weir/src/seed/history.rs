//! What happened: every call is put before the law of admission, in order of time, and ends somehow.
//!
//! The history is the same for the same seed and day. What is later than now has not happened; early in a month the
//! sizes of the calls of those tenants that are to be near or over their budget depend on the minute, too.

use domain::admission::{
    AdmissionError, Counter, Decision, MICRO, Meter, Scope, Take, TakeKind, crossed, decide,
    refilled,
};
use domain::id::{RequestId, TenantId};
use domain::money::MoneyError;
use domain::plan::{LimitRule, Metric};
use domain::window::{CalendarError, UnixMs, Zone, month_period};
use ledger::alert::DEFAULT_THRESHOLDS_PERCENT;
use ledger::{Booking, RefusedCall, UsageEvent};

use super::ask::Ask;
use super::demand::{Call, DAY_MS, Demand, HISTORY_DAYS, HOUR_MS, day_start};
use super::fate;
use super::record::{self, Recorded};
use super::sizing::Sizing;
use super::stage::{Stage, StagedTenant};

/// How long slices of rolling windows are of interest: the longest window and a day.
const SLICES_MS: i64 = 8 * DAY_MS;

/// The history cannot be told. Never for the cast and prices as they are.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// The cast names a model, plan or key that is not there, or a model has no price.
    #[error("the cast does not fit the stage")]
    Cast,
    /// An amount does not fit.
    #[error(transparent)]
    Money(#[from] MoneyError),
    /// An instant is outside the calendar.
    #[error(transparent)]
    Calendar(#[from] CalendarError),
    /// The law of admission was asked wrongly.
    #[error(transparent)]
    Admission(#[from] AdmissionError),
}

/// What happened on one day of UTC, in order of time.
#[derive(Debug, Default)]
pub(crate) struct Day {
    pub(crate) start: UnixMs,
    pub(crate) events: Vec<UsageEvent>,
    pub(crate) refusals: Vec<RefusedCall>,
    pub(crate) crossings: Vec<Crossing>,
}

/// A mark of a budget that was passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Crossing {
    pub(crate) tenant_id: TenantId,
    pub(crate) scope: Scope,
    pub(crate) scope_id: i64,
    pub(crate) meter: String,
    pub(crate) period_start: UnixMs,
    pub(crate) percent: i64,
    pub(crate) limit: i64,
    pub(crate) used: i64,
    pub(crate) request_id: RequestId,
    pub(crate) at: UnixMs,
}

/// All tenants on their way through the days.
#[derive(Debug)]
pub(crate) struct History<'a> {
    stage: &'a Stage,
    walkers: Vec<Walker<'a>>,
    today: UnixMs,
    now: UnixMs,
    /// The start of the next day to be told.
    next: UnixMs,
}

/// Where the history that ends at `now` begins.
pub(crate) fn first_day(now: UnixMs) -> UnixMs {
    day_start(now).plus_ms(-HISTORY_DAYS * DAY_MS)
}

impl<'a> History<'a> {
    /// Begins the history that ends at `now`.
    pub(crate) fn new(stage: &'a Stage, seed: u64, now: UnixMs) -> Result<Self, HistoryError> {
        let today = day_start(now);
        let walkers = stage.tenants.iter().map(|tenant| {
            let (number, cast, zone) = (tenant.number, tenant.cast, &tenant.zone);
            let demand = Demand { seed, number, tenant: cast, zone, today };
            let sizing = Sizing::find(stage, tenant, &demand, now)?;
            Ok(Walker::new(tenant, demand, sizing))
        });
        let walkers = walkers.collect::<Result<_, HistoryError>>()?;
        Ok(Self { stage, walkers, today, now, next: first_day(now) })
    }

    /// The next day; nothing after today.
    pub(crate) fn next_day(&mut self) -> Result<Option<Day>, HistoryError> {
        if self.next > self.today {
            return Ok(None);
        }
        let mut day = Day { start: self.next, ..Day::default() };
        let clock = Clock { today: self.today, now: self.now };
        for walker in &mut self.walkers {
            walker.walk(self.stage, clock, &mut day)?;
        }
        day.events.sort_by_key(|event| event.request_id);
        day.refusals.sort_by_key(|refusal| refusal.request_id);
        day.crossings.sort_by_key(|crossing| (crossing.at, crossing.percent));
        self.next = self.next.plus_ms(DAY_MS);
        Ok(Some(day))
    }
}

/// What time it is.
#[derive(Debug, Clone, Copy)]
struct Clock {
    today: UnixMs,
    now: UnixMs,
}

/// One tenant on its way, with its counters.
#[derive(Debug)]
struct Walker<'a> {
    tenant: &'a StagedTenant,
    demand: Demand<'a>,
    sizing: Sizing,
    /// One for each meter of the tenant, its teams and its keys.
    counters: Vec<Option<Counter>>,
    /// In the order of the tenant's keys.
    desks: Vec<Desk>,
}

/// The limits that a key's calls are put before, and which counter belongs to each.
#[derive(Debug)]
struct Desk {
    meters: Vec<Meter>,
    places: Vec<usize>,
}

impl<'a> Walker<'a> {
    fn new(tenant: &'a StagedTenant, demand: Demand<'a>, sizing: Sizing) -> Self {
        let mut known: Vec<(Scope, i64, &'static str)> = Vec::new();
        let mut place = |meter: &Meter| {
            let name = (meter.scope, meter.scope_id, meter.name());
            known.iter().position(|other| *other == name).unwrap_or_else(|| {
                known.push(name);
                known.len() - 1
            })
        };
        let desks: Vec<Desk> = tenant
            .keys
            .iter()
            .map(|key| {
                let meters: Vec<Meter> =
                    key.meters.iter().filter(|m| is_kept(m)).cloned().collect();
                Desk { places: meters.iter().map(&mut place).collect(), meters }
            })
            .collect();
        let counters = known.iter().map(|_| None).collect();
        Self { tenant, demand, sizing, counters, desks }
    }

    fn walk(&mut self, stage: &'a Stage, clock: Clock, day: &mut Day) -> Result<(), HistoryError> {
        let end = day.start.plus_ms(DAY_MS).min(clock.now);
        let mut calls: Vec<Call> = self.sizing.backfill(day.start, end).collect();
        let mut hour = day.start;
        while hour < end {
            calls.extend(self.demand.hour(hour)?.into_iter().filter(|call| call.at < end));
            hour = hour.plus_ms(HOUR_MS);
        }
        calls.sort_unstable();
        for call in calls {
            let size = self.sizing.at(call.at);
            let ask = Ask::of(stage, self.tenant, call, size)?;
            self.call(ask, clock, day)?;
        }
        Ok(())
    }

    /// Puts a call before the law, and lets it come to its end.
    fn call(&mut self, ask: Ask<'a>, clock: Clock, day: &mut Day) -> Result<(), HistoryError> {
        let desk = self.desks.get(ask.key_at).ok_or(HistoryError::Cast)?;
        let mut counters = Vec::with_capacity(desk.places.len());
        for (meter, place) in desk.meters.iter().zip(&desk.places) {
            let counter = self.counters.get_mut(*place).and_then(Option::take);
            counters.push(at_present(counter, meter, &self.tenant.zone, ask.call.at)?);
        }
        put_before(&desk.meters, &mut counters, ask, self.tenant, clock, day)?;
        for (counter, place) in counters.into_iter().zip(&desk.places) {
            if let Some(slot) = self.counters.get_mut(*place) {
                *slot = Some(counter);
            }
        }
        Ok(())
    }
}

/// The rate of tokens is left out: it says nothing about money, and catching up would be held up by it.
const fn is_kept(meter: &Meter) -> bool {
    !matches!(meter.rule, LimitRule::Bucket { metric: Metric::Tokens, .. })
}

fn put_before(
    meters: &[Meter],
    counters: &mut [Counter],
    mut ask: Ask<'_>,
    tenant: &StagedTenant,
    clock: Clock,
    day: &mut Day,
) -> Result<(), HistoryError> {
    let at = ask.call.at;
    let takes = match decide(meters, counters, &ask.estimate, at)? {
        Decision::Admit(takes) => takes,
        Decision::Refuse(refusal) => {
            day.refusals.push(record::refusal(&mut ask, tenant, refusal));
            return Ok(());
        }
    };
    let fate = fate::befall(&mut ask, tenant.cast, clock.today);
    let Recorded { mut event, actual } = record::event(&mut ask, tenant, fate, clock.now)?;
    for ((meter, counter), take) in meters.iter().zip(counters).zip(takes) {
        let amount = actual.amount(take.metric);
        settle(meter, counter, &take, amount, at);
        if let Some(booking) = booking(meter, take, amount, clock.now) {
            day.crossings.extend(crossings(counter, &booking, &event));
            event.bookings.push(booking);
        }
    }
    day.events.push(event);
    Ok(())
}

/// A counter as it is at `at`: without the slices and the month that are over.
fn at_present(
    counter: Option<Counter>,
    meter: &Meter,
    zone: &Zone,
    at: UnixMs,
) -> Result<Counter, CalendarError> {
    match (counter, &meter.rule) {
        (Some(Counter::Rolling { mut slices, held }), LimitRule::Window { window, .. }) => {
            let oldest = window.oldest_slice(at);
            let over = slices.iter().take_while(|(start, _)| *start < oldest).count();
            slices.drain(..over);
            Ok(Counter::Rolling { slices, held })
        }
        (Some(Counter::Month { period, .. }), _) if !period.contains(at) => fresh(meter, zone, at),
        (Some(counter), _) => Ok(counter),
        (None, _) => fresh(meter, zone, at),
    }
}

/// Books what a call used.
fn settle(meter: &Meter, counter: &mut Counter, take: &Take, amount: i64, now: UnixMs) {
    match (counter, take.kind, &meter.rule) {
        (
            Counter::Bucket { level_micro, at },
            TakeKind::Bucket { .. },
            LimitRule::Bucket { rate_milli_per_s, capacity, .. },
        ) => {
            let level = refilled(*level_micro, *at, *rate_milli_per_s, *capacity, now);
            *level_micro = level.saturating_sub(amount.saturating_mul(MICRO));
            *at = now;
        }
        (Counter::Rolling { slices, .. }, TakeKind::Window { slice_start, .. }, _) => {
            match slices.last_mut() {
                Some((start, used)) if *start == slice_start => *used += amount,
                _ => slices.push((slice_start, amount)),
            }
        }
        (Counter::Month { used, .. }, TakeKind::Window { .. }, _) => *used += amount,
        _ => {}
    }
}

/// The marks that a booking, which is settled already, has passed.
fn crossings(counter: &Counter, booking: &Booking, event: &UsageEvent) -> Vec<Crossing> {
    let (Some(rule), Counter::Month { used, .. }) = (&booking.alert, counter) else {
        return Vec::new();
    };
    let before = used.saturating_sub(booking.amount);
    let percents = crossed(&rule.thresholds_percent, rule.limit, before, *used);
    let crossing = |percent| Crossing {
        tenant_id: event.tenant_id,
        scope: booking.scope,
        scope_id: booking.scope_id,
        meter: booking.meter.clone(),
        period_start: booking.slice_start,
        percent,
        limit: rule.limit,
        used: *used,
        request_id: event.request_id,
        at: event.ended_at,
    };
    percents.into_iter().map(crossing).collect()
}

fn fresh(meter: &Meter, zone: &Zone, at: UnixMs) -> Result<Counter, CalendarError> {
    Ok(match &meter.rule {
        LimitRule::Bucket { capacity, .. } => {
            Counter::Bucket { level_micro: capacity.saturating_mul(MICRO), at }
        }
        LimitRule::Window { .. } => Counter::Rolling { slices: Vec::new(), held: 0 },
        LimitRule::Month { anchor_day, .. } => {
            Counter::Month { period: month_period(at, zone, *anchor_day)?, used: 0, held: 0 }
        }
        LimitRule::Balance => Counter::Balance { credited: 0, used: 0, held: 0 },
        LimitRule::Lease { .. } => Counter::Lease { live: 0 },
    })
}

/// What a call adds to a meter's slice, where that is still of interest.
fn booking(meter: &Meter, take: Take, amount: i64, now: UnixMs) -> Option<Booking> {
    let TakeKind::Window { slice_start, .. } = take.kind else { return None };
    let alert = match &meter.rule {
        LimitRule::Month { metric: Metric::Cost, limit, .. } => Some(ledger::AlertRule {
            limit: *limit,
            thresholds_percent: DEFAULT_THRESHOLDS_PERCENT.to_vec(),
        }),
        LimitRule::Window { .. } if now.since_ms(slice_start) > SLICES_MS => return None,
        _ => None,
    };
    Some(Booking {
        scope: take.scope,
        scope_id: take.scope_id,
        meter: take.meter,
        slice_start,
        amount,
        alert,
    })
}

#[cfg(test)]
mod tests;
