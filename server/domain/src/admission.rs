//! The law of admission: counters, limits, an estimate and an instant in; a decision out.
//!
//! Both engines follow this file. It is pure, so that every verdict can be replayed.

mod meter;
mod refusal;

use serde::{Deserialize, Serialize};

pub use self::meter::{Counter, Estimate, Meter, Scope, Take, TakeKind};
pub use self::refusal::{Reason, Refusal};
use crate::money::ONE_IN_BPS;
use crate::plan::{LimitRule, Metric};
use crate::window::{Period, RollingWindow, UnixMs};

/// Millionths of a unit: a bucket's level is kept in them, so that a millisecond of refill is exact.
pub const MICRO: i64 = 1_000_000;
/// The largest number a counter may hold: beyond 2^53 JSON numbers and Lua's numbers are not exact.
pub const MAX_COUNT: i64 = 1 << 53;

/// The decision on one call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Decision {
    /// It may pass, and takes this on each meter, in the order of the meters.
    Admit(Vec<Take>),
    /// It may not, and takes nothing.
    Refuse(Refusal),
}

/// The caller's meters and counters do not belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AdmissionError {
    /// Not one counter for each meter, or one of another kind.
    #[error("counter {0} does not fit its meter")]
    CounterMismatch(usize),
    /// A number is negative or beyond what counters can hold exactly.
    #[error("number out of range on meter {0}")]
    OutOfRange(usize),
}

/// Decides on one call. All meters are looked at; one that says no is enough.
///
/// Of several refusals the one is told that waiting helps least; among those that end by waiting, the
/// longest, so that coming back after exactly that time works. A provider's quota, which is not the tenant's,
/// is told only when the tenant's own limits let the call pass.
///
/// # Errors
/// When counters and meters do not belong together, or a number is out of range.
pub fn decide(
    meters: &[Meter],
    counters: &[Counter],
    estimate: &Estimate,
    now: UnixMs,
) -> Result<Decision, AdmissionError> {
    if meters.len() != counters.len() {
        return Err(AdmissionError::CounterMismatch(counters.len().min(meters.len())));
    }
    let mut takes = Vec::with_capacity(meters.len());
    let mut told: Option<Refusal> = None;
    for (at, (meter, counter)) in meters.iter().zip(counters).enumerate() {
        let wanted = estimate.amount(meter.metric());
        if !(0..=MAX_COUNT).contains(&wanted) {
            return Err(AdmissionError::OutOfRange(at));
        }
        match ask(meter, counter, wanted, now).ok_or(AdmissionError::CounterMismatch(at))? {
            Answer::Yes(kind) => takes.push(Take {
                scope: meter.scope,
                scope_id: meter.scope_id,
                meter: meter.name().to_owned(),
                metric: meter.metric(),
                kind,
                amount: wanted,
            }),
            Answer::No(no) => {
                let refusal = no.on(meter, wanted);
                if told.as_ref().is_none_or(|worst| tells_more(&refusal, worst)) {
                    told = Some(refusal);
                }
            }
        }
    }
    Ok(told.map_or(Decision::Admit(takes), Decision::Refuse))
}

fn tells_more(new: &Refusal, old: &Refusal) -> bool {
    let wait = |r: &Refusal| r.retry_after_ms.unwrap_or(i64::MAX);
    let own = |r: &Refusal| r.scope != Scope::Provider;
    (own(new), new.reason.rank(), wait(new)) > (own(old), old.reason.rank(), wait(old))
}

enum Answer {
    Yes(TakeKind),
    No(No),
}

struct No {
    reason: Reason,
    limit: i64,
    used: i64,
    held: i64,
    resets_at: Option<UnixMs>,
    retry_after_ms: Option<i64>,
}

impl No {
    fn on(self, meter: &Meter, wanted: i64) -> Refusal {
        Refusal {
            reason: self.reason,
            scope: meter.scope,
            scope_id: meter.scope_id,
            meter: meter.name().to_owned(),
            metric: meter.metric(),
            limit: self.limit,
            used: self.used,
            held: self.held,
            wanted,
            resets_at: self.resets_at,
            retry_after_ms: self.retry_after_ms,
        }
    }
}

/// Asks one meter. Nothing when the counter is of another kind than the rule.
fn ask(meter: &Meter, counter: &Counter, wanted: i64, now: UnixMs) -> Option<Answer> {
    match (&meter.rule, counter) {
        (
            LimitRule::Bucket { metric, rate_milli_per_s, capacity },
            Counter::Bucket { level_micro, at },
        ) => {
            let level = refilled(*level_micro, *at, *rate_milli_per_s, *capacity, now);
            Some(ask_bucket(*metric, *rate_milli_per_s, *capacity, level, wanted))
        }
        (LimitRule::Window { window, limit, .. }, Counter::Rolling { slices, held }) => {
            Some(ask_rolling(*window, *limit, slices, *held, wanted, now))
        }
        (LimitRule::Month { limit, overage_bps, .. }, Counter::Month { period, used, held }) => {
            Some(ask_month(hard_limit(*limit, *overage_bps), *period, *used, *held, wanted))
        }
        (LimitRule::Balance, Counter::Balance { credited, used, held }) => {
            Some(ask_balance(*credited, *used, *held, wanted))
        }
        (LimitRule::Lease { limit }, Counter::Lease { live }) => Some(ask_lease(*limit, *live)),
        _ => None,
    }
}

