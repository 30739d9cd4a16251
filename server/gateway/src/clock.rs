//! The time, as an argument.

use std::fmt;
use std::sync::Arc;

use domain::window::UnixMs;

/// Reads the time. The process hands in the host's clock; a test hands in one that it sets.
#[derive(Clone)]
pub struct Clock {
    read: Arc<dyn Fn() -> UnixMs + Send + Sync>,
    decides: bool,
}

impl Clock {
    /// The host's clock. Admission then asks the store for the time, so that all processes agree.
    #[must_use]
    pub fn host(read: impl Fn() -> UnixMs + Send + Sync + 'static) -> Self {
        Self { read: Arc::new(read), decides: false }
    }

    /// A clock that is set by hand, for admission too.
    #[must_use]
    pub fn set_by_hand(read: impl Fn() -> UnixMs + Send + Sync + 'static) -> Self {
        Self { read: Arc::new(read), decides: true }
    }

    /// The time now.
    #[must_use]
    pub fn now(&self) -> UnixMs {
        (self.read)()
    }

    /// What the engines are told: nothing, when they are to ask their store.
    #[must_use]
    pub fn for_engine(&self) -> Option<UnixMs> {
        self.decides.then(|| self.now())
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clock").field("decides", &self.decides).finish_non_exhaustive()
    }
}
