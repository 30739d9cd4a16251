//! Why a call is not served. A refusal by a limit is a verdict and is carried as such.

use domain::admission::Refusal;
use ledger::spool::SpoolError;

/// Why a call got no answer from a provider.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The request cannot be read, or asks for something that is out of bounds.
    #[error("{message}")]
    Invalid {
        /// What is wrong, for the client.
        message: String,
        /// The member that is wrong.
        param: Option<String>,
    },
    /// No such model, or none that has a price.
    #[error("the model {model:?} does not exist or has no price")]
    ModelNotFound {
        /// As the client named it.
        model: String,
    },
    /// The plan does not include the model.
    #[error("the plan does not include the model {model:?}")]
    ModelNotAllowed {
        /// As the client named it.
        model: String,
    },
    /// The model speaks another dialect than the route.
    #[error("the model {model:?} speaks {speaks}: use its own route")]
    WrongDialect {
        /// As the client named it.
        model: String,
        /// The dialect it speaks.
        speaks: &'static str,
    },
    /// A limit said no.
    #[error("refused by a limit")]
    Refused(Box<Refusal>),
    /// The counters cannot be asked: nothing is forwarded that is not admitted.
    #[error("admission is not available")]
    AdmissionUnavailable,
    /// The books are too far behind, or too much waits for them.
    #[error("the books are behind: no call is taken until they have caught up")]
    BooksUnavailable,
    /// The call cannot be put on record: nothing is forwarded that could be lost.
    #[error("the call cannot be put on record")]
    SpoolUnavailable,
    /// The model's provider is switched off or missing.
    #[error("no provider serves this model now")]
    ProviderDown,
    /// The provider failed.
    #[error("{0}")]
    Upstream(#[from] UpstreamFailure),
    /// The process stops before the call began.
    #[error("the gateway is stopping")]
    Draining,
}

impl From<&SpoolError> for CallError {
    fn from(error: &SpoolError) -> Self {
        match error {
            SpoolError::Unwritable(_) => Self::SpoolUnavailable,
            SpoolError::Full(_) | SpoolError::Behind(_) => Self::BooksUnavailable,
        }
    }
}

/// How a provider failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct UpstreamFailure {
    /// Which way.
    pub kind: FailureKind,
    /// For the client, without anything of the operator's.
    pub message: String,
    /// How long the provider asks to wait, in seconds.
    pub retry_after_s: Option<i64>,
}

/// The ways in which a provider fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// No connection, or it broke before the answer.
    Unreachable,
    /// It took longer than its time-out.
    TimedOut,
    /// It refuses the operator's credential.
    Credential,
    /// It limits the operator's rate.
    RateLimited,
    /// It refuses this request, with this status of the 400s.
    Rejected(u16),
    /// It failed with this status.
    Failed(u16),
    /// Its answer is no answer: an error in a 200, or not JSON.
    BadAnswer,
}

impl FailureKind {
    /// The status that a client gets for it: the provider's own where it is about the request, else 502 or 504.
    /// A provider that wants money wants it from the operator: for the client it is not available.
    #[must_use]
    pub const fn client_status(self) -> u16 {
        match self {
            Self::Unreachable | Self::Credential | Self::Failed(_) | Self::BadAnswer => 502,
            Self::TimedOut => 504,
            Self::RateLimited => 429,
            Self::Rejected(402) => 503,
            Self::Rejected(status @ (404 | 413)) => status,
            Self::Rejected(_) => 400,
        }
    }
}

impl UpstreamFailure {
    /// A failure without a hint when to come back.
    pub(crate) fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry_after_s: None }
    }
}
