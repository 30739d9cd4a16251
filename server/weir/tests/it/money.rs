//! Money that is moved through the admin API, and what a prepaid tenant can do with it.

use domain::admission::{Estimate, Meter, Reason, Scope};
use domain::id::{KeyId, PlanId, PriceId, ProviderId, RequestId, TenantId};
use domain::money::Nanos;
use domain::plan::LimitRule;
use domain::usage::{Dialect, Outcome, Usage, UsageSource};
use domain::window::{UnixMs, Zone};
use ledger::UsageEvent;
use limiter::{Actual, Admission, Ask, Hold, Verdict};
use reqwest::Method;
use serde_json::{Value, json};

use crate::process::{ADMIN_TOKEN, TestWeir};

/// Noon of 15 November 2026, UTC.
const NOON: UnixMs = UnixMs(1_794_744_000_000);

async fn post(weir: &TestWeir, tenant: i64, body: Value) -> (u16, Value) {
    weir.admin(Method::POST, &format!("/tenants/{tenant}/ledger"), Some(body)).await
}

fn top_up(amount: i64, reference: &str) -> Value {
    json!({ "kind": "top_up", "amount_nanos": amount, "reason": "invoice 7", "reference": reference })
}

#[tokio::test]
async fn money_moves_once_under_a_reference_and_leaves_a_line_in_the_log() {
    let weir = TestWeir::start().await;
    let tenant = weir.tenant("acme", "pro").await;
    let (status, paid) = post(&weir, tenant, top_up(500, "a")).await;
    assert_eq!((status, paid["balance_nanos"].as_i64()), (201, Some(500)), "{paid}");
    let (status, again) = post(&weir, tenant, top_up(500, "a")).await;
    assert_eq!((status, again["repeated"].as_bool()), (200, Some(true)), "{again}");
    assert_eq!(again["transaction_id"], paid["transaction_id"]);
    let (status, other) = post(&weir, tenant, top_up(501, "a")).await;
    assert_eq!((status, other["code"].as_str()), (409, Some("conflict")), "{other}");

    let undo = json!({ "kind": "reversal", "transaction_id": paid["transaction_id"], "reason": "typo",
                       "reference": "b" });
    let (status, undone) = post(&weir, tenant, undo).await;
    assert_eq!((status, undone["balance_nanos"].as_i64()), (201, Some(0)), "{undone}");
    let again = json!({ "kind": "reversal", "transaction_id": paid["transaction_id"], "reason": "typo",
                        "reference": "c" });
    assert_eq!(post(&weir, tenant, again).await.0, 409);

    let path = format!("/tenants/{tenant}/ledger");
    let (_, first) = weir.admin(Method::GET, &format!("{path}?limit=1"), None).await;
    let line = &first["data"][0];
    assert_eq!(
        (line["kind"].as_str(), line["amount_nanos"].as_i64()),
        (Some("reversal"), Some(-500))
    );
    assert_eq!(
        (line["actor"].as_str(), line["amount_usd"].as_str()),
        (Some("admin token"), Some("-0.000000500"))
    );
    assert_eq!(line["of_transaction"], paid["transaction_id"]);
    let cursor = first["next_cursor"].as_str().unwrap();
    let (_, second) =
        weir.admin(Method::GET, &format!("{path}?limit=5&cursor={cursor}"), None).await;
    assert_eq!(second["data"].as_array().unwrap().len(), 1);
    assert_eq!(second["data"][0]["ended_by"], undone["transaction_id"]);
    assert_eq!(second["data"][0]["reference"], "a");
    let log: Vec<(String, String)> = sqlx::query_as(
        "select action, detail->>'reason' from audit_log where tenant_id = $1 and action like 'money.%' order by id",
    )
    .bind(tenant)
    .fetch_all(weir.pool())
    .await
    .unwrap();
    let line = |action: &str, reason: &str| (action.to_owned(), reason.to_owned());
    assert_eq!(log, [line("money.top_up", "invoice 7"), line("money.reversal", "typo")]);
    weir.end().await;
}

