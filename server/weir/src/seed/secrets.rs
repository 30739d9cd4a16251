//! What opens a demonstration: made by chance at its first start, and kept for its owner alone.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

use rand::RngExt;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use tenants::api_key::ApiKeySecret;

use super::cast::CAST;
use crate::store::write_secret;

/// Letters and digits that nobody takes for one another: five random bits each.
const READABLE: &[u8; 32] = b"abcdefghjkmnpqrstuvwxyz123456789";
/// Four groups of five are 100 random bits.
const GROUPS: usize = 4;
const GROUP_CHARS: usize = 5;

/// The passwords and keys of a demonstration.
pub struct DemoSecrets {
    /// Of the operator.
    pub operator_password: SecretString,
    /// Of the tenant's owner.
    pub tenant_password: SecretString,
    /// By tenant and name: `harborline-freight/support-chat`.
    keys: BTreeMap<String, ApiKeySecret>,
}

/// The secrets cannot be read or kept.
#[derive(Debug, thiserror::Error)]
pub enum SecretsError {
    /// The file cannot be read or written.
    #[error("the demonstration's passwords cannot be kept in {path}")]
    File {
        /// Which file.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// The file is another's, or damaged.
    #[error("{path} does not hold the passwords of a demonstration: start over with --fresh")]
    Form {
        /// Which file.
        path: String,
    },
}

/// The form of the file.
#[derive(Serialize, Deserialize)]
struct Kept {
    operator_password: String,
    tenant_password: String,
    keys: BTreeMap<String, String>,
}

impl DemoSecrets {
    /// New ones.
    #[must_use]
    pub fn generate() -> Self {
        let names = CAST.iter().flat_map(|t| t.keys.iter().map(|key| name(t.slug, key.name)));
        Self {
            operator_password: password(),
            tenant_password: password(),
            keys: names.map(|name| (name, ApiKeySecret::generate())).collect(),
        }
    }

    /// Those of an earlier start, or new ones, which are kept in `path` for this user alone.
    ///
    /// # Errors
    /// When the file cannot be read or written, or is another's.
    pub fn keep(path: &Path) -> Result<Self, SecretsError> {
        let shown = || path.display().to_string();
        let failed = |source| SecretsError::File { path: shown(), source };
        match fs::read_to_string(path) {
            Ok(text) => Self::read(&text).ok_or_else(|| SecretsError::Form { path: shown() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let new = Self::generate();
                let text = new.written().map_err(|error| failed(error.into()))?;
                write_secret(path, text.expose_secret()).map_err(failed)?;
                Ok(new)
            }
            Err(error) => Err(failed(error)),
        }
    }

    fn read(text: &str) -> Option<Self> {
        let kept: Kept = serde_json::from_str(text).ok()?;
        let keys = kept
            .keys
            .into_iter()
            .map(|(name, text)| ApiKeySecret::parse(&text).ok().map(|secret| (name, secret)));
        let secrets = Self {
            operator_password: kept.operator_password.into(),
            tenant_password: kept.tenant_password.into(),
            keys: keys.collect::<Option<_>>()?,
        };
        let complete =
            CAST.iter().all(|t| t.keys.iter().all(|key| secrets.key(t.slug, key.name).is_some()));
        complete.then_some(secrets)
    }

    fn written(&self) -> Result<SecretString, serde_json::Error> {
        let kept = Kept {
            operator_password: self.operator_password.expose_secret().to_owned(),
            tenant_password: self.tenant_password.expose_secret().to_owned(),
            keys: self.keys.iter().map(|(n, key)| (n.clone(), key.expose().to_owned())).collect(),
        };
        serde_json::to_string_pretty(&kept).map(SecretString::from)
    }

    /// The key of this name of this tenant.
    #[must_use]
    pub fn key(&self, slug: &str, key: &str) -> Option<&ApiKeySecret> {
        self.keys.get(&name(slug, key))
    }
}

impl fmt::Debug for DemoSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DemoSecrets([redacted])")
    }
}

fn name(slug: &str, key: &str) -> String {
    format!("{slug}/{key}")
}

fn password() -> SecretString {
    let mut rng = rand::rng();
    let mut text = String::with_capacity(GROUPS * (GROUP_CHARS + 1));
    for group in 0..GROUPS {
        if group > 0 {
            text.push('-');
        }
        for _ in 0..GROUP_CHARS {
            text.push(char::from(READABLE[rng.random_range(0..READABLE.len())]));
        }
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn secrets_are_made_once_and_only_their_owner_may_read_them() {
        let file = std::env::temp_dir().join(format!("weir-demo-{}.json", std::process::id()));
        let first = DemoSecrets::keep(&file).unwrap();
        let second = DemoSecrets::keep(&file).unwrap();
        let text = |secrets: &DemoSecrets| secrets.written().unwrap().expose_secret().to_owned();
        assert_eq!(text(&first), text(&second));
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        fs::write(&file, "{}").unwrap();
        assert!(matches!(DemoSecrets::keep(&file), Err(SecretsError::Form { .. })));
        fs::remove_file(&file).unwrap();
    }

    #[test]
    fn no_two_demonstrations_share_a_secret_and_none_can_be_printed() {
        let (one, two) = (DemoSecrets::generate(), DemoSecrets::generate());
        let password = one.operator_password.expose_secret();
        assert_ne!(password, two.operator_password.expose_secret());
        assert_ne!(password, one.tenant_password.expose_secret());
        assert_eq!(password.len(), 23);
        assert_eq!(format!("{one:?}"), "DemoSecrets([redacted])");
    }
}
