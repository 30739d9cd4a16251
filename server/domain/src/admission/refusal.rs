//! A verdict of no.

use serde::{Deserialize, Serialize};

use super::meter::Scope;
use crate::plan::Metric;
use crate::window::UnixMs;

/// Why a call is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Too many requests at once.
    RateLimited,
    /// Too many tokens at once.
    TokenRateLimited,
    /// A rolling window is full.
    WindowExhausted,
    /// Too many calls are running.
    ConcurrencyExhausted,
    /// The month's limit is used up.
    BudgetExhausted,
    /// The prepaid balance is used up.
    BalanceExhausted,
    /// The call is larger than the limit itself: it can never pass.
    ExceedsCapacity,
}

impl Reason {
    /// The word used in rows, answers and metrics.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::RateLimited => "rate_limited",
            Self::TokenRateLimited => "token_rate_limited",
            Self::WindowExhausted => "window_exhausted",
            Self::ConcurrencyExhausted => "concurrency_exhausted",
            Self::BudgetExhausted => "budget_exhausted",
            Self::BalanceExhausted => "balance_exhausted",
            Self::ExceedsCapacity => "exceeds_capacity",
        }
    }

    /// Which of several refusals is told: the one that waiting helps least.
    pub(super) const fn rank(self) -> u8 {
        match self {
            Self::ExceedsCapacity => 2,
            Self::BudgetExhausted | Self::BalanceExhausted => 1,
            Self::RateLimited
            | Self::TokenRateLimited
            | Self::WindowExhausted
            | Self::ConcurrencyExhausted => 0,
        }
    }
}

/// A verdict of no: which limit said so, and its figures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Why.
    pub reason: Reason,
    /// Whose limit.
    pub scope: Scope,
    /// The row of that tenant, team, key or provider.
    pub scope_id: i64,
    /// Which meter.
    pub meter: String,
    /// What the meter counts.
    pub metric: Metric,
    /// Where calls stop: the limit, with its overage.
    pub limit: i64,
    /// What is used.
    pub used: i64,
    /// What is held by live calls.
    pub held: i64,
    /// What this call would have taken.
    pub wanted: i64,
    /// When the limit starts afresh, for calendar windows.
    pub resets_at: Option<UnixMs>,
    /// How long to wait until the call may pass; nothing where waiting does not help or is not known.
    pub retry_after_ms: Option<i64>,
}

impl Refusal {
    /// The wait in whole seconds, rounded up, at least 1: what `Retry-After` carries.
    #[must_use]
    pub const fn retry_after_s(&self) -> Option<i64> {
        match self.retry_after_ms {
            Some(ms) => {
                let seconds = ms.saturating_add(999) / 1_000;
                Some(if seconds < 1 { 1 } else { seconds })
            }
            None => None,
        }
    }
}
