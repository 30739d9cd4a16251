//! A person in a browser: from the set-up link to a revoked key, with scripts and without.

mod driver;
mod look;

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use self::driver::{Browser, PAGE};
use self::look::{look, quiet};
use crate::wait::until;
use crate::world::{World, month_cost};

const EMAIL: &str = "ana@acme.example";
const PASSWORD: &str = "slow river, quiet weir";
/// What the tenant may spend in a month: 5 USD.
const CAP_NANOS: i64 = 5_000_000_000;
/// The promise on the page: calls with a revoked key are refused within a second.
const REVOKED: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_sets_weir_up_makes_a_key_sees_its_spend_and_revokes_it() {
    let world = World::start().await;
    let origin = world.weir.url("");
    let browser = Browser::start().await;

    set_up(&world, &browser, &origin).await;
    sign_out_and_in(&browser, &origin).await;
    let plan = world.admin.plan("acme", &[month_cost(CAP_NANOS)], 0).await;
    world.admin.tenant("acme", plan).await;
    let secret = create_key(&browser, &origin).await;
    let charge = spend(&world, &secret).await;
    see_the_spend(&world, &browser, &origin, charge).await;
    point_at_the_chart(&browser).await;
    quiet(&browser, &origin, "overview").await;
    same_without_scripts(&world, charge).await;
    revoke(&world, &browser, &origin, &secret).await;
    browser.close().await;
}

/// The one-time link of the log makes the owner, once.
async fn set_up(world: &World, browser: &Browser, origin: &str) {
    let log = world.weir.log();
    let at = log.find("/setup?token=").expect("the log has a set-up link");
    let end = log[at..].find(|c: char| c.is_whitespace() || c == '"').unwrap_or(log.len() - at);
    let link = world.weir.url(&log[at..at + end]);
    browser.open(&link).await;
    browser.find("setup-form").await;
    look(browser, origin, "setup").await;
    browser.fill("email", EMAIL).await;
    browser.fill("password", PASSWORD).await;
    browser.fill("instance_name", "Acme gateway").await;
    browser.click("create-owner").await;
    arrives(browser, &["/admin", "/login"]).await;

    let again = crate::http::client().get(&link).send().await.unwrap().status();
    assert_eq!(again, 404, "the link works once");
}

async fn sign_out_and_in(browser: &Browser, origin: &str) {
    if browser.path().await.starts_with("/admin") {
        browser.find("account-menu").await.click().await.unwrap();
        browser.click("sign-out").await;
        arrives(browser, &["/login"]).await;
    }
    browser.fill("email", EMAIL).await;
    browser.fill("password", "another password").await;
    browser.click("sign-in").await;
    let said = browser.text("form-error").await;
    assert!(!said.is_empty() && browser.path().await.starts_with("/login"), "{said}");
    look(browser, origin, "login").await;
    sign_in(browser).await;
    look(browser, origin, "overview-empty").await;
}

async fn sign_in(browser: &Browser) {
    browser.fill("email", EMAIL).await;
    browser.fill("password", PASSWORD).await;
    browser.click("sign-in").await;
    arrives(browser, &["/admin"]).await;
}

/// The secret stands on the page once; the islands that copy it are awake.
async fn create_key(browser: &Browser, origin: &str) -> String {
    browser.open(&format!("{origin}/admin/tenants/acme")).await;
    look(browser, origin, "tenant-empty").await;
    browser.fill("key-name", "ci-runner").await;
    browser.click("create-key").await;
    let secret = browser.text("key-secret").await;
    assert!(secret.starts_with("weir_sk_") && secret.len() == 44, "not a key's text");
    let copy = browser.find("copy-key").await;
    until("the copy button is awake", PAGE, async || {
        if copy.is_displayed().await.unwrap() { Ok(()) } else { Err("it is hidden".to_owned()) }
    })
    .await;
    copy.click().await.unwrap();
    until("the copy button says what it did", PAGE, async || {
        let said = copy.text().await.unwrap();
        if said == "Copy key" { Err(said) } else { Ok(()) }
    })
    .await;
    look(browser, origin, "key-created").await;

    let path = browser.path().await;
    browser.open(&format!("{origin}{path}")).await;
    browser.find("key-masked").await;
    assert!(!browser.has("key-secret").await, "the secret is shown once");
    look(browser, origin, "key-masked").await;
    secret
}

/// Calls with the new key, in each dialect; gives what that was charged.
async fn spend(world: &World, secret: &str) -> i64 {
    for (model, name) in [("openai-flash", "one"), ("openai-think", "two")] {
        let script = format!("id={name};tokens_in=40000;cached=10000;tokens_out=60;reasoning=25");
        let (status, body) = world.chat(secret, model, name, &script).await;
        assert_eq!(status, 200, "{body}");
    }
    until("both events are written", PAGE, async || {
        let events = crate::storm::books::events(&world.db.pool).await;
        let charge = events.iter().map(|event| event.charge_nanos).sum();
        if events.len() == 2 { Ok(charge) } else { Err(format!("{} events", events.len())) }
    })
    .await
}

