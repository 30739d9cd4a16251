//! Rounds over all tenants, in portions that know where the last one ended.

use std::time::Duration;

use domain::id::TenantId;
use domain::window::UnixMs;
use sqlx::PgPool;
use time::OffsetDateTime;
use tokio::time::Instant;

use super::{Extent, HOUSE, Outcome, tenant};
use crate::books;
use crate::error::LedgerError;
use crate::instant::to_ms;

/// An event is seen this long after its row was stamped at most, nearly always: a transaction of the writer takes
/// milliseconds, and what takes longer is found by the daily audit.
const UNSEEN: time::Duration = time::Duration::seconds(60);
/// How far back the first round looks.
const FIRST_LOOK: time::Duration = time::Duration::hours(1);
/// How often everything is compared.
const DAY: time::Duration = time::Duration::hours(24);
/// How many tenants are asked for at once.
const PAGE: i64 = 200;

/// Which round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audit {
    /// Tenants with traffic since the last round, what that traffic moved.
    Recent,
    /// All tenants and the house, everything, once a day.
    Whole,
}

impl Audit {
    const fn name(self) -> &'static str {
        match self {
            Self::Recent => "recent",
            Self::Whole => "whole",
        }
    }
}

/// Where a round stands.
struct Mark {
    /// Up to where rounds have seen everything; nothing before the first is over.
    seen_to: Option<OffsetDateTime>,
    /// When the round under way began.
    began_at: Option<OffsetDateTime>,
    /// The last tenant that is done in it.
    last_tenant: Option<i64>,
    now: OffsetDateTime,
}

/// Goes on with the round that is under way, or begins one when it is time, for about `time`. Says what became of the
/// differences, and whether nothing is left to do for now.
///
/// # Errors
/// When the database cannot be reached: the next portion goes on from the last tenant that was done.
pub async fn portion(
    pool: &PgPool,
    audit: Audit,
    time: Duration,
    now: UnixMs,
) -> Result<(Outcome, bool), LedgerError> {
    let until = Instant::now() + time;
    let mark = mark(pool, audit).await?;
    let due = mark.seen_to.is_none_or(|seen_to| mark.now - seen_to >= DAY);
    if audit == Audit::Whole && mark.began_at.is_none() && !due {
        return Ok((Outcome::default(), true));
    }
    let began_at = mark.began_at.unwrap_or(mark.now);
    let mut last = mark.last_tenant.unwrap_or(HOUSE.0);
    let mut outcome = Outcome::default();
    if audit == Audit::Whole && mark.began_at.is_none() {
        outcome.add(tenant(pool, HOUSE, Extent::Whole, now).await?);
    }
    let since = mark.seen_to.unwrap_or(mark.now - FIRST_LOOK);
    loop {
        let page = match audit {
            Audit::Recent => with_traffic(pool, since, last).await?,
            Audit::Whole => all(pool, last).await?,
        };
        if page.is_empty() {
            let seen_to = match audit {
                Audit::Recent => began_at - UNSEEN,
                Audit::Whole => began_at,
            };
            over(pool, audit, seen_to).await?;
            return Ok((outcome, true));
        }
        for (tenant_id, extent) in page {
            outcome.add(tenant(pool, tenant_id, extent, now).await?);
            last = tenant_id.0;
            if Instant::now() >= until {
                under_way(pool, audit, began_at, last).await?;
                return Ok((outcome, false));
            }
        }
    }
}

async fn mark(pool: &PgPool, audit: Audit) -> Result<Mark, LedgerError> {
    let mark = sqlx::query_as!(
        Mark,
        r#"select a.seen_to as "seen_to?", a.began_at as "began_at?", a.last_tenant as "last_tenant?",
                  clock_timestamp() as "now!"
           from (values (1)) as one (row) left join audits a on a.name = $1"#,
        audit.name(),
    )
    .fetch_one(pool)
    .await?;
    Ok(mark)
}

/// Tenants after `last` with events that were written since `since`, and from when on these were admitted.
async fn with_traffic(
    pool: &PgPool,
    since: OffsetDateTime,
    last: i64,
) -> Result<Vec<(TenantId, Extent)>, LedgerError> {
    let rows = sqlx::query!(
        r#"select tenant_id, min(admitted_at) as "first!" from usage_events
           where persisted_at >= $1 and tenant_id > $2
           group by tenant_id order by tenant_id limit $3"#,
        since,
        last,
        PAGE,
    )
    .fetch_all(pool)
    .await?;
    let extent = |first| Extent::Since(to_ms(first));
    Ok(rows.into_iter().map(|row| (TenantId(row.tenant_id), extent(row.first))).collect())
}

async fn all(pool: &PgPool, last: i64) -> Result<Vec<(TenantId, Extent)>, LedgerError> {
    let tenants = books::tenants(pool, TenantId(last), PAGE).await?;
    Ok(tenants.into_iter().map(|tenant_id| (tenant_id, Extent::Whole)).collect())
}

async fn under_way(
    pool: &PgPool,
    audit: Audit,
    began_at: OffsetDateTime,
    last: i64,
) -> Result<(), LedgerError> {
    sqlx::query!(
        r#"insert into audits (name, began_at, last_tenant) values ($1, $2, $3)
           on conflict on constraint audits_pkey do update set
               began_at = excluded.began_at, last_tenant = excluded.last_tenant"#,
        audit.name(),
        began_at,
        last,
    )
    .execute(pool)
    .await?;
    Ok(())
}

async fn over(pool: &PgPool, audit: Audit, seen_to: OffsetDateTime) -> Result<(), LedgerError> {
    sqlx::query!(
        r#"insert into audits (name, seen_to) values ($1, $2)
           on conflict on constraint audits_pkey do update set
               seen_to = excluded.seen_to, began_at = null, last_tenant = null"#,
        audit.name(),
        seen_to,
    )
    .execute(pool)
    .await?;
    Ok(())
}
