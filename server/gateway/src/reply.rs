//! What a client gets for an admitted call.

use bytes::Bytes;
use domain::money::Nanos;
use http::HeaderMap;
use tokio::sync::mpsc;

/// How many frames may wait for a client that reads slowly; after that the provider has to wait as well.
pub(crate) const FRAMES_AHEAD: usize = 32;

/// An answer of a provider.
#[derive(Debug)]
pub struct Reply {
    /// The provider's status, of the 200s.
    pub status: u16,
    /// The provider's headers that are the client's business.
    pub headers: HeaderMap,
    /// What the tenant was charged, when that is known before the body goes out.
    pub charge: Option<Nanos>,
    /// The body.
    pub body: ReplyBody,
}

/// The body of an answer.
#[derive(Debug)]
pub enum ReplyBody {
    /// All of it.
    Whole(Bytes),
    /// Frame by frame. It ends when the call is in the books.
    Stream(mpsc::Receiver<Result<Bytes, Broken>>),
}

/// The stream broke where no error could be told: the connection has to break too, so that nobody takes
/// what came for the whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the provider's stream broke off")]
pub struct Broken;

/// The provider's headers that are passed on. Its rate limits are those of the operator's account, and its
/// request id is in the event.
const PASSED_ON: [&str; 5] = [
    "content-type",
    "openai-processing-ms",
    "openai-version",
    "x-gemini-service-tier",
    "cache-control",
];

pub(crate) fn passed_on(headers: &HeaderMap) -> HeaderMap {
    let mut out = HeaderMap::with_capacity(PASSED_ON.len());
    for name in PASSED_ON {
        if let Some(value) = headers.get(name) {
            out.insert(name, value.clone());
        }
    }
    out
}

/// The provider's own name of the request.
pub(crate) fn provider_request_id(headers: &HeaderMap) -> Option<String> {
    let value = headers.get("request-id").or_else(|| headers.get("x-request-id"))?;
    value.to_str().ok().map(|id| id.chars().take(MAX_FOREIGN_ID_CHARS).collect())
}

/// The most of somebody else's id that is kept, in characters.
pub(crate) const MAX_FOREIGN_ID_CHARS: usize = 200;
