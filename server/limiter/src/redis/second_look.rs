//! A look at the books before a refusal, shared by all that are refused at the same time.
//!
//! A tenant at its limit is refused many times a second. Each refusal deserves a look that began after it, and one
//! look serves all that were refused before it began: so a tenant makes one query at a time, whatever its crowd.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use crate::admission::LimiterError;

/// When the last look began, and how many holds it ended.
type Last = Option<(Instant, usize)>;
type Looks = HashMap<i64, Arc<tokio::sync::Mutex<Last>>>;

/// Looks by owner. It remembers only owners that somebody is looking for.
#[derive(Debug, Default)]
pub(super) struct SecondLook {
    looks: Mutex<Looks>,
}

impl SecondLook {
    /// Looks, unless somebody's look began after `asked_at`: then its result is this one's too.
    pub(super) async fn share(
        &self,
        owner: i64,
        asked_at: Instant,
        look: impl Future<Output = Result<usize, LimiterError>>,
    ) -> Result<usize, LimiterError> {
        let place = lock(&self.looks).entry(owner).or_default().clone();
        let _tidy = Tidy { looks: &self.looks, owner };
        let mut last = place.lock().await;
        if let Some((began, ended)) = *last
            && began > asked_at
        {
            return Ok(ended);
        }
        let began = Instant::now();
        let ended = look.await?;
        *last = Some((began, ended));
        Ok(ended)
    }
}

fn lock(looks: &Mutex<Looks>) -> MutexGuard<'_, Looks> {
    looks.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Tidy<'a> {
    looks: &'a Mutex<Looks>,
    owner: i64,
}

impl Drop for Tidy<'_> {
    fn drop(&mut self) {
        let mut looks = lock(self.looks);
        // This one's own handle is still alive: two means that nobody else is here.
        if looks.get(&self.owner).is_some_and(|place| Arc::strong_count(place) <= 2) {
            looks.remove(&self.owner);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn all_that_were_refused_before_a_look_began_share_it() {
        let (looks, asked) = (SecondLook::default(), AtomicUsize::new(0));
        let before = Instant::now();
        let look = || async {
            asked.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
            Ok(3)
        };
        let all = (0..50).map(|_| looks.share(1, before, look()));
        let ended = futures_util::future::join_all(all).await;
        assert!(ended.into_iter().all(|ended| ended.unwrap() == 3));
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        // One that is refused later needs a look of its own.
        looks.share(1, Instant::now(), look()).await.unwrap();
        assert_eq!(asked.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn an_owner_that_nobody_looks_for_is_forgotten() {
        let looks = SecondLook::default();
        looks.share(1, Instant::now(), async { Ok(0) }).await.unwrap();
        assert!(lock(&looks.looks).is_empty());
    }
}
