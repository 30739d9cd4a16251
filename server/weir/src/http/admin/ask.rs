//! What every question of the admin API has in common: who asks, how a body is read, how errors
//! and pages are told.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::response::IntoResponse;
use domain::id::RequestId;
use domain::window::UnixMs;
use http::Response;
use http::request::Parts;
use ledger::LedgerError;
use limiter::LimiterError;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tenants::TenantsError;
use tokio::time::timeout;
use utoipa::{IntoParams, ToSchema};

use crate::deeds::Actor;
use crate::http::error::{Code, Denial, Shape, refusal};
use crate::weir::Weir;

/// The largest body: a plan with all its limits is a few kilobytes.
const BODY_BYTES_MAX: usize = 256 * 1024;
/// How long a body may take to arrive.
const BODY_WAIT: Duration = Duration::from_secs(15);
/// How many rows a page has when nobody says.
const PAGE_ROWS: i64 = 100;
/// When to come back after a store did not answer, in milliseconds.
const BUSY_WAIT_MS: i64 = 1_000;

/// One question.
pub(in crate::http) struct Ask {
    pub(super) weir: Weir,
    pub(super) request_id: RequestId,
}

impl FromRequestParts<Weir> for Ask {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, weir: &Weir) -> Result<Self, Self::Rejection> {
        Ok(Self { weir: weir.clone(), request_id: request_id(parts) })
    }
}

fn request_id(parts: &Parts) -> RequestId {
    let known = parts.extensions.get::<RequestId>().copied();
    known.unwrap_or_else(|| RequestId::from_parts(0, 0))
}

impl Ask {
    /// An error of this question.
    pub(super) fn problem(&self, code: Code, message: impl Into<String>) -> Problem {
        let denial = Denial::new(code, message.into());
        Problem(Box::new((self.request_id, denial)))
    }

    /// A value that does not do.
    pub(super) fn invalid(&self, param: &'static str, message: impl Into<String>) -> Problem {
        let denial = Denial::new(Code::InvalidRequest, message.into()).of_field(param);
        Problem(Box::new((self.request_id, denial)))
    }

    /// What the configuration said no to.
    pub(super) fn of_tenants(&self, error: TenantsError) -> Problem {
        match error {
            TenantsError::Conflict { what } => {
                self.problem(Code::Conflict, format!("{what}: there already, or in the way"))
            }
            TenantsError::NotFound { what } => {
                self.problem(Code::NotFound, format!("There is no such {what}."))
            }
            TenantsError::Invalid { what, why } => self.invalid(what, format!("{what}: {why}")),
            TenantsError::Busy | TenantsError::Unavailable(_) => self.unavailable(&error),
            TenantsError::Sealed | TenantsError::Unreadable { .. } | TenantsError::Database(_) => {
                tracing::error!(%error, "an admin request failed");
                self.problem(Code::Internal, Code::Internal.sentence())
            }
        }
    }

    /// What the books said no to.
    pub(super) fn of_ledger(&self, error: LedgerError) -> Problem {
        match error {
            LedgerError::Rejected(why) => self.problem(Code::InvalidRequest, why),
            LedgerError::Unavailable(_) | LedgerError::Stopped => self.unavailable(&error),
        }
    }

    /// What the counters said no to.
    pub(super) fn of_limiter(&self, error: LimiterError) -> Problem {
        self.unavailable(&error)
    }

    fn unavailable(&self, error: &dyn std::error::Error) -> Problem {
        tracing::error!(%error, "an admin request found a store that does not answer");
        let denial = Denial::new(Code::Unavailable, Code::Unavailable.sentence());
        Problem(Box::new((self.request_id, denial.retry_after(BUSY_WAIT_MS))))
    }

    /// Who changes something.
    pub(super) fn actor(&self) -> Actor {
        Actor { name: "admin token".to_owned(), request_id: Some(self.request_id.to_string()) }
    }
}

/// An error on its way out.
pub(in crate::http) struct Problem(Box<(RequestId, Denial)>);

impl IntoResponse for Problem {
    fn into_response(self) -> Response<Body> {
        let (request_id, denial) = &*self.0;
        refusal(Shape::Problem, *request_id, denial)
    }
}

