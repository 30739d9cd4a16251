//! Counters that are not there, read from the books.
//!
//! Who warms holds the owner's lock in the database, so that one process does it; and asks Redis again first. A row in
//! `limiter_warm` says that the counters of an owner were there under this epoch: if they are not now, they were lost,
//! and with them what live calls held. Then all processes must publish their holds before anybody goes on.

use std::collections::BTreeSet;

use domain::admission::{MAX_COUNT, Meter, Scope, Take};
use domain::plan::LimitRule;
use domain::window::{UnixMs, Zone};
use ledger::slice::owner;
use serde_json::{Value, json};
use sqlx::types::Json;
use sqlx::{PgConnection, PgPool};
use tokio::sync::Semaphore;

use super::reply::Answer;
use super::shard::Shard;
use super::wanted::{Rule, Wanted};
use super::{RedisEngine, scripts, wire};
use crate::admission::LimiterError;
use crate::postgres::lock::Locks;

/// How many owners a process warms at once; each needs two connections.
const WARMERS: usize = 2;
/// Connections for them, and for looks at the books.
const CONNECTIONS: u32 = 6;

/// Places for those who warm.
#[derive(Debug)]
pub(super) struct Warmers(Semaphore);

impl Default for Warmers {
    fn default() -> Self {
        Self(Semaphore::new(WARMERS))
    }
}

/// A pool of the engine's own, on the same database.
pub(super) fn pool(pool: &PgPool) -> PgPool {
    let options = pool
        .connect_options()
        .as_ref()
        .clone()
        .options([("statement_timeout", "10s"), ("idle_in_transaction_session_timeout", "10s")]);
    pool.options().clone().max_connections(CONNECTIONS).connect_lazy_with(options)
}

/// What the books say of one meter.
struct Row {
    starts: Option<Vec<i64>>,
    used: Option<Vec<i64>>,
    level_micro: Option<i64>,
    level_at_ms: Option<i64>,
    balance_nanos: Option<i64>,
}

/// A live hold that was published, or that the other engine took.
struct LiveHold {
    request_id: String,
    admitted_ms: i64,
    expires_ms: i64,
    charge_nanos: i64,
    takes: Json<Vec<Take>>,
}

impl RedisEngine {
    /// Warms all that is asked for of an owner whose counters are not there under this epoch.
    pub(super) async fn warm_shard(
        &self,
        shard: &Shard,
        meters: &[Meter],
        zone: &Zone,
        epoch: i64,
        now: Option<UnixMs>,
    ) -> Result<(), LimiterError> {
        self.warm("TENANT", shard, meters, zone, epoch, now).await
    }

    /// Warms meters that are unknown of an owner whose other counters are there.
    pub(super) async fn warm_meters(
        &self,
        shard: &Shard,
        meters: &[Meter],
        zone: &Zone,
        epoch: i64,
        now: Option<UnixMs>,
    ) -> Result<(), LimiterError> {
        self.warm("METERS", shard, meters, zone, epoch, now).await
    }

    /// Tells Redis what a tenant has paid in, after that has changed in the books.
    ///
    /// # Errors
    /// When Redis or the books cannot be reached: then the next warm-up or the reconciliation does it.
    pub async fn credit_changed(
        &self,
        tenant_id: domain::id::TenantId,
        epoch: i64,
    ) -> Result<(), LimiterError> {
        let shard = Shard::Tenant(tenant_id);
        let meter = Meter { scope: Scope::Tenant, scope_id: tenant_id.0, rule: LimitRule::Balance };
        match self.warm("CREDIT", &shard, &[meter], &Zone::utc(), epoch, None).await {
            // Counters that are not there will be read when they are asked for.
            Err(LimiterError::Unavailable(error)) => Err(LimiterError::Unavailable(error)),
            other => other,
        }
    }

