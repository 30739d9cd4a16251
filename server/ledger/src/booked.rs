//! What an event booked, as a text that stands beside it: every slice can be computed again from these.

use std::fmt::Write;

use domain::admission::Scope;
use domain::window::UnixMs;

use crate::usage_event::Booking;

/// What stands between the parts of a booking.
const PART: char = '/';
/// What stands between bookings.
const WORD: char = ' ';

/// The bookings as one text: `tenant/7/month_cost/1793491200000/3080000`, with spaces between.
#[must_use]
pub fn written(bookings: &[Booking]) -> String {
    let mut text = String::with_capacity(bookings.len().saturating_mul(48));
    for booking in bookings {
        if !text.is_empty() {
            text.push(WORD);
        }
        let Booking { scope, scope_id, meter, slice_start, amount, .. } = booking;
        let scope = scope.code();
        // Writing to a text does not fail.
        let _ = write!(text, "{scope}/{scope_id}/{meter}/{}/{amount}", slice_start.0);
    }
    text
}

/// Whether a meter's name can stand in such a text.
pub(crate) fn is_writable(meter: &str) -> bool {
    !meter.is_empty() && !meter.contains([PART, WORD])
}

/// Reads the text back; nothing when it was not written here. Alert marks are not kept.
#[must_use]
pub fn read(text: &str) -> Option<Vec<Booking>> {
    text.split(WORD).filter(|word| !word.is_empty()).map(read_one).collect()
}

fn read_one(word: &str) -> Option<Booking> {
    let mut parts = word.split(PART);
    let booking = Booking {
        scope: Scope::parse(parts.next()?)?,
        scope_id: parts.next()?.parse().ok()?,
        meter: parts.next()?.to_owned(),
        slice_start: UnixMs(parts.next()?.parse().ok()?),
        amount: parts.next()?.parse().ok()?,
        alert: None,
    };
    parts.next().is_none().then_some(booking)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn booking(scope: Scope, scope_id: i64, meter: &str, start: i64, amount: i64) -> Booking {
        let (meter, slice_start) = (meter.to_owned(), UnixMs(start));
        Booking { scope, scope_id, meter, slice_start, amount, alert: None }
    }

    #[test]
    fn bookings_read_back_as_they_were_written() {
        let bookings = [
            booking(Scope::Tenant, 7, "month_cost", 1_793_491_200_000, 3_080_000),
            booking(Scope::Key, 70, "5h_requests", -300_000, 1),
            booking(Scope::Provider, 2, "balance", 0, 0),
        ];
        assert_eq!(written(&bookings[..1]), "tenant/7/month_cost/1793491200000/3080000");
        for part in [&bookings[..], &bookings[..1], &[]] {
            assert_eq!(read(&written(part)).unwrap(), part);
        }
    }

    #[test]
    fn a_text_of_another_form_is_nothing() {
        for text in ["tenant/7/month_cost/0", "tenant/7/month_cost/0/1/2", "house/1/m/0/1", "x"] {
            assert_eq!(read(text), None, "{text}");
        }
        assert!(
            is_writable("5h_cost")
                && !is_writable("")
                && !is_writable("a b")
                && !is_writable("a/b")
        );
    }
}
