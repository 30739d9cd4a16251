//! A form as it was posted. What it says can only be had by showing that it came from our own page.

use std::time::Duration;

use app::routes::{self, error, field, query};
use axum::body::{Body, to_bytes};
use axum::extract::{FromRequest, Request};
use http::header::{CONTENT_TYPE, HOST, ORIGIN};
use http::{HeaderMap, HeaderName, Response, StatusCode, Uri};
use secrecy::SecretString;
use subtle::ConstantTimeEq;
use tokio::time::timeout;

use super::answer;
use super::session::FormTokens;
use crate::weir::Weir;

/// The largest form: a dozen short fields.
const FORM_BYTES_MAX: usize = 64 * 1024;
/// How long a form may take to arrive: a slow phone needs a second.
const FORM_WAIT: Duration = Duration::from_secs(15);
/// The most fields that are read.
const FIELDS_MAX: usize = 32;
/// Where browsers say whether a request comes from the same site.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// A posted form, not yet looked at.
#[derive(Debug)]
pub(super) struct Posted {
    fields: Fields,
    genuine: bool,
}

/// What a form says.
pub(super) struct Fields(Vec<(String, String)>);

impl std::fmt::Debug for Fields {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Passwords are among them.
        f.write_str("Fields([redacted])")
    }
}

impl Posted {
    /// What the form says, if it came from our own page; else the way back to `form`, which says
    /// that it has expired.
    pub(super) fn genuine(self, form: &str) -> Result<Fields, Box<Response<Body>>> {
        if self.genuine {
            return Ok(self.fields);
        }
        let back = routes::with_query(form, &[(query::ERROR, error::EXPIRED_FORM)]);
        Err(Box::new(answer::see(&back)))
    }
}

impl Fields {
    /// A field's text; empty when it is not there.
    pub(super) fn text(&self, name: &str) -> &str {
        self.0.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value.as_str())
    }

    /// A field that must not be seen.
    pub(super) fn secret(&self, name: &str) -> SecretString {
        self.text(name).into()
    }

    /// An own path to go to; nothing for another site's.
    pub(super) fn own_path(&self, name: &str) -> Option<&str> {
        routes::own_path(self.text(name))
    }
}

impl FromRequest<Weir> for Posted {
    type Rejection = Response<Body>;

    async fn from_request(request: Request, weir: &Weir) -> Result<Self, Self::Rejection> {
        let (parts, body) = request.into_parts();
        let own_site = is_own_site(&parts.headers, weir.public_url.origin());
        let is_form = parts
            .headers
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .is_some_and(|value| value.starts_with("application/x-www-form-urlencoded"));
        if !is_form {
            let text = "This route takes a form (application/x-www-form-urlencoded).";
            return Err(answer::sentence(StatusCode::UNSUPPORTED_MEDIA_TYPE, text));
        }
        let Ok(body) = timeout(FORM_WAIT, to_bytes(body, FORM_BYTES_MAX)).await else {
            let text = "This form took too long to arrive.";
            return Err(answer::sentence(StatusCode::REQUEST_TIMEOUT, text));
        };
        let body = body.map_err(|_| {
            answer::sentence(StatusCode::PAYLOAD_TOO_LARGE, "This form is too large.")
        })?;
        let fields = Fields(decode(&body));
        let sent = fields.text(field::CSRF).as_bytes();
        let tokens = parts.extensions.get::<FormTokens>().map_or(&[][..], |tokens| &tokens.0);
        // An empty token would equal an empty field.
        let token_fits = tokens
            .iter()
            .any(|token| !token.is_empty() && bool::from(token.as_bytes().ct_eq(sent)));
        Ok(Self { fields, genuine: own_site && token_fits })
    }
}

/// Whether a browser says that the request comes from our own pages. One that says nothing, as old
/// ones do, is judged by its token alone.
fn is_own_site(headers: &HeaderMap, origin: &str) -> bool {
    if let Some(site) = headers.get(SEC_FETCH_SITE) {
        return site == "same-origin" || site == "none";
    }
    let Some(sent) = headers.get(ORIGIN) else { return true };
    let Ok(sent) = sent.to_str() else { return false };
    if sent.eq_ignore_ascii_case(origin) {
        return true;
    }
    // The same machine may be reached by several names; then both headers name the one in use.
    let authority = sent.parse::<Uri>().ok().and_then(|uri| uri.authority().cloned());
    let host = headers.get(HOST).and_then(|value| value.to_str().ok());
    authority.zip(host).is_some_and(|(authority, host)| authority.as_str() == host)
}

fn decode(body: &[u8]) -> Vec<(String, String)> {
    let pairs = body.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()).take(FIELDS_MAX);
    let decoded = pairs.map(|pair| {
        let mut halves = pair.splitn(2, |byte| *byte == b'=');
        let mut half = || unescape(halves.next().unwrap_or_default());
        (half(), half())
    });
    decoded.collect()
}

/// Undoes a form's encoding. What is not UTF-8 is replaced: no field of ours holds bytes.
fn unescape(text: &[u8]) -> String {
    let digit = |at: usize| text.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let mut bytes = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        let escape = match (*byte, digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => u8::try_from(high * 16 + low).ok(),
            _ => None,
        };
        bytes.push(match (escape, *byte) {
            (Some(escape), _) => escape,
            (None, b'+') => b' ',
            (None, byte) => byte,
        });
        at += if escape.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_form_is_decoded_once_and_the_first_of_a_repeated_field_counts() {
        let fields = Fields(decode(b"a=1+2%2B3&b=%C3%BC&a=evil&c&=x&d=50%2525&e=%zz%4"));
        assert_eq!(fields.text("a"), "1 2+3");
        assert_eq!(fields.text("b"), "ü");
        assert_eq!(fields.text("c"), "");
        assert_eq!(fields.text("d"), "50%25");
        assert_eq!(fields.text("e"), "%zz%4");
        assert_eq!(fields.text("none"), "");
        assert_eq!(format!("{fields:?}"), "Fields([redacted])");
    }

    fn headers(pairs: &[(HeaderName, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(HeaderName, &'static str)| {
            (name.clone(), HeaderValue::from_static(value))
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn a_request_from_another_site_is_known_by_what_its_browser_says() {
        let own = |pairs: &[(HeaderName, &'static str)]| {
            is_own_site(&headers(pairs), "https://gw.example")
        };
        assert!(own(&[(SEC_FETCH_SITE, "same-origin"), (ORIGIN, "https://gw.example")]));
        assert!(own(&[(ORIGIN, "https://gw.example")]));
        assert!(own(&[(ORIGIN, "http://localhost:8080"), (HOST, "localhost:8080")]));
        assert!(own(&[]), "the token alone decides");
        assert!(!own(&[(SEC_FETCH_SITE, "cross-site")]));
        assert!(!own(&[(SEC_FETCH_SITE, "same-site"), (ORIGIN, "https://gw.example")]));
        assert!(!own(&[(ORIGIN, "https://evil.example"), (HOST, "gw.example")]));
        assert!(!own(&[(ORIGIN, "null"), (HOST, "gw.example")]));
    }
}
