//! When each key was last presented: noted in memory on each call, written in batches by a job.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use domain::id::KeyId;
use domain::window::UnixMs;
use sqlx::PgPool;
use tenants::TenantsError;
use tenants::api_key;

/// How many keys are written in one statement.
const BATCH_KEYS: usize = 1_000;

/// Keys that were presented since the last write. Bounded by the number of keys that exist.
#[derive(Debug, Default)]
pub struct LastUsed(Mutex<HashMap<KeyId, UnixMs>>);

impl LastUsed {
    /// Notes that a key was presented.
    pub fn note(&self, key: KeyId, at: UnixMs) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let last = seen.entry(key).or_insert(at);
        *last = (*last).max(at);
    }

    /// Writes what was noted. What could not be written is kept for the next time.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn write(&self, pool: &PgPool) -> Result<(), TenantsError> {
        let taken = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let seen: Vec<(KeyId, UnixMs)> = taken.into_iter().collect();
        let mut batches = seen.chunks(BATCH_KEYS);
        for batch in batches.by_ref() {
            if let Err(error) = api_key::touch(pool, batch).await {
                for (key, at) in batch.iter().chain(batches.flatten()) {
                    self.note(*key, *at);
                }
                return Err(error);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_cannot_be_written_is_kept_with_its_newest_time() {
        let last_used = LastUsed::default();
        last_used.note(KeyId(1), UnixMs(5));
        last_used.note(KeyId(1), UnixMs(3));
        let pool = PgPool::connect_lazy("postgres://nobody@127.0.0.1:1/none").unwrap();
        pool.close().await;
        assert!(last_used.write(&pool).await.is_err());
        assert_eq!(*last_used.0.lock().unwrap(), HashMap::from([(KeyId(1), UnixMs(5))]));
    }
}
