//! The token of forms that are shown to nobody in particular, such as sign-in: a random cookie
//! that only our own page can repeat in its hidden field.

use app::console::Csrf;
use axum::extract::Request;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::COOKIE;
use http::{HeaderMap, HeaderValue};
use rand::Rng;

/// 256 random bits.
const TOKEN_BYTES: usize = 32;
/// The length of the token as text.
const TOKEN_CHARS: usize = 43;

const fn name(https: bool) -> &'static str {
    // With `__Host-` no other host of the domain can set it.
    if https { "__Host-weir_form" } else { "weir_form" }
}

/// The token of this browser, and the cookie to set when it has none yet.
pub(super) fn of(request: &Request, https: bool) -> (Csrf, Option<HeaderValue>) {
    if let Some(token) = sent(request.headers(), name(https)) {
        return (Csrf(token), None);
    }
    let mut random = [0; TOKEN_BYTES];
    rand::rng().fill_bytes(&mut random);
    let token = URL_SAFE_NO_PAD.encode(random);
    let secure = if https { "; Secure" } else { "" };
    let cookie = format!("{}={token}; Path=/; HttpOnly; SameSite=Lax{secure}", name(https));
    // Base 64 is always a header value.
    (Csrf(token), HeaderValue::try_from(cookie).ok())
}

fn sent(headers: &HeaderMap, name: &str) -> Option<String> {
    let sent = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut cookies = sent.flat_map(|value| value.split(';')).filter_map(|c| c.split_once('='));
    let (_, token) = cookies.find(|(known, _)| known.trim() == name)?;
    let token = token.trim();
    // Whatever else stands there is not ours, and gets a new one.
    let ours = token.len() == TOKEN_CHARS
        && token.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    ours.then(|| token.to_owned())
}
