//! An event on its way in: looked at once, before it may share a transaction with others.

use time::OffsetDateTime;

use crate::booked;
use crate::error::LedgerError;
use crate::instant::instant;
use crate::usage_event::{Attempt, UsageEvent};

/// An event that can be written as far as this side can tell.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) event: UsageEvent,
    pub(crate) admitted_at: OffsetDateTime,
    pub(crate) ended_at: OffsetDateTime,
    /// When each attempt began, in the order of the event's attempts.
    pub(crate) attempts_started: Vec<OffsetDateTime>,
}

impl Entry {
    /// Looks at an event. What a client or provider wrote is made fit for the database.
    pub(crate) fn new(mut event: UsageEvent) -> Result<Self, LedgerError> {
        if event.bookings.iter().any(|booking| booking.amount < 0) {
            return Err(LedgerError::Rejected("a booking is below zero".to_owned()));
        }
        if event.bookings.iter().any(|booking| !booked::is_writable(&booking.meter)) {
            return Err(LedgerError::Rejected(
                "a meter has a name that cannot be written".to_owned(),
            ));
        }
        drop_zero_bytes(&mut event);
        let started = event.attempts.iter().map(|Attempt { started_at, .. }| instant(*started_at));
        Ok(Self {
            admitted_at: instant(event.admitted_at)?,
            ended_at: instant(event.ended_at)?,
            attempts_started: started.collect::<Result<_, _>>()?,
            event,
        })
    }
}

/// PostgreSQL cannot keep a zero byte in a text. A name is worth less than the money it belongs to: it goes
/// without the byte.
fn drop_zero_bytes(event: &mut UsageEvent) {
    let names = [&mut event.route, &mut event.model];
    let more = [
        &mut event.served_model,
        &mut event.anomaly,
        &mut event.client_request_id,
        &mut event.provider_request_id,
    ];
    let of_attempts = event
        .attempts
        .iter_mut()
        .flat_map(|attempt| std::iter::once(&mut attempt.model).chain(attempt.error.as_mut()));
    let of_notes = event
        .drift
        .iter_mut()
        .flat_map(|note| [&mut note.kind, &mut note.cause].into_iter().chain(note.meter.as_mut()));
    let all =
        names.into_iter().chain(more.into_iter().flatten()).chain(of_attempts).chain(of_notes);
    for text in all.filter(|text| text.contains('\0')) {
        text.retain(|c| c != '\0');
    }
}
