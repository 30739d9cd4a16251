//! Calls of a known key that were not forwarded.

use domain::admission::Refusal;
use domain::id::{KeyId, RequestId, TenantId};
use domain::window::UnixMs;
use serde::{Deserialize, Serialize};

/// A call that was refused, for the record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedCall {
    /// Names the call.
    pub request_id: RequestId,
    /// Whose key it was.
    pub tenant_id: TenantId,
    /// The key.
    pub key_id: KeyId,
    /// When it was refused.
    pub at: UnixMs,
    /// The route's pattern.
    pub route: String,
    /// The model that the client named, when it was read.
    pub model: Option<String>,
    /// The status that the client got.
    pub status: u16,
    /// The word for why, such as `budget_exhausted`.
    pub code: String,
    /// The limit's figures, when a limit said no.
    pub limit: Option<Refusal>,
    /// The client's own name of the request.
    pub client_request_id: Option<String>,
}
