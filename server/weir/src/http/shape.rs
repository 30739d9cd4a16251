//! Whose words a route speaks, known from the request line and headers alone.

use domain::usage::Dialect;
use http::HeaderMap;

use super::error::Shape;

/// The shape of errors for this path.
///
/// Two dialects share `/v1/models`: Anthropic's SDKs always send `anthropic-version`, and Google's
/// send their key in a header of their own.
#[must_use]
pub fn shape_of(path: &str, headers: &HeaderMap) -> Shape {
    if !is_of_calls(path) {
        return Shape::Problem;
    }
    let gemini = path.starts_with("/v1beta") || path.contains(':');
    let dialect = if path.starts_with("/v1/messages") || headers.contains_key("anthropic-version") {
        Dialect::Anthropic
    } else if gemini || headers.contains_key("x-goog-api-key") {
        Dialect::Gemini
    } else {
        Dialect::Openai
    };
    Shape::Dialect(dialect)
}

/// Whether a path belongs to API clients: nothing below these is ever a page.
#[must_use]
pub fn is_of_calls(path: &str) -> bool {
    let first = path.trim_start_matches('/').split('/').next().unwrap_or_default();
    first.starts_with("v1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_route_speaks_its_own_dialect() {
        let none = HeaderMap::new();
        let shape = |path: &str| shape_of(path, &none);
        assert_eq!(shape("/v1/chat/completions"), Shape::Dialect(Dialect::Openai));
        assert_eq!(shape("/v1/messages"), Shape::Dialect(Dialect::Anthropic));
        assert_eq!(shape("/v1/messages/count_tokens"), Shape::Dialect(Dialect::Anthropic));
        assert_eq!(shape("/v1beta/models/g:generateContent"), Shape::Dialect(Dialect::Gemini));
        assert_eq!(shape("/v1/models/g:generateContent"), Shape::Dialect(Dialect::Gemini));
        assert_eq!(shape("/v1/nothing"), Shape::Dialect(Dialect::Openai));
        assert_eq!(shape("/admin/api/v1/plans"), Shape::Problem);
        assert_eq!(shape("/"), Shape::Problem);
    }

    #[test]
    fn a_shared_route_is_told_apart_by_its_headers() {
        let mut headers = HeaderMap::new();
        headers.insert("anthropic-version", http::HeaderValue::from_static("2023-06-01"));
        assert_eq!(shape_of("/v1/models", &headers), Shape::Dialect(Dialect::Anthropic));
        let mut headers = HeaderMap::new();
        headers.insert("x-goog-api-key", http::HeaderValue::from_static("k"));
        assert_eq!(shape_of("/v1/models", &headers), Shape::Dialect(Dialect::Gemini));
    }
}
