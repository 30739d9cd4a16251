//! What the scripts are told, and what they say: the heads of the files in `lua/` are the other half of this one.

use std::collections::{HashMap, HashSet};

use domain::admission::{AdmissionError, MAX_COUNT, Meter, Scope, Take, TakeKind, hard_limit};
use domain::id::RequestId;
use domain::plan::{LimitRule, Metric};
use domain::window::{Period, RollingWindow, UnixMs, Zone, month_period};

use super::shard::Shard;
use crate::admission::{Ask, LimiterError, Reading};
use crate::hold::HOLD_TTL_MS;

/// The name of the prepaid balance's meter.
pub(super) const BALANCE: &str = "balance";

/// What a script is given beside the keys.
pub(super) type Arguments = Vec<Vec<u8>>;

/// Two meters of one name would share a counter.
pub(super) fn check_names(meters: &[Meter]) -> Result<(), LimiterError> {
    let mut seen = HashSet::with_capacity(meters.len());
    for meter in meters {
        if !seen.insert((meter.scope, meter.scope_id, meter.name())) {
            return Err(LimiterError::SharedCounter(meter.name()));
        }
    }
    Ok(())
}

/// A meter's name among the counters of its shard.
pub(super) fn meter_id(scope: Scope, scope_id: i64, name: &str) -> String {
    format!("{}/{scope_id}/{name}", scope.code())
}

const fn metric_code(metric: Metric) -> &'static str {
    match metric {
        Metric::Requests => "requests",
        Metric::Tokens => "tokens",
        Metric::Cost => "cost",
    }
}

fn number(into: &mut Arguments, number: i64) {
    into.push(number.to_string().into_bytes());
}

fn text(into: &mut Arguments, text: &str) {
    into.push(text.as_bytes().to_vec());
}

/// The store's own clock is asked for with -1.
fn instant(into: &mut Arguments, now: Option<UnixMs>) {
    number(into, now.map_or(-1, |now| now.0));
}

pub(super) fn admit(
    shard: &Shard,
    ask: &Ask,
    meters: &[Meter],
    epoch: i64,
    look_for_expired: bool,
    guess: UnixMs,
) -> Result<Arguments, LimiterError> {
    let charge = ask.estimate.charge.0;
    if !(0..=MAX_COUNT).contains(&charge) {
        return Err(AdmissionError::OutOfRange(0).into());
    }
    let mut into = Arguments::with_capacity(7 + 9 * meters.len());
    instant(&mut into, ask.now);
    number(&mut into, epoch);
    text(&mut into, &ask.request_id.to_string());
    number(&mut into, HOLD_TTL_MS);
    // What a provider's shard holds is the tenant's money, which is told by the tenant's shard.
    number(&mut into, if shard.tenant().is_some() { charge } else { 0 });
    number(&mut into, i64::from(look_for_expired));
    put_meters(&mut into, meters, |metric| ask.estimate.amount(metric), &ask.zone, guess)?;
    Ok(into)
}

pub(super) fn readings(
    zone: &Zone,
    meters: &[Meter],
    epoch: i64,
    now: Option<UnixMs>,
    guess: UnixMs,
) -> Result<Arguments, LimiterError> {
    let mut into = Arguments::with_capacity(3 + 9 * meters.len());
    instant(&mut into, now);
    number(&mut into, epoch);
    put_meters(&mut into, meters, |_| 0, zone, guess)?;
    Ok(into)
}

fn put_meters(
    into: &mut Arguments,
    meters: &[Meter],
    wanted: impl Fn(Metric) -> i64,
    zone: &Zone,
    guess: UnixMs,
) -> Result<(), LimiterError> {
    number(into, i64::try_from(meters.len()).unwrap_or(i64::MAX));
    for (at, meter) in meters.iter().enumerate() {
        let wanted = wanted(meter.metric());
        if !(0..=MAX_COUNT).contains(&wanted) {
            return Err(AdmissionError::OutOfRange(at).into());
        }
        put_meter(into, meter, wanted, zone, guess)?;
    }
    Ok(())
}

fn put_meter(
    into: &mut Arguments,
    meter: &Meter,
    wanted: i64,
    zone: &Zone,
    guess: UnixMs,
) -> Result<(), LimiterError> {
    let (rule, limit, numbers) = match &meter.rule {
        LimitRule::Bucket { rate_milli_per_s, capacity, .. } => {
            ("bucket", *capacity, [*rate_milli_per_s, 0, 0, 0])
        }
        LimitRule::Window { window, limit, .. } => {
            ("window", *limit, [window.slice_ms(), window.slices(), 0, 0])
        }
        LimitRule::Month { limit, overage_bps, anchor_day, .. } => {
            let edges = months_around(guess, zone, *anchor_day)?;
            ("month", hard_limit(*limit, *overage_bps), edges)
        }
        LimitRule::Balance => ("balance", 0, [0; 4]),
        LimitRule::Lease { limit } => ("lease", *limit, [0; 4]),
    };
    text(into, &meter_id(meter.scope, meter.scope_id, meter.name()));
    text(into, rule);
    text(into, metric_code(meter.metric()));
    number(into, wanted);
    number(into, limit);
    for value in numbers {
        number(into, value);
    }
    Ok(())
}

