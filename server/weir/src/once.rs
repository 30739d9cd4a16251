//! What is told once: kept sealed for a few minutes, handed out to the person it is for, forgotten.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use domain::id::{KeyId, UserId};
use secrecy::SecretString;
use serde_json::{Value, json};
use tenants::provider_key::Purpose;
use tenants::{TenantsError, session};

use crate::weir::Weir;

/// How long a new key waits for the page that shows it.
const KEPT_MS: i64 = 10 * 60 * 1_000;

/// The name under which it waits, beside the sessions: no session can have such a name.
fn name(user: UserId, key: KeyId) -> String {
    format!("new-key:{user}:{key}")
}

const fn purpose(key: KeyId) -> Purpose {
    Purpose::new("new key", key.0)
}

/// Keeps a new key's text for `user`. In the database, so that any process may show it.
///
/// # Errors
/// When the database fails.
pub(crate) async fn keep(
    weir: &Weir,
    user: UserId,
    key: KeyId,
    text: &SecretString,
) -> Result<(), TenantsError> {
    let sealed = STANDARD.encode(weir.sealer.seal(purpose(key), text)?);
    let until = weir.clock.now().plus_ms(KEPT_MS);
    session::save(&weir.pool, &name(user, key), &json!({ "sealed": sealed }), until).await
}

/// Hands the text out and forgets it; nothing when it was handed out before, or waits for
/// somebody else.
///
/// # Errors
/// When the database fails.
pub(crate) async fn take(
    weir: &Weir,
    user: UserId,
    key: KeyId,
) -> Result<Option<SecretString>, TenantsError> {
    let name = name(user, key);
    let Some(kept) = session::load(&weir.pool, &name, weir.clock.now()).await? else {
        return Ok(None);
    };
    session::delete(&weir.pool, &name).await?;
    let sealed = kept.get("sealed").and_then(Value::as_str).unwrap_or_default();
    let sealed = STANDARD.decode(sealed).map_err(|_| TenantsError::Sealed)?;
    weir.sealer.open(purpose(key), &sealed).map(Some)
}