    async fn warm(
        &self,
        what: &'static str,
        shard: &Shard,
        meters: &[Meter],
        zone: &Zone,
        epoch: i64,
        now: Option<UnixMs>,
    ) -> Result<(), LimiterError> {
        let (engine, shard, meters, zone) = (self.clone(), *shard, meters.to_vec(), zone.clone());
        // On a task: a caller that goes away must not leave a transaction open.
        let work = async move {
            // The semaphore is never closed; a closed one would only mean no waiting.
            let _place = engine.warmers.0.acquire().await;
            engine.warm_locked(what, &shard, &meters, &zone, epoch, now).await
        };
        self.tasks.spawn(work).await.map_err(|_| LimiterError::Stopped)?
    }

    async fn warm_locked(
        &self,
        what: &'static str,
        shard: &Shard,
        meters: &[Meter],
        zone: &Zone,
        epoch: i64,
        now: Option<UnixMs>,
    ) -> Result<(), LimiterError> {
        let now = match now {
            Some(now) => now,
            None => self.store.time().await?,
        };
        self.remember(now);
        let mut transaction = self.pool.begin().await?;
        shard_lock(shard).take(&mut transaction, Some(now)).await?;
        require_authority(&mut transaction, epoch).await?;
        if what == "TENANT" && !self.is_ours_to_warm(&mut transaction, shard, epoch).await? {
            return Ok(transaction.rollback().await?);
        }
        let holds = if what == "TENANT" {
            live_holds(&mut transaction, shard, now).await?
        } else {
            Vec::new()
        };
        let mut wanted = BTreeSet::new();
        for meter in meters {
            wanted.insert(Wanted::of_meter(meter, zone, now)?);
        }
        let takes = holds.iter().flat_map(|hold| hold.takes.iter()).filter(|take| shard.has(take));
        wanted.extend(takes.filter_map(Wanted::of_take));
        let wanted: Vec<Wanted> = wanted.into_iter().collect();
        let (rows, holds) = read(&mut transaction, shard, &wanted, what == "TENANT", now).await?;
        let told = told(shard, &wanted, &rows, &holds, now);
        let command =
            vec![epoch.to_string().into_bytes(), what.into(), told.to_string().into_bytes()];
        let mut reply = self.store.eval(&scripts::WARM_UP, shard, &command).await?;
        // The lock is kept until Redis has answered, and given back whatever it said.
        transaction.rollback().await?;
        match reply.answer()? {
            Answer::Done | Answer::Kept | Answer::Cold => Ok(()),
            Answer::Lost => Err(LimiterError::Lost),
            Answer::Stale => Err(LimiterError::Superseded),
            _ => Err(reply.unexpected()),
        }
    }

    /// Whether the counters are still cold, and were never warm under this epoch; then it is noted that they will be.
    async fn is_ours_to_warm(
        &self,
        connection: &mut PgConnection,
        shard: &Shard,
        epoch: i64,
    ) -> Result<bool, LimiterError> {
        let mut reply =
            self.store.eval(&scripts::EXPIRED, shard, &wire::nothing_expired(epoch)).await?;
        match reply.answer()? {
            Answer::Done => return Ok(false),
            Answer::Cold => {}
            Answer::Stale => return Err(LimiterError::Superseded),
            _ => return Err(reply.unexpected()),
        }
        let was = sqlx::query_scalar!(
            "select epoch from limiter_warm where owner_id = $1",
            shard.owner_id()
        )
        .fetch_optional(&mut *connection)
        .await?;
        if was == Some(epoch) {
            return Err(LimiterError::Lost);
        }
        // On a connection of its own, so that it is there before the counters are: if the process dies in between,
        // they count as lost, which costs a warm-up. The other way round it would cost money.
        sqlx::query!(
            "insert into limiter_warm (owner_id, epoch) values ($1, $2)
             on conflict (owner_id) do update set epoch = greatest(limiter_warm.epoch, excluded.epoch)",
            shard.owner_id(),
            epoch,
        )
        .execute(&self.pool)
        .await?;
        Ok(true)
    }

    /// The owners whose counters were warmed under this epoch.
    pub(super) async fn warm_shards(&self, epoch: i64) -> Result<Vec<Shard>, LimiterError> {
        let owners = sqlx::query_scalar!(
            "select owner_id from limiter_warm where epoch = $1 order by owner_id",
            epoch
        )
        .fetch_all(&self.pool)
        .await?;
        Ok(owners.into_iter().map(Shard::of_owner).collect())
    }
}

