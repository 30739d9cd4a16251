//! Passwords: argon2id, a few at a time, in the same time for everyone.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use argon2::password_hash::phc::PasswordHash;
use argon2::{Algorithm, Argon2, Params, PasswordHasher, PasswordVerifier, Version};
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::TenantsError;

/// The shortest password: length is what counts, no rule says which characters.
pub const MIN_PASSWORD_CHARS: usize = 12;
/// The longest password: longer ones are not better, only dearer to hash.
pub const MAX_PASSWORD_BYTES: usize = 1_024;
/// Memory of one hash in KiB, and passes over it: OWASP's first choice for argon2id. 19 MiB each.
const MEMORY_KIB: u32 = 19_456;
const PASSES: u32 = 2;
const LANES: u32 = 1;
/// So many are hashed at the same time. Each takes some 20 ms of a core and 19 MiB: signing in must not
/// take the machine away from the calls it serves, and a flood of attempts has a bounded price.
const HASHED_AT_ONCE: usize = 2;
/// So many may wait for their turn; who comes later is told to come back.
const MAX_WAITING: usize = 32;
/// Nobody waits longer than this for a turn: a page that takes longer is reloaded anyway.
const MAX_WAIT: Duration = Duration::from_secs(5);
/// The hash of a random password that nobody knows, with the parameters above. It is verified in place of
/// a hash that is not there, so that an unknown e-mail address takes as long as a known one.
const NOBODYS_HASH: &str = "$argon2id$v=19$m=19456,t=2,p=1$S/pvi3JuTIywIFZcq34dzQ$4HW41dLOg4j77EhxCpfydMJozR8luiUi5zqjnzKRB3g";

/// Hashes and verifies passwords. Clones share their turns: make one for the process.
#[derive(Debug, Clone)]
pub struct Passwords {
    turns: Arc<Semaphore>,
    places: Arc<Semaphore>,
    compared: Arc<AtomicU64>,
}

impl Default for Passwords {
    fn default() -> Self {
        Self::new()
    }
}

impl Passwords {
    /// A new set of turns.
    #[must_use]
    pub fn new() -> Self {
        Self {
            turns: Arc::new(Semaphore::new(HASHED_AT_ONCE)),
            places: Arc::new(Semaphore::new(HASHED_AT_ONCE + MAX_WAITING)),
            compared: Arc::default(),
        }
    }

    /// How many passwords have been compared with a hash so far, be it somebody's or nobody's.
    #[must_use]
    pub fn compared(&self) -> u64 {
        self.compared.load(Ordering::Relaxed)
    }

    /// The hash of a new password, in PHC form, with a salt of its own.
    ///
    /// # Errors
    /// When the password is too short or too long, or too many are being hashed.
    pub async fn hash(&self, password: SecretString) -> Result<String, TenantsError> {
        if password.expose_secret().chars().count() < MIN_PASSWORD_CHARS {
            return Err(TenantsError::invalid(
                "password",
                format!("at least {MIN_PASSWORD_CHARS} characters"),
            ));
        }
        if password.expose_secret().len() > MAX_PASSWORD_BYTES {
            return Err(TenantsError::invalid(
                "password",
                format!("at most {MAX_PASSWORD_BYTES} bytes"),
            ));
        }
        self.in_turn(move || {
            hasher()?
                .hash_password(password.expose_secret().as_bytes())
                .map(|hash| hash.to_string())
                .map_err(unusable)
        })
        .await
    }

    /// Whether `password` is the one of `hash`. Without a hash it is not, and takes as long to say.
    ///
    /// # Errors
    /// When too many are being hashed.
    pub async fn verify(
        &self,
        password: SecretString,
        hash: Option<String>,
    ) -> Result<bool, TenantsError> {
        // No stored password is longer; the work is done all the same, on what it cannot match.
        let (password, hash) = if password.expose_secret().len() > MAX_PASSWORD_BYTES {
            (SecretString::default(), None)
        } else {
            (password, hash)
        };
        let compared = Arc::clone(&self.compared);
        self.in_turn(move || {
            let known = hash.is_some();
            let text = hash.as_deref().unwrap_or(NOBODYS_HASH);
            let hash = PasswordHash::new(text).map_err(unusable)?;
            let fits = hasher()?.verify_password(password.expose_secret().as_bytes(), &hash);
            compared.fetch_add(1, Ordering::Relaxed);
            Ok(known && fits.is_ok())
        })
        .await
    }

