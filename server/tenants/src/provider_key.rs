//! Providers' credentials at rest: sealed, each with a key of its own that is wrapped by the instance's.

use std::fmt;

use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305};
use domain::id::ProviderId;
use rand::Rng;
use secrecy::{ExposeSecret, SecretBox, SecretString};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use crate::TenantsError;

/// The first byte of a sealed value, and what makes this use of the keys different from any other.
const VERSION: u8 = 1;
const DOMAIN: &[u8] = b"weir sealed 1";
const KEY_LEN: usize = 32;
const NONCE_LEN: usize = 24;
const TAG_LEN: usize = 16;
/// Enough of a hash to tell an instance's few key-encryption keys apart.
const KEK_ID_LEN: usize = 8;
const WRAPPED_LEN: usize = NONCE_LEN + KEY_LEN + TAG_LEN;
/// The longest secret that is sealed: a private key in PEM form is shorter.
const MAX_SECRET_BYTES: usize = 16 * 1_024;

/// What a sealed value is for. It opens for nothing else: a value moved to another row stays shut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Purpose {
    kind: &'static str,
    id: i64,
}

impl Purpose {
    /// The secret of this kind that belongs to row `id`.
    #[must_use]
    pub const fn new(kind: &'static str, id: i64) -> Self {
        Self { kind, id }
    }

    /// The credential of a provider.
    #[must_use]
    pub const fn provider_credential(provider: ProviderId) -> Self {
        Self::new("provider credential", provider.0)
    }

    /// Associated data: each part has its length in front, so that no two purposes read alike.
    fn bytes(self, layer: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64);
        for part in [DOMAIN, layer, self.kind.as_bytes(), &self.id.to_be_bytes()] {
            // A part is a few dozen bytes.
            bytes.extend_from_slice(&u32::try_from(part.len()).unwrap_or(u32::MAX).to_be_bytes());
            bytes.extend_from_slice(part);
        }
        bytes
    }
}

/// The key of one sealed value, overwritten when dropped.
type DataKey = Zeroizing<[u8; KEY_LEN]>;

/// A key-encryption key, and the name it goes by in sealed values.
struct Kek {
    id: [u8; KEK_ID_LEN],
    key: SecretBox<[u8; KEY_LEN]>,
}

impl Kek {
    fn new(key: SecretBox<[u8; KEY_LEN]>) -> Self {
        let mut hash = Sha256::new();
        hash.update(b"weir key-encryption key id");
        hash.update(key.expose_secret());
        let digest: [u8; 32] = hash.finalize().into();
        let mut id = [0; KEK_ID_LEN];
        id.copy_from_slice(&digest[..KEK_ID_LEN]);
        Self { id, key }
    }

    /// A data key, wrapped: nonce, ciphertext, tag.
    fn wrap(&self, purpose: Purpose, data_key: &[u8; KEY_LEN]) -> Result<Vec<u8>, TenantsError> {
        encrypt(self.key.expose_secret(), data_key, &purpose.bytes(&self.id))
    }

    fn unwrap_key(&self, purpose: Purpose, wrapped: &[u8]) -> Result<DataKey, TenantsError> {
        let plain = decrypt(self.key.expose_secret(), wrapped, &purpose.bytes(&self.id))?;
        let mut key = Zeroizing::new([0; KEY_LEN]);
        if plain.len() != KEY_LEN {
            return Err(TenantsError::Sealed);
        }
        key.copy_from_slice(&plain);
        Ok(key)
    }
}

/// Seals and opens secrets with XChaCha20-Poly1305.
///
/// A sealed value is: version (1 byte), name of the key-encryption key (8), wrapped data key (24 nonce + 32 + 16 tag),
/// secret under the data key (24 nonce + its length + 16 tag). Both layers are bound to the purpose.
pub struct Sealer {
    current: Kek,
    /// Keys before a rotation: they open, and never seal.
    previous: Vec<Kek>,
}