/// The owner's lock: the one under which the other engine changes its counters.
fn shard_lock(shard: &Shard) -> Locks {
    match shard {
        Shard::Tenant(id) => Locks::of(*id, []),
        Shard::Provider(id) => Locks::of_provider(*id),
        Shard::Probe => Locks::of_provider(0),
    }
}

/// Whether Redis may still be warmed under this epoch.
async fn require_authority(connection: &mut PgConnection, epoch: i64) -> Result<(), LimiterError> {
    let is_ours = sqlx::query_scalar!(
        r#"select exists (select from limiter_authority where mode = 'redis' and epoch = $1 and ready) as "ours!""#,
        epoch
    )
    .fetch_one(connection)
    .await?;
    if is_ours { Ok(()) } else { Err(LimiterError::Superseded) }
}

/// Live holds, to learn which meters they took from.
async fn live_holds(
    connection: &mut PgConnection,
    shard: &Shard,
    now: UnixMs,
) -> Result<Vec<LiveHold>, LimiterError> {
    let (tenant_id, provider) = whose(shard);
    let holds = sqlx::query_as!(
        LiveHold,
        r#"select request_id, admitted_ms, expires_ms, charge_nanos, takes as "takes: Json<Vec<Take>>"
           from holds h
           where h.expires_ms > $3 and (h.tenant_id = $1 or h.takes @> $2)
             and not exists (select from usage_events e where e.request_id = h.request_id)"#,
        tenant_id,
        provider,
        now.0,
    )
    .fetch_all(connection)
    .await?;
    Ok(holds)
}

fn whose(shard: &Shard) -> (Option<i64>, Option<Value>) {
    match shard {
        Shard::Tenant(id) => (Some(id.0), None),
        Shard::Provider(id) => (None, Some(json!([{"scope": "provider", "scope_id": id}]))),
        Shard::Probe => (None, None),
    }
}

/// Reads what the books say, in one statement: between two of them an event could be written, and count twice or not
/// at all.
async fn read(
    connection: &mut PgConnection,
    shard: &Shard,
    wanted: &[Wanted],
    with_holds: bool,
    now: UnixMs,
) -> Result<(Vec<Row>, Vec<LiveHold>), LimiterError> {
    let (tenant_id, provider) = whose(shard);
    let tenant = shard.tenant().unwrap_or(domain::id::TenantId(0));
    let rows = sqlx::query!(
        r#"with live as materialized (
               select request_id, admitted_ms, expires_ms, charge_nanos, takes
               from holds h
               where $11 and h.expires_ms > $3 and (h.tenant_id = $1 or h.takes @> $2)
                 and not exists (select from usage_events e where e.request_id = h.request_id)),
           standing as materialized (
               select m.ord, s.level_micro, s.level_at_ms, u.starts, u.used,
                      (select balance_nanos from balances where tenant_id = $1) as balance_nanos
               from unnest($4::bigint[], $5::text[], $6::bigint[], $7::text[], $8::bigint[], $9::bigint[],
                           $10::bigint[])
                    with ordinality as m (owner, scope, scope_id, meter, period, first, last, ord)
               left join meter_states s on s.tenant_id = m.owner and s.scope = m.scope and s.scope_id = m.scope_id
                    and s.meter = m.meter and s.period_start_ms = m.period
               left join lateral (
                   select array_agg(l.slice_start_ms order by l.slice_start_ms) as starts,
                          array_agg(l.used order by l.slice_start_ms) as used
                   from meter_slices l
                   where m.first <= m.last and l.tenant_id = m.owner and l.scope = m.scope
                     and l.scope_id = m.scope_id and l.meter = m.meter
                     and l.slice_start_ms between m.first and m.last) u on true)
           select ord, level_micro, level_at_ms, starts, used, balance_nanos,
                  null::text as request_id, null::bigint as admitted_ms, null::bigint as expires_ms,
                  null::bigint as charge_nanos, null::jsonb as "takes: Json<Vec<Take>>"
           from standing
           union all
           select null, null, null, null, null, null, request_id, admitted_ms, expires_ms, charge_nanos, takes
           from live
           order by ord nulls last, expires_ms"#,
        tenant_id,
        provider,
        now.0,
        &wanted.iter().map(|w| owner(tenant, w.scope).0).collect::<Vec<_>>()[..],
        &wanted.iter().map(|w| w.scope.code().to_owned()).collect::<Vec<_>>()[..],
        &wanted.iter().map(|w| w.scope_id).collect::<Vec<_>>()[..],
        &wanted.iter().map(|w| w.name.clone()).collect::<Vec<_>>()[..],
        &wanted.iter().map(|_| 0_i64).collect::<Vec<_>>()[..],
        &wanted.iter().map(|w| w.slices(now).0).collect::<Vec<_>>()[..],
        &wanted.iter().map(|w| w.slices(now).1).collect::<Vec<_>>()[..],
        with_holds,
    )
    .fetch_all(connection)
    .await?;
    let (mut standing, mut holds) = (Vec::with_capacity(wanted.len()), Vec::new());
    for row in rows {
        if row.ord.is_some() {
            standing.push(Row {
                starts: row.starts,
                used: row.used,
                level_micro: row.level_micro,
                level_at_ms: row.level_at_ms,
                balance_nanos: row.balance_nanos,
            });
        } else if let (Some(request_id), Some(takes)) = (row.request_id, row.takes) {
            holds.push(LiveHold {
                request_id,
                admitted_ms: row.admitted_ms.unwrap_or(0),
                expires_ms: row.expires_ms.unwrap_or(0),
                charge_nanos: row.charge_nanos.unwrap_or(0),
                takes,
            });
        }
    }
    Ok((standing, holds))
}

