//! The admin API: who may ask, what it answers, and that its document is true.

use reqwest::Method;
use serde_json::{Value, json};

use crate::process::{ADMIN_TOKEN, TestWeir};

#[tokio::test]
async fn only_the_token_opens_the_admin_api() {
    let weir = TestWeir::start().await;
    let url = weir.url("/admin/api/v1/plans");
    let wrong = format!("{ADMIN_TOKEN}x");
    let shorter = &ADMIN_TOKEN[..ADMIN_TOKEN.len() - 1];
    for header in [
        None,
        Some(format!("Bearer {wrong}")),
        Some(format!("Bearer {shorter}")),
        Some(format!("Basic {ADMIN_TOKEN}")),
        Some(ADMIN_TOKEN.to_owned()),
        Some("Bearer ".to_owned()),
    ] {
        let mut request = weir.client.get(&url);
        if let Some(header) = &header {
            request = request.header("authorization", header);
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 401, "{header:?}");
        let body: Value = serde_json::from_str(&response.text().await.unwrap()).unwrap();
        assert_eq!(body["code"], "invalid_admin_token");
        assert_eq!(body["request_id"].as_str().unwrap().len(), 26);
    }
    let (status, _) = weir.admin(Method::GET, "/plans", None).await;
    assert_eq!(status, 200);
    weir.end().await;
}

#[tokio::test]
async fn without_a_token_the_admin_api_is_shut() {
    let weir = TestWeir::start_with(&[("WEIR_ADMIN_TOKEN", "")]).await;
    let (status, body) = weir.admin(Method::GET, "/plans", None).await;
    assert_eq!(status, 401);
    assert!(body["detail"].as_str().unwrap().contains("WEIR_ADMIN_TOKEN"));
    weir.end().await;
}

#[tokio::test]
async fn a_catalogue_is_made_by_script_and_its_prices_lose_no_digit() {
    let weir = TestWeir::start().await;
    let provider = json!({ "name": "sim", "dialect": "openai", "base_url": "http://127.0.0.1:9",
                           "credential": "sk-upstream-1234" });
    let (status, provider) = weir.admin(Method::POST, "/providers", Some(provider)).await;
    assert_eq!(status, 201, "{provider}");
    assert_eq!(provider["credential_hint"].as_str().unwrap().chars().count(), 4);
    assert!(!provider.to_string().contains("sk-upstream"), "the credential came back");
    let sealed: Vec<u8> = sqlx::query_scalar("select credential_sealed from providers")
        .fetch_one(weir.pool())
        .await
        .unwrap();
    assert!(!sealed.windows(11).any(|part| part == b"sk-upstream"), "it lies open");

    let routes = json!([{ "provider_id": provider["id"], "upstream_model": "gpt-5" }]);
    let model = json!({ "name": "gpt-5", "class": "flash", "routes": routes });
    let (status, model) = weir.admin(Method::POST, "/models", Some(model)).await;
    assert_eq!(status, 201, "{model}");
    let path = format!("/models/{}/prices", model["id"]);
    let price = json!({ "prices": { "input": "0.10", "output": "0.000001", "cached_input": "0" },
                        "long_context": { "above_input_tokens": 200_000,
                                          "prices": { "input": "1.25", "output": "10" } } });
    let (status, price) = weir.admin(Method::POST, &path, Some(price)).await;
    assert_eq!(status, 201, "{price}");
    assert_eq!(
        price["prices"],
        json!({ "input": "0.1", "output": "0.000001", "cached_input": "0" })
    );
    let lossy = json!({ "prices": { "input": "0.0000001", "output": "1" } });
    let (status, refused) = weir.admin(Method::POST, &path, Some(lossy)).await;
    assert_eq!((status, refused["param"].as_str()), (400, Some("input")));

    let (_, models) = weir.admin(Method::GET, "/models", None).await;
    assert_eq!(models["data"][0]["priced"], true, "{models}");
    assert_eq!(models["data"][0]["routes"][0]["upstream_model"], "gpt-5");
    let snapshot = weir.weir().directory.snapshot();
    assert!(snapshot.model("gpt-5").is_some(), "the change does not show in this process");
    let (status, _) = weir.admin(Method::GET, "/models/999/prices", None).await;
    assert_eq!(status, 404);
    let audited: Vec<String> = sqlx::query_scalar("select action from audit_log order by id")
        .fetch_all(weir.pool())
        .await
        .unwrap();
    assert_eq!(
        audited,
        ["provider.create", "model.create", "price.set"],
        "refused ones left a line"
    );
    weir.end().await;
}