impl Sealer {
    /// A sealer with the instance's key-encryption key: 32 random bytes.
    #[must_use]
    pub fn from_key(key: SecretBox<[u8; KEY_LEN]>) -> Self {
        Self { current: Kek::new(key), previous: Vec::new() }
    }

    /// Opens what an earlier key-encryption key sealed, too.
    #[must_use]
    pub fn with_previous(mut self, key: SecretBox<[u8; KEY_LEN]>) -> Self {
        self.previous.push(Kek::new(key));
        self
    }

    /// Seals a secret for one purpose.
    ///
    /// # Errors
    /// When the secret is longer than 16 KiB.
    pub fn seal(&self, purpose: Purpose, secret: &SecretString) -> Result<Vec<u8>, TenantsError> {
        let plain = secret.expose_secret().as_bytes();
        if plain.len() > MAX_SECRET_BYTES {
            return Err(TenantsError::invalid("secret", "longer than 16 KiB"));
        }
        let mut data_key = Zeroizing::new([0; KEY_LEN]);
        rand::rng().fill_bytes(data_key.as_mut());
        let body = encrypt(&data_key, plain, &purpose.bytes(b"secret"))?;
        self.assemble(purpose, &data_key, &body)
    }

    /// Opens a sealed value, if it was sealed for this purpose with a key that is known here.
    ///
    /// # Errors
    /// When it does not open. It is not told why.
    pub fn open(&self, purpose: Purpose, sealed: &[u8]) -> Result<SecretString, TenantsError> {
        let (_, data_key, body) = self.take_apart(purpose, sealed)?;
        let plain = decrypt(&data_key, body, &purpose.bytes(b"secret"))?;
        let text = std::str::from_utf8(&plain).map_err(|_| TenantsError::Sealed)?;
        Ok(text.into())
    }

    /// The same secret under the current key-encryption key; nothing when it is under it already.
    /// Only the data key is wrapped anew: the secret itself is not opened.
    ///
    /// # Errors
    /// When it does not open.
    pub fn rewrap(&self, purpose: Purpose, sealed: &[u8]) -> Result<Option<Vec<u8>>, TenantsError> {
        let (kek, data_key, body) = self.take_apart(purpose, sealed)?;
        if kek.id == self.current.id {
            return Ok(None);
        }
        self.assemble(purpose, &data_key, body).map(Some)
    }

    fn assemble(
        &self,
        purpose: Purpose,
        data_key: &[u8; KEY_LEN],
        body: &[u8],
    ) -> Result<Vec<u8>, TenantsError> {
        let wrapped = self.current.wrap(purpose, data_key)?;
        Ok([&[VERSION][..], &self.current.id, &wrapped, body].concat())
    }

    fn take_apart<'a>(
        &self,
        purpose: Purpose,
        sealed: &'a [u8],
    ) -> Result<(&Kek, DataKey, &'a [u8]), TenantsError> {
        let (version, rest) = sealed.split_at_checked(1).ok_or(TenantsError::Sealed)?;
        let (id, rest) = rest.split_at_checked(KEK_ID_LEN).ok_or(TenantsError::Sealed)?;
        let (wrapped, body) = rest.split_at_checked(WRAPPED_LEN).ok_or(TenantsError::Sealed)?;
        if version != [VERSION] {
            return Err(TenantsError::Sealed);
        }
        let mut keks = std::iter::once(&self.current).chain(&self.previous);
        let kek = keks.find(|kek| kek.id.ct_eq(id).into()).ok_or(TenantsError::Sealed)?;
        Ok((kek, kek.unwrap_key(purpose, wrapped)?, body))
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sealer([redacted])")
    }
}

