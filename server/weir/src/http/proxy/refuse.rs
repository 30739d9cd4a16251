//! Calls that are not forwarded: told to the client, and put on record for the tenant.

use axum::extract::Request as HttpRequest;
use axum::response::Response;
use domain::admission::Refusal;
use gateway::{CallError, FailureKind, UpstreamFailure};
use ledger::RefusedCall;

use crate::http::caller::Caller;
use crate::http::door::request_id;
use crate::http::error::{Code, Denial, refusal};
use crate::http::shape::shape_of;
use crate::weir::Weir;

/// How long a client is told to wait when the gateway itself cannot serve, in milliseconds.
const GATEWAY_WAIT_MS: i64 = 2_000;

/// The same when its store cannot: that takes longer to mend, and everybody comes back at once.
const BOOKS_WAIT_MS: i64 = 5_000;

/// A call of a known key, on its way to a refusal.
pub(super) struct Refused<'a> {
    pub(super) weir: &'a Weir,
    pub(super) caller: &'a Caller,
    pub(super) route: &'static str,
}

impl Refused<'_> {
    /// Refuses before the call could be read.
    pub(super) fn denied(&self, denial: &Denial) -> Response {
        self.record(None, denial.code, None);
        refusal(self.caller.shape, self.caller.request_id, denial)
    }

    /// Says why a call has no answer. What a provider did is in the events; the rest goes on record here.
    pub(super) fn failed(&self, error: &CallError) -> Response {
        let denial = self.denial(error);
        match error {
            CallError::Upstream(_) => {}
            CallError::Refused(limit) => self.record(Some(&**limit), denial.code, None),
            CallError::ModelNotFound { model }
            | CallError::ModelNotAllowed { model }
            | CallError::WrongDialect { model, .. } => self.record(None, denial.code, Some(model)),
            CallError::Invalid { .. }
            | CallError::AdmissionUnavailable
            | CallError::BooksUnavailable
            | CallError::SpoolUnavailable
            | CallError::ProviderDown
            | CallError::Draining => self.record(None, denial.code, None),
        }
        refusal(self.caller.shape, self.caller.request_id, &denial)
    }

    fn denial(&self, error: &CallError) -> Denial {
        match error {
            CallError::Invalid { message, param } => {
                let denial = Denial::new(Code::InvalidRequest, message.clone());
                match param {
                    Some(param) => denial.of_field(param.clone()),
                    None => denial,
                }
            }
            CallError::ModelNotFound { .. } => {
                Denial::new(Code::ModelNotFound, error.to_string()).of_field("model")
            }
            CallError::ModelNotAllowed { .. } => {
                Denial::new(Code::ModelNotAllowed, error.to_string()).of_field("model")
            }
            CallError::WrongDialect { .. } => {
                Denial::new(Code::NotSupported, error.to_string()).of_field("model")
            }
            CallError::Refused(limit) => {
                Denial::of_refusal(limit, self.caller.tenant.plan.deny_mode)
            }
            CallError::AdmissionUnavailable => {
                Denial::new(Code::AdmissionUnavailable, error.to_string())
                    .retry_after(GATEWAY_WAIT_MS)
            }
            CallError::BooksUnavailable => {
                Denial::new(Code::BooksUnavailable, error.to_string()).retry_after(BOOKS_WAIT_MS)
            }
            CallError::SpoolUnavailable => {
                Denial::new(Code::SpoolUnavailable, error.to_string()).retry_after(BOOKS_WAIT_MS)
            }
            CallError::ProviderDown => {
                Denial::new(Code::ProviderDown, error.to_string()).retry_after(GATEWAY_WAIT_MS)
            }
            CallError::Draining => {
                Denial::new(Code::Draining, error.to_string()).retry_after(GATEWAY_WAIT_MS)
            }
            CallError::Upstream(failure) => of_provider(failure),
        }
    }

    fn record(&self, limit: Option<&Refusal>, code: Code, model: Option<&str>) {
        metrics::counter!("weir_calls_refused_total", "code" => code.word()).increment(1);
        self.weir.ledger.refused(RefusedCall {
            request_id: self.caller.request_id,
            tenant_id: self.caller.tenant.tenant.id,
            key_id: self.caller.tenant.key.id,
            at: self.weir.clock.now(),
            route: self.route.to_owned(),
            model: model.map(ToOwned::to_owned),
            status: code.status().as_u16(),
            code: code.word().to_owned(),
            limit: limit.cloned(),
            client_request_id: self.caller.client_request_id.clone(),
        });
    }
}

/// What a provider's failure is for the client: its own class, marked as the provider's.
fn of_provider(failure: &UpstreamFailure) -> Denial {
    let code = match failure.kind {
        FailureKind::Unreachable | FailureKind::Failed(_) | FailureKind::BadAnswer => {
            Code::ProviderError
        }
        FailureKind::TimedOut => Code::ProviderTimeout,
        FailureKind::Credential => Code::ProviderAuth,
        FailureKind::RateLimited => Code::ProviderRateLimited,
        FailureKind::Rejected(_) => match failure.kind.client_status() {
            404 => Code::NotFound,
            413 => Code::RequestTooLarge,
            503 => Code::ProviderQuota,
            _ => Code::InvalidRequest,
        },
    };
    let denial = Denial::new(code, failure.message.clone()).of_provider();
    match failure.retry_after_s {
        Some(seconds) => denial.retry_after(seconds.saturating_mul(1_000)),
        None => denial,
    }
}

/// Features of the providers that bill outside the answer: refused by name until they are metered.
const NOT_METERED: [&str; 14] = [
    "responses",
    "completions",
    "embeddings",
    "images",
    "audio",
    "files",
    "batches",
    "realtime",
    "assistants",
    "threads",
    "fine_tuning",
    "moderations",
    "interactions",
    "cachedContents",
];

/// Answers a path that leads nowhere.
pub(in crate::http) async fn unknown_route(request: HttpRequest) -> Response {
    let path = request.uri().path();
    let shape = shape_of(path, request.headers());
    let feature = path.split('/').nth(2).unwrap_or_default();
    let denial = if NOT_METERED.contains(&feature) || path.contains(':') {
        let message =
            format!("{path} is not supported: it is not metered yet, so it is not forwarded");
        Denial::new(Code::NotSupported, message)
    } else {
        Denial::new(Code::NotFound, format!("there is no {} {path}", request.method()))
    };
    refusal(shape, request_id(&request), &denial)
}
