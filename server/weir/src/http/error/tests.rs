use axum::body::to_bytes;
use domain::admission::{Reason, Scope};
use http::StatusCode;

use super::*;

const ID: RequestId = RequestId::from_parts(1_795_900_000_000, 7);

fn over_budget() -> Refusal {
    Refusal {
        reason: Reason::BudgetExhausted,
        scope: Scope::Tenant,
        scope_id: 3,
        meter: "month_cost".into(),
        metric: Metric::Cost,
        limit: 210_000_000_000,
        used: 209_987_500_000,
        held: 12_500_000,
        wanted: 102_500_000,
        resets_at: Some(UnixMs(1_796_083_200_000)),
        retry_after_ms: None,
    }
}

fn too_fast(retry_after_ms: i64) -> Refusal {
    Refusal {
        reason: Reason::RateLimited,
        meter: "requests_rate".into(),
        metric: Metric::Requests,
        resets_at: None,
        retry_after_ms: Some(retry_after_ms),
        ..over_budget()
    }
}

async fn told(shape: Shape, denial: &Denial) -> (StatusCode, HeaderMap, Value) {
    let (parts, body) = refusal(shape, ID, denial).into_parts();
    let body = to_bytes(body, 64 * 1024).await.unwrap();
    (parts.status, parts.headers, serde_json::from_slice(&body).unwrap())
}

#[test]
fn every_code_has_a_word_of_its_own_and_an_error_status() {
    let mut words: Vec<_> = Code::ALL.iter().map(|code| code.word()).collect();
    words.sort_unstable();
    words.dedup();
    assert_eq!(words.len(), Code::ALL.len());
    for code in Code::ALL {
        assert!(code.status().is_client_error() || code.status().is_server_error(), "{code:?}");
    }
}

#[test]
fn every_reason_of_the_law_keeps_its_word() {
    for reason in [
        Reason::RateLimited,
        Reason::TokenRateLimited,
        Reason::WindowExhausted,
        Reason::ConcurrencyExhausted,
        Reason::BudgetExhausted,
        Reason::BalanceExhausted,
        Reason::ExceedsCapacity,
    ] {
        assert_eq!(Code::from(reason).word(), reason.code());
    }
}

#[tokio::test]
async fn a_spent_budget_is_402_in_every_dialect_and_names_its_figures() {
    let denial = Denial::of_refusal(&over_budget(), DenyMode::Reject);
    let id = ID.to_string();
    for (shape, pointer) in [
        (Shape::Dialect(Dialect::Openai), "/error"),
        (Shape::Dialect(Dialect::Anthropic), "/error"),
        (Shape::Dialect(Dialect::Gemini), "/error"),
        (Shape::Problem, ""),
    ] {
        let (status, headers, body) = told(shape, &denial).await;
        assert_eq!(status, 402, "{shape:?}");
        assert_eq!(headers["weir-request-id"], id);
        assert_eq!(headers["x-should-retry"], "false");
        assert!(
            !headers.contains_key("retry-after"),
            "waiting does not help before the month ends"
        );
        let error = body.pointer(pointer).unwrap();
        assert_eq!(error["request_id"], id);
        assert_eq!(error["source"], "gateway");
        assert_eq!(error["scope"], "tenant");
        assert_eq!(error["meter"], "month_cost");
        assert_eq!(error["unit"], "nano_usd");
        assert_eq!(error["limit"], 210_000_000_000_i64);
        assert_eq!(error["used"], 209_987_500_000_i64);
        assert_eq!(error["held"], 12_500_000);
        assert_eq!(error["resets_at"], "2026-12-01T00:00:00Z");
    }
}

#[tokio::test]
async fn each_dialect_gets_the_words_its_sdk_reads() {
    let denial = Denial::of_refusal(&over_budget(), DenyMode::Reject);
    let (_, headers, body) = told(Shape::Dialect(Dialect::Openai), &denial).await;
    assert_eq!(body["error"]["type"], "insufficient_quota");
    assert_eq!(body["error"]["code"], "budget_exhausted");
    assert_eq!(body["error"]["param"], Value::Null);
    assert_eq!(headers["x-request-id"], ID.to_string());

    let (_, headers, body) = told(Shape::Dialect(Dialect::Anthropic), &denial).await;
    assert_eq!(body["type"], "error");
    assert_eq!(body["error"]["type"], "billing_error");
    assert_eq!(body["request_id"], ID.to_string());
    assert_eq!(headers["request-id"], ID.to_string());

    let (_, _, body) = told(Shape::Dialect(Dialect::Gemini), &denial).await;
    assert_eq!(body["error"]["status"], "RESOURCE_EXHAUSTED");
    assert_eq!(body["error"]["code"], 402);
    assert_eq!(body["error"]["details"][0]["reason"], "BUDGET_EXHAUSTED");

    let (_, headers, body) = told(Shape::Problem, &denial).await;
    assert_eq!(headers["content-type"], "application/problem+json");
    assert_eq!(body["type"], "urn:weir:error:budget_exhausted");
    assert_eq!(body["status"], 402);
}

