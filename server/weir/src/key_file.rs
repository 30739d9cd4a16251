//! The key that seals provider credentials: given, or generated once into the data folder.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, anyhow};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rand::Rng;
use secrecy::zeroize::Zeroizing;
use secrecy::{ExposeSecret, SecretBox, SecretString};
use tenants::provider_key::Sealer;

use crate::config::Config;
use crate::failure::Failure;
use crate::store::write_secret;

/// The generated key within the data folder.
const FILE: &str = "weir.key";
/// The length of a key, in bytes.
const KEY_BYTES: usize = 32;

/// The sealer of this installation.
///
/// # Errors
/// [`Failure::Missing`] when the key cannot be read, is no key, or cannot be generated.
pub fn sealer(config: &Config) -> Result<Sealer, Failure> {
    let key = match &config.key {
        Some(text) => decode(text).context("WEIR_KEY"),
        None => of_data_dir(&config.data_dir),
    };
    Ok(Sealer::from_key(key.map_err(Failure::Missing)?))
}

fn of_data_dir(data_dir: &Path) -> anyhow::Result<SecretBox<[u8; KEY_BYTES]>> {
    let path = data_dir.join(FILE);
    let shown = path.display();
    match fs::read_to_string(&path) {
        Ok(text) => {
            let mode = fs::metadata(&path).with_context(|| format!("cannot read {shown}"))?;
            if mode.permissions().mode() & 0o077 != 0 {
                tracing::warn!(file = %shown, "other users may read the key: run `chmod 600` on it");
            }
            decode(&text.into()).with_context(|| format!("the key in {shown}"))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::create_dir_all(data_dir)
                .with_context(|| format!("cannot make {}", data_dir.display()))?;
            let mut key = Zeroizing::new([0; KEY_BYTES]);
            rand::rng().fill_bytes(key.as_mut());
            let text = Zeroizing::new(STANDARD.encode(*key));
            write_secret(&path, &text).with_context(|| format!("cannot write {shown}"))?;
            tracing::info!(
                file = %shown,
                "a key for provider credentials was generated: keep a copy, they open with no other"
            );
            Ok(SecretBox::new(Box::new(*key)))
        }
        Err(error) => Err(error).with_context(|| format!("cannot read {shown}")),
    }
}

fn decode(text: &SecretString) -> anyhow::Result<SecretBox<[u8; KEY_BYTES]>> {
    let wrong =
        || anyhow!("is not {KEY_BYTES} bytes in base64: make one with `openssl rand -base64 32`");
    let bytes = STANDARD.decode(text.expose_secret().trim()).map_err(|_| wrong())?;
    let bytes = Zeroizing::new(bytes);
    let key: [u8; KEY_BYTES] = bytes.as_slice().try_into().map_err(|_| wrong())?;
    Ok(SecretBox::new(Box::new(key)))
}

#[cfg(test)]
mod tests {
    use domain::id::ProviderId;
    use tenants::provider_key::Purpose;

    use super::*;

    #[test]
    fn a_key_is_generated_once_and_only_for_its_owner() {
        let folder = std::env::temp_dir().join(format!("weir-key-{}", std::process::id()));
        let purpose = Purpose::provider_credential(ProviderId(1));
        let sealer = |folder: &Path| Sealer::from_key(of_data_dir(folder).unwrap());
        let sealed = sealer(&folder).seal(purpose, &"s3cret".into()).unwrap();
        let opened = sealer(&folder).open(purpose, &sealed).unwrap();
        assert_eq!(opened.expose_secret(), "s3cret");
        let mode = fs::metadata(folder.join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_text_that_is_no_key_is_refused_without_being_quoted() {
        for text in ["", "short", "AAAA", &"A".repeat(100)] {
            let said = format!("{:#}", decode(&text.into()).unwrap_err());
            assert!(said.contains("32 bytes") && !said.contains("AAAA"), "{said}");
        }
    }
}
