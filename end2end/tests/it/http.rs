//! The tests' own HTTP client.

use std::sync::Once;

static PROVIDER: Once = Once::new();

/// A client. reqwest wants a provider of cryptography before its first, for plain HTTP too.
pub(crate) fn client() -> reqwest::Client {
    builder().build().unwrap_or_else(|e| panic!("no HTTP client: {e}"))
}

/// The same, to be changed.
pub(crate) fn builder() -> reqwest::ClientBuilder {
    PROVIDER.call_once(|| {
        let installed = rustls::crypto::ring::default_provider().install_default();
        installed.unwrap_or_else(|_| panic!("another provider of cryptography is installed"));
    });
    reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none())
}
