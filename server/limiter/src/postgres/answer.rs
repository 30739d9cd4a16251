//! A verdict on its way to a caller that may be gone.

use domain::admission::Refusal;
use domain::window::UnixMs;
use tokio::runtime::Handle;

use super::PostgresEngine;
use super::admit::Decided;
use crate::admission::{Admission, Verdict};
use crate::hold::Hold;

/// A verdict that nobody has taken yet. Dropped like that, it releases its hold.
pub(super) enum Answer {
    /// A hold that this ask has just taken.
    Taken(Unclaimed),
    /// A hold that an earlier ask took: it is that one's to end.
    Kept(Hold),
    /// No hold.
    Refused(Refusal),
}

impl Answer {
    pub(super) fn new(
        decided: Decided,
        engine: &PostgresEngine,
        runtime: Handle,
        now: Option<UnixMs>,
    ) -> Self {
        match decided {
            Decided::Taken(hold) => {
                let engine = engine.clone();
                Self::Taken(Unclaimed { hold, is_claimed: false, engine, runtime, now })
            }
            Decided::Kept(hold) => Self::Kept(hold),
            Decided::Refused(refusal) => Self::Refused(refusal),
        }
    }

    /// Gives the verdict to the caller, whose hold it is from here on.
    pub(super) fn claim(self) -> Verdict {
        match self {
            Self::Taken(mut unclaimed) => {
                unclaimed.is_claimed = true;
                Verdict::Admit(unclaimed.hold.clone())
            }
            Self::Kept(hold) => Verdict::Admit(hold),
            Self::Refused(refusal) => Verdict::Refuse(refusal),
        }
    }
}

pub(super) struct Unclaimed {
    hold: Hold,
    is_claimed: bool,
    engine: PostgresEngine,
    runtime: Handle,
    now: Option<UnixMs>,
}

impl Drop for Unclaimed {
    fn drop(&mut self) {
        if self.is_claimed {
            return;
        }
        let (hold, engine, now) = (self.hold.clone(), self.engine.clone(), self.now);
        metrics::counter!("weir_limiter_unclaimed_holds_total").increment(1);
        let release = async move {
            if let Err(error) = engine.release(&hold, now).await {
                tracing::warn!(request_id = %hold.request_id, %error, "a hold without a caller is left to expire");
            }
        };
        self.engine.tasks.spawn_on(release, &self.runtime);
    }
}
