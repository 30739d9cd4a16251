//! Calls that are over and not settled yet: who waits for them, and until when.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::id::TenantId;
use tokio::sync::Notify;

#[derive(Debug, Default)]
struct Calls {
    next: u64,
    by_tenant: HashMap<TenantId, BTreeSet<u64>>,
}

/// The calls of this process that are over and not settled.
#[derive(Debug, Default)]
pub(crate) struct Settling {
    calls: Mutex<Calls>,
    settled: Notify,
}

impl Settling {
    /// Notes that a call of the tenant is over. It counts as settled when the mark is dropped.
    pub(crate) fn begin(self: &Arc<Self>, tenant_id: TenantId) -> Unsettled {
        let mut calls = self.calls();
        let number = calls.next;
        calls.next += 1;
        calls.by_tenant.entry(tenant_id).or_default().insert(number);
        Unsettled { settling: Arc::clone(self), tenant_id, number }
    }

    /// The newest call of the tenant that is over and not settled.
    pub(crate) fn newest(&self, tenant_id: TenantId) -> Option<u64> {
        self.calls().by_tenant.get(&tenant_id)?.last().copied()
    }

    /// Waits until this call of the tenant, and all before it, are settled.
    pub(crate) async fn settled_up_to(&self, tenant_id: TenantId, newest: u64) {
        let is_settled = |calls: &Calls| {
            let oldest = calls.by_tenant.get(&tenant_id).and_then(BTreeSet::first);
            oldest.is_none_or(|oldest| *oldest > newest)
        };
        self.until(is_settled).await;
    }

    /// Waits until no call is over and not settled.
    pub(crate) async fn all_settled(&self) {
        self.until(|calls| calls.by_tenant.is_empty()).await;
    }

    async fn until(&self, is_so: impl Fn(&Calls) -> bool) {
        loop {
            // Asked for before the look, so that what happens in between is heard.
            let settled = self.settled.notified();
            if is_so(&self.calls()) {
                return;
            }
            settled.await;
        }
    }

    fn calls(&self) -> MutexGuard<'_, Calls> {
        // The map is whole after every statement, so a panic elsewhere cannot have broken it.
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that is over and not settled.
#[derive(Debug)]
pub(crate) struct Unsettled {
    settling: Arc<Settling>,
    tenant_id: TenantId,
    number: u64,
}

impl Drop for Unsettled {
    fn drop(&mut self) {
        let mut calls = self.settling.calls();
        if let Some(numbers) = calls.by_tenant.get_mut(&self.tenant_id) {
            numbers.remove(&self.number);
            if numbers.is_empty() {
                calls.by_tenant.remove(&self.tenant_id);
            }
        }
        drop(calls);
        self.settling.settled.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::time::timeout;

    const SOON: Duration = Duration::from_secs(5);

    #[tokio::test]
    async fn who_waits_is_let_go_when_those_before_are_settled_and_not_by_others() {
        let settling = Arc::new(Settling::default());
        let (one, other) = (TenantId(1), TenantId(2));
        assert_eq!(settling.newest(one), None);
        let calls = [settling.begin(one), settling.begin(one)];
        let newest = settling.newest(one).unwrap();
        let (_later, _others) = (settling.begin(one), settling.begin(other));
        let mut wait = std::pin::pin!(settling.settled_up_to(one, newest));
        let [first, second] = calls;
        drop(second);
        assert!(timeout(Duration::ZERO, &mut wait).await.is_err());
        drop(first);
        timeout(SOON, wait).await.unwrap();
    }

    #[tokio::test]
    async fn nothing_is_remembered_of_what_is_settled() {
        let settling = Arc::new(Settling::default());
        drop(settling.begin(TenantId(1)));
        timeout(SOON, settling.all_settled()).await.unwrap();
        assert!(settling.calls().by_tenant.is_empty());
    }
}
