//! A tenant's own overview: am I fine this month.

use leptos::prelude::*;

use crate::components::amount::as_of;
use crate::components::frame::Place;
use crate::components::icon::{Icon, icon};
use crate::components::panel::{Panel, bad_parameters, empty, error_box};
use crate::components::{budget, calls, days, keys};
use crate::console::ConsoleError;
use crate::pages::request::{Asked, parameter};
use crate::pages::sheet::{Sheet, sheet_page};
use crate::rights::Right;
use crate::routes::{self, query};
use crate::views::{Month, TenantPage, TenantStatus};
use crate::words;

/// The page.
pub(crate) fn portal_page() -> AnyView {
    let slug = parameter("slug");
    sheet_page(Place::Portal, Right::SeePortal, move |asked| overview(asked, slug))
}

async fn overview(asked: Asked, slug: String) -> Result<Sheet, ConsoleError> {
    let mut bad = Vec::new();
    let month = asked.query.parsed(query::MONTH, Month::parse, &mut bad);
    let (console, viewer) = (&asked.console, &asked.viewer);
    let page = console.tenant(viewer, &slug, month).await?;
    let days = console.spend_by_day(viewer, Some(&slug), month).await;
    let (days_title, days_body) = match &days {
        Ok(panel) => (
            format!("Spend by day, {}", words::month_name(panel.month)),
            days::figure("portal-days", panel),
        ),
        Err(error) => ("Spend by day".to_owned(), error_box(error, &asked)),
    };
    let keys = if viewer.may(Right::SeePortalKeys) {
        Some(keys_and_calls(&asked, &slug).await)
    } else {
        None
    };
    let body = view! {
        {bad_parameters(&bad)}
        {standing(&page)}
        {budget_panel(&page)}
        {Panel {
            id: "days",
            title: days_title,
            covers: None,
            tools: None,
            body: days_body,
        }
            .view()}
        {keys}
    };
    Ok(Sheet {
        title: "Overview".to_owned(),
        crumbs: Vec::new(),
        head: Some(as_of(page.as_of_ms, &page.zone)),
        body: body.into_any(),
    })
}

/// Whose limit refuses calls, and when it resets.
fn standing(page: &TenantPage) -> Option<AnyView> {
    let said = match page.status {
        TenantStatus::Active | TenantStatus::Archived => return None,
        TenantStatus::Over80 => {
            "More than 80 % of this month’s budget is used. Ask your provider to raise it before calls are refused."
                .to_owned()
        }
        TenantStatus::Refused => format!(
            "This month’s budget is used up: calls beyond it are refused. It resets {}. Your provider can raise it.",
            words::until(page.budget.resets_ms, page.as_of_ms)
        ),
        TenantStatus::Suspended => {
            "Calls are suspended by your provider. Ask them to resume.".to_owned()
        }
    };
    let tone = if page.status == TenantStatus::Over80 { "warn" } else { "danger" };
    Some(
        view! {
            <div class=format!("notice {tone}") role="status" data-testid="standing">
                {icon(Icon::Warning)}
                <p>{said}</p>
            </div>
        }
        .into_any(),
    )
}

fn budget_panel(page: &TenantPage) -> AnyView {
    let month = page.budget.month;
    let here = routes::portal(&page.slug);
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
        covers: Some(format!("Plan {}, {}", page.plan, page.zone).into_any()),
        tools: Some(tools.into_any()),
        body: budget::full(&page.budget, &page.zone, page.as_of_ms),
    }
    .view()
}

async fn keys_and_calls(asked: &Asked, slug: &str) -> AnyView {
    let (console, viewer) = (&asked.console, &asked.viewer);
    let (keys, calls) =
        futures_util::join!(console.keys(viewer, slug), console.recent_calls(viewer, slug));
    let keys = match &keys {
        Ok(panel) if panel.rows.is_empty() => {
            empty("No keys yet. Your provider makes them for you.", None)
        }
        Ok(panel) => keys::table(panel, None),
        Err(error) => error_box(error, asked),
    };
    let calls = match &calls {
        Ok(panel) if panel.rows.is_empty() => {
            empty("No calls yet. The first one shows here within seconds.", None)
        }
        Ok(panel) => calls::table(panel),
        Err(error) => error_box(error, asked),
    };
    let panel = |id, title: &str, body| {
        Panel { id, title: title.to_owned(), covers: None, tools: None, body }.view()
    };
    view! {
        {panel("keys", "API keys", keys)}
        {panel("calls", "Newest calls", calls)}
    }
    .into_any()
}