/// The edges of the month of `guess` and its neighbours: the store's clock picks one of the three.
fn months_around(guess: UnixMs, zone: &Zone, anchor_day: u8) -> Result<[i64; 4], LimiterError> {
    let this = month_period(guess, zone, anchor_day)?;
    let before = month_period(this.start.plus_ms(-1), zone, anchor_day)?;
    let after = month_period(this.end, zone, anchor_day)?;
    Ok([before.start.0, this.start.0, this.end.0, after.end.0])
}

/// What settle is told: each with what was used; nothing where nobody said.
pub(super) fn settle<'a>(
    ended: impl IntoIterator<Item = (&'a str, Option<(i64, i64)>)>,
    only_expired: bool,
    epoch: i64,
    now: Option<UnixMs>,
) -> Arguments {
    let mut into = Arguments::new();
    instant(&mut into, now);
    number(&mut into, epoch);
    number(&mut into, i64::from(only_expired));
    for (request_id, used) in ended {
        let (tokens, charge) = used.unwrap_or((-1, 0));
        text(&mut into, request_id);
        number(&mut into, tokens);
        number(&mut into, charge);
    }
    into
}

/// What release is told: `how` is `release` or `undo`.
pub(super) fn release(
    request_id: RequestId,
    how: &str,
    epoch: i64,
    now: Option<UnixMs>,
) -> Arguments {
    let mut into = Arguments::new();
    instant(&mut into, now);
    number(&mut into, epoch);
    text(&mut into, &request_id.to_string());
    text(&mut into, how);
    into
}

pub(super) fn renew(request_id: RequestId, epoch: i64, now: Option<UnixMs>) -> Arguments {
    let mut into = Arguments::new();
    instant(&mut into, now);
    number(&mut into, epoch);
    text(&mut into, &request_id.to_string());
    number(&mut into, HOLD_TTL_MS);
    into
}

pub(super) fn expired(most: i64, epoch: i64, now: Option<UnixMs>) -> Arguments {
    let mut into = Arguments::new();
    instant(&mut into, now);
    number(&mut into, epoch);
    number(&mut into, most);
    into
}

/// Asks for nothing, to see whether counters are there.
pub(super) fn nothing_expired(epoch: i64) -> Arguments {
    expired(0, epoch, None)
}

/// The meters at these places.
pub(super) fn at(meters: &[Meter], places: &[i64]) -> Vec<Meter> {
    let meter = |place: &i64| usize::try_from(*place).ok().and_then(|at| meters.get(at)).cloned();
    places.iter().filter_map(meter).collect()
}

/// A take as the scripts keep it: id, rule, metric, amount, slice, period, and the bucket's capacity or the length of
/// a slice.
pub(super) fn kept_take(take: &Take) -> serde_json::Value {
    let (rule, slice, period, extra) = match take.kind {
        TakeKind::Bucket { capacity } => ("bucket", 0, 0, capacity),
        TakeKind::Lease => ("lease", 0, 0, 0),
        TakeKind::Window { slice_start, period_start } => {
            let (rule, step) = match rolling(&take.meter) {
                Some(window) => ("window", window.slice_ms()),
                None if take.meter == BALANCE => ("balance", 0),
                None => ("month", 0),
            };
            (rule, slice_start.0, period_start.0, step)
        }
    };
    let id = meter_id(take.scope, take.scope_id, &take.meter);
    serde_json::json!([id, rule, metric_code(take.metric), take.amount, slice, period, extra])
}

/// The rolling window that a meter of this name counts in.
pub(super) fn rolling(meter: &str) -> Option<RollingWindow> {
    [RollingWindow::FiveHours, RollingWindow::Day, RollingWindow::Week].into_iter().find(|window| {
        [Metric::Requests, Metric::Tokens, Metric::Cost].into_iter().any(|metric| {
            let rule = LimitRule::Window { metric, window: *window, limit: 0 };
            Meter { scope: Scope::Tenant, scope_id: 0, rule }.name() == meter
        })
    })
}

/// Puts takes in the order of the meters that were asked, as the other engine has them.
pub(super) fn in_order_of(meters: &[Meter], takes: &mut [Take]) {
    let places = places(meters);
    takes.sort_by_key(|take| {
        places.get(&(take.scope, take.scope_id, take.meter.as_str())).copied().unwrap_or(usize::MAX)
    });
}

pub(super) fn readings_in_order_of(meters: &[Meter], readings: &mut [Reading]) {
    let places = places(meters);
    readings.sort_by_key(|reading| {
        let place = places.get(&(reading.scope, reading.scope_id, reading.meter.as_str()));
        place.copied().unwrap_or(usize::MAX)
    });
}

fn places(meters: &[Meter]) -> HashMap<(Scope, i64, &'static str), usize> {
    let place = |(at, meter): (usize, &Meter)| ((meter.scope, meter.scope_id, meter.name()), at);
    meters.iter().enumerate().map(place).collect()
}

/// The month of a meter at an instant.
pub(super) fn month_of(
    rule: &LimitRule,
    zone: &Zone,
    now: UnixMs,
) -> Result<Option<Period>, LimiterError> {
    match rule {
        LimitRule::Month { anchor_day, .. } => Ok(Some(month_period(now, zone, *anchor_day)?)),
        LimitRule::Bucket { .. }
        | LimitRule::Window { .. }
        | LimitRule::Balance
        | LimitRule::Lease { .. } => Ok(None),
    }
}