/// A JSON body. Unknown members are told, not ignored.
pub(in crate::http) struct Said<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<Weir> for Said<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &Weir) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let problem = |code, message: String| {
            Problem(Box::new((request_id(&parts), Denial::new(code, message))))
        };
        let arriving = timeout(BODY_WAIT, to_bytes(body, BODY_BYTES_MAX)).await;
        let body = arriving.map_err(|_| {
            problem(Code::InvalidRequest, "the body took too long to arrive".to_owned())
        })?;
        let body = body.map_err(|_| {
            problem(Code::RequestTooLarge, format!("at most {BODY_BYTES_MAX} bytes are read"))
        })?;
        serde_json::from_slice(&body)
            .map(Self)
            .map_err(|error| problem(Code::InvalidRequest, error.to_string()))
    }
}

/// The query of a request.
pub(in crate::http) struct Params<T>(pub(super) T);

impl<T: DeserializeOwned + Send> FromRequestParts<Weir> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, weir: &Weir) -> Result<Self, Problem> {
        let id = request_id(parts);
        let read = Query::<T>::from_request_parts(parts, weir).await;
        read.map(|Query(params)| Self(params)).map_err(|error| {
            Problem(Box::new((id, Denial::new(Code::InvalidRequest, error.body_text()))))
        })
    }
}

/// The parts of a path.
pub(in crate::http) struct At<T>(pub(super) T);

impl<T: DeserializeOwned + Send> FromRequestParts<Weir> for At<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, weir: &Weir) -> Result<Self, Problem> {
        let id = request_id(parts);
        let read = axum::extract::Path::<T>::from_request_parts(parts, weir).await;
        // An id that is no number is the id of nothing.
        read.map(|axum::extract::Path(at)| Self(at)).map_err(|_| {
            Problem(Box::new((id, Denial::new(Code::NotFound, Code::NotFound.sentence()))))
        })
    }
}

/// Which page of a list.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct PageWish {
    /// How many rows, at most 500; 100 when nothing is said.
    pub(super) limit: Option<i64>,
    /// `next_cursor` of the page before.
    pub(super) cursor: Option<String>,
}

impl PageWish {
    /// How many rows.
    pub(super) fn rows(&self) -> i64 {
        self.limit.unwrap_or(PAGE_ROWS).clamp(1, tenants::MAX_PAGE)
    }

    /// The row after which the page begins.
    pub(super) fn after(&self, ask: &Ask) -> Result<Option<i64>, Problem> {
        let read = self.cursor.as_deref().map(str::parse::<i64>).transpose();
        read.map_err(|_| ask.invalid("cursor", "send `next_cursor` of the page before"))
    }
}

/// A page of a list.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct Page<T> {
    /// The rows.
    pub(super) data: Vec<T>,
    /// Send it as `cursor` for the next page; null on the last one.
    pub(super) next_cursor: Option<String>,
}

impl<T> Page<T> {
    /// A page of `rows` rows at most; there is another when it is full.
    pub(super) fn of(data: Vec<T>, rows: i64, id: impl Fn(&T) -> i64) -> Self {
        let full = i64::try_from(data.len()).unwrap_or(i64::MAX) >= rows;
        let next_cursor = data.last().filter(|_| full).map(|last| id(last).to_string());
        Self { data, next_cursor }
    }

    /// All rows there are.
    pub(super) const fn whole(data: Vec<T>) -> Self {
        Self { data, next_cursor: None }
    }
}

/// An instant as it is told.
pub(super) fn rfc3339(at: UnixMs) -> String {
    // Instants of rows are within the calendar.
    jiff::Timestamp::from_millisecond(at.0).unwrap_or_default().to_string()
}

/// An instant as it is asked for.
pub(super) fn instant(ask: &Ask, param: &'static str, text: &str) -> Result<UnixMs, Problem> {
    text.parse::<jiff::Timestamp>()
        .map(|instant| UnixMs(instant.as_millisecond()))
        .map_err(|_| ask.invalid(param, "is not an instant such as 2026-11-30T00:00:00Z"))
}
