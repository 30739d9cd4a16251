//! The one clock: read here, and handed on as an argument.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use domain::window::UnixMs;

/// What time it is; tests may move it.
#[derive(Debug, Clone, Default)]
pub struct Clock {
    /// How far ahead of the system's clock, in milliseconds; always 0 outside tests.
    ahead_ms: Arc<AtomicI64>,
}

impl Clock {
    /// The present instant.
    #[must_use]
    pub fn now(&self) -> UnixMs {
        system_now().plus_ms(self.ahead_ms.load(Ordering::Relaxed))
    }

    /// Lets the clock go on from `now`.
    pub fn set(&self, now: UnixMs) {
        self.ahead_ms.store(now.0.saturating_sub(system_now().0), Ordering::Relaxed);
    }

    /// The clock of metered calls. One that tests set decides for the store as well; otherwise
    /// admission asks the store, so that all processes agree.
    #[must_use]
    pub fn for_gateway(&self, set_by_tests: bool) -> gateway::Clock {
        let clock = self.clone();
        if set_by_tests {
            gateway::Clock::set_by_hand(move || clock.now())
        } else {
            gateway::Clock::host(move || clock.now())
        }
    }

    /// Moves the clock by `ms`.
    pub fn advance(&self, ms: i64) {
        let moved = |ahead: i64| Some(ahead.saturating_add(ms));
        // The closure never says no.
        let _ = self.ahead_ms.fetch_update(Ordering::Relaxed, Ordering::Relaxed, moved);
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the edge at which the clock is read")]
fn system_now() -> UnixMs {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    UnixMs(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moved_clock_goes_on_from_where_it_was_put() {
        let clock = Clock::default();
        let shared = clock.clone();
        shared.set(UnixMs(1_000));
        clock.advance(500);
        let now = clock.now().0;
        assert!((1_500..60_000).contains(&now), "{now}");
    }
}
