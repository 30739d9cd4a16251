//! Every path and form field that the pages and the server agree on, in one place.
//!
//! Pages link to these paths and post these fields; `weir` serves the pages under them and
//! handles the posts. A name written twice would drift, so both sides take it from here.
//!
//! Conventions of every form post:
//! - the body is `application/x-www-form-urlencoded` and carries [`field::CSRF`];
//! - success answers 303 to a page; a refusal answers 303 back to the form with
//!   [`query::ERROR`] set to one of [`error`]'s codes, which the page turns into words;
//! - what the person typed (never a password) comes back in the query under the field's name.

/// Where a signed-in operator starts.
pub const ADMIN: &str = "/admin";
/// The list of tenants.
pub const ADMIN_TENANTS: &str = "/admin/tenants";
/// GET shows the form (only with an open token), POST creates the first owner.
/// Fields: [`field::TOKEN`], [`field::EMAIL`], [`field::PASSWORD`], [`field::INSTANCE_NAME`].
pub const SETUP: &str = "/setup";
/// GET shows the form, POST signs in.
/// Fields: [`field::EMAIL`], [`field::PASSWORD`], [`field::NEXT`].
pub const LOGIN: &str = "/login";
/// POST ends the session and answers 303 to [`LOGIN`].
pub const LOGOUT: &str = "/logout";
/// POST stores the theme cookie and goes back. Fields: [`field::THEME`], [`field::BACK`].
pub const THEME: &str = "/theme";

/// Route patterns in axum's syntax, for the handlers that take the posts.
pub mod pattern {
    /// POST makes a key. Field: [`super::field::NAME`]. Success answers 303 to
    /// [`super::key_created`]; the secret waits on the server for `Console::take_new_key`.
    pub const TENANT_KEYS: &str = "/admin/tenants/{slug}/keys";
    /// POST revokes a key. Field: [`super::field::CONFIRM`], which must equal the key's name.
    /// Success answers 303 to [`super::tenant`] with [`super::query::DONE`] =
    /// [`super::done::KEY_REVOKED`] and [`super::query::KEY`] = the key's name.
    pub const KEY_REVOKE: &str = "/admin/tenants/{slug}/keys/{id}/revoke";
}

/// Names of form fields.
pub mod field {
    /// The hidden token that proves the form came from our own page.
    pub const CSRF: &str = "csrf";
    /// The one-time token that opens [`super::SETUP`].
    pub const TOKEN: &str = "token";
    /// An e-mail address.
    pub const EMAIL: &str = "email";
    /// A password: never echoed, never put into a URL.
    pub const PASSWORD: &str = "password";
    /// What this installation is called.
    pub const INSTANCE_NAME: &str = "instance_name";
    /// Where to go after signing in: an own path, checked by [`super::own_path`].
    pub const NEXT: &str = "next";
    /// The name of a key.
    pub const NAME: &str = "name";
    /// What the person types to confirm a final deed: the thing's name.
    pub const CONFIRM: &str = "confirm";
    /// `light`, `dark` or `system`.
    pub const THEME: &str = "theme";
    /// The page to go back to: an own path, checked by [`super::own_path`].
    pub const BACK: &str = "back";
}

/// Names of query parameters.
pub mod query {
    /// Why the last post was refused: one of [`super::error`]'s codes.
    pub const ERROR: &str = "error";
    /// What the last post did: one of [`super::done`]'s codes.
    pub const DONE: &str = "done";
    /// The name of the key that [`DONE`] speaks of.
    pub const KEY: &str = "key";
    /// Seconds to wait, beside [`super::error::TOO_MANY_TRIES`].
    pub const WAIT_S: &str = "wait_s";
    /// The request id, beside [`super::error::UNAVAILABLE`].
    pub const REQUEST_ID: &str = "request_id";
    /// Billing month, `2026-11`.
    pub const MONTH: &str = "month";
    /// Traffic window, `24h`.
    pub const RANGE: &str = "range";
    /// What the model mix counts: `tokens`, `cost` or `requests`.
    pub const METRIC: &str = "metric";
    /// How spend is ordered: `spend` or `cap`.
    pub const ORDER: &str = "order";
    /// Search text.
    pub const Q: &str = "q";
    /// Filter by plan.
    pub const PLAN: &str = "plan";
    /// Filter by status.
    pub const STATUS: &str = "status";
    /// Column to sort by, with `-` in front for descending.
    pub const SORT: &str = "sort";
    /// Page number from 1.
    pub const PAGE: &str = "page";
}