#[tokio::test]
async fn a_short_wait_is_told_in_whole_seconds_rounded_up() {
    let denial = Denial::of_refusal(&too_fast(1_001), DenyMode::Reject);
    let (status, headers, body) = told(Shape::Dialect(Dialect::Openai), &denial).await;
    assert_eq!(status, 429);
    assert_eq!(headers["retry-after"], "2");
    assert_eq!(headers["retry-after-ms"], "1001");
    assert!(!headers.contains_key("x-should-retry"));
    assert_eq!(body["error"]["type"], "rate_limit_exceeded");

    let denial = Denial::of_refusal(&too_fast(0), DenyMode::Reject);
    let (_, headers, body) = told(Shape::Dialect(Dialect::Gemini), &denial).await;
    assert_eq!(headers["retry-after"], "1", "at least one second");
    assert_eq!(body["error"]["details"][1]["retryDelay"], "1s");
}

#[tokio::test]
async fn a_wait_over_a_minute_tells_the_sdks_not_to_sleep_it_out() {
    let within = Denial::of_refusal(&too_fast(60_000), DenyMode::Reject);
    let (_, headers, _) = told(Shape::Dialect(Dialect::Anthropic), &within).await;
    assert!(!headers.contains_key("x-should-retry"));
    let beyond = Denial::of_refusal(&too_fast(60_001), DenyMode::Reject);
    let (_, headers, _) = told(Shape::Dialect(Dialect::Anthropic), &beyond).await;
    assert_eq!(headers["retry-after"], "61");
    assert_eq!(headers["x-should-retry"], "false");
    assert!(!headers.contains_key("retry-after-ms"));
}

#[tokio::test]
async fn a_bare_refusal_gives_no_hint() {
    let denial = Denial::of_refusal(&too_fast(1_000), DenyMode::RejectBare);
    let (status, headers, body) = told(Shape::Dialect(Dialect::Openai), &denial).await;
    assert_eq!(status, 429);
    assert!(!headers.contains_key("retry-after"));
    assert!(body["error"].get("limit").is_none() && body["error"].get("used").is_none());
}

#[tokio::test]
async fn a_field_that_is_wrong_is_named_in_each_dialect() {
    let denial = Denial::new(Code::InvalidRequest, "n must be positive").of_field("n");
    let (_, _, body) = told(Shape::Dialect(Dialect::Openai), &denial).await;
    assert_eq!(body["error"]["param"], "n");
    let (_, _, body) = told(Shape::Dialect(Dialect::Gemini), &denial).await;
    assert_eq!(body["error"]["details"][1]["fieldViolations"][0]["field"], "n");
}

#[tokio::test]
async fn a_providers_quota_is_nobodys_fault_and_keeps_its_figures() {
    let quota = |reason, wait: Option<i64>| Refusal {
        reason,
        scope: Scope::Provider,
        scope_id: 4,
        retry_after_ms: wait,
        ..too_fast(0)
    };
    let spent = Denial::of_refusal(&quota(Reason::RateLimited, Some(2_500)), DenyMode::Reject);
    for dialect in [Dialect::Openai, Dialect::Anthropic, Dialect::Gemini] {
        let (status, headers, body) = told(dialect.into(), &spent).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(headers["retry-after"], "3");
        let error = &body["error"];
        assert!(error.get("used").is_none() && error.get("scope").is_none(), "{body}");
        assert_eq!(error["source"], "gateway");
    }
    let window = Denial::of_refusal(&quota(Reason::WindowExhausted, None), DenyMode::Wait);
    assert_eq!((window.code, window.retry_after_ms), (Code::ProviderQuota, Some(QUOTA_WAIT_MS)));
    let bare = Denial::of_refusal(&quota(Reason::RateLimited, Some(1)), DenyMode::RejectBare);
    assert_eq!((bare.code, bare.retry_after_ms), (Code::ProviderQuota, None));
    let never = Denial::of_refusal(&quota(Reason::ExceedsCapacity, None), DenyMode::Reject);
    let (status, headers, _) = told(Dialect::Openai.into(), &never).await;
    assert_eq!((status, headers.get("retry-after")), (StatusCode::PAYLOAD_TOO_LARGE, None));
}

#[test]
fn a_plan_that_waits_tells_in_the_end_what_one_that_does_not_tells_at_once() {
    let (rejected, waited) = (DenyMode::Reject, DenyMode::Wait);
    let told = |mode| Denial::of_refusal(&too_fast(1_500), mode);
    assert_eq!(told(rejected), told(waited));
}