async fn see_the_spend(world: &World, browser: &Browser, origin: &str, charge: i64) {
    until("the overview shows the spend", PAGE, async || {
        browser.open(&format!("{origin}/admin")).await;
        let shown = browser.number("stat-spend").await;
        if shown == charge { Ok(()) } else { Err(format!("{shown} instead of {charge}")) }
    })
    .await;
    assert_eq!(browser.number("spend-total").await, charge, "the sum of all tenants");
    assert_eq!(browser.text("spend-tenant").await, "acme");
    assert_eq!(browser.number("spend-held").await, 0, "nothing is held");
    assert_eq!(browser.number("stat-requests").await, 2);
    look(browser, origin, "overview").await;
    for (path, name) in [("/admin/tenants", "tenants"), ("/admin/tenants/acme", "tenant")] {
        browser.open(&format!("{origin}{path}")).await;
        look(browser, origin, name).await;
    }
    policy(world).await;
    browser.open(&format!("{origin}/admin")).await;
}

/// The policy of a page allows nothing inline and nobody else.
async fn policy(world: &World) {
    let answer = crate::http::client().get(world.weir.url("/login")).send().await.unwrap();
    let header = |name: &str| {
        let value = answer.headers().get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_else(|| panic!("no {name}")).to_owned()
    };
    let policy = header("content-security-policy");
    assert!(policy.contains("default-src 'none'"), "{policy}");
    assert!(!policy.contains("'unsafe-inline'") && !policy.contains("'unsafe-eval'"), "{policy}");
    assert_eq!(header("x-content-type-options"), "nosniff");
    assert_eq!(header("cache-control"), "no-store");
    let page = answer.text().await.unwrap();
    assert!(!page.contains(" style=\""), "a style in an attribute");
}

/// The tooltip island follows the pointer and the focus, and Escape closes it.
async fn point_at_the_chart(browser: &Browser) {
    let shown = async || browser.run(TIP).await;
    let today = "[...document.querySelectorAll('.hit')].filter(e => e.checkVisibility()).pop()";
    let at = browser
        .run(&format!(
            "const e = {today}; e.scrollIntoView({{block: 'center'}});
             const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]"
        ))
        .await;
    assert_eq!(shown().await, Value::Null, "no tooltip before anything is pointed at");
    until("pointing at a bar shows the tooltip", PAGE, async || {
        // Away and back: the island may have woken only now.
        for (x, y) in [(json!(1), json!(1)), (at[0].clone(), at[1].clone())] {
            let moved = json!({"type": "mouseMoved", "x": x, "y": y});
            browser.devtools("Input.dispatchMouseEvent", moved).await;
        }
        match shown().await {
            Value::String(text) if text.contains("openai-flash") => Ok(()),
            other => Err(format!("the tooltip says {other}")),
        }
    })
    .await;
    browser
        .run(&format!(
            "{today}.dispatchEvent(new KeyboardEvent('keydown', {{key: 'Escape', bubbles: true}}))"
        ))
        .await;
    assert_eq!(shown().await, Value::Null, "Escape closes it");
    browser.run(&format!("{today}.focus()")).await;
    let focused = shown().await;
    assert!(focused.is_string(), "focus shows it: {focused}");
}

/// What the tooltip on the page says; nothing when none is shown.
const TIP: &str = "const tip = [...document.querySelectorAll('.tip')].find(e => !e.hidden); \
                   return tip ? tip.textContent : null";

/// The same page without scripts: sign in by form, read the same numbers.
async fn same_without_scripts(world: &World, charge: i64) {
    let browser = Browser::start().await;
    browser.devtools("Emulation.setScriptExecutionDisabled", json!({"value": true})).await;
    browser.resize(1_280, 900).await;
    let origin = world.weir.url("");
    browser.open(&format!("{origin}/admin")).await;
    arrives(&browser, &["/login"]).await;
    sign_in(&browser).await;
    assert_eq!(browser.number("stat-spend").await, charge);
    assert_eq!(browser.number("spend-total").await, charge);
    browser.open(&format!("{origin}/admin/tenants/acme")).await;
    assert_eq!(browser.number("key-row").await, charge, "the key's own spend");
    browser.click("revoke-key").await;
    browser.find("revoke-form").await;
    browser.click("cancel").await;
    arrives(&browser, &["/admin/tenants/acme"]).await;
    quiet(&browser, &origin, "without scripts").await;
    browser.close().await;
}

/// A revoked key opens nothing, within a second.
async fn revoke(world: &World, browser: &Browser, origin: &str, secret: &str) {
    browser.open(&format!("{origin}/admin/tenants/acme")).await;
    browser.click("revoke-key").await;
    browser.find("revoke-form").await;
    look(browser, origin, "key-revoke").await;
    browser.fill("confirm", "ci-runner").await;
    browser.click("revoke").await;
    browser.find("done").await;
    let revoked = Instant::now();
    until("a call with the revoked key is refused", REVOKED, async || {
        let (status, body) = world.chat(secret, "openai-flash", "late", "id=late").await;
        let code = body["error"]["code"].as_str().unwrap_or_default();
        if (status, code) == (401, "key_revoked") {
            Ok(())
        } else {
            Err(format!("{status} {body}"))
        }
    })
    .await;
    assert!(revoked.elapsed() < REVOKED, "it took {:?}", revoked.elapsed());
    look(browser, origin, "tenant-revoked").await;
}

/// Waits until the browser is on one of these pages.
async fn arrives(browser: &Browser, paths: &[&str]) {
    until(&format!("the browser arrives at {paths:?}"), PAGE, async || {
        let path = browser.path().await;
        let there =
            paths.iter().any(|wanted| path == *wanted || path.starts_with(&format!("{wanted}?")));
        if there { Ok(()) } else { Err(format!("it is at {path}")) }
    })
    .await;
}
