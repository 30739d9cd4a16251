//! What the scripts say of holds, refusals and readings.

use domain::admission::{MICRO, Meter, Reason, Refusal, Scope, Take, TakeKind};
use domain::money::Nanos;
use domain::plan::{LimitRule, Metric};
use domain::window::UnixMs;
use ledger::slice::owner;

use super::levels::Level;
use super::reply::Reply;
use super::wire::at;
use crate::admission::{Ask, LimiterError, Reading};
use crate::hold::Hold;

/// The hold that an ask has just taken, and the levels that its buckets were left with.
pub(super) fn hold_taken(
    ask: &Ask,
    meters: &[Meter],
    reply: &mut Reply,
) -> Result<(Hold, Vec<Level>), LimiterError> {
    let (admitted_at, expires_at) = (UnixMs(reply.number()?), UnixMs(reply.number()?));
    let mut takes = Vec::with_capacity(meters.len());
    let mut levels = Vec::new();
    for meter in meters {
        let (slice_start, period_start) = (UnixMs(reply.number()?), UnixMs(reply.number()?));
        let level_micro = reply.number()?;
        if let LimitRule::Bucket { rate_milli_per_s, capacity, .. } = &meter.rule {
            levels.push(Level {
                owner: owner(ask.tenant_id, meter.scope),
                scope: meter.scope,
                scope_id: meter.scope_id,
                meter: meter.name(),
                level_micro,
                at: admitted_at,
                rate_milli: *rate_milli_per_s,
                capacity: *capacity,
            });
        }
        let kind = match &meter.rule {
            LimitRule::Bucket { capacity, .. } => TakeKind::Bucket { capacity: *capacity },
            LimitRule::Window { .. } | LimitRule::Month { .. } | LimitRule::Balance => {
                TakeKind::Window { slice_start, period_start }
            }
            LimitRule::Lease { .. } => TakeKind::Lease,
        };
        takes.push(Take {
            scope: meter.scope,
            scope_id: meter.scope_id,
            meter: meter.name().to_owned(),
            metric: meter.metric(),
            kind,
            amount: ask.estimate.amount(meter.metric()),
        });
    }
    Ok((hold(ask, admitted_at, expires_at, ask.estimate.charge, takes), levels))
}

/// The hold that an earlier ask took.
pub(super) fn hold_kept(ask: &Ask, reply: &mut Reply) -> Result<Hold, LimiterError> {
    let (admitted_at, expires_at) = (UnixMs(reply.number()?), UnixMs(reply.number()?));
    let charge = Nanos(reply.number()?);
    let mut takes = Vec::new();
    while !reply.is_empty() {
        takes.push(take(reply)?);
    }
    Ok(hold(ask, admitted_at, expires_at, charge, takes))
}

fn hold(
    ask: &Ask,
    admitted_at: UnixMs,
    expires_at: UnixMs,
    charge: Nanos,
    takes: Vec<Take>,
) -> Hold {
    let (request_id, tenant_id) = (ask.request_id, ask.tenant_id);
    // The marks of the takes are put on when all shards have spoken.
    let alerts = Vec::new();
    Hold { request_id, tenant_id, admitted_at, expires_at, takes, charge, alerts }
}

fn take(reply: &mut Reply) -> Result<Take, LimiterError> {
    let id = reply.text()?;
    let unreadable = || LimiterError::Unreadable(format!("a take of {id:?}"));
    let mut parts = id.splitn(3, '/');
    let scope = parts.next().and_then(Scope::parse).ok_or_else(unreadable)?;
    let scope_id = parts.next().and_then(|part| part.parse().ok()).ok_or_else(unreadable)?;
    let meter = parts.next().ok_or_else(unreadable)?.to_owned();
    let rule = reply.text()?;
    let metric = match reply.text()?.as_str() {
        "requests" => Metric::Requests,
        "tokens" => Metric::Tokens,
        "cost" => Metric::Cost,
        _ => return Err(unreadable()),
    };
    let amount = reply.number()?;
    let (slice_start, period_start) = (UnixMs(reply.number()?), UnixMs(reply.number()?));
    let extra = reply.number()?;
    let kind = match rule.as_str() {
        "bucket" => TakeKind::Bucket { capacity: extra },
        "lease" => TakeKind::Lease,
        "window" | "month" | "balance" => TakeKind::Window { slice_start, period_start },
        _ => return Err(unreadable()),
    };
    Ok(Take { scope, scope_id, meter, metric, kind, amount })
}

/// A refusal, and the holds that may stand in the way of the call.
pub(super) fn refusal(
    ask: &Ask,
    meters: &[Meter],
    reply: &mut Reply,
) -> Result<(Refusal, Vec<String>), LimiterError> {
    let place = reply.number()?;
    let meter = at(meters, &[place]).pop();
    let meter =
        meter.ok_or_else(|| LimiterError::Unreadable(format!("a refusal of meter {place}")))?;
    let code = reply.text()?;
    let all = [
        Reason::RateLimited,
        Reason::TokenRateLimited,
        Reason::WindowExhausted,
        Reason::ConcurrencyExhausted,
        Reason::BudgetExhausted,
        Reason::BalanceExhausted,
        Reason::ExceedsCapacity,
    ];
    let reason = all.into_iter().find(|reason| reason.code() == code);
    let reason =
        reason.ok_or_else(|| LimiterError::Unreadable(format!("a refusal for {code:?}")))?;
    let (limit, used, held) = (reply.number()?, reply.number()?, reply.number()?);
    let (resets_at, wait) = (reply.number()?, reply.number()?);
    let refusal = Refusal {
        reason,
        scope: meter.scope,
        scope_id: meter.scope_id,
        meter: meter.name().to_owned(),
        metric: meter.metric(),
        limit,
        used,
        held,
        wanted: ask.estimate.amount(meter.metric()),
        resets_at: (resets_at >= 0).then_some(UnixMs(resets_at)),
        retry_after_ms: (wait >= 0).then_some(wait),
    };
    Ok((refusal, reply.texts()?))
}

/// What the readings script says: the cut, and a reading for each meter.
pub(super) fn readings_read(
    meters: &[Meter],
    reply: &mut Reply,
) -> Result<(i64, Vec<Reading>), LimiterError> {
    let _now = reply.number()?;
    let cut = reply.number()?;
    let mut readings = Vec::with_capacity(meters.len());
    for meter in meters {
        let (stop, used, held) = (reply.number()?, reply.number()?, reply.number()?);
        let (level, ends) = (reply.number()?, reply.number()?);
        let is_bucket = matches!(meter.rule, LimitRule::Bucket { .. });
        readings.push(Reading {
            scope: meter.scope,
            scope_id: meter.scope_id,
            meter: meter.name().to_owned(),
            metric: meter.metric(),
            limit: match &meter.rule {
                LimitRule::Month { limit, .. } => *limit,
                _ => stop,
            },
            hard_limit: stop,
            used,
            held,
            level: is_bucket.then(|| level.div_euclid(MICRO)),
            resets_at: (ends >= 0).then_some(UnixMs(ends)),
        });
    }
    Ok((cut, readings))
}
