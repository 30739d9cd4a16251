//! Everything about one customer that exists so far: budget, keys, spend, newest calls.

use leptos::prelude::*;

use crate::components::amount::{as_of, instant, instant_ago};
use crate::components::form::{csrf_field, refusal};
use crate::components::frame::Place;
use crate::components::icon::{Icon, icon};
use crate::components::panel::{Panel, bad_parameters, empty, error_box};
use crate::components::{budget, calls, days, keys, status};
use crate::console::ConsoleError;
use crate::pages::request::{Asked, parameter};
use crate::pages::sheet::{Sheet, sheet_page};
use crate::rights::Right;
use crate::routes::{self, NAME_MAX_CHARS, done, field, query};
use crate::views::{self, CallsPanel, DaysPanel, KeysPanel, Month, TenantStatus};
use crate::words;

/// The page.
pub(crate) fn tenant_page() -> AnyView {
    let slug = parameter("slug");
    sheet_page(Place::Tenants, Right::SeeTenants, move |asked| tenant(asked, slug))
}

async fn tenant(asked: Asked, slug: String) -> Result<Sheet, ConsoleError> {
    let mut bad = Vec::new();
    let month = asked.query.parsed(query::MONTH, Month::parse, &mut bad);
    let (console, viewer) = (&asked.console, &asked.viewer);
    let page = console.tenant(viewer, &slug, month).await?;
    let (keys, days, calls) = futures_util::join!(
        console.keys(viewer, &slug),
        console.spend_by_day(viewer, Some(&slug), month),
        console.recent_calls(viewer, &slug),
    );
    let body = view! {
        {bad_parameters(&bad)}
        {said_done(&asked)}
        {standing(page.status)}
        {facts(&page)}
        {budget_panel(&page)}
        {keys_panel(&keys, &page, &asked)}
        {days_panel(&days, &asked)}
        {calls_panel(&calls, &asked)}
    };
    Ok(Sheet {
        title: page.name.clone(),
        crumbs: vec![("Tenants".to_owned(), routes::ADMIN_TENANTS.to_owned())],
        head: Some(as_of(page.as_of_ms, &page.zone)),
        body: body.into_any(),
    })
}

fn said_done(asked: &Asked) -> Option<AnyView> {
    if asked.query.get(query::DONE)? != done::KEY_REVOKED {
        return None;
    }
    let name = asked.query.get(query::KEY).unwrap_or_else(|| "The key".to_owned());
    Some(
        view! {
            <div class="notice ok" role="status" data-testid="done">
                {icon(Icon::Check)}
                <p>
                    <strong>{name}</strong>
                    " is revoked. Calls with it are refused from now on."
                </p>
            </div>
        }
        .into_any(),
    )
}

/// Why calls of this tenant are refused, when they are.
fn standing(status: TenantStatus) -> Option<AnyView> {
    let said = match status {
        TenantStatus::Active | TenantStatus::Over80 => return None,
        TenantStatus::Refused => {
            "This tenant is at its cap. Calls beyond the overage are refused with 402 until the month resets."
        }
        TenantStatus::Suspended => "This tenant is suspended. Every call is refused with 403.",
        TenantStatus::Archived => "This tenant is archived and kept for the books only.",
    };
    Some(
        view! {
            <div class="notice danger" role="status" data-testid="standing">
                {icon(Icon::Stop)}
                <p>{said}</p>
            </div>
        }
        .into_any(),
    )
}

fn facts(page: &views::TenantPage) -> AnyView {
    view! {
        <dl class="facts">
            <div>
                <dt>"Status"</dt>
                <dd>{status::tenant(page.status)}</dd>
            </div>
            <div>
                <dt>"Plan"</dt>
                <dd>{page.plan.clone()}</dd>
            </div>
            <div>
                <dt>"Slug"</dt>
                <dd>
                    <code class="id">{page.slug.clone()}</code>
                </dd>
            </div>
            <div>
                <dt>"Last call"</dt>
                <dd>{instant_ago(page.last_request_ms, &page.zone, page.as_of_ms, "never")}</dd>
            </div>
            <div>
                <dt>"Created"</dt>
                <dd>{instant(page.created_ms, &page.zone, page.as_of_ms)}</dd>
            </div>
        </dl>
    }
    .into_any()
}

