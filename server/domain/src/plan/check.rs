//! What no plan may say: numbers that a counter cannot hold exactly, and limits that contradict each other.

use super::{CallTerms, LimitRule, MAX_WAIT_MS, MAX_WEIGHT, Metric, Plan};
use crate::admission::{MAX_COUNT, MICRO};
use crate::money::{MAX_LIMIT, ONE_IN_BPS};

/// One scope has at most so many limits: each is a counter that every call of the scope touches.
pub const MAX_RULES: usize = 8;
/// The largest output bound, in tokens: far above any model's, and times 128 answers still a count.
pub const MAX_OUTPUT_TOKENS: i64 = 1_000_000_000;
/// The largest overage, 100 %: beyond that the limit is not one.
const MAX_OVERAGE_BPS: i64 = ONE_IN_BPS;
/// The fullest bucket: its level in millionths must stay a number that JSON and Lua hold exactly.
const MAX_CAPACITY: i64 = MAX_COUNT / MICRO;
/// The largest count: half of what a counter holds, so that the overage still fits.
const MAX_NUMBER: i64 = MAX_COUNT / 2;
/// The largest markup: a hundred times the provider's price.
const MAX_MARKUP_BPS: i64 = 100 * ONE_IN_BPS;

/// A plan, or a list of limits, says what cannot be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// More limits than one scope may have.
    #[error("at most {MAX_RULES} of them")]
    TooManyRules,
    /// Two limits of one scope would count in one counter.
    #[error("two of them are {0}")]
    Repeated(&'static str),
    /// One limit says what cannot be kept.
    #[error("{meter}: {why}")]
    Rule {
        /// Its meter.
        meter: &'static str,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Something else of the plan is out of range.
    #[error("{field}: {why}")]
    Term {
        /// What.
        field: &'static str,
        /// Its range, in words.
        why: &'static str,
    },
}

/// Whether a list of limits of one tenant, team or key can be kept.
///
/// # Errors
/// When a number is out of range, or two limits are of the same meter.
pub fn check_rules(rules: &[LimitRule]) -> Result<(), PlanError> {
    if rules.len() > MAX_RULES {
        return Err(PlanError::TooManyRules);
    }
    let mut names: Vec<&'static str> = Vec::with_capacity(rules.len());
    for rule in rules {
        let meter = rule.meter_name();
        if names.contains(&meter) {
            return Err(PlanError::Repeated(meter));
        }
        names.push(meter);
        if let Some(why) = wrong(rule) {
            return Err(PlanError::Rule { meter, why });
        }
    }
    Ok(())
}

/// Whether a list of limits can be the operator's own quota at a provider.
///
/// # Errors
/// As [`check_rules`]; and for a month, which is every tenant's own, and a balance, which a provider has none of.
pub fn check_quota(rules: &[LimitRule]) -> Result<(), PlanError> {
    check_rules(rules)?;
    let foreign = |rule: &&LimitRule| match rule {
        LimitRule::Month { .. } | LimitRule::Balance => true,
        LimitRule::Bucket { .. } | LimitRule::Window { .. } | LimitRule::Lease { .. } => false,
    };
    match rules.iter().find(foreign) {
        None => Ok(()),
        Some(rule) => {
            let why = "a provider's quota is made of rates, rolling windows and concurrency";
            Err(PlanError::Rule { meter: rule.meter_name(), why })
        }
    }
}

/// What is wrong with one limit.
fn wrong(rule: &LimitRule) -> Option<&'static str> {
    match rule {
        LimitRule::Bucket { rate_milli_per_s, capacity, .. } => {
            let fits = |n: &i64| (1..=MAX_CAPACITY).contains(n);
            (!fits(rate_milli_per_s) || !fits(capacity)).then_some(
                "the rate in thousandths per second and the capacity are each from 1 to 9,007,199,254",
            )
        }
        LimitRule::Window { metric, limit, .. } => wrong_limit(*metric, *limit),
        LimitRule::Month { metric, limit, overage_bps, anchor_day } => {
            if !(0..=MAX_OVERAGE_BPS).contains(overage_bps) {
                Some("the overage is between 0 and 100 %")
            } else if !(1..=31).contains(anchor_day) {
                Some("the period begins on a day from 1 to 31")
            } else {
                wrong_limit(*metric, *limit)
            }
        }
        LimitRule::Balance => None,
        // Nobody is told to wait for a place that never comes: to let nothing pass is a window of 0.
        LimitRule::Lease { limit } => {
            (!(1..=MAX_NUMBER).contains(limit)).then_some("at least one call at a time")
        }
    }
}

fn wrong_limit(metric: Metric, limit: i64) -> Option<&'static str> {
    match metric {
        Metric::Cost => (!(0..=MAX_LIMIT.0).contains(&limit))
            .then_some("the limit is between 0 and 9,000,000 USD (9,000,000,000,000,000 nano-USD)"),
        Metric::Requests | Metric::Tokens => (!(0..=MAX_NUMBER).contains(&limit))
            .then_some("the limit is between 0 and 4,503,599,627,370,496"),
    }
}

impl Plan {
    /// Whether everything that the plan says can be kept.
    ///
    /// # Errors
    /// The first thing that cannot.
    pub fn check(&self) -> Result<(), PlanError> {
        check_rules(&self.rules)?;
        let term = |field, why| Err(PlanError::Term { field, why });
        if self.name.trim().is_empty() {
            return term("name", "it is empty");
        }
        if !(0..=MAX_MARKUP_BPS).contains(&self.markup_bps) {
            return term("markup_bps", "between 0 and 1,000,000 basis points");
        }
        if !(1..=MAX_OUTPUT_TOKENS).contains(&self.max_output_tokens) {
            return term("max_output_tokens", "between 1 and 1,000,000,000");
        }
        if !(1..=self.max_output_tokens).contains(&self.default_max_output_tokens) {
            return term("default_max_output_tokens", "between 1 and max_output_tokens");
        }
        if !(0..=MAX_LIMIT.0).contains(&self.request_fee.0) {
            return term("request_fee_nanos", "between 0 and 9,000,000 USD");
        }
        self.terms.check()
    }
}

impl CallTerms {
    fn check(&self) -> Result<(), PlanError> {
        let term = |field, why| Err(PlanError::Term { field, why });
        if self.max_charge.is_some_and(|max| !(0..=MAX_LIMIT.0).contains(&max.0)) {
            return term("max_request_charge_nanos", "between 0 and 9,000,000 USD");
        }
        if self.max_tokens.is_some_and(|max| !(1..=MAX_NUMBER).contains(&max)) {
            return term("max_request_tokens", "between 1 and 4,503,599,627,370,496");
        }
        if !(0..=MAX_WAIT_MS).contains(&self.max_wait_ms) {
            return term("max_wait_ms", "between 0 and 30,000");
        }
        if !(1..=MAX_WEIGHT).contains(&self.weight) {
            return term("weight", "between 1 and 1,000");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
