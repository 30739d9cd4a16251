//! A tenant's place at the database.
//!
//! Calls of one tenant wait for each other at its lock anyway. Waiting here, before a connection is taken, keeps a
//! tenant with many calls from holding every connection of the pool while it does.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::id::TenantId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How many calls of one tenant may be at the database at once: one at work, and one ready to follow.
const AT_ONCE: usize = 2;

type Places = HashMap<TenantId, Arc<Semaphore>>;

/// Places by tenant. It remembers only tenants with a call at the database or waiting for it.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    places: Arc<Mutex<Places>>,
}

impl Gate {
    /// Waits for a place. Calls of one tenant come in the order in which they asked.
    pub(crate) async fn enter(&self, tenant_id: TenantId) -> Place {
        let mut place = Place { tenant_id, places: self.places.clone(), permit: None };
        let semaphore = {
            let mut places = lock(&self.places);
            places.entry(tenant_id).or_insert_with(|| Arc::new(Semaphore::new(AT_ONCE))).clone()
        };
        // The semaphore is never closed; a closed one would only mean no waiting.
        place.permit = semaphore.acquire_owned().await.ok();
        place
    }

    #[cfg(test)]
    fn tenants(&self) -> usize {
        lock(&self.places).len()
    }
}

/// The map is whole after every statement, so a panic elsewhere cannot have broken it.
fn lock(places: &Mutex<Places>) -> MutexGuard<'_, Places> {
    places.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A place at the database, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    tenant_id: TenantId,
    places: Arc<Mutex<Places>>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut places = lock(&self.places);
        self.permit = None;
        // Whoever waits or works holds the semaphore too: alone with the map means that nobody does.
        if places.get(&self.tenant_id).is_some_and(|semaphore| Arc::strong_count(semaphore) == 1) {
            places.remove(&self.tenant_id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::task::{Context, Poll, Waker};

    fn is_pending(future: std::pin::Pin<&mut impl Future>) -> bool {
        matches!(future.poll(&mut Context::from_waker(Waker::noop())), Poll::Pending)
    }

    #[tokio::test]
    async fn a_third_call_of_a_tenant_waits_and_another_tenant_does_not() {
        let gate = Gate::default();
        let first = gate.enter(TenantId(1)).await;
        let _second = gate.enter(TenantId(1)).await;
        let mut third = std::pin::pin!(gate.enter(TenantId(1)));
        assert!(is_pending(third.as_mut()));
        let _other = gate.enter(TenantId(2)).await;
        drop(first);
        assert!(!is_pending(third.as_mut()));
    }

    #[tokio::test]
    async fn a_tenant_whose_calls_are_over_is_forgotten_also_when_one_gave_up_waiting() {
        let gate = Gate::default();
        let places = (gate.enter(TenantId(1)).await, gate.enter(TenantId(1)).await);
        {
            let mut waiting = std::pin::pin!(gate.enter(TenantId(1)));
            assert!(is_pending(waiting.as_mut()));
        }
        assert_eq!(gate.tenants(), 1);
        drop(places);
        assert_eq!(gate.tenants(), 0);
    }
}
