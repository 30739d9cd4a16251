//! Revoking a key is final: the page says what it touches, and the name must be typed.

use leptos::prelude::*;

use crate::components::amount::{count, instant, instant_ago, money_total};
use crate::components::form::{csrf_field, refusal};
use crate::components::frame::Place;
use crate::components::status;
use crate::console::ConsoleError;
use crate::pages::request::{Asked, parameter};
use crate::pages::sheet::{Sheet, sheet_page};
use crate::rights::Right;
use crate::routes::{self, field};
use crate::views::{KeyPage, KeyStatus};

/// The page.
pub(crate) fn key_revoke_page() -> AnyView {
    let (slug, id) = (parameter("slug"), parameter("id"));
    sheet_page(Place::Tenants, Right::RevokeKeys, move |asked| confirm(asked, slug, id))
}

async fn confirm(asked: Asked, slug: String, id: String) -> Result<Sheet, ConsoleError> {
    let id: i64 = id.parse().map_err(|_| ConsoleError::NotFound)?;
    let page = asked.console.key(&asked.viewer, &slug, id).await?;
    let body = if page.key.status == KeyStatus::Revoked {
        already(&page)
    } else {
        question(&page, &asked)
    };
    Ok(Sheet {
        title: format!("Revoke key “{}”", page.key.name),
        crumbs: vec![
            ("Tenants".to_owned(), routes::ADMIN_TENANTS.to_owned()),
            (page.tenant_name.clone(), routes::tenant(&slug)),
        ],
        head: None,
        body,
    })
}

fn facts(page: &KeyPage) -> AnyView {
    let key = &page.key;
    let (zone, now_ms) = (page.zone.as_str(), page.as_of_ms);
    view! {
        <dl class="facts">
            <div>
                <dt>"Key"</dt>
                <dd>
                    <code class="id">{key.masked.clone()}</code>
                </dd>
            </div>
            <div>
                <dt>"Status"</dt>
                <dd>{status::key(key.status)}</dd>
            </div>
            <div>
                <dt>"Created"</dt>
                <dd>{instant(key.created_ms, zone, now_ms)}</dd>
            </div>
            <div>
                <dt>"Last used"</dt>
                <dd data-testid="last-used">
                    {instant_ago(key.last_used_ms, zone, now_ms, "never")}
                </dd>
            </div>
            <div>
                <dt>"Requests in the last 24 h"</dt>
                <dd data-testid="requests-24h">{count(page.requests_24h)}</dd>
            </div>
            <div>
                <dt>"Spend this month"</dt>
                <dd>{money_total(key.spend_month_nanos)}</dd>
            </div>
        </dl>
    }
    .into_any()
}

fn question(page: &KeyPage, asked: &Asked) -> AnyView {
    let name = page.key.name.clone();
    view! {
        {facts(page)}
        <section class="panel sheet" aria-label="Confirm">
            <ul class="consequences">
                <li>"Calls with this key are refused within a second, with 401 " <code>"key_revoked"</code> "."</li>
                <li>"Calls that are running finish and are charged."</li>
                <li>"This cannot be undone. What was spent with the key stays in the books."</li>
            </ul>
            {refusal(&asked.query)}
            <form
                method="post"
                action=routes::key_revoke(&page.tenant_slug, page.key.id)
                class="stack"
                data-testid="revoke-form"
            >
                {csrf_field()}
                <div class="field">
                    <label for="confirm">
                        "Type the key’s name, " <code>{name}</code> ", to confirm"
                    </label>
                    <input
                        id="confirm"
                        name=field::CONFIRM
                        type="text"
                        required
                        autocomplete="off"
                        spellcheck="false"
                        autocapitalize="none"
                        data-testid="confirm"
                    />
                </div>
                <p class="actions">
                    <button class="button danger solid" data-testid="revoke">"Revoke key"</button>
                    <a
                        class="button"
                        href=routes::tenant(&page.tenant_slug)
                        data-testid="cancel"
                    >
                        "Keep it"
                    </a>
                </p>
            </form>
        </section>
    }
    .into_any()
}

fn already(page: &KeyPage) -> AnyView {
    view! {
        {facts(page)}
        <div class="panel sheet">
            <p>"This key is already revoked."</p>
            <p class="actions">
                <a class="button" href=routes::tenant(&page.tenant_slug) data-testid="cancel">
                    "Back to the tenant"
                </a>
            </p>
        </div>
    }
    .into_any()
}
