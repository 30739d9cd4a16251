//! What a plan says about single calls, whatever its counters say.

use serde::{Deserialize, Serialize};

use crate::money::Nanos;

/// The longest that a plan may let a call wait, in milliseconds: below the time-outs of clients and balancers.
pub const MAX_WAIT_MS: i64 = 30_000;
/// How long a call waits where a plan that waits says nothing: longer than most bursts, shorter than patience.
pub const DEFAULT_WAIT_MS: i64 = 2_000;
/// The largest share: one tenant weighs at most a thousand times as much as another.
pub const MAX_WEIGHT: i64 = 1_000;

/// What holds for every single call of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CallTerms {
    /// The most that one call may be able to cost: its hold is held against it.
    #[serde(rename = "max_request_charge_nanos")]
    pub max_charge: Option<Nanos>,
    /// The most tokens that one call may probably use, input and output bound together.
    #[serde(rename = "max_request_tokens")]
    pub max_tokens: Option<i64>,
    /// How long a call may wait for its turn, where the plan waits; 0 to [`MAX_WAIT_MS`].
    pub max_wait_ms: i64,
    /// The share of a tenant when several wait for one provider's quota; 1 to [`MAX_WEIGHT`].
    pub weight: i64,
}

impl Default for CallTerms {
    /// No maximum, a short wait, an equal share.
    fn default() -> Self {
        Self { max_charge: None, max_tokens: None, max_wait_ms: DEFAULT_WAIT_MS, weight: 1 }
    }
}
