//! How large a tenant's calls are, so that its month comes to what the cast says.

use domain::money::Nanos;
use domain::plan::{LimitRule, Metric, Plan};
use domain::window::{CalendarError, Period, UnixMs, month_period};

use super::ask::{Ask, PLAIN};
use super::cast::Aim;
use super::demand::{Call, DAY_MS, Demand, HOUR_MS};
use super::dice::Dice;
use super::history::HistoryError;
use super::stage::{Stage, StagedTenant};

/// Whole weeks at the end of the history tell what a tenant usually spends.
const SAMPLE_DAYS: i64 = 28;
/// A month, for what is said of a month.
const MONTH_DAYS: i64 = 30;
/// Once so much of the month is over, the running day no longer decides whether a mark is passed.
const SETTLED_DAYS: i64 = 12;
/// Which percent of its budget a tenant reaches that is near it: at the end of the day, or by now.
const NEAR_TODAY_PERCENT: i64 = 95;
const NEAR_NOW_PERCENT: i64 = 88;
/// Which percent a tenant asks for that is refused: more than the budget and its overage.
const OVER_PERCENT: i64 = 118;
/// Early in a month calls may be so many times larger than usual; beyond that there are more of them.
const GROWN: i64 = 2;
/// The most calls that are added.
const BACKFILL_MAX: i64 = 5_000;
/// Sizes have bounds, so the sum is not quite proportional to them: it is corrected so many times.
const ROUNDS: usize = 2;
/// What the chance of added calls is drawn from, beside the seed.
const BACKFILL: u64 = 0xbac4_f111;

/// The sizes of one tenant's calls, in thousandths of what its work makes by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sizing {
    usual: i64,
    /// From the start of the running month on, where that month is aimed at.
    aimed: Option<(UnixMs, i64)>,
    /// Calls of a program that caught up on old work early in the month, in order.
    backfill: Vec<Call>,
}

/// A tenant's budget for a month.
#[derive(Debug, Clone, Copy)]
struct Budget {
    limit: i64,
    anchor_day: u8,
}

impl Sizing {
    /// Finds the sizes.
    pub(crate) fn find(
        stage: &Stage,
        tenant: &StagedTenant,
        demand: &Demand<'_>,
        now: UnixMs,
    ) -> Result<Self, HistoryError> {
        let budget = budget(&tenant.plan).ok_or(HistoryError::Cast)?;
        let sums = Sums { stage, tenant };
        let sample = natural(demand, demand.today.plus_ms(-SAMPLE_DAYS * DAY_MS), demand.today)?;
        let monthly = budget.limit / 100 * tenant.cast.month_percent;
        let usual = sums.size_for(&sample, monthly / MONTH_DAYS * SAMPLE_DAYS)?;
        let plain = Self { usual, aimed: None, backfill: Vec::new() };
        let period = month_period(now, &tenant.zone, budget.anchor_day)?;
        let Some((percent, end)) = aim(tenant.cast.aim, period, demand.today, now) else {
            return Ok(plain);
        };
        let target = budget.limit / 100 * percent;
        let mut calls = natural(demand, period.start, end)?;
        let per_call = monthly / counted(sample.len()).max(1);
        let missing = target - GROWN * sums.charge(&calls, usual)?;
        let count = (missing / (GROWN * per_call).max(1)).clamp(0, BACKFILL_MAX);
        let backfill = added(demand, period.start, end, count);
        calls.extend(&backfill);
        let size = sums.size_for(&calls, target)?;
        Ok(Self { aimed: Some((period.start, size)), backfill, ..plain })
    }

    /// The size of a call at `at`.
    pub(crate) fn at(&self, at: UnixMs) -> i64 {
        match self.aimed {
            Some((from, size)) if from <= at => size,
            _ => self.usual,
        }
    }

    /// The added calls from `from` until before `to`.
    pub(crate) fn backfill(&self, from: UnixMs, to: UnixMs) -> impl Iterator<Item = Call> + '_ {
        self.backfill.iter().copied().filter(move |call| from <= call.at && call.at < to)
    }
}

fn budget(plan: &Plan) -> Option<Budget> {
    plan.rules.iter().find_map(|rule| match rule {
        LimitRule::Month { metric: Metric::Cost, limit, anchor_day, .. } => {
            Some(Budget { limit: *limit, anchor_day: *anchor_day })
        }
        _ => None,
    })
}

/// Which percent of the budget is to be asked for, and by when.
fn aim(aim: Aim, period: Period, today: UnixMs, now: UnixMs) -> Option<(i64, UnixMs)> {
    let settled = today.since_ms(period.start) >= SETTLED_DAYS * DAY_MS;
    let end = if settled { today.plus_ms(DAY_MS) } else { now };
    match aim {
        Aim::Usual => None,
        Aim::Near if settled => Some((NEAR_TODAY_PERCENT, end)),
        Aim::Near => Some((NEAR_NOW_PERCENT, end)),
        Aim::Over => Some((OVER_PERCENT, end)),
    }
}

/// What the tenant's programs ask for by themselves, from `from` until before `to`.
fn natural(demand: &Demand<'_>, from: UnixMs, to: UnixMs) -> Result<Vec<Call>, CalendarError> {
    let mut calls = Vec::new();
    let mut hour = from.plus_ms(-from.0.rem_euclid(HOUR_MS));
    while hour < to {
        calls.extend(demand.hour(hour)?.into_iter().filter(|c| from <= c.at && c.at < to));
        hour = hour.plus_ms(HOUR_MS);
    }
    Ok(calls)
}

fn added(demand: &Demand<'_>, from: UnixMs, to: UnixMs, count: i64) -> Vec<Call> {
    let month = u64::try_from(from.0).unwrap_or(0);
    let mut dice = Dice::of(&[demand.seed, demand.number, BACKFILL, month]);
    let last = to.0.saturating_sub(1);
    let mut calls: Vec<Call> = (0..count)
        .map(|_| Call { at: UnixMs(dice.between(from.0, last)), seed: dice.roll() })
        .collect();
    calls.sort_unstable();
    calls
}

fn counted(calls: usize) -> i64 {
    i64::try_from(calls).unwrap_or(i64::MAX)
}

/// What calls of a tenant come to.
struct Sums<'a> {
    stage: &'a Stage,
    tenant: &'a StagedTenant,
}

impl Sums<'_> {
    /// The charge of all, when none fails, in nano-USD.
    fn charge(&self, calls: &[Call], size: i64) -> Result<i64, HistoryError> {
        let mut sum = Nanos::ZERO;
        for call in calls {
            let ask = Ask::of(self.stage, self.tenant, *call, size)?;
            sum = sum.plus(ask.price(&ask.usage, self.tenant)?.1)?;
        }
        Ok(sum.0)
    }

    /// The size at which the calls come to about `target`.
    fn size_for(&self, calls: &[Call], target: i64) -> Result<i64, HistoryError> {
        let mut size = PLAIN;
        for _ in 0..ROUNDS {
            let charge = self.charge(calls, size)?;
            if charge == 0 {
                break;
            }
            let corrected = i128::from(size) * i128::from(target) / i128::from(charge);
            size = i64::try_from(corrected).unwrap_or(PLAIN).max(1);
        }
        Ok(size)
    }
}