/// What the warm-up script is told.
fn told(shard: &Shard, wanted: &[Wanted], rows: &[Row], holds: &[LiveHold], now: UnixMs) -> Value {
    let meters: Vec<Value> =
        wanted.iter().zip(rows).map(|(wanted, row)| told_meter(wanted, row, now)).collect();
    let is_tenant = shard.tenant().is_some();
    let holds: Vec<Value> = holds
        .iter()
        .map(|hold| {
            let takes = hold.takes.iter().filter(|take| shard.has(take));
            let takes: Vec<Value> = takes.map(wire::kept_take).collect();
            json!({"id": hold.request_id, "admitted": hold.admitted_ms, "expires": hold.expires_ms,
                   "charge": if is_tenant { hold.charge_nanos } else { 0 }, "takes": takes})
        })
        .collect();
    json!({"meters": meters, "holds": holds})
}

fn told_meter(wanted: &Wanted, row: &Row, now: UnixMs) -> Value {
    let id = wire::meter_id(wanted.scope, wanted.scope_id, &wanted.name);
    let sum = || row.used.iter().flatten().fold(0_i64, |sum, used| sum.saturating_add(*used));
    match wanted.rule {
        Rule::Bucket { rate } => {
            // What was never written is a full bucket, since ever and however much it holds by then.
            let full = (MAX_COUNT, 0);
            let (level, at) = row.level_micro.zip(row.level_at_ms).unwrap_or(full);
            json!({"id": id, "rule": "bucket", "level": level, "at": at, "rate": rate})
        }
        Rule::Window(window) => {
            let starts = row.starts.iter().flatten();
            let slices: Vec<_> = starts.zip(row.used.iter().flatten()).collect();
            json!({"id": id, "rule": "window", "slice_ms": window.slice_ms(),
                   "oldest": window.oldest_slice(now).0, "slices": slices})
        }
        Rule::Month { start } => {
            json!({"id": id, "rule": "month", "period": start.0, "used": sum()})
        }
        Rule::Balance => {
            // The snapshot is what was paid in less what was used; the law wants the two apart.
            let credited = row.balance_nanos.unwrap_or(0).saturating_add(sum());
            json!({"id": id, "rule": "balance", "credited": credited, "used": sum()})
        }
        Rule::Lease => json!({"id": id, "rule": "lease"}),
    }
}
