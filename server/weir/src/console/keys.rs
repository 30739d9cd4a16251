//! A tenant's keys.

use std::collections::HashMap;

use app::views::{KeyPage, KeyRow as ShownKey, KeyStatus as Shown, KeysPanel, SampleModels};
use domain::id::KeyId;
use domain::usage::Dialect;
use domain::window::UnixMs;
use ledger::report::{KeySpend, key_spend};
use tenants::MAX_PAGE;
use tenants::api_key::{self, KeyRow, KeyStatus};
use tenants::directory::Snapshot;
use tenants::tenant::Tenant;

use super::Fault;
use super::mix::last_hours;
use super::months::{anchor_day, month};
use crate::weir::Weir;

/// A key that ends within this time is told to be ending.
const EXPIRING_MS: i64 = 7 * 24 * 60 * 60 * 1_000;

pub(super) async fn panel(
    weir: &Weir,
    snapshot: &Snapshot,
    tenant: &Tenant,
) -> Result<KeysPanel, Fault> {
    let now = weir.clock.now();
    let spent = this_month(weir, snapshot, tenant).await?;
    let keys = api_key::list(&weir.pool, Some(tenant.id), None, MAX_PAGE).await?;
    let mut rows: Vec<ShownKey> = keys.into_iter().map(|key| shown(key, &spent, now)).collect();
    // Newest first as they came; a stable sort puts the living before the ended.
    rows.sort_by_key(|row| matches!(row.status, Shown::Revoked | Shown::Expired));
    Ok(KeysPanel { zone: tenant.time_zone.clone(), as_of_ms: now.0, rows })
}

pub(super) async fn page(
    weir: &Weir,
    snapshot: &Snapshot,
    tenant: &Tenant,
    key: KeyId,
) -> Result<KeyPage, Fault> {
    let now = weir.clock.now();
    let found = api_key::find(&weir.pool, tenant.id, key).await?;
    let spent = this_month(weir, snapshot, tenant).await?;
    let (from, to) = last_hours(now, 24);
    let day = key_spend(&weir.pool, tenant.id, from, to).await?;
    let requests_24h = day.iter().filter(|row| row.key_id == key).map(|row| row.requests).sum();
    Ok(KeyPage {
        tenant_slug: tenant.slug.clone(),
        tenant_name: tenant.name.clone(),
        zone: tenant.time_zone.clone(),
        as_of_ms: now.0,
        key: shown(found, &spent, now),
        requests_24h,
    })
}

async fn this_month(
    weir: &Weir,
    snapshot: &Snapshot,
    tenant: &Tenant,
) -> Result<HashMap<KeyId, i64>, Fault> {
    let plan = snapshot.plan(tenant.plan);
    let anchor = anchor_day(plan.map(|plan| &**plan));
    let period = month(None, &tenant.zone, anchor, weir.clock.now())?.period;
    let spent = key_spend(&weir.pool, tenant.id, period.start, period.end).await?;
    Ok(spent.into_iter().map(|KeySpend { key_id, charge, .. }| (key_id, charge.0)).collect())
}

fn shown(key: KeyRow, spent: &HashMap<KeyId, i64>, now: UnixMs) -> ShownKey {
    let status = match (key.status, key.expires_at) {
        (KeyStatus::Revoked, _) => Shown::Revoked,
        (_, Some(end)) if end <= now => Shown::Expired,
        (KeyStatus::Disabled, _) => Shown::Disabled,
        (KeyStatus::Active, Some(end)) if end.since_ms(now) <= EXPIRING_MS => Shown::Expiring,
        (KeyStatus::Active, _) => Shown::Active,
    };
    ShownKey {
        id: key.id.0,
        name: key.name,
        masked: key.masked,
        created_ms: key.created_at.0,
        last_used_ms: key.last_used_at.map(|at| at.0),
        expires_ms: key.expires_at.map(|at| at.0),
        status,
        spend_month_nanos: spent.get(&key.id).copied().unwrap_or(0),
    }
}

/// One model per dialect that the tenant may call and that has a price now: the first by name.
pub(super) fn sample_models(snapshot: &Snapshot, tenant: &Tenant, now: UnixMs) -> SampleModels {
    let Some(plan) = snapshot.plan(tenant.plan) else { return SampleModels::default() };
    let first = |dialect: Dialect| {
        let speaks = |model: &tenants::directory::Model| {
            let route = model.routes.first()?;
            let upstream = snapshot.upstream(route.provider)?;
            (upstream.enabled && upstream.dialect == dialect).then_some(())
        };
        snapshot
            .models()
            .filter(|model| plan.models.allows(&model.name, &model.class))
            .filter(|model| model.rate_card(now).is_some() && speaks(model).is_some())
            .map(|model| model.name.clone())
            .min()
    };
    SampleModels {
        openai: first(Dialect::Openai),
        anthropic: first(Dialect::Anthropic),
        gemini: first(Dialect::Gemini),
    }
}
