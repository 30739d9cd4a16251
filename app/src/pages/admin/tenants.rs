//! Find a tenant, compare load.

use leptos::prelude::*;

use crate::components::amount::{as_of, compact, day, instant_ago, money_total};
use crate::components::frame::Place;
use crate::components::icon::{Icon, icon};
use crate::components::panel::{bad_parameters, empty, first_tenant};
use crate::components::{budget, status};
use crate::console::ConsoleError;
use crate::pages::request::{Asked, Query};
use crate::pages::sheet::{Sheet, sheet_page};
use crate::rights::Right;
use crate::routes::{self, query};
use crate::views::{
    StatusCounts, TenantColumn, TenantFilter, TenantRow, TenantSort, TenantStatus, TenantsPage,
};
use crate::words;

/// The page.
pub(crate) fn tenants_page() -> AnyView {
    sheet_page(Place::Tenants, Right::SeeTenants, tenants)
}

async fn tenants(asked: Asked) -> Result<Sheet, ConsoleError> {
    let (filter, bad) = read(&asked.query);
    let page = asked.console.tenants(&asked.viewer, &filter).await?;
    let body = view! {
        {bad_parameters(&bad)}
        {status_links(&filter, &page.counts)}
        <section class="panel" aria-label="Tenants">
            {search(&filter, &page)}
            {rows(&filter, &page)}
        </section>
    };
    Ok(Sheet {
        title: "Tenants".to_owned(),
        crumbs: Vec::new(),
        head: Some(as_of(page.as_of_ms, &page.zone)),
        body: body.into_any(),
    })
}

