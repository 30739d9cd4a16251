//! One admission: lock, read, ask the law, write.

use domain::admission::{Counter, Decision, MICRO, Refusal, Take, TakeKind, decide, refilled};
use domain::plan::LimitRule;
use domain::window::UnixMs;
use ledger::slice::owner;
use sqlx::types::Json;
use sqlx::{PgConnection, PgPool};

use super::counters::{self, Counted, Read};
use super::expire;
use super::lock::Locks;
use super::written;
use crate::admission::{Ask, LimiterError};
use crate::hold::{HOLD_TTL_MS, Hold, alerts};

/// What became of an ask.
pub(super) enum Decided {
    /// It has just taken this hold.
    Taken(Hold),
    /// It had taken this hold before.
    Kept(Hold),
    /// It may not pass.
    Refused(Refusal),
}

/// Decides on an ask in one transaction.
pub(super) async fn admit(
    pool: &PgPool,
    ask: &Ask,
    epoch: Option<i64>,
) -> Result<Decided, LimiterError> {
    let scopes = ask.meters.iter().map(|meter| (meter.scope, meter.scope_id));
    let locks = Locks::of(ask.tenant_id, scopes);
    let mut transaction = pool.begin().await?;
    let now = locks.take(&mut transaction, ask.now).await?;
    let counted = counters::count(&ask.meters, &ask.zone, now)?;
    let mut known = read(&mut transaction, ask, &counted, now).await?;
    // Read under the lock: whoever warms other counters waits for it, and then finds what is held here.
    if epoch.is_some() && known.authority != epoch {
        transaction.rollback().await?;
        return Err(LimiterError::Superseded);
    }
    let mut ended_holds = 0;
    if known.has_expired {
        ended_holds =
            expire::pop(&mut transaction, ask.tenant_id, &locks, Some(ask.request_id), now).await?;
        known = read(&mut transaction, ask, &counted, now).await?;
    }
    if let Some(own) = known.own {
        let hold = Hold {
            request_id: ask.request_id,
            tenant_id: ask.tenant_id,
            admitted_at: UnixMs(own.admitted_ms),
            expires_at: UnixMs(own.expires_ms),
            alerts: alerts(&own.takes, &ask.meters),
            takes: own.takes,
            charge: domain::money::Nanos(own.charge_nanos),
        };
        transaction.commit().await?;
        return Ok(Decided::Kept(hold));
    }
    let mut decision = decide(&ask.meters, &known.counters, &ask.estimate, now)?;
    if written::may_stand_in_the_way(&decision) {
        let ended = written::settle(&mut transaction, ask.tenant_id, &locks, now).await?;
        if ended > 0 {
            ended_holds += ended;
            known = read(&mut transaction, ask, &counted, now).await?;
            decision = decide(&ask.meters, &known.counters, &ask.estimate, now)?;
        }
    }
    match decision {
        Decision::Refuse(refusal) => {
            // A refusal takes nothing; the holds that ended before it stay ended.
            if ended_holds == 0 {
                transaction.rollback().await?
            } else {
                transaction.commit().await?
            }
            Ok(Decided::Refused(refusal))
        }
        Decision::Admit(takes) => {
            let hold = Hold {
                request_id: ask.request_id,
                tenant_id: ask.tenant_id,
                admitted_at: now,
                expires_at: now.plus_ms(HOLD_TTL_MS),
                alerts: alerts(&takes, &ask.meters),
                takes,
                charge: ask.estimate.charge,
            };
            let changes = changes(&counted, &known.counters, &hold.takes, now);
            write(&mut transaction, &hold, &changes).await?;
            transaction.commit().await?;
            Ok(Decided::Taken(hold))
        }
    }
}

async fn read(
    connection: &mut PgConnection,
    ask: &Ask,
    counted: &[Counted<'_>],
    now: UnixMs,
) -> Result<Read, LimiterError> {
    counters::read(connection, ask.tenant_id, counted, Some(ask.request_id), now).await
}

/// What an admission changes of one meter's state.
struct Change<'a> {
    counted: &'a Counted<'a>,
    level_micro: i64,
    level_at: UnixMs,
    rate_milli: i64,
    /// Is added to what is held.
    held: i64,
}

fn changes<'a>(
    counted: &'a [Counted<'a>],
    counters: &[Counter],
    takes: &[Take],
    now: UnixMs,
) -> Vec<Change<'a>> {
    let all = counted.iter().zip(counters).zip(takes);
    all.map(|((counted, counter), take)| change(counted, counter, take, now)).collect()
}

fn change<'a>(counted: &'a Counted<'a>, counter: &Counter, take: &Take, now: UnixMs) -> Change<'a> {
    let held = match take.kind {
        TakeKind::Window { .. } | TakeKind::Lease => take.amount,
        TakeKind::Bucket { .. } => 0,
    };
    let mut change = Change { counted, level_micro: 0, level_at: UnixMs(0), rate_milli: 0, held };
    if let (
        LimitRule::Bucket { rate_milli_per_s, capacity, .. },
        Counter::Bucket { level_micro, at },
    ) = (&counted.meter.rule, counter)
    {
        let level = refilled(*level_micro, *at, *rate_milli_per_s, *capacity, now);
        change.level_micro = level.saturating_sub(take.amount.saturating_mul(MICRO));
        // A clock that went backwards must not be paid for the same time twice.
        change.level_at = now.max(*at);
        change.rate_milli = *rate_milli_per_s;
    }
    change
}

async fn write(
    connection: &mut PgConnection,
    hold: &Hold,
    changes: &[Change<'_>],
) -> Result<(), LimiterError> {
    let meters = || changes.iter().map(|change| change.counted.meter);
    sqlx::query!(
        r#"with hold as (
               insert into holds (request_id, tenant_id, takes, charge_nanos, admitted_ms, expires_ms)
               values ($1, $2, $3, $4, $5, $6))
           insert into meter_states as s (tenant_id, scope, scope_id, meter, period_start_ms, level_micro,
                                          level_at_ms, rate_milli, held)
           select * from unnest($7::bigint[], $8::text[], $9::bigint[], $10::text[], $11::bigint[],
                                $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[])
           on conflict on constraint meter_states_pkey do update set
               level_micro = excluded.level_micro, level_at_ms = excluded.level_at_ms,
               rate_milli = excluded.rate_milli, held = s.held + excluded.held"#,
        hold.request_id.to_string(),
        hold.tenant_id.0,
        Json(&hold.takes) as _,
        hold.charge.0,
        hold.admitted_at.0,
        hold.expires_at.0,
        &meters().map(|m| owner(hold.tenant_id, m.scope).0).collect::<Vec<_>>()[..],
        &meters().map(|m| m.scope.code().to_owned()).collect::<Vec<_>>()[..],
        &meters().map(|m| m.scope_id).collect::<Vec<_>>()[..],
        &meters().map(|m| m.name().to_owned()).collect::<Vec<_>>()[..],
        &changes.iter().map(|c| c.counted.period_start().0).collect::<Vec<_>>()[..],
        &changes.iter().map(|c| c.level_micro).collect::<Vec<_>>()[..],
        &changes.iter().map(|c| c.level_at.0).collect::<Vec<_>>()[..],
        &changes.iter().map(|c| c.rate_milli).collect::<Vec<_>>()[..],
        &changes.iter().map(|c| c.held).collect::<Vec<_>>()[..],
    )
    .execute(connection)
    .await?;
    Ok(())
}