/// Codes of refused posts, as they stand in [`query::ERROR`].
pub mod error {
    /// Wrong e-mail or password: one code for both, so that nothing is told.
    pub const CREDENTIALS: &str = "credentials";
    /// Too many failed tries; [`super::query::WAIT_S`] says how long.
    pub const TOO_MANY_TRIES: &str = "too_many_tries";
    /// The form's token did not match: expired page or foreign origin.
    pub const EXPIRED_FORM: &str = "expired_form";
    /// Not an e-mail address.
    pub const EMAIL_INVALID: &str = "email_invalid";
    /// Shorter than 12 characters.
    pub const PASSWORD_TOO_SHORT: &str = "password_too_short";
    /// Longer than the server is willing to hash.
    pub const PASSWORD_TOO_LONG: &str = "password_too_long";
    /// The instance name is empty or too long.
    pub const INSTANCE_NAME_INVALID: &str = "instance_name_invalid";
    /// A key needs a name of 1 to 80 characters.
    pub const NAME_INVALID: &str = "name_invalid";
    /// A living key of this tenant already has this name.
    pub const NAME_TAKEN: &str = "name_taken";
    /// The typed confirmation is not the name.
    pub const CONFIRM_MISMATCH: &str = "confirm_mismatch";
    /// The key is already revoked.
    pub const ALREADY_REVOKED: &str = "already_revoked";
    /// The role does not include the right.
    pub const FORBIDDEN: &str = "forbidden";
    /// A part of the server did not answer; [`super::query::REQUEST_ID`] names the request.
    pub const UNAVAILABLE: &str = "unavailable";
}

/// Codes of deeds done, as they stand in [`query::DONE`].
pub mod done {
    /// A key was revoked.
    pub const KEY_REVOKED: &str = "key_revoked";
    /// The session was ended.
    pub const SIGNED_OUT: &str = "signed_out";
}

/// The cookie that holds the theme: `light`, `dark` or `system` (absent means `system`).
pub const THEME_COOKIE: &str = "weir_theme";
/// The style sheet, made of the files in `style/` in name order.
pub const STYLE_SHEET: &str = "/pkg/weir.css";
/// The site icon.
pub const FAVICON: &str = "/favicon.svg";

/// The shortest password that [`SETUP`] takes.
pub const PASSWORD_MIN_CHARS: usize = 12;
/// The longest password that is hashed: hashing time must not be the client's to choose.
pub const PASSWORD_MAX_BYTES: usize = 1024;
/// The longest name of a key or an instance, in characters: it must fit a table cell.
pub const NAME_MAX_CHARS: usize = 80;

/// One tenant, seen by an operator.
#[must_use]
pub fn tenant(slug: &str) -> String {
    format!("{ADMIN_TENANTS}/{}", segment(slug))
}

/// Where a key is made (POST).
#[must_use]
pub fn tenant_keys(slug: &str) -> String {
    format!("{}/keys", tenant(slug))
}

/// The page that shows a new key once.
#[must_use]
pub fn key_created(slug: &str, key_id: i64) -> String {
    format!("{}/{key_id}/created", tenant_keys(slug))
}

/// GET asks for confirmation, POST revokes.
#[must_use]
pub fn key_revoke(slug: &str, key_id: i64) -> String {
    format!("{}/{key_id}/revoke", tenant_keys(slug))
}

/// The tenant's own overview.
#[must_use]
pub fn portal(slug: &str) -> String {
    format!("/t/{}", segment(slug))
}

/// `path` with `name=value` pairs appended as a query; empty values are left out.
#[must_use]
pub fn with_query(path: &str, pairs: &[(&str, &str)]) -> String {
    let mut url = String::from(path);
    let mut separator = if path.contains('?') { '&' } else { '?' };
    for (name, value) in pairs.iter().filter(|(_, value)| !value.is_empty()) {
        url.push(separator);
        url.push_str(&segment(name));
        url.push('=');
        url.push_str(&segment(value));
        separator = '&';
    }
    url
}

/// `path` when it stays on this site, else `None`: what `next` and `back` must pass.
///
/// `//host`, `/\host` and control characters are other origins in disguise.
#[must_use]
pub fn own_path(path: &str) -> Option<&str> {
    let tail = path.strip_prefix('/')?;
    let foreign = tail.starts_with(['/', '\\']);
    let clean = path.chars().all(|character| !character.is_control() && character != '\\');
    (!foreign && clean).then_some(path)
}

/// `text` percent-encoded for one path segment or one query value.
#[must_use]
pub fn segment(text: &str) -> String {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            encoded.push(char::from(byte));
        } else {
            encoded.push('%');
            encoded.push(char::from(HEX[usize::from(byte >> 4)]));
            encoded.push(char::from(HEX[usize::from(byte & 15)]));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_another_site_is_refused() {
        for path in ["//evil", "/\\evil", "https://evil", "evil", "", "/a\nb", "/a\\b"] {
            assert_eq!(own_path(path), None, "{path:?}");
        }
        assert_eq!(own_path("/admin?month=2026-11"), Some("/admin?month=2026-11"));
        assert_eq!(own_path("/"), Some("/"));
    }

    #[test]
    fn hostile_text_stays_one_segment() {
        assert_eq!(tenant("a/b?c#d"), "/admin/tenants/a%2Fb%3Fc%23d");
        assert_eq!(
            with_query("/x", &[("q", "a b&c"), ("plan", ""), ("sort", "-spend")]),
            "/x?q=a%20b%26c&sort=-spend"
        );
        assert_eq!(with_query("/x?a=1", &[("b", "ü")]), "/x?a=1&b=%C3%BC");
    }
}