fn budget_panel(page: &views::TenantPage) -> AnyView {
    let month = page.budget.month;
    let here = routes::tenant(&page.slug);
    let before = routes::with_query(&here, &[(query::MONTH, &month.previous().to_string())]);
    let tools = view! {
        <a class="button small" href=before data-testid="month-before">
            {words::month_name(month.previous())}
        </a>
        <a class="button small" href=here data-testid="this-month">
            "This month"
        </a>
    };
    Panel {
        id: "budget",
        title: format!("Budget, {}", words::month_name(month)),
        covers: Some(page.zone.clone().into_any()),
        tools: Some(tools.into_any()),
        body: budget::full(&page.budget, &page.zone, page.as_of_ms),
    }
    .view()
}

fn keys_panel(
    keys: &Result<KeysPanel, ConsoleError>,
    page: &views::TenantPage,
    asked: &Asked,
) -> AnyView {
    let revoke_in = asked.viewer.may(Right::RevokeKeys).then_some(page.slug.as_str());
    let table = match keys {
        Ok(panel) if panel.rows.is_empty() => {
            empty("No keys yet. A key is what this tenant's programs call the gateway with.", None)
        }
        Ok(panel) => keys::table(panel, revoke_in),
        Err(error) => error_box(error, asked),
    };
    let create = if asked.viewer.may(Right::CreateKeys) {
        create_form(page, asked)
    } else {
        let right = Right::CreateKeys;
        let said =
            format!("You may not {}. This can be done by {}.", right.words(), right.holders());
        view! { <p class="muted panel-note" data-testid="may-not-create">{said}</p> }.into_any()
    };
    let body = view! {
        {table}
        {create}
    };
    Panel {
        id: "keys",
        title: "API keys".to_owned(),
        covers: None,
        tools: None,
        body: body.into_any(),
    }
    .view()
}

fn create_form(page: &views::TenantPage, asked: &Asked) -> AnyView {
    view! {
        {refusal(&asked.query)}
        <form
            method="post"
            action=routes::tenant_keys(&page.slug)
            class="inline-form"
            data-testid="create-key-form"
        >
            {csrf_field()}
            <label for="key-name">"New key"</label>
            <input
                id="key-name"
                name=field::NAME
                type="text"
                required
                maxlength=NAME_MAX_CHARS.to_string()
                placeholder="What will use it, such as ci-runner"
                autocomplete="off"
                value=asked.query.text(field::NAME)
                data-testid="key-name"
            />
            <button class="button primary" data-testid="create-key">"Create key"</button>
            <p class="hint">"Its text is shown once. Weir stores only a hash."</p>
        </form>
    }
    .into_any()
}

fn days_panel(days: &Result<DaysPanel, ConsoleError>, asked: &Asked) -> AnyView {
    let (title, body) = match days {
        Ok(panel) => (
            format!("Spend by day, {}", words::month_name(panel.month)),
            days::figure("tenant-days", panel),
        ),
        Err(error) => ("Spend by day".to_owned(), error_box(error, asked)),
    };
    Panel { id: "days", title, covers: None, tools: None, body }.view()
}

fn calls_panel(calls: &Result<CallsPanel, ConsoleError>, asked: &Asked) -> AnyView {
    let body = match calls {
        Ok(panel) if panel.rows.is_empty() => {
            empty("No calls yet. The first one shows here with its tokens and its charge.", None)
        }
        Ok(panel) => calls::table(panel),
        Err(error) => error_box(error, asked),
    };
    Panel { id: "calls", title: "Newest calls".to_owned(), covers: None, tools: None, body }.view()
}