#[tokio::test]
async fn an_order_that_does_not_do_is_told_by_its_member() {
    let weir = TestWeir::start().await;
    let tenant = weir.tenant("acme", "pro").await;
    let sound = top_up(5, "r");
    let with = |member: &str, value: Value| {
        let mut body = sound.clone();
        body[member] = value;
        body
    };
    for (body, param) in [
        (with("kind", json!("gift")), "kind"),
        (with("kind", json!("usage")), "kind"),
        (with("amount_nanos", json!(9_007_199_254_740_993_i64)), "amount_nanos"),
        (with("amount_nanos", Value::Null), "amount_nanos"),
        (with("reference", Value::Null), "reference"),
        (with("transaction_id", json!(1)), "transaction_id"),
        (with("expires_at", json!("2026-12-01T00:00:00Z")), "expires_at"),
        (with("kind", json!("grant")), "expires_at"),
        (with("kind", json!("refund")), "request_id"),
    ] {
        let (status, answer) = post(&weir, tenant, body.clone()).await;
        assert_eq!((status, answer["param"].as_str()), (400, Some(param)), "{body}: {answer}");
    }
    for body in [
        with("amount_nanos", json!(0)),
        with("amount_nanos", json!(1.5)),
        with("reason", json!("")),
        with("tenant_id", json!(2)),
        with("kind", json!("adjustment"))
            .as_object()
            .map(|b| {
                let mut b = b.clone();
                b.insert("amount_nanos".into(), json!(-5));
                b.insert("usage_at".into(), json!("2026-11-01T00:00:00Z"));
                Value::Object(b)
            })
            .unwrap(),
    ] {
        let (status, answer) = post(&weir, tenant, body.clone()).await;
        assert_eq!(status, 400, "{body}: {answer}");
    }
    assert_eq!(post(&weir, 999, sound).await.0, 404);
    let unknown =
        json!({ "kind": "reversal", "transaction_id": 99, "reason": "x", "reference": "u" });
    assert_eq!(post(&weir, tenant, unknown).await.0, 404);
    let lines: i64 =
        sqlx::query_scalar("select count(*) from balance_ledger where tenant_id is not null")
            .fetch_one(weir.pool())
            .await
            .unwrap();
    assert_eq!(lines, 0);
    weir.end().await;
}

#[tokio::test]
async fn the_reference_may_come_as_a_header() {
    let weir = TestWeir::start().await;
    let tenant = weir.tenant("acme", "pro").await;
    let url = weir.url(&format!("/admin/api/v1/tenants/{tenant}/ledger"));
    let body = json!({ "kind": "top_up", "amount_nanos": 5, "reason": "paid" }).to_string();
    let mut statuses = Vec::new();
    for _ in 0..2 {
        let request = weir.client.post(&url).bearer_auth(ADMIN_TOKEN);
        let request = request.header("idempotency-key", "once").body(body.clone());
        statuses.push(request.send().await.unwrap().status().as_u16());
    }
    assert_eq!(statuses, [201, 200]);
    weir.end().await;
}

/// A call that asks for this much at most.
fn ask(tenant: i64, number: u128, charge: i64) -> Ask {
    Ask {
        request_id: RequestId::from_parts(NOON.0.unsigned_abs(), number),
        tenant_id: TenantId(tenant),
        zone: Zone::utc(),
        meters: vec![Meter { scope: Scope::Tenant, scope_id: tenant, rule: LimitRule::Balance }],
        estimate: Estimate { tokens: 1, charge: Nanos(charge) },
        now: Some(NOON),
    }
}

