//! From the end of a call into the books. Truth first: the event is appended, then the hold is settled, then the
//! record of the call is let go.

use std::time::Duration;

use domain::id::RequestId;
use ledger::spool::Ticket;
use ledger::{LedgerError, UsageEvent};
use limiter::{Actual, Hold, LimiterError};
use tokio::sync::oneshot;
use tokio::time::sleep;

use crate::Gateway;
use crate::fail_point::FailPoint;

/// The first pause between two tries to append; each is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The longest pause: books that are back have everything some seconds later.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How often a hold is tried to be settled: one that is left ends by itself.
const SETTLE_TRIES: u32 = 4;

/// A call that is over.
pub(crate) struct Ended {
    pub(crate) event: UsageEvent,
    /// What is to be settled; nothing where it could not be read from a dead process's record.
    pub(crate) hold: Option<Hold>,
    /// The call's record; nothing when it is a dead process's.
    pub(crate) ticket: Option<Ticket>,
}

/// What became of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Booked {
    /// It is in the books.
    Written,
    /// The books refuse it: it is kept for a person.
    SetAside,
    /// It is left on record for the next process.
    Left,
}

impl Gateway {
    /// Sends a call that is over on its way into the books, on a task of its own. The answer comes when it is there.
    pub(crate) fn hand_over(&self, ended: Ended) -> oneshot::Receiver<Booked> {
        let unsettled = self.settling.begin(ended.event.tenant_id);
        let (told, heard) = oneshot::channel();
        let gateway = self.clone();
        self.booking.spawn(async move {
            let booked = gateway.book(ended).await;
            drop(unsettled);
            gateway.count_spool();
            // Only who could not put the end on record waits for this.
            let _ = told.send(booked);
        });
        heard
    }

    /// Appends the event for as long as it takes, settles the hold, and lets go of the record.
    pub(crate) async fn book(&self, ended: Ended) -> Booked {
        let Ended { event, hold, ticket } = ended;
        self.fail_points.reached(FailPoint::BeforeCommit);
        let booked = self.append(&event).await;
        match booked {
            Booked::Written => {
                self.fail_points.reached(FailPoint::AfterCommit);
                if let Some(hold) = &hold {
                    let actual = Actual { tokens: event.usage.total(), charge: event.charge };
                    self.settle(hold, &actual).await;
                }
                self.fail_points.reached(FailPoint::AfterSettle);
            }
            // What is not in the books must not be in the counters: the hold ends by itself.
            Booked::SetAside => {}
            Booked::Left => return Booked::Left,
        }
        if let Some(ticket) = ticket {
            ticket.acked();
        }
        booked
    }

    async fn append(&self, event: &UsageEvent) -> Booked {
        let mut pause = FIRST_PAUSE;
        loop {
            let appended = tokio::select! {
                biased;
                // Dropped, it is written all the same, or not: the next process appends it again.
                () = self.halt.cancelled() => return Booked::Left,
                appended = self.ledger.append(event.clone()) => appended,
            };
            match appended {
                Ok(_) => return Booked::Written,
                Err(LedgerError::Rejected(why)) => return self.set_aside(event, &why),
                Err(LedgerError::Stopped) => return Booked::Left,
                Err(LedgerError::Unavailable(_)) => {}
            }
            if !self.wait(spread(pause, event.request_id)).await {
                return Booked::Left;
            }
            pause = LONGEST_PAUSE.min(pause * 2);
        }
    }

    /// Keeps an event that the books refuse. Where even that fails it stays on record, and closes the door in time.
    fn set_aside(&self, event: &UsageEvent, why: &str) -> Booked {
        let request_id = event.request_id;
        tracing::error!(%request_id, why, "the books refuse an event: it is set aside");
        metrics::counter!("weir_events_set_aside_total").increment(1);
        match self.spool.refused(event, why) {
            Ok(()) => Booked::SetAside,
            Err(error) => {
                tracing::error!(%request_id, %error, "an event that the books refuse cannot be set aside");
                Booked::Left
            }
        }
    }

    async fn settle(&self, hold: &Hold, actual: &Actual) {
        let request_id = hold.request_id;
        let mut pause = FIRST_PAUSE;
        for _ in 0..SETTLE_TRIES {
            let now = self.clock.for_engine();
            let settled = tokio::select! {
                biased;
                () = self.halt.cancelled() => return,
                settled = self.limiter.settle(hold, actual, now) => settled,
            };
            match settled {
                Ok(()) => return,
                Err(error @ LimiterError::Unavailable(_)) => {
                    tracing::warn!(%request_id, %error, "a hold is not settled yet");
                }
                Err(error) => {
                    tracing::warn!(%request_id, %error, "a hold cannot be settled and will expire");
                    return;
                }
            }
            if !self.wait(spread(pause, request_id)).await {
                return;
            }
            pause = LONGEST_PAUSE.min(pause * 2);
        }
        tracing::warn!(%request_id, "a hold is not settled and will expire");
    }

    /// Gives back what was held for a call that was not forwarded, on a task of its own.
    pub(crate) fn give_back(&self, hold: Hold) {
        let gateway = self.clone();
        self.booking.spawn(async move {
            let now = gateway.clock.for_engine();
            if let Err(error) = gateway.limiter.release(&hold, now).await {
                let request_id = hold.request_id;
                tracing::warn!(%request_id, %error, "a hold is not released and will expire");
            }
        });
    }

    /// Waits; says whether the process still runs afterwards.
    async fn wait(&self, pause: Duration) -> bool {
        self.halt.run_until_cancelled(sleep(pause)).await.is_some()
    }
}

/// Between half of the pause and all of it, so that those who failed together do not come back together. The
/// random part of the id decides.
fn spread(pause: Duration, id: RequestId) -> Duration {
    let random = u32::try_from(id.bits() & 0xffff).unwrap_or(0);
    let half = pause / 2;
    half + half * random / 0xffff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_spread_and_never_longer_than_they_may_be() {
        let pause = Duration::from_secs(4);
        let at = |random| spread(pause, RequestId::from_parts(7, random));
        assert_eq!((at(0), at(0xffff)), (Duration::from_secs(2), pause));
        assert!(
            at(0x8000) > at(0x4000)
                && spread(LONGEST_PAUSE, RequestId::from_parts(7, 0xffff)) <= LONGEST_PAUSE
        );
    }
}
