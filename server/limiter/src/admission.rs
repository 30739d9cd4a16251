//! What an engine of admission can do. There are two of them and one law.

use async_trait::async_trait;
use domain::admission::{AdmissionError, Estimate, Meter, Refusal, Scope};
use domain::id::{RequestId, TenantId};
use domain::money::Nanos;
use domain::plan::Metric;
use domain::window::{CalendarError, UnixMs, Zone};
use ledger::LedgerError;

use crate::hold::{Actual, Hold};

/// One call that asks to pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// Names the call. Asking again for a live hold gives the same hold.
    pub request_id: RequestId,
    /// Who pays.
    pub tenant_id: TenantId,
    /// The calendar that cuts the tenant's months.
    pub zone: Zone,
    /// Every limit that applies to the call.
    pub meters: Vec<Meter>,
    /// The worst case of the call.
    pub estimate: Estimate,
    /// The instant, in tests; nothing for the store's own clock.
    pub now: Option<UnixMs>,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It may pass, and this is set aside.
    Admit(Hold),
    /// It may not, and nothing is set aside.
    Refuse(Refusal),
}

/// How one meter stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// Whose meter.
    pub scope: Scope,
    /// The row of that tenant, team, key or provider.
    pub scope_id: i64,
    /// Which meter.
    pub meter: String,
    /// What it counts.
    pub metric: Metric,
    /// The limit, without its overage. Of a bucket its capacity; of a balance what was paid in.
    pub limit: i64,
    /// Where calls stop: the limit with its overage.
    pub hard_limit: i64,
    /// What is used. Of a bucket nothing; of a lease nothing.
    pub used: i64,
    /// What live calls set aside. Of a lease, how many are running.
    pub held: i64,
    /// Of a bucket, its level in whole units; below zero it is a debt.
    pub level: Option<i64>,
    /// When a month starts afresh.
    pub resets_at: Option<UnixMs>,
}

impl Reading {
    /// What is left until calls stop; never below zero.
    #[must_use]
    pub fn left(&self) -> i64 {
        let left = self
            .level
            .unwrap_or_else(|| self.hard_limit.saturating_sub(self.used).saturating_sub(self.held));
        left.max(0)
    }
}

/// Why there is no verdict. A refusal is a verdict, not an error.
#[derive(Debug, thiserror::Error)]
pub enum LimiterError {
    /// The store did not answer, or not in time. The call must not pass.
    #[error("the counters cannot be reached")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Another engine admits by now, or this one under a newer epoch: ask again.
    #[error("this engine does not admit any more")]
    Superseded,
    /// Counters are gone that were there, and with them what live calls held: nobody may go on without them.
    #[error("counters were lost")]
    Lost,
    /// The engine has stopped: the process is on its way out.
    #[error("the engine has stopped")]
    Stopped,
    /// The meters cannot be applied.
    #[error(transparent)]
    Law(#[from] AdmissionError),
    /// Two meters would share one counter.
    #[error("two limits share the counter {0}")]
    SharedCounter(&'static str),
    /// The tenant's calendar cannot be applied.
    #[error(transparent)]
    Calendar(#[from] CalendarError),
    /// What the store keeps cannot be read.
    #[error("the store holds something unreadable: {0}")]
    Unreadable(String),
}

impl LimiterError {
    pub(crate) fn unavailable(why: impl Into<String>) -> Self {
        Self::Unavailable(why.into().into())
    }
}

impl From<sqlx::Error> for LimiterError {
    fn from(error: sqlx::Error) -> Self {
        match error {
            sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => {
                Self::Unreadable(error.to_string())
            }
            other => Self::Unavailable(Box::new(other)),
        }
    }
}

impl From<LedgerError> for LimiterError {
    fn from(error: LedgerError) -> Self {
        Self::Unavailable(Box::new(error))
    }
}

/// An engine of admission. In every method `now` is for tests: nothing means the store's own clock.
#[async_trait]
pub trait Admission: Send + Sync {
    /// Decides on a call, on all its meters at once, and sets aside what it may use.
    ///
    /// A caller that goes away before it has the answer leaves no hold behind.
    ///
    /// # Errors
    /// When there is no verdict: then nothing is known to be held, and the call must not pass.
    async fn admit(&self, ask: &Ask) -> Result<Verdict, LimiterError>;

    /// Ends a hold with what was really used, after the event has been written. A hold that is no longer there
    /// is left alone: settling twice changes nothing.
    ///
    /// # Errors
    /// When the store cannot be reached: then the hold ends by itself.
    async fn settle(
        &self,
        hold: &Hold,
        actual: &Actual,
        now: Option<UnixMs>,
    ) -> Result<(), LimiterError>;

    /// Ends a hold of which nothing was used. A place in the rate of requests is not given back.
    ///
    /// # Errors
    /// When the store cannot be reached: then the hold ends by itself.
    async fn release(&self, hold: &Hold, now: Option<UnixMs>) -> Result<(), LimiterError>;

    /// Makes a hold live on from `now`, and says until when; nothing when it is no longer there.
    ///
    /// # Errors
    /// When the store cannot be reached.
    async fn renew(&self, hold: &Hold, now: Option<UnixMs>)
    -> Result<Option<UnixMs>, LimiterError>;

    /// How each meter stands, from the same counters that admit.
    ///
    /// # Errors
    /// When the store cannot be reached.
    async fn readings(
        &self,
        tenant_id: TenantId,
        zone: &Zone,
        meters: &[Meter],
        now: Option<UnixMs>,
    ) -> Result<Vec<Reading>, LimiterError>;

    /// The money that live calls hold, by tenant; tenants without a live call are left out.
    ///
    /// # Errors
    /// When the store cannot be reached.
    async fn held_by_tenant(&self) -> Result<Vec<(TenantId, Nanos)>, LimiterError>;
}