/// The level of a bucket at `now`, in millionths. A clock that went backwards refills nothing.
#[must_use]
pub fn refilled(
    level_micro: i64,
    at: UnixMs,
    rate_milli_per_s: i64,
    capacity: i64,
    now: UnixMs,
) -> i64 {
    // A thousandth of a unit per second is a millionth per millisecond.
    let gained = now.since_ms(at).saturating_mul(rate_milli_per_s);
    level_micro.saturating_add(gained).min(capacity.saturating_mul(MICRO))
}

/// Where calls stop: the limit and its overage, rounded down.
#[must_use]
pub fn hard_limit(limit: i64, overage_bps: i64) -> i64 {
    let raised = i128::from(limit) * i128::from(ONE_IN_BPS + overage_bps) / i128::from(ONE_IN_BPS);
    i64::try_from(raised).unwrap_or(MAX_COUNT).min(MAX_COUNT)
}

fn ask_bucket(
    metric: Metric,
    rate_milli_per_s: i64,
    capacity: i64,
    level: i64,
    wanted: i64,
) -> Answer {
    let wanted_micro = wanted.saturating_mul(MICRO);
    if level >= wanted_micro {
        return Answer::Yes(TakeKind::Bucket { capacity });
    }
    let (reason, wait) = if wanted > capacity {
        (Reason::ExceedsCapacity, None)
    } else {
        let reason = match metric {
            Metric::Tokens => Reason::TokenRateLimited,
            Metric::Requests | Metric::Cost => Reason::RateLimited,
        };
        let missing = wanted_micro.saturating_sub(level);
        let wait = (rate_milli_per_s > 0).then(|| ceil_div(missing, rate_milli_per_s));
        (reason, wait)
    };
    // A bucket has no "used": what is missing from the top stands for it.
    let used = ceil_div(capacity.saturating_mul(MICRO).saturating_sub(level), MICRO);
    Answer::No(No { reason, limit: capacity, used, held: 0, resets_at: None, retry_after_ms: wait })
}

fn ask_rolling(
    window: RollingWindow,
    limit: i64,
    slices: &[(UnixMs, i64)],
    held: i64,
    wanted: i64,
    now: UnixMs,
) -> Answer {
    let oldest = window.oldest_slice(now);
    let live = || slices.iter().filter(|(start, _)| *start >= oldest);
    let used = live().fold(0_i64, |sum, (_, amount)| sum.saturating_add(*amount));
    let excess = used.saturating_add(held).saturating_add(wanted).saturating_sub(limit);
    if wanted == 0 || excess <= 0 {
        let slice_start = window.slice_start(now);
        return Answer::Yes(TakeKind::Window { slice_start, period_start: UnixMs(0) });
    }
    if wanted > limit {
        let reason = Reason::ExceedsCapacity;
        return Answer::No(No { reason, limit, used, held, resets_at: None, retry_after_ms: None });
    }
    // Slices end oldest first; the wait is over when enough of them have. What is held ends when its
    // calls do, which nobody knows: then the end of the last slice is the best answer there is.
    let mut freed = 0_i64;
    let mut until = now.plus_ms(1_000);
    for (start, amount) in live() {
        until = window.expires_at(*start);
        freed = freed.saturating_add(*amount);
        if freed >= excess {
            break;
        }
    }
    Answer::No(No {
        reason: Reason::WindowExhausted,
        limit,
        used,
        held,
        resets_at: Some(until),
        retry_after_ms: Some(until.since_ms(now)),
    })
}

fn ask_month(hard: i64, period: Period, used: i64, held: i64, wanted: i64) -> Answer {
    // A call that costs nothing passes although the money is spent.
    if wanted == 0 || used.saturating_add(held).saturating_add(wanted) <= hard {
        let (slice_start, period_start) = (period.start, period.start);
        return Answer::Yes(TakeKind::Window { slice_start, period_start });
    }
    let reason = Reason::BudgetExhausted;
    let resets_at = Some(period.end);
    Answer::No(No { reason, limit: hard, used, held, resets_at, retry_after_ms: None })
}

fn ask_balance(credited: i64, used: i64, held: i64, wanted: i64) -> Answer {
    if wanted == 0 || used.saturating_add(held).saturating_add(wanted) <= credited {
        return Answer::Yes(TakeKind::Window { slice_start: UnixMs(0), period_start: UnixMs(0) });
    }
    let reason = Reason::BalanceExhausted;
    Answer::No(No { reason, limit: credited, used, held, resets_at: None, retry_after_ms: None })
}

fn ask_lease(limit: i64, live: i64) -> Answer {
    if live < limit {
        return Answer::Yes(TakeKind::Lease);
    }
    let reason = Reason::ConcurrencyExhausted;
    // Nobody knows when a running call ends; a second is the shortest wait a client can be told.
    let retry_after_ms = Some(1_000);
    Answer::No(No { reason, limit, used: live, held: 0, resets_at: None, retry_after_ms })
}

fn ceil_div(amount: i64, by: i64) -> i64 {
    amount.saturating_add(by - 1).div_euclid(by)
}

/// Which thresholds, in percent of `limit`, lie in `(before, after]`: each fires an alert once.
#[must_use]
pub fn crossed(thresholds_percent: &[i64], limit: i64, before: i64, after: i64) -> Vec<i64> {
    thresholds_percent
        .iter()
        .copied()
        .filter(|percent| {
            let mark = i128::from(limit) * i128::from(*percent);
            i128::from(before) * 100 < mark && mark <= i128::from(after) * 100
        })
        .collect()
}

#[cfg(test)]
mod tests;
