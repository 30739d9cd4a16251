//! What is in the books is what the pages and the admin API show.

use domain::admission::Scope;
use domain::id::{KeyId, PlanId, PriceId, ProviderId, RequestId, TenantId};
use domain::money::Nanos;
use domain::usage::{Dialect, Outcome, Usage, UsageSource};
use domain::window::{UnixMs, Zone, month_period};
use ledger::{Booking, UsageEvent};
use reqwest::Method;

use crate::browser::Browser;
use crate::process::{ANA, TestWeir, with_owner};

const USD: i64 = 1_000_000_000;

/// A call that was served at `at`.
fn served(id: u128, tenant: i64, key: i64, model: &str, at: UnixMs, charge: i64) -> UsageEvent {
    let period = month_period(at, &Zone::utc(), 1).unwrap();
    UsageEvent {
        request_id: RequestId::from_parts(u64::try_from(at.0).unwrap(), id),
        tenant_id: TenantId(tenant),
        team_id: None,
        key_id: KeyId(key),
        plan_id: PlanId(1),
        provider_id: ProviderId(1),
        dialect: Dialect::Openai,
        route: "openai.chat".into(),
        model: model.into(),
        served_model: None,
        price_id: PriceId(1),
        stream: false,
        admitted_at: at,
        ended_at: at.plus_ms(700),
        first_byte_ms: Some(120),
        duration_ms: 700,
        outcome: Outcome::Ok,
        http_status: Some(200),
        usage_source: UsageSource::Provider,
        anomaly: None,
        usage: Usage { input: 1_000, output: 200, reasoning: 3_000, ..Usage::default() },
        cost: Nanos(charge),
        charge: Nanos(charge),
        hold: Nanos(charge),
        client_request_id: Some("client-7".into()),
        provider_request_id: None,
        attempts: Vec::new(),
        bookings: vec![Booking {
            scope: Scope::Tenant,
            scope_id: tenant,
            meter: "month_cost".into(),
            slice_start: period.start,
            amount: charge,
            alert: None,
        }],
        drift: Vec::new(),
    }
}

async fn with_calls() -> (TestWeir, i64, i64) {
    let weir = with_owner().await;
    // The middle of a month, so that no boundary is near.
    weir.weir().clock.set(UnixMs(1_794_744_000_000));
    let tenant = weir.tenant("acme", "pro").await;
    weir.tenant("globex", "pro").await;
    let (key, _) = weir.key(tenant, "ci").await;
    let now = weir.weir().clock.now();
    for (id, model, charge) in
        [(1, "gpt-5", 150 * USD), (2, "gpt-5", 12 * USD + USD / 2), (3, "claude-5", 0)]
    {
        weir.weir().ledger.append(served(id, tenant, key, model, now, charge)).await.unwrap();
    }
    (weir, tenant, key)
}

#[tokio::test]
async fn a_call_in_the_books_shows_on_the_overview_and_on_its_tenants_page() {
    let (weir, ..) = with_calls().await;
    let mut browser = Browser::signed_in(&weir, ANA).await;
    let overview = browser.get("/admin").await;
    assert_eq!(overview.status, 200);
    for shown in ["acme", "$162.50", "gpt-5", "claude-5"] {
        assert!(overview.text.contains(shown), "the overview lacks {shown}");
    }
    let list = browser.get("/admin/tenants?status=over80").await;
    assert!(list.text.contains("/admin/tenants/acme"), "162.50 of 200 is over 80 %");
    assert!(!list.text.contains("/admin/tenants/globex"), "nothing of 200 is not");
    let page = browser.get("/admin/tenants/acme").await;
    for shown in ["$162.50", "$200", "ci", "weir_sk_", "gpt-5"] {
        assert!(page.text.contains(shown), "the tenant's page lacks {shown}");
    }
    let before = browser.get("/admin/tenants/acme?month=2026-10").await;
    // The keys' own column is about the running month, whichever is looked at.
    let times = |text: &str| text.matches("$162.50").count();
    assert!(times(&before.text) < times(&page.text), "another month shows this month's spend");
    let bad = browser.get("/admin?month=2026-13&range=forever").await;
    assert_eq!(bad.status, 200, "a bad parameter is no fault of the server");
    weir.end().await;
}

#[tokio::test]
async fn events_are_found_by_filter_by_id_and_page_by_page() {
    let (weir, tenant, key) = with_calls().await;
    let list = async |query: &str| {
        let path = format!("/events?tenant_id={tenant}{query}");
        let (status, body) = weir.admin(Method::GET, &path, None).await;
        assert_eq!(status, 200, "{path}: {body}");
        body
    };
    let count = |body: &serde_json::Value| body["data"].as_array().unwrap().len();
    let all = list("").await;
    assert_eq!((count(&all), all["next_cursor"].is_null()), (3, true));
    assert_eq!(count(&list("&model=gpt-5").await), 2);
    assert_eq!(count(&list(&format!("&key_id={key}&outcome=ok")).await), 3);
    assert_eq!(count(&list("&outcome=blocked").await), 0);
    let first = list("&limit=2").await;
    let cursor = first["next_cursor"].as_str().unwrap();
    let rest = list(&format!("&limit=2&cursor={cursor}")).await;
    let ids = |body: &serde_json::Value| -> Vec<String> {
        let rows = body["data"].as_array().unwrap();
        rows.iter().map(|row| row["request_id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!([ids(&first), ids(&rest)].concat(), ids(&all));

    let id = ids(&list("&model=claude-5").await).remove(0);
    let (_, found) = weir.admin(Method::GET, &format!("/events?request_id={id}"), None).await;
    assert_eq!(ids(&found), std::slice::from_ref(&id));
    let elsewhere = format!("/events?request_id={id}&tenant_id={}", tenant + 1);
    assert_eq!(count(&weir.admin(Method::GET, &elsewhere, None).await.1), 0);
    let (status, event) = weir.admin(Method::GET, &format!("/events/{id}"), None).await;
    assert_eq!(status, 200);
    assert_eq!(event["tokens"]["reasoning"], 3_000);
    assert_eq!(event["output_tokens"], 3_200);
    assert_eq!(event["client_request_id"], "client-7");
    weir.end().await;
}

#[tokio::test]
async fn a_call_refused_for_its_key_is_found_by_its_request_id() {
    let weir = TestWeir::start().await;
    let tenant = weir.tenant("acme", "free").await;
    let (key, text) = weir.key(tenant, "ci").await;
    let revoke = format!("/tenants/{tenant}/keys/{key}");
    assert_eq!(weir.admin(Method::DELETE, &revoke, None).await.0, 204);
    let url = weir.url("/v1/chat/completions");
    let refused = weir.client.post(url).bearer_auth(&text).body("{}").send().await.unwrap();
    assert_eq!(refused.status(), 401);
    let id = refused.headers()["x-request-id"].to_str().unwrap().to_owned();
    let body: serde_json::Value = serde_json::from_str(&refused.text().await.unwrap()).unwrap();
    assert_eq!(
        (body["error"]["code"].as_str(), body["error"]["request_id"].as_str()),
        (Some("key_revoked"), Some(id.as_str()))
    );
    let began = std::time::Instant::now();
    let found = loop {
        let (status, found) = weir.admin(Method::GET, &format!("/refusals/{id}"), None).await;
        if status == 200 {
            break found;
        }
        assert!(began.elapsed() < std::time::Duration::from_secs(10), "it is not on record");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    };
    assert_eq!(
        (found["code"].as_str(), found["key_id"].as_i64()),
        (Some("key_revoked"), Some(key))
    );
    weir.end().await;
}
