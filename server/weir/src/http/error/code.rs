//! The errors by name: status, and what each dialect calls them.

use domain::admission::Reason;
use http::StatusCode;

/// What is the matter with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Code {
    /// The request is not as it should be; the message names the field.
    InvalidRequest,
    /// A feature that would bill outside the answer, or that Weir does not know.
    NotSupported,
    /// The text holds personal data that the plan does not let out.
    PiiBlocked,
    /// No key came with the request.
    MissingKey,
    /// The key is none of ours, or two different ones came.
    InvalidKey,
    /// The key is past its date.
    KeyExpired,
    /// The key was ended for good.
    KeyRevoked,
    /// The month's money is spent.
    BudgetExhausted,
    /// The prepaid balance is spent.
    BalanceExhausted,
    /// The key is switched off.
    KeyDisabled,
    /// The plan does not include the model.
    ModelNotAllowed,
    /// The tenant is switched off.
    TenantSuspended,
    /// The key is not for this address.
    IpNotAllowed,
    /// There is no such model, or it has no price.
    ModelNotFound,
    /// There is no such thing.
    NotFound,
    /// The route does not take this method.
    MethodNotAllowed,
    /// The body is larger than the limit.
    RequestTooLarge,
    /// The call is larger than a limit can ever let pass.
    ExceedsCapacity,
    /// The same idempotent call is still running.
    InProgress,
    /// The idempotency key was used for another body.
    IdempotencyMismatch,
    /// Too many requests at once.
    RateLimited,
    /// Too many tokens at once.
    TokenRateLimited,
    /// A rolling window is full.
    WindowExhausted,
    /// Too many calls are running.
    ConcurrencyExhausted,
    /// The provider wants fewer calls.
    ProviderRateLimited,
    /// The provider failed.
    ProviderError,
    /// The provider refuses the operator's credential.
    ProviderAuth,
    /// The provider did not answer in time.
    ProviderTimeout,
    /// The provider is known to be down.
    ProviderDown,
    /// The operator's quota at the provider is used up.
    ProviderQuota,
    /// No engine can admit.
    AdmissionUnavailable,
    /// The books are too far behind.
    BooksUnavailable,
    /// Calls cannot be put on record.
    SpoolUnavailable,
    /// This process is stopping.
    Draining,
    /// The token is missing or wrong: the admin API's own 401.
    AdminTokenInvalid,
    /// Something else already has this name.
    Conflict,
    /// A store does not answer.
    Unavailable,
    /// A fault of Weir's own.
    Internal,
}

impl Code {
    /// All of them.
    #[cfg(test)]
    pub(super) const ALL: [Self; 38] = [
        Self::InvalidRequest,
        Self::NotSupported,
        Self::PiiBlocked,
        Self::MissingKey,
        Self::InvalidKey,
        Self::KeyExpired,
        Self::KeyRevoked,
        Self::BudgetExhausted,
        Self::BalanceExhausted,
        Self::KeyDisabled,
        Self::ModelNotAllowed,
        Self::TenantSuspended,
        Self::IpNotAllowed,
        Self::ModelNotFound,
        Self::NotFound,
        Self::MethodNotAllowed,
        Self::RequestTooLarge,
        Self::ExceedsCapacity,
        Self::InProgress,
        Self::IdempotencyMismatch,
        Self::RateLimited,
        Self::TokenRateLimited,
        Self::WindowExhausted,
        Self::ConcurrencyExhausted,
        Self::ProviderRateLimited,
        Self::ProviderError,
        Self::ProviderAuth,
        Self::ProviderTimeout,
        Self::ProviderDown,
        Self::ProviderQuota,
        Self::AdmissionUnavailable,
        Self::BooksUnavailable,
        Self::SpoolUnavailable,
        Self::Draining,
        Self::AdminTokenInvalid,
        Self::Conflict,
        Self::Unavailable,
        Self::Internal,
    ];