fn event(hold: &Hold, charge: i64) -> UsageEvent {
    UsageEvent {
        request_id: hold.request_id,
        tenant_id: hold.tenant_id,
        team_id: None,
        key_id: KeyId(1),
        plan_id: PlanId(1),
        provider_id: ProviderId(1),
        dialect: Dialect::Openai,
        route: "openai.chat".into(),
        model: "m".into(),
        served_model: None,
        price_id: PriceId(1),
        stream: false,
        admitted_at: hold.admitted_at,
        ended_at: hold.admitted_at,
        first_byte_ms: None,
        duration_ms: 1,
        outcome: Outcome::Ok,
        http_status: Some(200),
        usage_source: UsageSource::Provider,
        anomaly: None,
        usage: Usage { input: 1, ..Usage::default() },
        cost: Nanos(charge),
        charge: Nanos(charge),
        hold: hold.charge,
        client_request_id: None,
        provider_request_id: None,
        attempts: Vec::new(),
        bookings: hold.bookings(1, Nanos(charge)),
        drift: Vec::new(),
    }
}

/// Makes a call that uses all it may; or says why it may not be made.
async fn call(
    weir: &TestWeir,
    tenant: i64,
    number: u128,
    charge: i64,
) -> Result<RequestId, Reason> {
    let parts = weir.weir();
    match parts.limiter.admit(&ask(tenant, number, charge)).await.unwrap() {
        Verdict::Refuse(refusal) => Err(refusal.reason),
        Verdict::Admit(hold) => {
            parts.ledger.append(event(&hold, charge)).await.unwrap();
            let actual = Actual { tokens: 1, charge: Nanos(charge) };
            parts.limiter.settle(&hold, &actual, Some(NOON)).await.unwrap();
            Ok(hold.request_id)
        }
    }
}

#[tokio::test]
async fn a_prepaid_tenant_is_stopped_at_nothing_and_goes_on_after_money_came() {
    let weir = TestWeir::start().await;
    weir.weir().clock.set(NOON);
    let plan = json!({ "name": "prepaid", "rules": [{ "rule": "balance" }], "models": "all",
                       "default_max_output_tokens": 100, "max_output_tokens": 100 });
    let (status, made) = weir.admin(Method::POST, "/plans", Some(plan)).await;
    assert_eq!(status, 201, "{made}");
    let tenant = weir.tenant("acme", "prepaid").await;
    assert_eq!(call(&weir, tenant, 1, 30).await, Err(Reason::BalanceExhausted));
    post(&weir, tenant, top_up(100, "first")).await;
    let mut made = Vec::new();
    for number in 2..5 {
        made.push(call(&weir, tenant, number, 30).await.unwrap());
    }
    assert_eq!(call(&weir, tenant, 5, 30).await, Err(Reason::BalanceExhausted), "10 are left");
    call(&weir, tenant, 6, 10).await.unwrap();
    assert_eq!(call(&weir, tenant, 7, 1).await, Err(Reason::BalanceExhausted), "nothing is left");
    post(&weir, tenant, top_up(30, "second")).await;
    call(&weir, tenant, 8, 30).await.unwrap();
    assert_eq!(call(&weir, tenant, 9, 1).await, Err(Reason::BalanceExhausted));
    // What is given back, or given for a time, can be spent as well.
    let refund = json!({ "kind": "refund", "request_id": made[0].to_string(), "amount_nanos": 20,
                         "reason": "bad answer", "reference": "third" });
    let (status, refunded) = post(&weir, tenant, refund).await;
    assert_eq!((status, refunded["balance_nanos"].as_i64()), (201, Some(20)), "{refunded}");
    call(&weir, tenant, 10, 20).await.unwrap();
    let grant = json!({ "kind": "grant", "amount_nanos": 50, "expires_at": "2026-11-15T13:00:00Z",
                        "reason": "trial", "reference": "fourth" });
    assert_eq!(post(&weir, tenant, grant).await.0, 201);
    call(&weir, tenant, 11, 20).await.unwrap();
    let later = NOON.plus_ms(3_600_000);
    assert_eq!(ledger::movement::expire_grants(weir.pool(), later).await.unwrap().grants, 1);
    assert_eq!(
        call(&weir, tenant, 12, 1).await,
        Err(Reason::BalanceExhausted),
        "it was taken back"
    );
    let lines = ledger::books::verify(weir.pool(), Some(TenantId(tenant))).await.unwrap();
    assert!(lines[0].agrees() && lines[0].balance == 0, "{lines:?}");
    weir.end().await;
}
