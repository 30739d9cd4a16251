//! What a page may load: nothing but its own.

use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY};
use leptos::nonce::use_nonce;
use leptos::prelude::use_context;
use leptos_axum::ResponseOptions;

/// The Content-Security-Policy of one answer.
///
/// `nonce` admits the one inline script that wakes the islands; an answer without a page passes
/// `None`. There is no `unsafe-inline` and no other origin; `wasm-unsafe-eval` is what browsers
/// ask for to compile WebAssembly from the site itself.
#[must_use]
pub fn content_security_policy(nonce: Option<&str>) -> String {
    let scripts = nonce.map(|nonce| format!(" 'nonce-{nonce}'")).unwrap_or_default();
    format!(
        "default-src 'none'; script-src 'self'{scripts} 'wasm-unsafe-eval'; style-src 'self'; \
         img-src 'self' data:; font-src 'self'; connect-src 'self'; form-action 'self'; \
         frame-ancestors 'none'; base-uri 'none'"
    )
}

/// Sets the headers that every page carries: its policy, with the nonce of this answer, and
/// `no-store`, because a page shows one person's figures.
pub(crate) fn set_page_headers() {
    let Some(response) = use_context::<ResponseOptions>() else { return };
    let policy = content_security_policy(use_nonce().as_deref());
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        response.insert_header(CONTENT_SECURITY_POLICY, policy);
    }
    response.insert_header(CACHE_CONTROL, HeaderValue::from_static("no-store"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_inline_and_nothing_foreign_is_allowed() {
        for policy in [content_security_policy(None), content_security_policy(Some("abc"))] {
            assert!(!policy.contains("unsafe-inline"));
            assert!(!policy.contains("'unsafe-eval'"));
            assert!(!policy.contains("http"));
            assert!(policy.starts_with("default-src 'none'"));
        }
        assert!(content_security_policy(Some("abc")).contains("'self' 'nonce-abc' "));
    }
}