fn read(asked: &Query) -> (TenantFilter, Vec<(&'static str, String)>) {
    let mut bad = Vec::new();
    let page = |text: &str| text.parse().ok().filter(|page: &i64| *page >= 1);
    let filter = TenantFilter {
        q: asked.text(query::Q).trim().to_owned(),
        plan: asked.text(query::PLAN),
        status: asked.parsed(query::STATUS, TenantStatus::parse, &mut bad),
        sort: asked.parsed(query::SORT, TenantSort::parse, &mut bad).unwrap_or_default(),
        page: asked.parsed(query::PAGE, page, &mut bad).unwrap_or(1),
    };
    (filter, bad)
}

/// The address of a filter; defaults are left out.
fn url(filter: &TenantFilter) -> String {
    let sort =
        if filter.sort == TenantSort::default() { String::new() } else { filter.sort.to_string() };
    let page = if filter.page > 1 { filter.page.to_string() } else { String::new() };
    routes::with_query(
        routes::ADMIN_TENANTS,
        &[
            (query::Q, filter.q.as_str()),
            (query::PLAN, filter.plan.as_str()),
            (query::STATUS, filter.status.map_or("", TenantStatus::as_str)),
            (query::SORT, sort.as_str()),
            (query::PAGE, page.as_str()),
        ],
    )
}

/// Counts per status as links that filter.
fn status_links(filter: &TenantFilter, counts: &StatusCounts) -> AnyView {
    let to = |status| url(&TenantFilter { status, page: 1, ..filter.clone() });
    let count_of = |status| match status {
        TenantStatus::Active => counts.active,
        TenantStatus::Over80 => counts.over_80,
        TenantStatus::Refused => counts.refused,
        TenantStatus::Suspended => counts.suspended,
        TenantStatus::Archived => counts.archived,
    };
    let all = counts.active.saturating_add(counts.suspended);
    let links = TenantStatus::ALL.map(|status| {
        let (_, word) = status::tenant_words(status);
        let testid = format!("status-{}", status.as_str());
        chip(word, count_of(status), to(Some(status)), filter.status == Some(status), testid)
    });
    view! {
        <nav class="chips" aria-label="Status">
            {chip("All", all, to(None), filter.status.is_none(), "status-all".to_owned())}
            {links.collect_view()}
        </nav>
    }
    .into_any()
}

fn chip(word: &'static str, number: i64, href: String, chosen: bool, testid: String) -> AnyView {
    view! {
        <a class="chip" href=href aria-current=chosen.then_some("true") data-testid=testid>
            {word}
            <span class="num">{words::count(number)}</span>
        </a>
    }
    .into_any()
}

fn search(filter: &TenantFilter, page: &TenantsPage) -> AnyView {
    let plans = page.plans.iter().map(|plan| {
        view! {
            <option value=plan.clone() selected=*plan == filter.plan>
                {plan.clone()}
            </option>
        }
    });
    let plans = plans.collect_view();
    let status = filter.status.map(|status| {
        view! { <input type="hidden" name=query::STATUS value=status.as_str()/> }
    });
    let sort = (filter.sort != TenantSort::default()).then(|| {
        view! { <input type="hidden" name=query::SORT value=filter.sort.to_string()/> }
    });
    let narrowed = !filter.q.is_empty() || !filter.plan.is_empty() || filter.status.is_some();
    view! {
        <form
            method="get"
            action=routes::ADMIN_TENANTS
            class="filters search"
            role="search"
            data-testid="tenant-filters"
        >
            <label class="grow">
                <span class="visually-hidden">"Search tenants"</span>
                <span class="with-icon">
                    {icon(Icon::Search)}
                    <input
                        type="search"
                        name=query::Q
                        value=filter.q.clone()
                        placeholder="Name, slug, or last four of a key"
                        autocomplete="off"
                        data-testid="q"
                    />
                </span>
            </label>
            <label>
                <span class="visually-hidden">"Plan"</span>
                <select name=query::PLAN data-testid="plan">
                    <option value="" selected=filter.plan.is_empty()>
                        "All plans"
                    </option>
                    {plans}
                </select>
            </label>
            {status}
            {sort}
            <button class="button" data-testid="apply">"Search"</button>
            {narrowed
                .then(|| {
                    view! {
                        <a class="button quiet" href=routes::ADMIN_TENANTS data-testid="clear">
                            "Clear all"
                        </a>
                    }
                })}
        </form>
    }
    .into_any()
}

fn rows(filter: &TenantFilter, page: &TenantsPage) -> AnyView {
    if page.rows.is_empty() {
        return nothing(filter, page);
    }
    let lines = page.rows.iter().map(|row| tenant_row(row, page)).collect_view();
    let sort = |column, word, class: &'static str| sort_head(filter, column, word, class);
    view! {
        <div class="table-wrap">
            <table class="cards bars" data-testid="tenants-table">
                <caption class="visually-hidden">
                    {format!(
                        "Tenants; spend in {}; times in {}",
                        words::month_name(page.month),
                        page.zone,
                    )}
                </caption>
                <thead>
                    <tr>
                        {sort(TenantColumn::Name, "Tenant", "")}
                        <th scope="col">"Status"</th>
                        {sort(TenantColumn::Spend, "Spend", "right")}
                        <th scope="col" class="wide">
                            "On the cap"
                        </th>
                        {sort(TenantColumn::Cap, "Used", "right")}
                        {sort(TenantColumn::Requests, "Requests 24 h", "right")}
                        <th scope="col" class="right">
                            "Failed"
                        </th>
                        {sort(TenantColumn::LastRequest, "Last call", "")}
                        {sort(TenantColumn::Created, "Created", "")}
                    </tr>
                </thead>
                <tbody>{lines}</tbody>
            </table>
        </div>
        {pager(filter, page)}
    }
    .into_any()
}

fn sort_head(
    filter: &TenantFilter,
    column: TenantColumn,
    word: &'static str,
    class: &'static str,
) -> AnyView {
    let now = filter.sort.column == column;
    // Names read best from A on, amounts from the largest down; a second click turns it round.
    let descending = if now { !filter.sort.descending } else { column != TenantColumn::Name };
    let href =
        url(&TenantFilter { sort: TenantSort { column, descending }, page: 1, ..filter.clone() });
    let direction = if filter.sort.descending { "descending" } else { "ascending" };
    let arrow = if filter.sort.descending { "↓" } else { "↑" };
    view! {
        <th scope="col" class=class aria-sort=now.then_some(direction)>
            <a class="sort" href=href data-testid=format!("sort-{}", column.as_str())>
                {word}
                {now.then(|| view! { <span aria-hidden="true">{arrow}</span> })}
            </a>
        </th>
    }
    .into_any()
}

fn tenant_row(row: &TenantRow, page: &TenantsPage) -> AnyView {
    let (zone, now_ms) = (page.zone.as_str(), page.as_of_ms);
    let taken_nanos = row.settled_nanos.saturating_add(row.held_nanos);
    let failed = if row.failed_24h == 0 {
        view! { <span class="muted">"0"</span> }.into_any()
    } else {
        let share = words::part_percent(row.failed_24h, row.requests_24h);
        view! {
            <span class="nowrap">
                {compact(row.failed_24h)} " " <span class="muted">{share}</span>
            </span>
        }
        .into_any()
    };
    view! {
        <tr data-testid="tenant-row">
            <th scope="row" data-label="Tenant">
                <span class="who">
                    <a
                        href=routes::tenant(&row.slug)
                        title=row.name.clone()
                        data-testid="tenant-link"
                    >
                        {row.name.clone()}
                    </a>
                    <span class="plan">{row.plan.clone()}</span>
                </span>
                <span class="slug">{row.slug.clone()}</span>
            </th>
            <td data-label="Status">{status::tenant(row.status)}</td>
            <td data-label="Spend" class="right">
                {money_total(taken_nanos)}
            </td>
            <td data-label="On the cap" class="wide">
                {budget::line(row.settled_nanos, row.held_nanos, row.cap_nanos, None)}
            </td>
            <td data-label="Used" class="right">
                {budget::percent(taken_nanos, row.cap_nanos)}
            </td>
            <td data-label="Requests" class="right">
                {compact(row.requests_24h)}
            </td>
            <td data-label="Failed" class="right">
                {failed}
            </td>
            <td data-label="Last call" class="full">
                {instant_ago(row.last_request_ms, zone, now_ms, "never")}
            </td>
            <td data-label="Created" class="full">{day(row.created_ms, zone)}</td>
        </tr>
    }
    .into_any()
}

/// Nothing to list: because there is nothing yet, or because nothing passes the filter.
fn nothing(filter: &TenantFilter, page: &TenantsPage) -> AnyView {
    let counts = &page.counts;
    if counts.active == 0 && counts.suspended == 0 && counts.archived == 0 {
        let said = "A tenant is a customer with a plan, a budget and keys.";
        return empty(said, Some(first_tenant()));
    }
    let mut said = "No tenant matches".to_owned();
    if !filter.q.is_empty() {
        said.push_str(&format!(" “{}”", filter.q));
    }
    if !filter.plan.is_empty() {
        said.push_str(&format!(" on plan {}", filter.plan));
    }
    if let Some(status) = filter.status {
        said.push_str(&format!(" with status “{}”", status::tenant_words(status).1));
    }
    if filter.page > 1 {
        said.push_str(&format!(" on page {}", filter.page));
    }
    said.push('.');
    let next = view! {
        <a class="button" href=routes::ADMIN_TENANTS data-testid="clear-filters">
            "Clear filters"
        </a>
    };
    empty(&said, Some(next.into_any()))
}

fn pager(filter: &TenantFilter, page: &TenantsPage) -> AnyView {
    let first = (filter.page - 1).saturating_mul(TenantFilter::PAGE_ROWS).saturating_add(1);
    let shown = i64::try_from(page.rows.len()).unwrap_or(i64::MAX);
    let last = first.saturating_add(shown - 1);
    let to = |page| url(&TenantFilter { page, ..filter.clone() });
    let newer = (filter.page > 1).then(|| {
        view! {
            <a class="button small" rel="prev" href=to(filter.page - 1) data-testid="previous">
                "Previous"
            </a>
        }
    });
    let older = (last < page.matching).then(|| {
        view! {
            <a class="button small" rel="next" href=to(filter.page + 1) data-testid="next">
                "Next"
            </a>
        }
    });
    let range = format!(
        "{}–{} of {}",
        words::count(first),
        words::count(last),
        words::count(page.matching)
    );
    view! {
        <div class="panel-foot pager">
            <p class="muted" data-testid="row-count">{range}</p>
            <div class="actions">{newer} {older}</div>
        </div>
    }
    .into_any()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_survives_its_address() {
        let filter = TenantFilter {
            q: "a&b".into(),
            plan: "pro".into(),
            status: Some(TenantStatus::Over80),
            sort: TenantSort::parse("cap").unwrap(),
            page: 3,
        };
        assert_eq!(url(&filter), "/admin/tenants?q=a%26b&plan=pro&status=over80&sort=cap&page=3");
        assert_eq!(url(&TenantFilter::default()), "/admin/tenants");
    }

    #[test]
    fn nonsense_is_named_and_defaulted() {
        let asked = Query::of(&[("status", "gone"), ("page", "-1"), ("sort", "x"), ("q", " a ")]);
        let (filter, bad) = read(&asked);
        assert_eq!(filter, TenantFilter { q: "a".into(), ..TenantFilter::default() });
        assert_eq!(bad.len(), 3);
    }
}
