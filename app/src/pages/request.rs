//! What a page knows of the request it answers.

use std::sync::Arc;

use http::header::LOCATION;
use http::request::Parts;
use http::{HeaderValue, StatusCode};
use leptos::prelude::{GetUntracked, use_context};
use leptos_axum::ResponseOptions;
use leptos_router::hooks::use_params_map;

use crate::console::{Console, ConsoleError, Viewer, desk};
use crate::routes;
use crate::views::Instance;

/// Most parameters that are read from one URL: ours have ten.
const PARAMETERS_MAX: usize = 32;

/// Who asks, whom, and where.
#[derive(Clone)]
pub(crate) struct Asked {
    /// Answers questions.
    pub(crate) console: Arc<dyn Console>,
    /// The person who asks.
    pub(crate) viewer: Viewer,
    /// Facts of the frame; `None` when they could not be read.
    pub(crate) instance: Option<Instance>,
    /// Path and query of this page.
    pub(crate) url: String,
    /// The query.
    pub(crate) query: Query,
}

impl Asked {
    /// Reads it from the page's context.
    ///
    /// # Errors
    /// [`ConsoleError::SignedOut`] when nobody is signed in.
    pub(crate) async fn read(query: Query) -> Result<Self, ConsoleError> {
        let (console, viewer) = desk()?;
        let instance = console.instance().await.ok();
        Ok(Self { console, viewer, instance, url: url(), query })
    }
}

/// Path and query of this request.
pub(crate) fn url() -> String {
    use_context::<Parts>()
        .and_then(|parts| parts.uri.path_and_query().map(ToString::to_string))
        .unwrap_or_else(|| "/".to_owned())
}

/// A part of the path, by its name in the route. Read before the first await.
pub(crate) fn parameter(name: &str) -> String {
    use_params_map().get_untracked().get(name).unwrap_or_default()
}

/// Sends the browser elsewhere, whatever it accepts.
pub(crate) fn redirect(to: &str) {
    let (Some(response), Ok(to)) = (use_context::<ResponseOptions>(), HeaderValue::from_str(to))
    else {
        return;
    };
    response.insert_header(LOCATION, to);
    response.set_status(StatusCode::SEE_OTHER);
}

/// Sets the status of this answer.
pub(crate) fn set_status(status: StatusCode) {
    if let Some(response) = use_context::<ResponseOptions>() {
        response.set_status(status);
    }
}

/// The sign-in page, told to come back to this page afterwards.
pub(crate) fn sign_in_path() -> String {
    let here = url();
    let next = if here == "/" || here == routes::ADMIN { "" } else { here.as_str() };
    routes::with_query(routes::LOGIN, &[(routes::field::NEXT, next)])
}

/// The query of a URL, decoded once. The last of a repeated name counts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// The query of this request.
    pub(crate) fn read() -> Self {
        use_context::<Parts>()
            .and_then(|parts| parts.uri.query().map(Self::parse))
            .unwrap_or_default()
    }

    fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty()).take(PARAMETERS_MAX);
        let decoded = pairs.map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(name), decode(value))
        });
        Self(decoded.collect())
    }

    #[cfg(test)]
    pub(crate) fn of(pairs: &[(&str, &str)]) -> Self {
        Self(pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect())
    }

    /// The value of a parameter; `None` when it is absent or empty.
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        let found = self.0.iter().rev().find(|(known, _)| known == name);
        found.map(|(_, value)| value.clone()).filter(|value| !value.is_empty())
    }

    /// The value of a parameter, or nothing.
    pub(crate) fn text(&self, name: &str) -> String {
        self.get(name).unwrap_or_default()
    }

    /// Reads a parameter; what is not understood is put on `bad` and the default is used.
    pub(crate) fn parsed<T>(
        &self,
        name: &'static str,
        parse: impl FnOnce(&str) -> Option<T>,
        bad: &mut Vec<(&'static str, String)>,
    ) -> Option<T> {
        let value = self.get(name)?;
        let parsed = parse(&value);
        if parsed.is_none() {
            bad.push((name, value));
        }
        parsed
    }
}

/// Undoes the encoding of forms and links: `+` is a space, `%41` a byte. What is not UTF-8 is
/// shown with replacement characters rather than refused.
fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let escape = match (*byte, digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => u8::try_from(high * 16 + low).ok(),
            _ => None,
        };
        decoded.push(match (escape, *byte) {
            (Some(escape), _) => escape,
            (None, b'+') => b' ',
            (None, byte) => byte,
        });
        at += if escape.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_query_is_decoded_once() {
        let query = Query::parse("q=a+b%2Bc&q2=50%2525&month=&x&sort=-spend&sort=cap");
        assert_eq!(query.text("q"), "a b+c");
        assert_eq!(query.text("q2"), "50%25");
        assert_eq!(query.get("month"), None);
        assert_eq!(query.get("x"), None);
        assert_eq!(query.text("sort"), "cap");
        assert_eq!(decode("%zz%4"), "%zz%4");
    }

    proptest! {
        #[test]
        fn what_a_link_carries_comes_back(text in ".*") {
            let url = routes::with_query("/x", &[("q", &text)]);
            let query = Query::parse(url.split_once('?').map_or("", |(_, query)| query));
            prop_assert_eq!(query.text("q"), text);
        }
    }
}
