//! The tests' own HTTP client.

use std::sync::Once;

static PROVIDER: Once = Once::new();

/// A client. reqwest wants a provider of cryptography before its first, for plain HTTP too.
pub(crate) fn client() -> reqwest::Client {
    PROVIDER.call_once(|| {
        let installed = rustls::crypto::ring::default_provider().install_default();
        installed.unwrap_or_else(|_| panic!("another provider of cryptography is installed"));
    });
    let client = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none());
    client.build().unwrap_or_else(|e| panic!("no HTTP client: {e}"))
}
