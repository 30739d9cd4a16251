//! The ends of holds: by their calls, by their time, by events that are written already.

use domain::id::RequestId;
use domain::window::UnixMs;
use ledger::DriftNote;
use ledger::drift::{self, Found};
use tokio::time::Instant;

use super::reply::Answer;
use super::shard::Shard;
use super::{RedisEngine, scripts, wire};
use crate::admission::LimiterError;
use crate::hold::{Actual, Hold};
use crate::postgres::HOLD_EXPIRED;

/// How many expired holds of a shard the reaper looks at in one portion.
const PORTION: i64 = 200;

/// A hold that is to end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ended {
    request_id: RequestId,
    /// What was used; nothing when nobody said.
    actual: Option<Actual>,
}

impl Ended {
    pub(super) const fn new(request_id: RequestId, actual: Option<Actual>) -> Self {
        Self { request_id, actual }
    }
}

/// The use of a call as its event says it.
pub(super) struct Written {
    request_id: String,
    tokens: i64,
    charge: i64,
}

impl RedisEngine {
    /// Ends holds of a shard at once, and says how many of them were there.
    pub(super) async fn end_on(
        &self,
        shard: &Shard,
        ended: &[Ended],
        only_expired: bool,
        epoch: i64,
        now: Option<UnixMs>,
    ) -> Result<usize, LimiterError> {
        let named: Vec<_> = ended
            .iter()
            .map(|end| {
                let used = end.actual.map(|actual| (actual.tokens, actual.charge.0));
                (end.request_id.to_string(), used)
            })
            .collect();
        let named = named.iter().map(|(id, used)| (id.as_str(), *used));
        let command = wire::settle(named, only_expired, epoch, now);
        let mut reply = self.eval_warm(&scripts::SETTLE, shard, &command, epoch, now).await?;
        Ok(reply.texts()?.len())
    }

    /// Gives back what a refused ask took on the shards before the one that refused.
    pub(super) async fn undo(
        &self,
        hold: &Hold,
        epoch: i64,
        now: Option<UnixMs>,
    ) -> Result<(), LimiterError> {
        for shard in Shard::of_takes(hold.tenant_id, &hold.takes) {
            let command = wire::release(hold.request_id, "undo", epoch, now);
            self.eval_warm(&scripts::RELEASE, &shard, &command, epoch, now).await?;
        }
        Ok(())
    }

    /// Releases whatever an ask may have taken whose answer nobody has.
    pub(super) async fn release_by_name(
        &self,
        shards: &[Shard],
        request_id: RequestId,
        epoch: i64,
    ) -> Result<(), LimiterError> {
        for shard in shards {
            let command = wire::release(request_id, "undo", epoch, None);
            let mut reply = self.store.eval(&scripts::RELEASE, shard, &command).await?;
            // Counters that are cold or of a newer epoch hold nothing of an unanswered ask.
            reply.answer()?;
        }
        Ok(())
    }

    /// Ends expired holds: those whose event is written with what it says; the others with nothing, after that is
    /// written down.
    pub(super) async fn end_expired(
        &self,
        shard: &Shard,
        expired: &[(String, i64)],
        epoch: i64,
        now: Option<UnixMs>,
    ) -> Result<usize, LimiterError> {
        let ids: Vec<String> = expired.iter().map(|(id, _)| id.clone()).collect();
        let written = self.written(&ids).await?;
        let mut ended = Vec::with_capacity(expired.len());
        let mut notes = Vec::new();
        for (id, charge) in expired {
            let request_id = parsed(id)?;
            let event = written.iter().find(|event| event.request_id == *id);
            let actual = event.map(Written::actual);
            ended.push(Ended::new(request_id, actual));
            // A provider's shard tells nothing: the tenant's tells it all.
            if let (None, Some(tenant_id)) = (actual, shard.tenant()) {
                notes.push((tenant_id, request_id, note(*charge)));
            }
        }
        if !notes.is_empty() {
            let found: Vec<Found<'_>> = notes
                .iter()
                .map(|(tenant_id, id, note)| Found {
                    tenant_id: *tenant_id,
                    request_id: Some(*id),
                    note,
                })
                .collect();
            let mut connection = self.pool.acquire().await?;
            drift::record(&mut connection, &found).await?;
            metrics::counter!("weir_limiter_holds_expired_total").increment(notes.len() as u64);
        }
        self.end_on(shard, &ended, true, epoch, now).await
    }

    /// Ends a portion of a shard's expired holds, and says how many.
    pub(super) async fn reap_shard(
        &self,
        shard: &Shard,
        epoch: i64,
        now: Option<UnixMs>,
    ) -> Result<u64, LimiterError> {
        let command = wire::expired(PORTION, epoch, now);
        let mut reply = self.store.eval(&scripts::EXPIRED, shard, &command).await?;
        match reply.answer()? {
            Answer::Done => {}
            // Nobody has asked for these counters under this epoch: nothing is held in them.
            Answer::Cold => return Ok(0),
            Answer::Stale => return Err(LimiterError::Superseded),
            _ => return Err(reply.unexpected()),
        }
        let expired = reply.pairs()?;
        if expired.is_empty() {
            return Ok(0);
        }
        Ok(self.end_expired(shard, &expired, epoch, now).await? as u64)
    }

    /// Settles those of these holds whose event is written, and says how many. Without the books nobody knows of any.
    pub(super) async fn look_again(
        &self,
        shard: &Shard,
        holds: &[String],
        epoch: i64,
        now: Option<UnixMs>,
        asked_at: Instant,
    ) -> usize {
        let look = async {
            let written = self.written(holds).await?;
            if written.is_empty() {
                return Ok(0);
            }
            let mut ended = Vec::with_capacity(written.len());
            for event in &written {
                ended.push(Ended::new(parsed(&event.request_id)?, Some(event.actual())));
            }
            self.end_on(shard, &ended, false, epoch, now).await
        };
        let looked: Result<usize, LimiterError> =
            self.second_look.share(shard.owner_id(), asked_at, look).await;
        looked.unwrap_or_else(|error| {
            tracing::warn!(%error, "a refusal stands without a look at the books");
            0
        })
    }

    /// The events of these calls that are in the books.
    pub(super) async fn written(&self, ids: &[String]) -> Result<Vec<Written>, LimiterError> {
        let written = sqlx::query_as!(
            Written,
            r#"select request_id, charge_nanos as charge,
                      input + cached_input + cache_write_short + cache_write_long + input_audio
                      + output + reasoning + output_audio + output_image as "tokens!"
               from usage_events where request_id = any($1)"#,
            ids,
        )
        .fetch_all(&self.pool)
        .await?;
        Ok(written)
    }
}

impl Written {
    const fn actual(&self) -> Actual {
        Actual { tokens: self.tokens, charge: domain::money::Nanos(self.charge) }
    }
}

fn parsed(id: &str) -> Result<RequestId, LimiterError> {
    id.parse().map_err(|_| LimiterError::Unreadable(id.to_owned()))
}

fn note(charge_nanos: i64) -> DriftNote {
    DriftNote {
        kind: HOLD_EXPIRED.to_owned(),
        meter: None,
        expected: charge_nanos,
        found: 0,
        cause: "nobody settled the hold in time".to_owned(),
    }
}