/// Nonce, ciphertext and tag. The nonce is random: 192 bits never meet twice.
fn encrypt(key: &[u8; KEY_LEN], msg: &[u8], aad: &[u8]) -> Result<Vec<u8>, TenantsError> {
    let mut nonce = [0; NONCE_LEN];
    rand::rng().fill_bytes(&mut nonce);
    let ciphertext = XChaCha20Poly1305::new(key.into())
        .encrypt(&nonce.into(), Payload { msg, aad })
        .map_err(|_| TenantsError::Sealed)?;
    Ok([&nonce[..], &ciphertext].concat())
}

fn decrypt(
    key: &[u8; KEY_LEN],
    sealed: &[u8],
    aad: &[u8],
) -> Result<Zeroizing<Vec<u8>>, TenantsError> {
    let (nonce, msg) = sealed.split_first_chunk::<NONCE_LEN>().ok_or(TenantsError::Sealed)?;
    XChaCha20Poly1305::new(key.into())
        .decrypt(nonce.into(), Payload { msg, aad })
        .map(Zeroizing::new)
        .map_err(|_| TenantsError::Sealed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PURPOSE: Purpose = Purpose::provider_credential(ProviderId(7));

    fn key(byte: u8) -> SecretBox<[u8; KEY_LEN]> {
        SecretBox::new(Box::new([byte; KEY_LEN]))
    }

    fn shut(result: Result<SecretString, TenantsError>) -> bool {
        matches!(result, Err(TenantsError::Sealed))
    }

    #[test]
    fn what_was_sealed_opens_for_its_purpose_alone() {
        let sealer = Sealer::from_key(key(1));
        let sealed = sealer.seal(PURPOSE, &"sk-provider".into()).unwrap();
        assert_eq!(sealer.open(PURPOSE, &sealed).unwrap().expose_secret(), "sk-provider");
        assert!(shut(sealer.open(Purpose::provider_credential(ProviderId(8)), &sealed)));
        assert!(shut(sealer.open(Purpose::new("mail password", 7), &sealed)));
        assert!(shut(Sealer::from_key(key(2)).open(PURPOSE, &sealed)));
    }

    #[test]
    fn any_changed_or_missing_byte_keeps_it_shut() {
        let sealer = Sealer::from_key(key(1));
        let sealed = sealer.seal(PURPOSE, &"s".into()).unwrap();
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert!(shut(sealer.open(PURPOSE, &changed)), "byte {at}");
            assert!(shut(sealer.open(PURPOSE, &sealed[..at])), "length {at}");
        }
    }

    #[test]
    fn the_same_secret_never_looks_the_same_and_is_not_in_what_is_kept() {
        let sealer = Sealer::from_key(key(1));
        let secret: SecretString = "canary-canary-canary".into();
        let (one, two) =
            (sealer.seal(PURPOSE, &secret).unwrap(), sealer.seal(PURPOSE, &secret).unwrap());
        assert_ne!(one[9..], two[9..]);
        assert!(!one.windows(6).any(|w| w == b"canary"));
        assert_eq!(format!("{sealer:?}"), "Sealer([redacted])");
    }

    #[test]
    fn a_new_key_takes_over_and_the_old_one_only_opens() {
        let old = Sealer::from_key(key(1)).seal(PURPOSE, &"s".into()).unwrap();
        let both = Sealer::from_key(key(2)).with_previous(key(1));
        assert_eq!(both.open(PURPOSE, &old).unwrap().expose_secret(), "s");
        let new = both.rewrap(PURPOSE, &old).unwrap().unwrap();
        assert!(both.rewrap(PURPOSE, &new).unwrap().is_none());
        let alone = Sealer::from_key(key(2));
        assert_eq!(alone.open(PURPOSE, &new).unwrap().expose_secret(), "s");
        assert!(shut(alone.open(PURPOSE, &old)));
    }

    #[test]
    fn a_secret_beyond_all_measure_is_refused() {
        let sealer = Sealer::from_key(key(1));
        let long = SecretString::from("x".repeat(MAX_SECRET_BYTES + 1));
        assert!(matches!(sealer.seal(PURPOSE, &long), Err(TenantsError::Invalid { .. })));
    }
}
