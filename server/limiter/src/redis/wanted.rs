//! What is to be warmed: a meter as an ask or a live hold names it.

use domain::admission::{Meter, Scope, Take, TakeKind};
use domain::plan::LimitRule;
use domain::window::{RollingWindow, UnixMs, Zone};

use super::wire;
use crate::admission::LimiterError;

/// A meter that is to be warmed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Wanted {
    pub(super) scope: Scope,
    pub(super) scope_id: i64,
    pub(super) name: String,
    pub(super) rule: Rule,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rule {
    Bucket { rate: i64 },
    Window(RollingWindow),
    Month { start: UnixMs },
    Balance,
    Lease,
}

impl Wanted {
    pub(super) fn of_meter(meter: &Meter, zone: &Zone, now: UnixMs) -> Result<Self, LimiterError> {
        let month = wire::month_of(&meter.rule, zone, now)?;
        let rule = match &meter.rule {
            LimitRule::Bucket { rate_milli_per_s, .. } => Rule::Bucket { rate: *rate_milli_per_s },
            LimitRule::Window { window, .. } => Rule::Window(*window),
            LimitRule::Month { .. } => {
                Rule::Month { start: month.map_or(now, |month| month.start) }
            }
            LimitRule::Balance => Rule::Balance,
            LimitRule::Lease { .. } => Rule::Lease,
        };
        let (scope, scope_id) = (meter.scope, meter.scope_id);
        Ok(Self { scope, scope_id, name: meter.name().to_owned(), rule })
    }

    /// What a live hold took from must be there when it ends. A bucket's rate is not known from it: an ask will tell.
    pub(super) fn of_take(take: &Take) -> Option<Self> {
        let rule = match take.kind {
            TakeKind::Bucket { .. } => return None,
            TakeKind::Lease => Rule::Lease,
            TakeKind::Window { period_start, .. } => match wire::rolling(&take.meter) {
                Some(window) => Rule::Window(window),
                None if take.meter == wire::BALANCE => Rule::Balance,
                None => Rule::Month { start: period_start },
            },
        };
        let (scope, scope_id) = (take.scope, take.scope_id);
        Some(Self { scope, scope_id, name: take.meter.clone(), rule })
    }

    /// The slices that count at `now`; the last before the first where none does. One more is brought along for a
    /// clock that steps back.
    pub(super) fn slices(&self, now: UnixMs) -> (i64, i64) {
        match self.rule {
            Rule::Window(window) => {
                (window.oldest_slice(now).plus_ms(-2 * window.slice_ms()).0, i64::MAX)
            }
            Rule::Month { start } => (start.0, start.0),
            Rule::Balance => (0, 0),
            Rule::Bucket { .. } | Rule::Lease => (1, 0),
        }
    }
}
