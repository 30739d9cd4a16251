//! The holds that this process has open: what it publishes when the engine changes, or when counters were lost.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use domain::id::RequestId;

use crate::hold::Hold;

#[derive(Debug)]
struct Open {
    hold: Hold,
    /// Whether the table of holds has it too: then it is to be taken out there when it ends.
    is_published: bool,
}

/// Open holds by call. It is as large as the calls that run.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    open: Mutex<HashMap<RequestId, Open>>,
}

impl Registry {
    pub(crate) fn opened(&self, hold: &Hold, is_published: bool) {
        let open = Open { hold: hold.clone(), is_published };
        self.lock().insert(hold.request_id, open);
    }

    /// Forgets a hold that has ended, and says whether the table of holds has it.
    pub(crate) fn ended(&self, request_id: RequestId) -> bool {
        self.lock().remove(&request_id).is_some_and(|open| open.is_published)
    }

    /// A hold lives on.
    pub(crate) fn renewed(&self, request_id: RequestId, expires_at: domain::window::UnixMs) {
        if let Some(open) = self.lock().get_mut(&request_id) {
            open.hold.expires_at = expires_at;
        }
    }

    /// All that are open.
    pub(crate) fn all(&self) -> Vec<Hold> {
        self.lock().values().map(|open| open.hold.clone()).collect()
    }

    /// All that are open now are in the table.
    pub(crate) fn published(&self) {
        for open in self.lock().values_mut() {
            open.is_published = true;
        }
    }

    /// How many are open.
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// The map is whole after every statement, so a panic elsewhere cannot have broken it.
    fn lock(&self) -> MutexGuard<'_, HashMap<RequestId, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