    /// Status, word and sentence: the table of all errors.
    const fn row(self) -> (u16, &'static str, &'static str) {
        match self {
            Self::InvalidRequest => (400, "invalid_request", "The request is not valid."),
            Self::NotSupported => (400, "not_supported", "This feature is not supported."),
            Self::PiiBlocked => (400, "pii_blocked", "The request contains personal data."),
            Self::MissingKey => (401, "missing_key", "No API key came with the request."),
            Self::InvalidKey => (401, "invalid_key", "The API key is not valid."),
            Self::KeyExpired => (401, "key_expired", "The API key has expired."),
            Self::KeyRevoked => (401, "key_revoked", "The API key was revoked."),
            Self::AdminTokenInvalid => {
                (401, "invalid_admin_token", "The admin token is missing or wrong.")
            }
            Self::BudgetExhausted => (402, "budget_exhausted", "The budget of the month is spent."),
            Self::BalanceExhausted => (402, "balance_exhausted", "The prepaid balance is used up."),
            Self::KeyDisabled => (403, "key_disabled", "The API key is switched off."),
            Self::ModelNotAllowed => {
                (403, "model_not_allowed", "The plan does not include this model.")
            }
            Self::TenantSuspended => (403, "tenant_suspended", "The account is suspended."),
            Self::IpNotAllowed => {
                (403, "ip_not_allowed", "The API key may not be used from this address.")
            }
            Self::ModelNotFound => (404, "model_not_found", "There is no such model."),
            Self::NotFound => (404, "not_found", "There is nothing here."),
            Self::MethodNotAllowed => {
                (405, "method_not_allowed", "This route does not take this method.")
            }
            Self::InProgress => (409, "in_progress", "The same request is still being answered."),
            Self::Conflict => (409, "conflict", "Something else already has this name."),
            Self::RequestTooLarge => (413, "request_too_large", "The request is too large."),
            Self::ExceedsCapacity => {
                (413, "exceeds_capacity", "The request is larger than the limit can ever let pass.")
            }
            Self::IdempotencyMismatch => {
                (422, "idempotency_mismatch", "The idempotency key belongs to another request.")
            }
            Self::RateLimited => (429, "rate_limited", "Too many requests at once."),
            Self::TokenRateLimited => (429, "token_rate_limited", "Too many tokens at once."),
            Self::WindowExhausted => {
                (429, "window_exhausted", "The limit of this time window is used up.")
            }
            Self::ConcurrencyExhausted => {
                (429, "concurrency_exhausted", "Too many requests are running.")
            }
            Self::ProviderRateLimited => {
                (429, "provider_rate_limited", "The provider asks for fewer requests.")
            }
            Self::Internal => (500, "internal_error", "Something went wrong in the gateway."),
            Self::ProviderError => (502, "provider_error", "The provider failed."),
            Self::ProviderAuth => {
                (502, "provider_auth", "The provider refuses the gateway's credential.")
            }
            Self::ProviderDown => (503, "provider_down", "The provider does not work right now."),
            Self::ProviderQuota => {
                (503, "provider_quota", "The gateway's quota at the provider is used up.")
            }
            Self::AdmissionUnavailable => {
                (503, "admission_unavailable", "The gateway cannot check limits right now.")
            }
            Self::BooksUnavailable => {
                (503, "books_unavailable", "The gateway cannot write its books right now.")
            }
            Self::SpoolUnavailable => {
                (503, "spool_unavailable", "The gateway cannot put calls on record right now.")
            }
            Self::Draining => (503, "draining", "This instance is stopping."),
            Self::Unavailable => (503, "unavailable", "A part of the gateway does not answer."),
            Self::ProviderTimeout => {
                (504, "provider_timeout", "The provider did not answer in time.")
            }
        }
    }

    /// The HTTP status.
    #[must_use]
    pub fn status(self) -> StatusCode {
        // The table holds valid statuses only; a test walks it.
        StatusCode::from_u16(self.row().0).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// The word in `code`, the same in every dialect and in metrics.
    #[must_use]
    pub const fn word(self) -> &'static str {
        self.row().1
    }

    /// A sentence that tells nothing but the code.
    #[must_use]
    pub const fn sentence(self) -> &'static str {
        self.row().2
    }

    /// `error.type` of OpenAI's bodies.
    pub(super) const fn openai_type(self) -> &'static str {
        match self.row().0 {
            401 => "authentication_error",
            402 => "insufficient_quota",
            403 => "permission_error",
            429 => "rate_limit_exceeded",
            503 => "service_unavailable_error",
            500.. => "server_error",
            _ => "invalid_request_error",
        }
    }

    /// `error.type` of Anthropic's bodies.
    pub(super) const fn anthropic_type(self) -> &'static str {
        match self.row().0 {
            401 => "authentication_error",
            402 => "billing_error",
            403 => "permission_error",
            404 => "not_found_error",
            409 => "conflict_error",
            413 => "request_too_large",
            429 => "rate_limit_error",
            504 => "timeout_error",
            500.. => "api_error",
            _ => "invalid_request_error",
        }
    }

    /// `error.status` of Gemini's bodies.
    pub(super) const fn gemini_status(self) -> &'static str {
        match self.row().0 {
            401 => "UNAUTHENTICATED",
            402 | 429 => "RESOURCE_EXHAUSTED",
            403 => "PERMISSION_DENIED",
            404 => "NOT_FOUND",
            409 => "ABORTED",
            502 | 503 => "UNAVAILABLE",
            504 => "DEADLINE_EXCEEDED",
            500.. => "INTERNAL",
            _ => "INVALID_ARGUMENT",
        }
    }
}

impl From<Reason> for Code {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::RateLimited => Self::RateLimited,
            Reason::TokenRateLimited => Self::TokenRateLimited,
            Reason::WindowExhausted => Self::WindowExhausted,
            Reason::ConcurrencyExhausted => Self::ConcurrencyExhausted,
            Reason::BudgetExhausted => Self::BudgetExhausted,
            Reason::BalanceExhausted => Self::BalanceExhausted,
            Reason::ExceedsCapacity => Self::ExceedsCapacity,
        }
    }
}
