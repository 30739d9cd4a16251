//! What the calls were.

use domain::id::TenantId;
use domain::money::Nanos;
use domain::usage::Outcome;
use domain::window::UnixMs;
use sqlx::PgPool;
use time::OffsetDateTime;

use crate::error::LedgerError;
use crate::instant::{instant, to_ms};

/// What one model was used for. The token classes are disjoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelMix {
    /// The model that clients named.
    pub model: String,
    /// Calls.
    pub requests: i64,
    /// Fresh input tokens, audio included.
    pub input: i64,
    /// Input tokens read from a cache.
    pub cached_input: i64,
    /// Input tokens written to a cache.
    pub cache_write: i64,
    /// Visible output tokens, audio and images included.
    pub output: i64,
    /// Thinking tokens.
    pub reasoning: i64,
    /// What providers charge.
    pub cost: Nanos,
    /// What tenants are charged.
    pub charge: Nanos,
}

/// How busy a tenant was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TenantActivity {
    /// Whose.
    pub tenant_id: TenantId,
    /// Calls.
    pub requests: i64,
    /// Of them, those that failed at the provider or here.
    pub failed: i64,
    /// What the tenant is charged.
    pub charge: Nanos,
    /// The last quarter of an hour with a call.
    pub last_slot: UnixMs,
}

/// Sums over all tenants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Calls.
    pub requests: i64,
    /// Of them, those that failed at the provider or here.
    pub failed: i64,
    /// Calls whose tokens are Weir's own count.
    pub estimated: i64,
    /// Input tokens of all classes.
    pub input_tokens: i64,
    /// Output tokens of all classes.
    pub output_tokens: i64,
    /// What providers charge.
    pub cost: Nanos,
    /// What tenants are charged.
    pub charge: Nanos,
}

/// The words of the outcomes that are somebody's fault here or at the provider.
fn failures() -> Vec<String> {
    let failed = Outcome::ALL.into_iter().filter(|outcome| outcome.is_failure());
    failed.map(|outcome| outcome.code().to_owned()).collect()
}

/// What each model was used for, of one tenant or of all, largest charge first.
/// Both instants are on a quarter of an hour.
///
/// # Errors
/// When the database cannot be reached.
pub async fn model_mix(
    pool: &PgPool,
    tenant_id: Option<TenantId>,
    from: UnixMs,
    to: UnixMs,
) -> Result<Vec<ModelMix>, LedgerError> {
    let (from, to) = (instant(from)?, instant(to)?);
    let mut mix = match tenant_id {
        Some(tenant) => mix_of_one(pool, tenant, from, to).await?,
        None => mix_of_all(pool, from, to).await?,
    };
    mix.sort_by(|a, b| (b.charge_nanos, &a.model).cmp(&(a.charge_nanos, &b.model)));
    let rows = mix.into_iter().map(|row| ModelMix {
        model: row.model,
        requests: row.requests,
        input: row.input,
        cached_input: row.cached_input,
        cache_write: row.cache_write,
        output: row.output,
        reasoning: row.reasoning,
        cost: Nanos(row.cost_nanos),
        charge: Nanos(row.charge_nanos),
    });
    Ok(rows.collect())
}

struct MixRow {
    model: String,
    requests: i64,
    input: i64,
    cached_input: i64,
    cache_write: i64,
    output: i64,
    reasoning: i64,
    cost_nanos: i64,
    charge_nanos: i64,
}

async fn mix_of_one(
    pool: &PgPool,
    tenant_id: TenantId,
    from: OffsetDateTime,
    to: OffsetDateTime,
) -> Result<Vec<MixRow>, LedgerError> {
    let rows = sqlx::query_as!(
        MixRow,
        r#"select model, sum(requests)::bigint as "requests!", sum(input)::bigint as "input!",
                  sum(cached_input)::bigint as "cached_input!", sum(cache_write)::bigint as "cache_write!",
                  sum(output)::bigint as "output!", sum(reasoning)::bigint as "reasoning!",
                  sum(cost_nanos)::bigint as "cost_nanos!", sum(charge_nanos)::bigint as "charge_nanos!"
           from usage_rollups
           where tenant_id = $1 and slot_start >= $2 and slot_start < $3
           group by model"#,
        tenant_id.0,
        from,
        to,
    )
    .fetch_all(pool)
    .await?;
    Ok(rows)
}

