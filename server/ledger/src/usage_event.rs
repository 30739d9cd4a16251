//! One metered call, as it is written down: once, and never changed.

use domain::admission::Scope;
use domain::id::{KeyId, PlanId, PriceId, ProviderId, RequestId, TeamId, TenantId};
use domain::money::Nanos;
use domain::usage::{Dialect, Outcome, Usage, UsageSource};
use domain::window::UnixMs;
use serde::{Deserialize, Serialize};

/// What became of one admitted call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageEvent {
    /// Names the call. A second event of the same id is not written.
    pub request_id: RequestId,
    /// Who pays.
    pub tenant_id: TenantId,
    /// The part of the tenant whose key it was.
    pub team_id: Option<TeamId>,
    /// The key that called.
    pub key_id: KeyId,
    /// The version of the plan that was in force.
    pub plan_id: PlanId,
    /// Where the answer, or the last failure, came from.
    pub provider_id: ProviderId,
    /// The wire the call spoke.
    pub dialect: Dialect,
    /// The route's pattern, such as `/v1/chat/completions`.
    pub route: String,
    /// The model that the client named.
    pub model: String,
    /// The model that the provider says it ran.
    pub served_model: Option<String>,
    /// The row of prices in force at the admission.
    pub price_id: PriceId,
    /// Whether the answer was a stream.
    pub stream: bool,
    /// The instant of admission: it decides slice, period and price.
    pub admitted_at: UnixMs,
    /// When the call was over.
    pub ended_at: UnixMs,
    /// From the admission to the first byte of the answer, in milliseconds.
    pub first_byte_ms: Option<i32>,
    /// From the admission to the end, in milliseconds.
    pub duration_ms: i32,
    /// How it ended.
    pub outcome: Outcome,
    /// The status that the client got; nothing when it had left.
    pub http_status: Option<u16>,
    /// Where the token counts come from.
    pub usage_source: UsageSource,
    /// What was wrong with the provider's own count, when it was not believed.
    pub anomaly: Option<String>,
    /// The tokens.
    pub usage: Usage,
    /// What the provider charges the operator, all attempts together.
    pub cost: Nanos,
    /// What the tenant is charged.
    pub charge: Nanos,
    /// What was held for it.
    pub hold: Nanos,
    /// The client's own name of the request.
    pub client_request_id: Option<String>,
    /// The provider's name of the request.
    pub provider_request_id: Option<String>,
    /// Each call that went upstream.
    pub attempts: Vec<Attempt>,
    /// What the event adds to the meters.
    pub bookings: Vec<Booking>,
    /// Numbers that should have been equal and were not.
    pub drift: Vec<DriftNote>,
}

/// One call that went upstream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// Which one, from 1.
    pub attempt: i32,
    /// Where it went.
    pub provider_id: ProviderId,
    /// The model as the provider calls it.
    pub model: String,
    /// The provider's status; nothing when no answer came.
    pub status: Option<u16>,
    /// How long it took, in milliseconds.
    pub duration_ms: i32,
    /// What went wrong.
    pub error: Option<String>,
    /// When it began.
    pub started_at: UnixMs,
}

/// What an event adds to one slice or period of one meter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Booking {
    /// Whose meter.
    pub scope: Scope,
    /// The row of that tenant, team, key or provider.
    pub scope_id: i64,
    /// Which meter, by its name.
    pub meter: String,
    /// The start of the slice (rolling) or period (month); 0 for a balance.
    pub slice_start: UnixMs,
    /// How much, in the unit of what the meter counts: 1 for a request, tokens, or the charge in nano-USD.
    pub amount: i64,
    /// Which marks are worth an alert when this slice passes them.
    pub alert: Option<AlertRule>,
}

/// The marks on a meter that are worth an alert.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlertRule {
    /// What is 100 %, in the meter's unit: the limit without its overage.
    pub limit: i64,
    /// The marks, in percent of the limit.
    pub thresholds_percent: Vec<i64>,
}

/// Two numbers that should have been equal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriftNote {
    /// What kind of pair it is, such as `usage_clamped`.
    pub kind: String,
    /// The meter, when it is one's.
    pub meter: Option<String>,
    /// What one side said.
    pub expected: i64,
    /// What the other said.
    pub found: i64,
    /// Why, when it is known.
    pub cause: String,
}
