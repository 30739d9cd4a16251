//! Who admits: one row in the database that all processes agree on.
//!
//! Each process has a lease, which it renews twice a second. To change the engine, or to start afresh after counters
//! were lost, somebody raises the epoch; every process then stops, publishes the holds it has open, and says so. When
//! all have, or their leases are over, the new epoch is ready. So nobody admits by counters that miss a hold.

use std::time::Duration;

use domain::admission::{Take, TakeKind};
use sqlx::types::Json;
use sqlx::{PgConnection, PgPool};
use tokio::time::Instant;

use crate::admission::LimiterError;
use crate::hold::Hold;
use crate::redis::Level;

/// How long a lease lasts: some renewals may fail, and the others do not wait long for one that died.
pub(crate) const LEASE: Duration = Duration::from_secs(3);
/// How much earlier its holder stops: what a clock may run too slow in that time, and a script's way to Redis.
const MARGIN: Duration = Duration::from_millis(500);
/// How long Postgres admits before anybody goes back to Redis: a Redis that comes and goes must not take all along.
const DWELL: Duration = Duration::from_secs(5);

/// Which engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Counters in Redis.
    Redis,
    /// Counters in Postgres.
    Postgres,
}

impl Mode {
    /// The word used in rows, answers and metrics.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Redis => "redis",
            Self::Postgres => "postgres",
        }
    }
}

/// The row, as it was when a lease was renewed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) mode: Mode,
    pub(crate) epoch: i64,
    pub(crate) ready: bool,
    pub(crate) cause: String,
    /// How long ago it was changed.
    pub(crate) age: Duration,
    /// When the database server was started: another time means that it lost what it had not written.
    pub(crate) database_started: String,
    /// Until when this process may admit through Redis by it.
    pub(crate) lease_until: Instant,
}

/// This process, among those that admit.
#[derive(Debug, Clone)]
pub(crate) struct Replica {
    pub(crate) pool: PgPool,
    pub(crate) id: String,
    /// How long a process goes on through Redis while it cannot reach the database.
    pub(crate) without_books: Duration,
}

