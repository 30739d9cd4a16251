//! What a tenant bought: limits, models, and what a call may ask for.

mod check;
mod terms;

use serde::{Deserialize, Serialize};

pub use self::check::{MAX_OUTPUT_TOKENS, MAX_RULES, PlanError, check_quota, check_rules};
pub use self::terms::{CallTerms, DEFAULT_WAIT_MS, MAX_WAIT_MS, MAX_WEIGHT};
use crate::admission::{Meter, Scope};
use crate::id::PlanId;
use crate::money::Nanos;
use crate::window::RollingWindow;

/// What a meter counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Calls.
    Requests,
    /// Tokens, input and output together.
    Tokens,
    /// Money charged to the tenant, in nano-USD.
    Cost,
}

/// One limit of a plan, a team or a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "rule", rename_all = "snake_case", deny_unknown_fields)]
pub enum LimitRule {
    /// A token bucket: `capacity` at once, refilled at `rate_milli_per_s` thousandths of a unit per second.
    Bucket {
        /// What is counted.
        metric: Metric,
        /// Refill, in thousandths of a unit per second.
        rate_milli_per_s: i64,
        /// The most that can be taken at once, in units.
        capacity: i64,
    },
    /// At most `limit` in any stretch of this length.
    Window {
        /// What is counted.
        metric: Metric,
        /// How long.
        window: RollingWindow,
        /// How much, in the metric's unit.
        limit: i64,
    },
    /// At most `limit` in a billing month, plus the overage.
    Month {
        /// What is counted.
        metric: Metric,
        /// How much, in the metric's unit.
        limit: i64,
        /// How far above the limit calls still pass, in basis points of it.
        #[serde(default = "default_overage_bps")]
        overage_bps: i64,
        /// The day of the month on which the period begins, 1 to 31.
        #[serde(default = "default_anchor_day")]
        anchor_day: u8,
    },
    /// At most what was paid in advance.
    Balance,
    /// At most `limit` calls at the same time.
    Lease {
        /// How many.
        limit: i64,
    },
}

impl LimitRule {
    /// The name of its meter; unique within a scope.
    #[must_use]
    pub fn meter_name(&self) -> &'static str {
        // The name does not depend on whose meter it is.
        Meter { scope: Scope::Tenant, scope_id: 0, rule: self.clone() }.name()
    }
}

/// A list of limits with others put in the place of those of the same meter, or behind them where there is none.
#[must_use]
pub fn with_overrides<'a>(
    rules: &'a [LimitRule],
    overrides: impl IntoIterator<Item = &'a LimitRule>,
) -> Vec<&'a LimitRule> {
    let mut effective: Vec<&LimitRule> = rules.iter().collect();
    for new in overrides {
        let same = |rule: &&mut &LimitRule| rule.meter_name() == new.meter_name();
        match effective.iter_mut().find(same) {
            Some(place) => *place = new,
            None => effective.push(new),
        }
    }
    effective
}

/// How far above a month limit calls still pass when a plan says nothing: 5 %.
#[must_use]
pub const fn default_overage_bps() -> i64 {
    500
}

const fn default_anchor_day() -> u8 {
    1
}

/// Whether a plan's answers to refusals help a client to come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DenyMode {
    /// Refused with a hint when to come back.
    #[default]
    Reject,
    /// Refused without a hint.
    RejectBare,
    /// Kept for a while where that may help, and then passed on or refused with a hint.
    Wait,
}

/// Which models a plan may use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelAccess {
    /// Every model that has a price.
    All,
    /// Models of these classes, such as `flash`.
    Classes(Vec<String>),
    /// These models by name.
    Only(Vec<String>),
}

impl ModelAccess {
    /// Whether a model of this name and class may be used.
    #[must_use]
    pub fn allows(&self, name: &str, class: &str) -> bool {
        match self {
            Self::All => true,
            Self::Classes(classes) => classes.iter().any(|c| c == class),
            Self::Only(names) => names.iter().any(|n| n == name),
        }
    }
}

/// One version of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The row.
    pub id: PlanId,
    /// The name, the same for all versions.
    pub name: String,
    /// The version, from 1.
    pub version: i32,
    /// The limits.
    pub rules: Vec<LimitRule>,
    /// The models.
    pub models: ModelAccess,
    /// What is added to the provider's price, in basis points.
    pub markup_bps: i64,
    /// The output bound written into a request that names none, in tokens.
    pub default_max_output_tokens: i64,
    /// The largest output bound that a request may name, in tokens.
    pub max_output_tokens: i64,
    /// What refusals tell.
    pub deny_mode: DenyMode,
    /// A fixed charge for each call that is served with the tenant's own provider key.
    pub request_fee: Nanos,
    /// What holds for every single call.
    pub terms: CallTerms,
}

impl Plan {
    /// The month limit on money, if the plan has one: limit in nano-USD and overage in basis points.
    #[must_use]
    pub fn month_cap(&self) -> Option<(Nanos, i64)> {
        self.rules.iter().find_map(|rule| match rule {
            LimitRule::Month { metric: Metric::Cost, limit, overage_bps, .. } => {
                Some((Nanos(*limit), *overage_bps))
            }
            LimitRule::Bucket { .. }
            | LimitRule::Window { .. }
            | LimitRule::Month { .. }
            | LimitRule::Balance
            | LimitRule::Lease { .. } => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(limit: i64) -> LimitRule {
        LimitRule::Lease { limit }
    }

    fn month(limit: i64) -> LimitRule {
        LimitRule::Month { metric: Metric::Cost, limit, overage_bps: 0, anchor_day: 1 }
    }

    #[test]
    fn an_override_takes_the_place_of_its_meter_and_a_new_one_comes_behind() {
        let rules = [lease(1), month(2)];
        let (more, other) = (month(9), LimitRule::Balance);
        assert_eq!(with_overrides(&rules, [&more]), [&lease(1), &month(9)]);
        assert_eq!(with_overrides(&rules, [&other]), [&lease(1), &month(2), &LimitRule::Balance]);
        assert_eq!(with_overrides(&rules, []), [&lease(1), &month(2)]);
    }
}