async fn mix_of_all(
    pool: &PgPool,
    from: OffsetDateTime,
    to: OffsetDateTime,
) -> Result<Vec<MixRow>, LedgerError> {
    let rows = sqlx::query_as!(
        MixRow,
        r#"select model, sum(requests)::bigint as "requests!", sum(input)::bigint as "input!",
                  sum(cached_input)::bigint as "cached_input!", sum(cache_write)::bigint as "cache_write!",
                  sum(output)::bigint as "output!", sum(reasoning)::bigint as "reasoning!",
                  sum(cost_nanos)::bigint as "cost_nanos!", sum(charge_nanos)::bigint as "charge_nanos!"
           from usage_rollups
           where slot_start >= $1 and slot_start < $2
           group by model"#,
        from,
        to,
    )
    .fetch_all(pool)
    .await?;
    Ok(rows)
}

/// How busy each tenant was; tenants without a call are left out. Both instants are on a quarter of an hour.
///
/// # Errors
/// When the database cannot be reached.
pub async fn activity(
    pool: &PgPool,
    from: UnixMs,
    to: UnixMs,
) -> Result<Vec<TenantActivity>, LedgerError> {
    let rows = sqlx::query!(
        r#"select tenant_id, sum(requests)::bigint as "requests!",
                  coalesce(sum(requests) filter (where outcome = any($3)), 0)::bigint as "failed!",
                  sum(charge_nanos)::bigint as "charge!", max(slot_start) as "last_slot!"
           from usage_rollups
           where slot_start >= $1 and slot_start < $2
           group by tenant_id
           order by tenant_id"#,
        instant(from)?,
        instant(to)?,
        &failures()[..],
    )
    .fetch_all(pool)
    .await?;
    let activity = rows.into_iter().map(|row| TenantActivity {
        tenant_id: TenantId(row.tenant_id),
        requests: row.requests,
        failed: row.failed,
        charge: Nanos(row.charge),
        last_slot: to_ms(row.last_slot),
    });
    Ok(activity.collect())
}

/// When each of these tenants last had a call admitted; those that never had one are left out.
///
/// One look at the end of an index for each tenant and month: the rollups know only the quarter of an hour.
///
/// # Errors
/// When the database cannot be reached.
pub async fn last_calls(
    pool: &PgPool,
    tenants: &[TenantId],
) -> Result<Vec<(TenantId, UnixMs)>, LedgerError> {
    let ids: Vec<i64> = tenants.iter().map(|tenant| tenant.0).collect();
    let rows = sqlx::query!(
        r#"select t.id as "tenant_id!", last.admitted_at
           from unnest($1::bigint[]) as t (id)
           cross join lateral (
               select e.admitted_at from usage_events e
               where e.tenant_id = t.id order by e.admitted_at desc limit 1) as last"#,
        &ids[..],
    )
    .fetch_all(pool)
    .await?;
    Ok(rows.into_iter().map(|row| (TenantId(row.tenant_id), to_ms(row.admitted_at))).collect())
}

/// Sums over all tenants. Both instants are on a quarter of an hour.
///
/// # Errors
/// When the database cannot be reached.
pub async fn totals(pool: &PgPool, from: UnixMs, to: UnixMs) -> Result<Totals, LedgerError> {
    let row = sqlx::query!(
        r#"select coalesce(sum(requests), 0)::bigint as "requests!",
                  coalesce(sum(requests) filter (where outcome = any($3)), 0)::bigint as "failed!",
                  coalesce(sum(estimated), 0)::bigint as "estimated!",
                  coalesce(sum(input + cached_input + cache_write), 0)::bigint as "input_tokens!",
                  coalesce(sum(output + reasoning), 0)::bigint as "output_tokens!",
                  coalesce(sum(cost_nanos), 0)::bigint as "cost!",
                  coalesce(sum(charge_nanos), 0)::bigint as "charge!"
           from usage_rollups
           where slot_start >= $1 and slot_start < $2"#,
        instant(from)?,
        instant(to)?,
        &failures()[..],
    )
    .fetch_one(pool)
    .await?;
    Ok(Totals {
        requests: row.requests,
        failed: row.failed,
        estimated: row.estimated,
        input_tokens: row.input_tokens,
        output_tokens: row.output_tokens,
        cost: Nanos(row.cost),
        charge: Nanos(row.charge),
    })
}