impl Replica {
    /// Renews the lease, and reads the row.
    ///
    /// The row is locked while the lease is written: who changes it sees this lease, or this process sees the change.
    pub(crate) async fn renew(
        &self,
        published_epoch: i64,
        redis_answers: bool,
    ) -> Result<Rule, LimiterError> {
        let asked = Instant::now();
        let row = sqlx::query!(
            r#"with rule as materialized (
                   select mode, epoch, ready, cause, changed_at from limiter_authority for share),
               lease as (
                   insert into limiter_replicas as r (replica_id, valid_until, published_epoch, redis_answers)
                   select $1, clock_timestamp() + $2 * interval '1 millisecond', $3, $4 from rule
                   on conflict (replica_id) do update set
                       valid_until = excluded.valid_until, redis_answers = excluded.redis_answers,
                       published_epoch = greatest(r.published_epoch, excluded.published_epoch))
               select mode, epoch, ready, cause,
                      (extract(epoch from clock_timestamp() - changed_at) * 1000)::bigint as "age_ms!",
                      pg_postmaster_start_time()::text as "started!"
               from rule"#,
            self.id,
            f64_of(LEASE),
            published_epoch,
            redis_answers,
        )
        .fetch_one(&self.pool)
        .await?;
        let mode = if row.mode == Mode::Redis.code() { Mode::Redis } else { Mode::Postgres };
        let age = Duration::from_millis(u64::try_from(row.age_ms).unwrap_or(0));
        let lease_until = asked + LEASE - MARGIN;
        Ok(Rule {
            mode,
            epoch: row.epoch,
            ready: row.ready,
            cause: row.cause,
            age,
            database_started: row.started,
            lease_until,
        })
    }

    /// Asks for another epoch; nothing happens when somebody was first.
    pub(crate) async fn change(
        &self,
        from_epoch: i64,
        mode: Mode,
        cause: &str,
    ) -> Result<bool, LimiterError> {
        let changed = sqlx::query!(
            "update limiter_authority set mode = $2, epoch = epoch + 1, ready = false, cause = $3,
                    changed_at = clock_timestamp()
             where epoch = $1 and ready",
            from_epoch,
            mode.code(),
            cause,
        )
        .execute(&self.pool)
        .await?;
        Ok(changed.rows_affected() > 0)
    }

    /// Goes back to Redis when every process reaches it, and has for a while.
    pub(crate) async fn change_back(&self, from: &Rule) -> Result<bool, LimiterError> {
        if from.age < DWELL {
            return Ok(false);
        }
        let changed = sqlx::query!(
            "update limiter_authority set mode = 'redis', epoch = epoch + 1, ready = false,
                    cause = 'Redis answers every process', changed_at = clock_timestamp()
             where epoch = $1 and ready and mode = 'postgres'
               and not exists (
                   select from limiter_replicas where valid_until > clock_timestamp() and not redis_answers)",
            from.epoch,
        )
        .execute(&self.pool)
        .await?;
        Ok(changed.rows_affected() > 0)
    }

    /// Publishes what this process has open, and the levels of buckets that it knows.
    pub(crate) async fn publish(
        &self,
        epoch: i64,
        holds: &[Hold],
        levels: &[Level],
    ) -> Result<(), LimiterError> {
        let mut transaction = self.pool.begin().await?;
        publish_holds(&mut transaction, holds).await?;
        publish_levels(&mut transaction, levels).await?;
        sqlx::query!(
            "update limiter_replicas set published_epoch = greatest(published_epoch, $2) where replica_id = $1",
            self.id,
            epoch,
        )
        .execute(&mut *transaction)
        .await?;
        Ok(transaction.commit().await?)
    }

    /// Makes the epoch ready if everybody has published. Says whether it is.
    pub(crate) async fn make_ready(&self, epoch: i64) -> Result<bool, LimiterError> {
        let mut transaction = self.pool.begin().await?;
        let rule = sqlx::query!("select mode, epoch, ready from limiter_authority for update")
            .fetch_one(&mut *transaction)
            .await?;
        if rule.epoch != epoch || rule.ready {
            transaction.rollback().await?;
            return Ok(rule.ready && rule.epoch == epoch);
        }
        // After a restart of the database, processes that could not reach it may go on through Redis for a while.
        let is_waited_for = sqlx::query_scalar!(
            r#"select exists (
                   select from limiter_replicas
                   where published_epoch < $1
                     and valid_until > clock_timestamp() - case
                         when pg_postmaster_start_time() > clock_timestamp() - $2 * interval '1 millisecond'
                         then $2 * interval '1 millisecond' else interval '0' end) as "waits!""#,
            epoch,
            f64_of(self.without_books),
        )
        .fetch_one(&mut *transaction)
        .await?;
        if is_waited_for {
            transaction.rollback().await?;
            return Ok(false);
        }
        if rule.mode == Mode::Postgres.code() {
            rebuild_held(&mut transaction).await?;
        }
        sqlx::query!(
            "delete from limiter_replicas where valid_until < clock_timestamp() - interval '1 hour'"
        )
        .execute(&mut *transaction)
        .await?;
        sqlx::query!("update limiter_authority set ready = true")
            .execute(&mut *transaction)
            .await?;
        transaction.commit().await?;
        Ok(true)
    }

    /// Gives the lease back: nobody has to wait for it.
    pub(crate) async fn leave(&self) -> Result<(), LimiterError> {
        sqlx::query!("delete from limiter_replicas where replica_id = $1", self.id)
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    /// Takes a hold that has ended out of the table.
    pub(crate) async fn withdraw(&self, hold: &Hold) -> Result<(), LimiterError> {
        sqlx::query!("delete from holds where request_id = $1", hold.request_id.to_string())
            .execute(&self.pool)
            .await?;
        Ok(())
    }
}

/// Milliseconds as the database multiplies intervals by.
#[expect(clippy::cast_precision_loss, reason = "a few seconds, exact in a double")]
fn f64_of(duration: Duration) -> f64 {
    duration.as_millis() as f64
}

