//! Light, dark, or as the system says.

use app::routes::{self, field};
use app::theme::Theme;
use axum::body::Body;
use axum::extract::State;
use http::header::SET_COOKIE;
use http::{HeaderValue, Response};

use crate::http::answer;
use crate::http::posted::Posted;
use crate::weir::Weir;

/// A year: a taste lasts.
const KEPT_S: u32 = 365 * 24 * 60 * 60;

/// Keeps the choice in a cookie and goes back.
pub(in crate::http) async fn choose(State(weir): State<Weir>, posted: Posted) -> Response<Body> {
    let fields = match posted.genuine("/") {
        Ok(fields) => fields,
        Err(expired) => return *expired,
    };
    let mut response = answer::see(fields.own_path(field::BACK).unwrap_or("/"));
    // What is no theme changes nothing.
    if let Some(theme) = Theme::parse(fields.text(field::THEME)) {
        let (name, theme) = (routes::THEME_COOKIE, theme.as_str());
        let secure = if weir.public_url.is_https() { "; Secure" } else { "" };
        let cookie =
            format!("{name}={theme}; Path=/; Max-Age={KEPT_S}; HttpOnly; SameSite=Lax{secure}");
        if let Ok(cookie) = HeaderValue::try_from(cookie) {
            response.headers_mut().append(SET_COOKIE, cookie);
        }
    }
    response
}
