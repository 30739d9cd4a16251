//! The levels of buckets as this process saw them last: what it publishes, so that a bucket is not full again only
//! because its counter has moved.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use domain::admission::{MICRO, Scope, refilled};
use domain::id::TenantId;
use domain::window::UnixMs;

/// How many buckets are remembered. When there are more, those that are full again are forgotten.
const REMEMBERED: usize = 50_000;

/// A bucket's level at an instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Level {
    /// Whose; 0 for a provider's own.
    pub owner: TenantId,
    /// Whose limit.
    pub scope: Scope,
    /// The row of that tenant, team, key or provider.
    pub scope_id: i64,
    /// Which meter.
    pub meter: &'static str,
    /// The level in millionths.
    pub level_micro: i64,
    /// When it was so.
    pub at: UnixMs,
    /// How fast it fills, in thousandths of a unit per second.
    pub rate_milli: i64,
    /// The most it holds, in units.
    pub capacity: i64,
}

type Key = (TenantId, Scope, i64, &'static str);

#[derive(Debug, Default)]
pub(super) struct Levels {
    levels: Mutex<HashMap<Key, Level>>,
}

impl Levels {
    pub(super) fn saw(&self, level: Level) {
        let mut levels = self.levels.lock().unwrap_or_else(PoisonError::into_inner);
        if levels.len() >= REMEMBERED {
            let now = level.at;
            levels.retain(|_, l| {
                let full = l.capacity.saturating_mul(MICRO);
                refilled(l.level_micro, l.at, l.rate_milli, l.capacity, now) < full
            });
        }
        let key = (level.owner, level.scope, level.scope_id, level.meter);
        if levels.len() < REMEMBERED || levels.contains_key(&key) {
            levels.insert(key, level);
        }
    }

    pub(super) fn all(&self) -> Vec<Level> {
        let levels = self.levels.lock().unwrap_or_else(PoisonError::into_inner);
        levels.values().cloned().collect()
    }
}
