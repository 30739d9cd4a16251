//! The list of tenants.

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use app::views::{
    StatusCounts, TenantColumn, TenantFilter, TenantRow, TenantStatus as Shown, TenantsPage,
};
use domain::id::TenantId;
use domain::window::{UnixMs, Zone};
use ledger::report::{TenantActivity, activity, last_calls};
use sqlx::PgPool;
use tenants::MAX_PAGE;
use tenants::api_key;

use super::mix::last_hours;
use super::months::month;
use super::spend::{Spent, of_tenants};
use super::tenant::standing;
use super::{Fault, HOUSE_ZONE};
use crate::weir::Weir;

/// How many characters of a key are shown at its end, and may be searched for.
const KEY_TAIL_CHARS: usize = 4;
/// How many pages of keys are searched: some ten thousand keys.
const KEY_PAGES_MAX: usize = 20;

pub(super) async fn page(weir: &Weir, filter: &TenantFilter) -> Result<TenantsPage, Fault> {
    let now = weir.clock.now();
    let snapshot = weir.directory.snapshot();
    let plans: BTreeSet<String> = snapshot
        .tenants()
        .filter_map(|tenant| snapshot.plan(tenant.plan).map(|plan| plan.name.clone()))
        .collect();
    let by_key = owners_of_key(&weir.pool, &filter.q).await?;
    let all: Vec<_> = snapshot.tenants().cloned().collect();
    let spent = of_tenants(weir, &snapshot, all, None).await?;
    let (from, to) = last_hours(now, 24);
    let day = by_tenant(activity(&weir.pool, from, to).await?);
    let ids: Vec<TenantId> = spent.iter().map(|spent| spent.tenant.id).collect();
    let last: HashMap<_, _> = last_calls(&weir.pool, &ids).await?.into_iter().collect();

    let counts = counts(&spent);
    let mut rows: Vec<TenantRow> = spent
        .iter()
        .filter(|spent| passes(spent, filter, &by_key))
        .map(|spent| row(spent, &day, &last))
        .collect();
    rows.sort_by(|a, b| {
        let by_column = compare(a, b, filter.sort.column);
        let by_column = if filter.sort.descending { by_column.reverse() } else { by_column };
        by_column.then_with(|| a.slug.cmp(&b.slug))
    });
    let matching = i64::try_from(rows.len()).unwrap_or(i64::MAX);
    let before = (filter.page.max(1) - 1).saturating_mul(TenantFilter::PAGE_ROWS);
    let before = usize::try_from(before).unwrap_or(usize::MAX);
    let page_rows = usize::try_from(TenantFilter::PAGE_ROWS).unwrap_or(usize::MAX);
    Ok(TenantsPage {
        month: month(None, &Zone::utc(), 1, now)?.month,
        zone: HOUSE_ZONE.to_owned(),
        as_of_ms: now.0,
        rows: rows.into_iter().skip(before).take(page_rows).collect(),
        matching,
        counts,
        plans: plans.into_iter().collect(),
    })
}

/// Whose keys end like the text that is searched for, if it can be the end of one.
async fn owners_of_key(pool: &PgPool, q: &str) -> Result<HashSet<TenantId>, Fault> {
    let q = q.trim();
    let mut owners = HashSet::new();
    if q.chars().count() != KEY_TAIL_CHARS || !q.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Ok(owners);
    }
    let mut before = None;
    for _ in 0..KEY_PAGES_MAX {
        let page = api_key::list(pool, None, before, MAX_PAGE).await?;
        let found = page.iter().filter(|key| key.masked.ends_with(q));
        owners.extend(found.map(|key| key.tenant));
        match page.last() {
            Some(last) if page.len() == usize::try_from(MAX_PAGE).unwrap_or(usize::MAX) => {
                before = Some(last.id);
            }
            _ => break,
        }
    }
    Ok(owners)
}

fn by_tenant(rows: Vec<TenantActivity>) -> HashMap<TenantId, TenantActivity> {
    rows.into_iter().map(|row| (row.tenant_id, row)).collect()
}

fn counts(spent: &[Spent]) -> StatusCounts {
    let mut counts = StatusCounts::default();
    for spent in spent {
        match standing(spent) {
            Shown::Active => counts.active += 1,
            Shown::Over80 => {
                (counts.active, counts.over_80) = (counts.active + 1, counts.over_80 + 1)
            }
            Shown::Refused => {
                (counts.active, counts.refused) = (counts.active + 1, counts.refused + 1)
            }
            Shown::Suspended => counts.suspended += 1,
            Shown::Archived => counts.archived += 1,
        }
    }
    counts
}

fn passes(spent: &Spent, filter: &TenantFilter, by_key: &HashSet<TenantId>) -> bool {
    let status = standing(spent);
    let status_fits = match filter.status {
        None => status != Shown::Archived,
        Some(Shown::Active) => matches!(status, Shown::Active | Shown::Over80 | Shown::Refused),
        Some(wanted) => status == wanted,
    };
    let plan = spent.plan.as_ref().map_or("", |plan| plan.name.as_str());
    let plan_fits = filter.plan.is_empty() || filter.plan == plan;
    let q = filter.q.trim().to_lowercase();
    let tenant = &spent.tenant;
    let text_fits = q.is_empty()
        || tenant.slug.contains(&q)
        || tenant.name.to_lowercase().contains(&q)
        || by_key.contains(&tenant.id);
    status_fits && plan_fits && text_fits
}

fn row(
    spent: &Spent,
    day: &HashMap<TenantId, TenantActivity>,
    last: &HashMap<TenantId, UnixMs>,
) -> TenantRow {
    let tenant = Arc::clone(&spent.tenant);
    let today = day.get(&tenant.id);
    TenantRow {
        slug: tenant.slug.clone(),
        name: tenant.name.clone(),
        plan: spent.plan.as_ref().map(|plan| plan.name.clone()).unwrap_or_default(),
        status: standing(spent),
        settled_nanos: spent.settled_nanos,
        held_nanos: spent.held_nanos,
        cap_nanos: spent.caps.cap_nanos,
        requests_24h: today.map_or(0, |row| row.requests),
        failed_24h: today.map_or(0, |row| row.failed),
        last_request_ms: last.get(&tenant.id).map(|at| at.0),
        created_ms: tenant.created_at.0,
    }
}

fn compare(a: &TenantRow, b: &TenantRow, column: TenantColumn) -> Ordering {
    let spend = |row: &TenantRow| row.settled_nanos.saturating_add(row.held_nanos);
    // Tenants without a cap have used none of it.
    let part = |row: &TenantRow| {
        let cap = row.cap_nanos.map(i128::from)?;
        Some(if cap == 0 { 1_000_000 } else { i128::from(spend(row)) * 1_000_000 / cap })
    };
    match column {
        TenantColumn::Name => a.name.to_lowercase().cmp(&b.name.to_lowercase()),
        TenantColumn::Spend => spend(a).cmp(&spend(b)),
        TenantColumn::Cap => part(a).cmp(&part(b)),
        TenantColumn::Requests => a.requests_24h.cmp(&b.requests_24h),
        TenantColumn::LastRequest => a.last_request_ms.cmp(&b.last_request_ms),
        TenantColumn::Created => a.created_ms.cmp(&b.created_ms),
    }
}
