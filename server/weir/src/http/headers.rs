//! The headers that keep a browser from harm, on every answer that one may show.

use app::policy::content_security_policy;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY, STRICT_TRANSPORT_SECURITY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderMap, HeaderName, HeaderValue};

const PERMISSIONS_POLICY: HeaderName = HeaderName::from_static("permissions-policy");
const CROSS_ORIGIN_OPENER_POLICY: HeaderName =
    HeaderName::from_static("cross-origin-opener-policy");
const CROSS_ORIGIN_RESOURCE_POLICY: HeaderName =
    HeaderName::from_static("cross-origin-resource-policy");

/// What a page may use of the device: nothing but the clipboard, to copy a new key.
const DEVICE: &str = "camera=(), geolocation=(), microphone=(), payment=(), usb=(), \
                      clipboard-write=(self)";
/// A year, as browsers want it before they remember it.
const HSTS: &str = "max-age=31536000";

/// The headers of answers without a nonce of their own.
#[derive(Debug, Clone)]
pub(super) struct Shield {
    policy: HeaderValue,
    https: bool,
}

impl Shield {
    /// For a site that browsers reach over TLS, or not.
    #[must_use]
    pub(super) fn new(https: bool) -> Self {
        // The policy is ASCII; were it not, no script at all is the safe answer.
        let policy = HeaderValue::try_from(content_security_policy(None))
            .unwrap_or_else(|_| HeaderValue::from_static("default-src 'none'"));
        Self { policy, https }
    }

    /// Puts them on an answer. What the answer has set itself stays: a page's policy holds its
    /// nonce, an asset its caching.
    pub(super) fn put(&self, headers: &mut HeaderMap) {
        let fixed = [
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (X_FRAME_OPTIONS, "DENY"),
            (REFERRER_POLICY, "same-origin"),
            (PERMISSIONS_POLICY, DEVICE),
            (CROSS_ORIGIN_OPENER_POLICY, "same-origin"),
            (CROSS_ORIGIN_RESOURCE_POLICY, "same-origin"),
        ];
        for (name, value) in fixed {
            headers.insert(name, HeaderValue::from_static(value));
        }
        if self.https {
            headers.insert(STRICT_TRANSPORT_SECURITY, HeaderValue::from_static(HSTS));
        }
        headers.entry(CONTENT_SECURITY_POLICY).or_insert_with(|| self.policy.clone());
        headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    }
}