async fn publish_holds(connection: &mut PgConnection, holds: &[Hold]) -> Result<(), LimiterError> {
    if holds.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        r#"insert into holds as h (request_id, tenant_id, takes, charge_nanos, admitted_ms, expires_ms)
           select * from unnest($1::text[], $2::bigint[], $3::jsonb[], $4::bigint[], $5::bigint[], $6::bigint[])
           on conflict (request_id) do update set expires_ms = greatest(h.expires_ms, excluded.expires_ms)"#,
        &holds.iter().map(|hold| hold.request_id.to_string()).collect::<Vec<_>>()[..],
        &holds.iter().map(|hold| hold.tenant_id.0).collect::<Vec<_>>()[..],
        &holds.iter().map(|hold| Json(&hold.takes)).collect::<Vec<_>>()[..] as &[Json<&Vec<Take>>],
        &holds.iter().map(|hold| hold.charge.0).collect::<Vec<_>>()[..],
        &holds.iter().map(|hold| hold.admitted_at.0).collect::<Vec<_>>()[..],
        &holds.iter().map(|hold| hold.expires_at.0).collect::<Vec<_>>()[..],
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// The newest level counts, and of two at the same instant the lower.
async fn publish_levels(
    connection: &mut PgConnection,
    levels: &[Level],
) -> Result<(), LimiterError> {
    if levels.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        r#"insert into meter_states as s (tenant_id, scope, scope_id, meter, level_micro, level_at_ms, rate_milli)
           select * from unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[], $5::bigint[], $6::bigint[],
                                $7::bigint[])
           order by 1, 2, 3, 4
           on conflict on constraint meter_states_pkey do update set
               level_micro = excluded.level_micro, level_at_ms = excluded.level_at_ms,
               rate_milli = excluded.rate_milli
           where (excluded.level_at_ms, -excluded.level_micro) > (s.level_at_ms, -s.level_micro)"#,
        &levels.iter().map(|level| level.owner.0).collect::<Vec<_>>()[..],
        &levels.iter().map(|level| level.scope.code().to_owned()).collect::<Vec<_>>()[..],
        &levels.iter().map(|level| level.scope_id).collect::<Vec<_>>()[..],
        &levels.iter().map(|level| level.meter.to_owned()).collect::<Vec<_>>()[..],
        &levels.iter().map(|level| level.level_micro).collect::<Vec<_>>()[..],
        &levels.iter().map(|level| level.at.0).collect::<Vec<_>>()[..],
        &levels.iter().map(|level| level.rate_milli).collect::<Vec<_>>()[..],
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Makes what is held on each meter the sum of the holds that were published.
async fn rebuild_held(connection: &mut PgConnection) -> Result<(), LimiterError> {
    sqlx::query!("update meter_states set held = 0 where held <> 0")
        .execute(&mut *connection)
        .await?;
    let holds = sqlx::query!(r#"select tenant_id, takes as "takes: Json<Vec<Take>>" from holds"#)
        .fetch_all(&mut *connection)
        .await?;
    let mut held = std::collections::BTreeMap::<_, i64>::new();
    for hold in &holds {
        for take in hold.takes.iter() {
            let period = match take.kind {
                TakeKind::Bucket { .. } => continue,
                TakeKind::Window { period_start, .. } => period_start.0,
                TakeKind::Lease => 0,
            };
            let owner = ledger::slice::owner(domain::id::TenantId(hold.tenant_id), take.scope);
            let key = (owner.0, take.scope.code(), take.scope_id, take.meter.as_str(), period);
            let sum = held.entry(key).or_default();
            *sum = sum.saturating_add(take.amount);
        }
    }
    let keys = || held.keys();
    sqlx::query!(
        r#"insert into meter_states (tenant_id, scope, scope_id, meter, period_start_ms, held)
           select * from unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[], $5::bigint[], $6::bigint[])
           on conflict on constraint meter_states_pkey do update set held = excluded.held"#,
        &keys().map(|key| key.0).collect::<Vec<_>>()[..],
        &keys().map(|key| key.1.to_owned()).collect::<Vec<_>>()[..],
        &keys().map(|key| key.2).collect::<Vec<_>>()[..],
        &keys().map(|key| key.3.to_owned()).collect::<Vec<_>>()[..],
        &keys().map(|key| key.4).collect::<Vec<_>>()[..],
        &held.values().copied().collect::<Vec<_>>()[..],
    )
    .execute(connection)
    .await?;
    Ok(())
}
