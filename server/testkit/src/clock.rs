//! A clock that tests set.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use domain::window::UnixMs;

/// A clock that stands still until it is told otherwise. Clones show the same time.
#[derive(Debug, Clone)]
pub struct TestClock(Arc<AtomicI64>);

impl TestClock {
    /// A clock that shows `now`.
    #[must_use]
    pub fn at(now: UnixMs) -> Self {
        Self(Arc::new(AtomicI64::new(now.0)))
    }

    /// The time it shows.
    #[must_use]
    pub fn now(&self) -> UnixMs {
        UnixMs(self.0.load(Ordering::SeqCst))
    }

    /// Sets it, forward or back.
    pub fn set(&self, now: UnixMs) {
        self.0.store(now.0, Ordering::SeqCst);
    }

    /// Moves it by `ms` and says what it shows then.
    #[must_use = "use `set` where the new time is known already"]
    pub fn advance_ms(&self, ms: i64) -> UnixMs {
        UnixMs(self.0.fetch_add(ms, Ordering::SeqCst).saturating_add(ms))
    }

    /// The clock as a function, for code that asks one.
    pub fn reader(&self) -> impl Fn() -> UnixMs + Clone + Send + Sync + 'static {
        let clock = self.clone();
        move || clock.now()
    }
}

impl Default for TestClock {
    /// Noon of 15 November 2026, UTC: no boundary of a window, day or month is near.
    fn default() -> Self {
        Self::at(UnixMs(1_794_744_000_000))
    }
}
