//! The same rules in memory, as plain as they can be said: what the engine is compared with.

use std::collections::{BTreeMap, HashMap};

use domain::admission::{
    Counter, Decision, MICRO, Meter, Reason, Take, TakeKind, decide, hard_limit, refilled,
};
use domain::id::RequestId;
use domain::plan::{LimitRule, Metric};
use domain::window::{UnixMs, month_period};
use limiter::{Ask, HOLD_TTL_MS, Reading};

/// How many expired holds an admission ends.
const AT_ADMISSION: usize = 8;

/// A meter of the one tenant: its name is enough, for the walk has one meter of each name.
type Name = String;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ModelHold {
    pub(crate) takes: Vec<Take>,
    pub(crate) admitted_at: UnixMs,
    pub(crate) expires_at: UnixMs,
}

/// Level, its instant, and the rate it was last filled at.
type Bucket = (i64, UnixMs, i64);

#[derive(Debug, Default)]
pub(crate) struct Model {
    pub(crate) holds: BTreeMap<RequestId, ModelHold>,
    buckets: HashMap<Name, Bucket>,
    held: HashMap<(Name, UnixMs), i64>,
    slices: BTreeMap<(Name, UnixMs), i64>,
    pub(crate) balance: i64,
    pub(crate) expired: usize,
    pub(crate) settled_before_refusal: usize,
    /// The instant of admission, tokens and charge of each event.
    written: HashMap<RequestId, (UnixMs, i64, i64)>,
}

impl Model {
    /// What the law says, and the hold that comes of it.
    pub(crate) fn admit(&mut self, ask: &Ask, now: UnixMs) -> Decision {
        self.expire(Some(ask.request_id), AT_ADMISSION, now);
        if let Some(own) = self.holds.get(&ask.request_id) {
            return Decision::Admit(own.takes.clone());
        }
        let mut decision = self.decide(ask, now);
        if matches!(&decision, Decision::Refuse(no) if no.held > 0 || no.reason == Reason::ConcurrencyExhausted)
        {
            // Nobody is refused for a call that counts twice, as written and as held.
            self.end_written(now);
            decision = self.decide(ask, now);
        }
        if let Decision::Admit(takes) = &decision {
            for (meter, take) in ask.meters.iter().zip(takes) {
                self.take(meter, take, now);
            }
            let expires_at = now.plus_ms(HOLD_TTL_MS);
            let hold = ModelHold { takes: takes.clone(), admitted_at: now, expires_at };
            self.holds.insert(ask.request_id, hold);
        }
        decision
    }

    fn decide(&self, ask: &Ask, now: UnixMs) -> Decision {
        let counters: Vec<_> =
            ask.meters.iter().map(|meter| self.counter(meter, ask, now)).collect();
        decide(&ask.meters, &counters, &ask.estimate, now).unwrap()
    }

    fn end_written(&mut self, now: UnixMs) {
        // An earlier hold of the same request may have had an event: then this one has none.
        let ended: Vec<_> = self
            .holds
            .iter()
            .filter_map(|(id, hold)| {
                let (admitted_at, tokens, charge) = *self.written.get(id)?;
                (hold.admitted_at == admitted_at).then_some((*id, Some((tokens, charge))))
            })
            .collect();
        self.settled_before_refusal += ended.len();
        self.end_all(&ended, now);
    }

    fn take(&mut self, meter: &Meter, take: &Take, now: UnixMs) {
        match (&meter.rule, take.kind) {
            (LimitRule::Bucket { rate_milli_per_s, capacity, .. }, _) => {
                let (level, at) = self.level(&take.meter, *capacity, now);
                let level = refilled(level, at, *rate_milli_per_s, *capacity, now);
                let left = level - take.amount * MICRO;
                self.buckets.insert(take.meter.clone(), (left, now.max(at), *rate_milli_per_s));
            }
            (_, TakeKind::Window { period_start, .. }) => {
                *self.held.entry((take.meter.clone(), period_start)).or_default() += take.amount;
            }
            _ => *self.held.entry((take.meter.clone(), UnixMs(0))).or_default() += take.amount,
        }
    }

    fn level(&self, name: &str, capacity: i64, now: UnixMs) -> (i64, UnixMs) {
        self.buckets.get(name).map_or((capacity * MICRO, now), |(level, at, _)| (*level, *at))
    }

    fn counter(&self, meter: &Meter, ask: &Ask, now: UnixMs) -> Counter {
        let name = meter.name().to_owned();
        let held = |period| *self.held.get(&(name.clone(), period)).unwrap_or(&0);
        let slice = |start| *self.slices.get(&(name.clone(), start)).unwrap_or(&0);
        match &meter.rule {
            LimitRule::Bucket { capacity, .. } => {
                let (level_micro, at) = self.level(&name, *capacity, now);
                Counter::Bucket { level_micro, at }
            }
            LimitRule::Window { window, .. } => {
                let oldest = (name.clone(), window.oldest_slice(now));
                let all = self.slices.range(oldest..);
                let slices = all.take_while(|((n, _), _)| *n == name);
                let slices = slices.map(|((_, start), used)| (*start, *used)).collect();
                Counter::Rolling { slices, held: held(UnixMs(0)) }
            }
            LimitRule::Month { anchor_day, .. } => {
                let period = month_period(now, &ask.zone, *anchor_day).unwrap();
                let (used, held) = (slice(period.start), held(period.start));
                Counter::Month { period, used, held }
            }
            LimitRule::Balance => {
                let used = slice(UnixMs(0));
                Counter::Balance { credited: self.balance + used, used, held: held(UnixMs(0)) }
            }
            LimitRule::Lease { .. } => Counter::Lease { live: held(UnixMs(0)) },
        }
    }