    async fn in_turn<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, TenantsError> + Send + 'static,
    ) -> Result<T, TenantsError> {
        let busy = |_| TenantsError::Busy;
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(busy)?;
        let turn = timeout(MAX_WAIT, Arc::clone(&self.turns).acquire_owned()).await;
        let turn = turn.map_err(|_| TenantsError::Busy)?.map_err(|_| TenantsError::Busy)?;
        // The permits go with the work, which goes on when whoever asked has left.
        let held: (OwnedSemaphorePermit, OwnedSemaphorePermit) = (place, turn);
        tokio::task::spawn_blocking(move || {
            let done = work();
            drop(held);
            done
        })
        .await
        .map_err(|_| TenantsError::Busy)?
    }
}

fn hasher() -> Result<Argon2<'static>, TenantsError> {
    let params = Params::new(MEMORY_KIB, PASSES, LANES, None)
        .map_err(|e| TenantsError::invalid("password parameters", e.to_string()))?;
    Ok(Argon2::new(Algorithm::Argon2id, Version::V0x13, params))
}

fn unusable(error: impl std::fmt::Display) -> TenantsError {
    TenantsError::invalid("password hash", error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_of_nobody_costs_what_a_new_hash_costs() {
        let nobody = PasswordHash::new(NOBODYS_HASH).unwrap();
        let fresh = hasher().unwrap().hash_password(b"correct horse battery").unwrap();
        assert_eq!(nobody.algorithm, fresh.algorithm);
        assert_eq!(nobody.params, fresh.params);
        let length = |hash: &PasswordHash| hash.hash.as_ref().map(|output| output.len());
        assert_eq!(length(&nobody), length(&fresh));
        assert_eq!(Params::try_from(&nobody).unwrap().m_cost(), MEMORY_KIB);
    }

    #[tokio::test]
    async fn a_password_fits_its_own_hash_alone() {
        let passwords = Passwords::new();
        let hash = passwords.hash("correct horse battery".into()).await.unwrap();
        assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hash}");
        assert!(
            passwords.verify("correct horse battery".into(), Some(hash.clone())).await.unwrap()
        );
        assert!(
            !passwords.verify("correct horse batterz".into(), Some(hash.clone())).await.unwrap()
        );
        assert!(!passwords.verify("correct horse battery".into(), None).await.unwrap());
        assert_ne!(passwords.hash("correct horse battery".into()).await.unwrap(), hash);
    }

    #[tokio::test]
    async fn short_and_endless_passwords_are_refused_before_any_work() {
        let passwords = Passwords::new();
        let long = "x".repeat(MAX_PASSWORD_BYTES + 1);
        for bad in ["elevenchars", long.as_str()] {
            let refused = passwords.hash(bad.into()).await;
            assert!(matches!(refused, Err(TenantsError::Invalid { what: "password", .. })));
        }
        assert!(!passwords.verify(long.into(), None).await.unwrap());
    }

    #[tokio::test]
    async fn who_finds_every_place_taken_is_told_to_come_back() {
        let passwords = Passwords::new();
        let taken = u32::try_from(HASHED_AT_ONCE + MAX_WAITING).unwrap();
        let places = passwords.places.try_acquire_many(taken).unwrap();
        let refused = passwords.verify("correct horse battery".into(), None).await;
        assert!(matches!(refused, Err(TenantsError::Busy)));
        drop(places);
        assert!(passwords.verify("correct horse battery".into(), None).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_a_turn_without_end() {
        let passwords = Passwords::new();
        let turns = u32::try_from(HASHED_AT_ONCE).unwrap();
        let _held = passwords.turns.try_acquire_many(turns).unwrap();
        let refused = passwords.verify("correct horse battery".into(), None).await;
        assert!(matches!(refused, Err(TenantsError::Busy)));
    }
}
