//! An ask whose answer may be lost: a script that timed out may have run, and a caller may go away while it waits.

use domain::id::RequestId;
use tokio::runtime::Handle;

use super::RedisEngine;
use super::shard::Shard;
use crate::admission::Ask;

/// Until it is resolved, whatever the ask took is taken back.
pub(super) struct Doubt {
    engine: RedisEngine,
    shards: Vec<Shard>,
    request_id: RequestId,
    epoch: i64,
    is_resolved: bool,
}

impl Doubt {
    pub(super) fn new(engine: &RedisEngine, ask: &Ask, epoch: i64) -> Self {
        let shards = Shard::of(ask.tenant_id, &ask.meters).into_iter().collect();
        let (engine, request_id) = (engine.clone(), ask.request_id);
        Self { engine, shards, request_id, epoch, is_resolved: false }
    }

    /// The caller has the answer.
    pub(super) fn resolved(mut self) {
        self.is_resolved = true;
    }
}

impl Drop for Doubt {
    fn drop(&mut self) {
        if self.is_resolved {
            return;
        }
        let (engine, shards) = (self.engine.clone(), std::mem::take(&mut self.shards));
        let (request_id, epoch) = (self.request_id, self.epoch);
        metrics::counter!("weir_limiter_doubtful_asks_total").increment(1);
        let release = async move {
            if let Err(error) = engine.release_by_name(&shards, request_id, epoch).await {
                tracing::warn!(%request_id, %error, "what an unanswered ask may hold is left to expire");
            }
        };
        // Without a runtime the process is ending: then it expires.
        if let Ok(runtime) = Handle::try_current() {
            self.engine.tasks.spawn_on(release, &runtime);
        }
    }
}
