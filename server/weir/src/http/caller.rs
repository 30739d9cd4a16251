//! From a request's key to who asks: an argument that the handlers of calls cannot forget.

use axum::body::Body;
use axum::extract::{FromRequestParts, MatchedPath};
use domain::id::RequestId;
use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderMap, Response};
use ledger::RefusedCall;
use tenants::context::{Denied, TenantContext, identify};

use super::error::{Code, Denial, Shape, refusal};
use super::shape::shape_of;
use crate::weir::Weir;

/// The longest key text that is looked at; ours have 44 characters.
const KEY_CHARS_MAX: usize = 200;
/// The most of a client's own request id that is kept.
const CLIENT_ID_CHARS_MAX: usize = 200;

/// Who makes a call: the key's tenant, team and plan. Nothing else of a request decides this.
#[derive(Debug, Clone)]
pub struct Caller {
    /// Everything that the call is metered by.
    pub tenant: TenantContext,
    /// The request's id.
    pub request_id: RequestId,
    /// The client's own name of the request, for the record.
    pub client_request_id: Option<String>,
    /// Whose words the route speaks.
    pub shape: Shape,
}

impl FromRequestParts<Weir> for Caller {
    type Rejection = Response<Body>;

    async fn from_request_parts(parts: &mut Parts, weir: &Weir) -> Result<Self, Self::Rejection> {
        let shape = shape_of(parts.uri.path(), &parts.headers);
        let request_id = parts.extensions.get::<RequestId>().copied();
        let request_id = request_id.unwrap_or_else(|| RequestId::from_parts(0, 0));
        let client_request_id = client_request_id(&parts.headers);
        let deny = |denial: &Denial| refusal(shape, request_id, denial);
        let key = presented(&parts.headers, parts.uri.query()).map_err(|denial| deny(&denial))?;
        let now = weir.clock.now();
        match identify(&weir.directory.snapshot(), key, now) {
            Ok(tenant) => {
                weir.last_used.note(tenant.key.id, now);
                Ok(Self { tenant, request_id, client_request_id, shape })
            }
            Err(denied) => {
                let denial = Denial::of_key(denied);
                record(weir, parts, denied, &denial, request_id, client_request_id);
                Err(deny(&denial))
            }
        }
    }
}

/// Puts a refusal of a known key on record, so that it is found by its request id.
fn record(
    weir: &Weir,
    parts: &Parts,
    denied: Denied,
    denial: &Denial,
    request_id: RequestId,
    client_request_id: Option<String>,
) {
    metrics::counter!("weir_calls_refused_total", "code" => denial.code.word()).increment(1);
    let Some(known) = denied.known() else { return };
    let route = parts.extensions.get::<MatchedPath>().map_or("", MatchedPath::as_str);
    weir.ledger.refused(RefusedCall {
        request_id,
        tenant_id: known.tenant,
        key_id: known.key,
        at: weir.clock.now(),
        route: route.to_owned(),
        model: None,
        status: denial.code.status().as_u16(),
        code: denial.code.word().to_owned(),
        limit: None,
        client_request_id,
    });
}

impl Denial {
    /// Why a key does not let a call in.
    #[must_use]
    pub fn of_key(denied: Denied) -> Self {
        let code = match denied {
            Denied::InvalidKey => Code::InvalidKey,
            Denied::KeyExpired(_) => Code::KeyExpired,
            Denied::KeyRevoked(_) => Code::KeyRevoked,
            Denied::KeyDisabled(_) => Code::KeyDisabled,
            Denied::TenantSuspended(_) => Code::TenantSuspended,
            Denied::LimitsUnknown(_) => Code::AdmissionUnavailable,
        };
        Self::new(code, code.sentence())
    }
}

/// The one key of a request, in whichever of the four places the client put it.
fn presented<'a>(headers: &'a HeaderMap, query: Option<&'a str>) -> Result<&'a str, Box<Denial>> {
    let header = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let bearer = headers.get(AUTHORIZATION).map(|value| {
        let value = value.to_str().unwrap_or_default();
        let (scheme, key) = value.split_once(' ').unwrap_or(("", value));
        if scheme.is_empty() || scheme.eq_ignore_ascii_case("bearer") { key.trim() } else { "" }
    });
    let in_query =
        query.and_then(|query| query.split('&').find_map(|pair| pair.strip_prefix("key=")));
    let places = [bearer, header("x-api-key"), header("x-goog-api-key"), in_query];
    let mut keys = places.into_iter().flatten().map(str::trim).filter(|key| !key.is_empty());
    let Some(key) = keys.next() else {
        let message = "No API key came with the request. Send it as `Authorization: Bearer \
                       weir_sk_…`, `x-api-key`, `x-goog-api-key` or `?key=`.";
        return Err(Box::new(Denial::new(Code::MissingKey, message)));
    };
    if keys.any(|other| other != key) {
        let message = "Two different API keys came with the request: send one.";
        return Err(Box::new(Denial::new(Code::InvalidKey, message)));
    }
    if key.len() > KEY_CHARS_MAX {
        return Err(Box::new(Denial::new(Code::InvalidKey, Code::InvalidKey.sentence())));
    }
    Ok(key)
}

/// The client's own name of the request, cut to what is worth keeping.
fn client_request_id(headers: &HeaderMap) -> Option<String> {
    let value = headers.get("x-request-id").or_else(|| headers.get("x-client-request-id"))?;
    let text: String = value.to_str().ok()?.chars().take(CLIENT_ID_CHARS_MAX).collect();
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (http::HeaderName::from_static(name), http::HeaderValue::from_static(value))
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn a_key_is_found_in_all_four_places() {
        for (pairs, query) in [
            (&[("authorization", "Bearer k1")][..], None),
            (&[("authorization", "bearer  k1 ")][..], None),
            (&[("x-api-key", "k1")][..], None),
            (&[("x-goog-api-key", "k1")][..], None),
            (&[][..], Some("alt=sse&key=k1")),
            (&[("authorization", "Bearer k1"), ("x-api-key", "k1")][..], Some("key=k1")),
        ] {
            assert_eq!(presented(&headers(pairs), query).unwrap(), "k1");
        }
    }

    #[test]
    fn no_key_and_two_different_keys_are_told_apart() {
        let basic = headers(&[("authorization", "Basic abc")]);
        let none = presented(&basic, Some("monkey=k1"));
        assert_eq!(none.unwrap_err().code, Code::MissingKey);
        let two = [("authorization", "Bearer k1"), ("x-goog-api-key", "k2")];
        assert_eq!(presented(&headers(&two), None).unwrap_err().code, Code::InvalidKey);
    }

    #[test]
    fn a_clients_own_request_id_is_kept_short() {
        let long: &'static str = "x".repeat(10_000).leak();
        let id = client_request_id(&headers(&[("x-request-id", long)])).unwrap();
        assert_eq!(id.len(), CLIENT_ID_CHARS_MAX);
        assert_eq!(client_request_id(&HeaderMap::new()), None);
    }
}
