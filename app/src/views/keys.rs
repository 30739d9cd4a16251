//! API keys.

use secrecy::SecretString;

/// A tenant's keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeysPanel {
    /// The zone of the shown times.
    pub zone: String,
    /// When the figures were read.
    pub as_of_ms: i64,
    /// Living ones first, newest first.
    pub rows: Vec<KeyRow>,
}

/// A line of the table of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRow {
    /// The key's id.
    pub id: i64,
    /// The key's name, as somebody typed it.
    pub name: String,
    /// First and last characters: `weir_sk_3fK9…x7Qa`.
    pub masked: String,
    /// When it was created.
    pub created_ms: i64,
    /// When it was last used; `None` is "never".
    pub last_used_ms: Option<i64>,
    /// When it stops working by itself; `None` is "never".
    pub expires_ms: Option<i64>,
    /// How it stands.
    pub status: KeyStatus,
    /// What was spent with it this month.
    pub spend_month_nanos: i64,
}

/// How a key stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyStatus {
    /// Works.
    Active,
    /// Works, for at most seven more days.
    Expiring,
    /// Switched off for now.
    Disabled,
    /// Past its date.
    Expired,
    /// Ended for good.
    Revoked,
}

/// One key, with what revoking it would touch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyPage {
    /// The tenant's slug.
    pub tenant_slug: String,
    /// The tenant's name.
    pub tenant_name: String,
    /// The zone of the shown times.
    pub zone: String,
    /// When the figures were read.
    pub as_of_ms: i64,
    /// The key.
    pub key: KeyRow,
    /// Calls admitted with it in the last 24 hours.
    pub requests_24h: i64,
}

/// A key that was just made: the only time its text leaves the server.
#[derive(Debug, Clone)]
pub struct NewKey {
    /// The whole key.
    pub secret: SecretString,
    /// Models that the tenant may call, for ready-made commands.
    pub models: SampleModels,
}

/// One model per dialect that the tenant may call; `None` where no provider speaks it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SampleModels {
    /// For `POST /v1/chat/completions`.
    pub openai: Option<String>,
    /// For `POST /v1/messages`.
    pub anthropic: Option<String>,
    /// For `POST /v1beta/models/{model}:generateContent`.
    pub gemini: Option<String>,
}