    /// The event of a call is written: its use goes to the slices of its admission.
    pub(crate) fn book(&mut self, id: RequestId, hold: &ModelHold, tokens: i64, charge: i64) {
        self.written.insert(id, (hold.admitted_at, tokens, charge));
        self.balance -= charge;
        for take in &hold.takes {
            if let TakeKind::Window { slice_start, .. } = take.kind {
                let used = used(take.metric, tokens, charge);
                if used == 0 {
                    continue;
                }
                *self.slices.entry((take.meter.clone(), slice_start)).or_default() += used;
            }
        }
    }

    /// Ends a hold; one that is gone stays gone. `actual` is nothing when nothing was used.
    pub(crate) fn end(&mut self, id: RequestId, actual: Option<(i64, i64)>, now: UnixMs) {
        self.end_all(&[(id, actual)], now);
    }

    /// Ends holds at once: a bucket is refilled, gets back what was not used, and then loses what is owed.
    fn end_all(&mut self, ended: &[(RequestId, Option<(i64, i64)>)], now: UnixMs) {
        let mut buckets: HashMap<Name, (i64, i64, i64)> = HashMap::new();
        for (id, actual) in ended {
            let Some(hold) = self.holds.remove(id) else { continue };
            let (tokens, charge) = actual.unwrap_or((0, 0));
            for take in hold.takes {
                let period = match take.kind {
                    TakeKind::Window { period_start, .. } => period_start,
                    TakeKind::Lease => UnixMs(0),
                    TakeKind::Bucket { capacity } => {
                        let unused = take.amount - used(take.metric, tokens, charge);
                        let (gained, owed, most) = buckets.entry(take.meter).or_default();
                        *gained += unused.max(0);
                        *owed += unused.min(0);
                        *most = capacity.max(*most);
                        continue;
                    }
                };
                *self.held.get_mut(&(take.meter, period)).unwrap() -= take.amount;
            }
        }
        for (name, (gained, owed, capacity)) in buckets {
            let (level, at, rate) = self.buckets.get_mut(&name).unwrap();
            let full = refilled(*level, *at, *rate, capacity, now);
            *level = (full + gained * MICRO).min(capacity * MICRO) + owed * MICRO;
            *at = now.max(*at);
        }
    }

    /// Ends holds that have expired, the request's own first, then the oldest.
    pub(crate) fn expire(&mut self, own: Option<RequestId>, most: usize, now: UnixMs) {
        let mut over: Vec<_> = self
            .holds
            .iter()
            .filter(|(_, hold)| hold.expires_at <= now)
            .map(|(id, hold)| (Some(*id) != own, hold.expires_at, *id))
            .collect();
        over.sort();
        // One whose event is written ends with what it says, though nobody settled it.
        let said = |id: &RequestId| {
            let (admitted_at, tokens, charge) = *self.written.get(id)?;
            (self.holds[id].admitted_at == admitted_at).then_some((tokens, charge))
        };
        let over: Vec<_> = over.into_iter().take(most).map(|(_, _, id)| (id, said(&id))).collect();
        self.expired += over.len();
        self.end_all(&over, now);
    }

    pub(crate) fn renew(&mut self, id: RequestId, now: UnixMs) -> Option<UnixMs> {
        let hold = self.holds.get_mut(&id)?;
        hold.expires_at = hold.expires_at.max(now.plus_ms(HOLD_TTL_MS));
        Some(hold.expires_at)
    }

    pub(crate) fn readings(&self, ask: &Ask, now: UnixMs) -> Vec<Reading> {
        ask.meters.iter().map(|meter| self.reading(meter, ask, now)).collect()
    }

    fn reading(&self, meter: &Meter, ask: &Ask, now: UnixMs) -> Reading {
        let (mut limit, mut hard, mut level, mut resets_at) = (0, 0, None, None);
        let (used, held) = match self.counter(meter, ask, now) {
            Counter::Bucket { level_micro, at } => {
                if let LimitRule::Bucket { rate_milli_per_s, capacity, .. } = meter.rule {
                    (limit, hard) = (capacity, capacity);
                    let micro = refilled(level_micro, at, rate_milli_per_s, capacity, now);
                    level = Some(micro.div_euclid(MICRO));
                }
                (0, 0)
            }
            Counter::Rolling { slices, held } => (slices.iter().map(|(_, used)| used).sum(), held),
            Counter::Month { period, used, held } => {
                resets_at = Some(period.end);
                (used, held)
            }
            Counter::Balance { credited, used, held } => {
                (limit, hard) = (credited, credited);
                (used, held)
            }
            Counter::Lease { live } => (0, live),
        };
        match &meter.rule {
            LimitRule::Month { limit: month, overage_bps, .. } => {
                (limit, hard) = (*month, hard_limit(*month, *overage_bps));
            }
            LimitRule::Window { limit: most, .. } | LimitRule::Lease { limit: most } => {
                (limit, hard) = (*most, *most);
            }
            LimitRule::Bucket { .. } | LimitRule::Balance => {}
        }
        let (scope, scope_id) = (meter.scope, meter.scope_id);
        let (name, metric) = (meter.name().to_owned(), meter.metric());
        Reading {
            scope,
            scope_id,
            meter: name,
            metric,
            limit,
            hard_limit: hard,
            used,
            held,
            level,
            resets_at,
        }
    }
}

fn used(metric: Metric, tokens: i64, charge: i64) -> i64 {
    match metric {
        Metric::Requests => 1,
        Metric::Tokens => tokens,
        Metric::Cost => charge,
    }
}
