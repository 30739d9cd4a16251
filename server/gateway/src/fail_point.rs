//! Places in the life of a call at which a test may end the process. Without debug assertions there are none.

use std::fmt;

#[cfg(debug_assertions)]
use std::sync::Arc;

/// A place in the life of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailPoint {
    /// The hold is taken; nothing is on record.
    AfterAdmit,
    /// The call is on record; nothing was sent.
    AfterOpen,
    /// The provider has answered with its head.
    AfterConnect,
    /// The first frame of a stream is on its way to the client.
    AfterFirstFrame,
    /// The end is on record; the event is not in the books.
    BeforeCommit,
    /// The event is in the books; the hold is not settled.
    AfterCommit,
    /// The hold is settled; the record is not acknowledged.
    AfterSettle,
}

impl FailPoint {
    /// All of them, in the order in which a call comes to them.
    pub const ALL: [Self; 7] = [
        Self::AfterAdmit,
        Self::AfterOpen,
        Self::AfterConnect,
        Self::AfterFirstFrame,
        Self::BeforeCommit,
        Self::AfterCommit,
        Self::AfterSettle,
    ];

    /// The name that tests use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AfterAdmit => "after_admit",
            Self::AfterOpen => "after_open",
            Self::AfterConnect => "after_connect",
            Self::AfterFirstFrame => "after_first_frame",
            Self::BeforeCommit => "before_commit",
            Self::AfterCommit => "after_commit",
            Self::AfterSettle => "after_settle",
        }
    }
}

/// What happens at the places: nothing, unless a test says otherwise.
#[derive(Clone, Default)]
pub struct FailPoints {
    #[cfg(debug_assertions)]
    hook: Option<Arc<dyn Fn(FailPoint) + Send + Sync>>,
}

impl FailPoints {
    /// Calls `hook` at each place that a call comes to.
    #[cfg(debug_assertions)]
    #[must_use]
    pub fn calling(hook: impl Fn(FailPoint) + Send + Sync + 'static) -> Self {
        Self { hook: Some(Arc::new(hook)) }
    }

    #[cfg(debug_assertions)]
    pub(crate) fn reached(&self, point: FailPoint) {
        if let Some(hook) = &self.hook {
            hook(point);
        }
    }

    #[cfg(not(debug_assertions))]
    pub(crate) const fn reached(&self, _: FailPoint) {}
}

impl fmt::Debug for FailPoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FailPoints").finish_non_exhaustive()
    }
}