#[tokio::test]
async fn a_tenant_is_made_changed_and_listed_page_by_page() {
    let weir = TestWeir::start().await;
    for slug in ["a", "b", "c"] {
        weir.tenant(slug, "starter").await;
    }
    let (_, first) = weir.admin(Method::GET, "/tenants?limit=2", None).await;
    let slugs = |page: &Value| -> Vec<String> {
        let rows = page["data"].as_array().unwrap();
        rows.iter().map(|row| row["slug"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(slugs(&first), ["a", "b"]);
    let cursor = first["next_cursor"].as_str().unwrap();
    let path = format!("/tenants?limit=2&cursor={cursor}");
    let (_, second) = weir.admin(Method::GET, &path, None).await;
    assert_eq!(
        (slugs(&second), second["next_cursor"].clone()),
        (vec!["c".to_owned()], Value::Null)
    );

    let taken = json!({ "slug": "a", "name": "A", "plan": "free" });
    let (status, body) = weir.admin(Method::POST, "/tenants", Some(taken)).await;
    assert_eq!((status, body["code"].as_str()), (409, Some("conflict")));
    for wrong in [
        json!({ "slug": "d", "name": "D" }),
        json!({ "slug": "D!", "name": "D", "plan": "free" }),
        json!({ "slug": "d", "name": "D", "plan": "free", "time_zone": "Mars/Olympus" }),
        json!({ "slug": "d", "name": "D", "plan": "free", "balance_nanos": 1 }),
    ] {
        let (status, body) = weir.admin(Method::POST, "/tenants", Some(wrong)).await;
        assert_eq!(status, 400, "{body}");
    }
    let id = first["data"][0]["id"].as_i64().unwrap();
    let change = json!({ "status": "suspended" });
    let (status, changed) =
        weir.admin(Method::PATCH, &format!("/tenants/{id}"), Some(change)).await;
    assert_eq!((status, changed["status"].as_str()), (200, Some("suspended")));
    let (key_tenant, text) = (id, weir.key(id, "ci").await.1);
    let snapshot = weir.weir().directory.snapshot();
    let denied = tenants::context::identify(&snapshot, &text, weir.weir().clock.now());
    assert_eq!(denied.unwrap_err().code(), "tenant_suspended", "tenant {key_tenant}");
    weir.end().await;
}

#[tokio::test]
async fn the_limits_of_a_tenant_are_those_of_its_plan_with_nothing_used() {
    let weir = TestWeir::start().await;
    let tenant = weir.tenant("acme", "pro").await;
    let (status, limits) =
        weir.admin(Method::GET, &format!("/tenants/{tenant}/limits"), None).await;
    assert_eq!(status, 200, "{limits}");
    let month = limits["data"].as_array().unwrap().iter().find(|row| row["meter"] == "month_cost");
    let month = month.unwrap();
    assert_eq!(month["limit"], 200_000_000_000_i64);
    assert_eq!(month["hard_limit"], 210_000_000_000_i64);
    assert_eq!((month["used"].as_i64(), month["held"].as_i64()), (Some(0), Some(0)));
    assert_eq!(month["left"], 210_000_000_000_i64);
    assert_eq!(month["unit"], "nano_usd");
    let (status, _) = weir.admin(Method::GET, "/tenants/999/limits", None).await;
    assert_eq!(status, 404);
    weir.end().await;
}

#[tokio::test]
async fn what_is_asked_wrongly_is_told_by_name() {
    let weir = TestWeir::start().await;
    for (path, param) in [
        ("/events", "tenant_id"),
        ("/events?tenant_id=1&outcome=fine", "outcome"),
        ("/events?tenant_id=1&cursor=x", "cursor"),
    ] {
        let (status, body) = weir.admin(Method::GET, path, None).await;
        assert_eq!((status, body["param"].as_str()), (400, Some(param)), "{path}: {body}");
    }
    let (status, _) = weir.admin(Method::GET, "/tenants?surprise=1", None).await;
    assert_eq!(status, 400);
    for path in ["/events/nonsense", "/refusals/nonsense", "/tenants/abc"] {
        assert_eq!(weir.admin(Method::GET, path, None).await.0, 404, "{path}");
    }
    weir.end().await;
}

#[tokio::test]
async fn every_documented_path_answers_and_every_path_is_documented() {
    let weir = TestWeir::start().await;
    let tenant = weir.tenant("acme", "free").await;
    let document: Value =
        serde_json::from_str(&weir.get("/openapi.json").await.text().await.unwrap()).unwrap();
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"), "{}", document["openapi"]);
    let mut documented = Vec::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for method in operations.as_object().unwrap().keys() {
            let method = method.to_uppercase();
            let filled = path
                .replace("/tenants/{id}", &format!("/tenants/{tenant}"))
                .replace("{request_id}", "01KBQW0000000000000000000A")
                .replace("{key_id}", "1")
                .replace("{id}", "1");
            let below = filled.strip_prefix("/admin/api/v1").unwrap();
            let parsed: Method = method.parse().unwrap();
            let (status, body) = weir.admin(parsed, below, None).await;
            assert_ne!(status, 405, "{method} {path}");
            let detail = body["detail"].as_str().unwrap_or_default();
            assert!(!detail.contains("There is no route"), "{method} {path}");
            assert!(status < 500, "{method} {path}: {body}");
            documented.push((method, path.clone()));
        }
    }
    let entries = weir::http::table(weir.weir()).entries().to_vec();
    let mut served: Vec<(String, String)> = entries
        .iter()
        .filter(|entry| entry.door == weir::http::door::Door::AdminToken)
        .map(|entry| (entry.method.to_string(), entry.path.clone()))
        .collect();
    documented.sort();
    served.sort();
    assert_eq!(documented, served);
    weir.end().await;
}

#[tokio::test]
async fn an_override_shows_on_the_limit_with_its_end_and_can_be_ended() {
    let weir = TestWeir::start().await;
    let tenant = weir.tenant("acme", "pro").await;
    let path = format!("/tenants/{tenant}/limit_overrides");
    let rule = json!({ "rule": "month", "metric": "cost", "limit": 900_000_000_000_i64 });
    let until = jiff::Timestamp::now().checked_add(jiff::Span::new().hours(1)).unwrap().to_string();
    let wish = json!({ "rule": rule, "until": until, "reason": "launch day" });
    let (status, set) = weir.admin(Method::POST, &path, Some(wish.clone())).await;
    assert_eq!((status, set["in_force"].as_bool()), (201, Some(true)), "{set}");

    let month = |limits: &Value| {
        let rows = limits["data"].as_array().unwrap();
        rows.iter().find(|row| row["meter"] == "month_cost").unwrap().clone()
    };
    let limits = format!("/tenants/{tenant}/limits");
    let (_, shown) = weir.admin(Method::GET, &limits, None).await;
    let shown = month(&shown);
    assert_eq!(shown["limit"], 900_000_000_000_i64, "{shown}");
    assert_eq!(shown["overridden"]["reason"], "launch day");
    for (field, wrong) in [
        ("until", json!("2020-01-01T00:00:00Z")),
        ("until", json!("tomorrow")),
        ("reason", json!(" ")),
        ("rule", json!({ "rule": "barter" })),
    ] {
        let mut spoiled = wish.clone();
        spoiled[field] = wrong;
        let (status, body) = weir.admin(Method::POST, &path, Some(spoiled)).await;
        assert_eq!((status, body["param"].as_str()), (400, Some(field)), "{body}");
    }
    let end = format!("{path}/month_cost/end");
    let why = json!({ "reason": "over" });
    let (status, _) = weir.admin(Method::POST, &end, Some(why.clone())).await;
    assert_eq!(status, 200);
    let (status, _) = weir.admin(Method::POST, &end, Some(why)).await;
    assert_eq!(status, 404, "nothing is left to end");
    let (_, shown) = weir.admin(Method::GET, &limits, None).await;
    assert_eq!(month(&shown)["limit"], 200_000_000_000_i64);
    assert!(month(&shown).get("overridden").is_none());
    let (_, history) = weir.admin(Method::GET, &path, None).await;
    assert_eq!(history["data"].as_array().unwrap().len(), 2);
    let audited: i64 =
        sqlx::query_scalar("select count(*) from audit_log where action like 'limit_override.%'")
            .fetch_one(weir.pool())
            .await
            .unwrap();
    assert_eq!(audited, 2);
    weir.end().await;
}

#[tokio::test]
async fn a_plans_terms_and_a_providers_quota_are_kept_or_refused_by_name() {
    let weir = TestWeir::start().await;
    let plan = json!({ "name": "patient", "rules": [], "models": "all", "deny_mode": "wait",
                       "default_max_output_tokens": 10, "max_output_tokens": 10,
                       "max_request_charge_nanos": 5, "max_wait_ms": 1_500, "weight": 3 });
    let (status, made) = weir.admin(Method::POST, "/plans", Some(plan.clone())).await;
    assert_eq!(status, 201, "{made}");
    assert_eq!((made["max_wait_ms"].as_i64(), made["weight"].as_i64()), (Some(1_500), Some(3)));
    assert_eq!(made["max_request_charge_nanos"], 5);
    for (field, wrong) in
        [("max_wait_ms", json!(30_001)), ("weight", json!(0)), ("max_request_tokens", json!(0))]
    {
        let mut spoiled = plan.clone();
        spoiled[field] = wrong;
        let (status, body) = weir.admin(Method::POST, "/plans", Some(spoiled)).await;
        assert_eq!((status, body["param"].as_str()), (400, Some(field)), "{body}");
    }
    let window = json!({ "rule": "window", "metric": "cost", "window": "day",
                         "limit": 9_000_000_000_000_001_i64 });
    let mut spoiled = plan;
    spoiled["rules"] = json!([window]);
    let (status, body) = weir.admin(Method::POST, "/plans", Some(spoiled)).await;
    assert!(status == 400 && body.to_string().contains("9,000,000 USD"), "{body}");

    let provider = json!({ "name": "sim", "dialect": "openai", "base_url": "http://127.0.0.1:9" });
    let (_, provider) = weir.admin(Method::POST, "/providers", Some(provider)).await;
    let path = format!("/providers/{}/quota", provider["id"]);
    let quota = json!({ "rules": [{ "rule": "lease", "limit": 4 }] });
    let (status, set) = weir.admin(Method::PUT, &path, Some(quota)).await;
    assert_eq!((status, set["quota"][0]["limit"].as_i64()), (200, Some(4)), "{set}");
    let month = json!({ "rules": [{ "rule": "month", "metric": "cost", "limit": 4 }] });
    let (status, body) = weir.admin(Method::PUT, &path, Some(month)).await;
    assert_eq!((status, body["param"].as_str()), (400, Some("limits")), "{body}");
    weir.end().await;
}
