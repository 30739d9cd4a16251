//! What a live call has set aside.

use domain::admission::{Meter, Take, TakeKind};
use domain::id::{RequestId, TenantId};
use domain::money::Nanos;
use domain::plan::{LimitRule, Metric};
use domain::window::UnixMs;
use ledger::alert::DEFAULT_THRESHOLDS_PERCENT;
use ledger::{AlertRule, Booking};
use serde::{Deserialize, Serialize};

/// How long a hold lives without being renewed, in milliseconds: longer than any pause of a healthy stream,
/// short enough that what a dead process held comes back the same hour.
pub const HOLD_TTL_MS: i64 = 15 * 60 * 1_000;

/// Money, tokens and a place that a live call has set aside. Named by its request id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// The call.
    pub request_id: RequestId,
    /// Whose.
    pub tenant_id: TenantId,
    /// The instant of admission: it decides slice, period and price.
    pub admitted_at: UnixMs,
    /// When it ends by itself, unless it is renewed.
    pub expires_at: UnixMs,
    /// What it took on each meter.
    pub takes: Vec<Take>,
    /// The most that the call can be charged.
    pub charge: Nanos,
    /// For each take, the marks that are worth an alert when its meter passes them.
    pub alerts: Vec<Option<AlertRule>>,
}

/// What a call really used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Actual {
    /// Tokens, input and output together.
    pub tokens: i64,
    /// What the tenant is charged.
    pub charge: Nanos,
}

impl Actual {
    /// What was used of `metric`: one request, the tokens, or the charge.
    #[must_use]
    pub const fn amount(&self, metric: Metric) -> i64 {
        match metric {
            Metric::Requests => 1,
            Metric::Tokens => self.tokens,
            Metric::Cost => self.charge.0,
        }
    }
}

impl Hold {
    /// What the call's event adds to the meters: each window that was taken from, in the slice of the admission.
    /// Buckets and leases book nothing.
    #[must_use]
    pub fn bookings(&self, tokens: i64, charge: Nanos) -> Vec<Booking> {
        let actual = Actual { tokens, charge };
        let alerts = self.alerts.iter().chain(std::iter::repeat(&None));
        let windows = self.takes.iter().zip(alerts).filter_map(|(take, alert)| match take.kind {
            TakeKind::Window { slice_start, .. } => Some((take, slice_start, alert)),
            TakeKind::Bucket { .. } | TakeKind::Lease => None,
        });
        windows
            .map(|(take, slice_start, alert)| Booking {
                scope: take.scope,
                scope_id: take.scope_id,
                meter: take.meter.clone(),
                slice_start,
                amount: actual.amount(take.metric),
                alert: alert.clone(),
            })
            .collect()
    }
}

/// The marks of each take: those of a month budget.
pub(crate) fn alerts(takes: &[Take], meters: &[Meter]) -> Vec<Option<AlertRule>> {
    let rule = |take: &Take| {
        let same = |meter: &&Meter| {
            (meter.scope, meter.scope_id, meter.name()) == (take.scope, take.scope_id, &*take.meter)
        };
        match meters.iter().find(same)?.rule {
            LimitRule::Month { limit, .. } => {
                Some(AlertRule { limit, thresholds_percent: DEFAULT_THRESHOLDS_PERCENT.to_vec() })
            }
            LimitRule::Bucket { .. }
            | LimitRule::Window { .. }
            | LimitRule::Balance
            | LimitRule::Lease { .. } => None,
        }
    };
    takes.iter().map(rule).collect()
}
