//! Every route of the list, asked by a stranger.

use reqwest::Method;
use weir::http::door::Door;
use weir::http::{Entry, table};

use crate::browser::Browser;
use crate::process::TestWeir;

/// Routes that answer everybody. This list may only shrink: a new one here is a decision.
const OPEN: [&str; 8] = [
    "/healthz",
    "/readyz",
    "/version",
    "/openapi.json",
    "/pkg/{*file}",
    "/favicon.svg",
    // Whatever is no call says so, in the words of the route's dialect.
    "/v1/{*rest}",
    "/v1beta/{*rest}",
];
/// Pages that are for people who are not signed in.
const DOORSTEPS: [&str; 2] = ["/login", "/setup"];

/// A path with something in the place of its parameters.
fn filled(path: &str) -> String {
    let part = |part: &str| match part {
        "{slug}" => "acme".to_owned(),
        "{*file}" => "weir.css".to_owned(),
        "{*rest}" => "nothing".to_owned(),
        "{request_id}" => "01KBQW0000000000000000000A".to_owned(),
        other if other.starts_with('{') => "1".to_owned(),
        other => other.to_owned(),
    };
    path.split('/').map(part).collect::<Vec<_>>().join("/")
}

async fn ask(weir: &TestWeir, entry: &Entry) -> reqwest::Response {
    let method: Method = entry.method.as_str().parse().unwrap();
    weir.client.request(method, weir.url(&filled(&entry.path))).send().await.unwrap()
}

#[tokio::test]
async fn a_stranger_gets_in_nowhere_but_through_the_open_doors() {
    let weir = TestWeir::start_with(&[("WEIR_TEST_CLOCK", "0")]).await;
    weir.tenant("acme", "free").await;
    let entries = table(weir.weir()).entries().to_vec();
    assert!(entries.len() > 30, "the list is not the list");
    for entry in &entries {
        let response = ask(&weir, entry).await;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let to_login = || {
            let location = headers.get("location").map_or("", |value| value.to_str().unwrap());
            status == 303 && location.starts_with("/login")
        };
        let kept = match entry.door {
            Door::Open => OPEN.contains(&entry.path.as_str()),
            Door::Key | Door::AdminToken => status == 401,
            Door::Page if DOORSTEPS.contains(&entry.path.as_str()) => {
                status == if entry.path == "/setup" { 404 } else { 200 }
            }
            Door::Page => to_login(),
            Door::FormWith(_) => to_login(),
            // Without a body and a token there is no form at all.
            Door::Form => status == 415,
            Door::TestClock => status == 404,
        };
        assert!(kept, "{} {} answers {status} to a stranger", entry.method, entry.path);
        assert!(headers.contains_key("weir-request-id"), "{} has no request id", entry.path);
    }
    weir.end().await;
}

#[tokio::test]
async fn every_answer_carries_the_headers_that_keep_a_browser_from_harm() {
    let weir = TestWeir::start().await;
    for path in ["/login", "/healthz", "/favicon.svg", "/nowhere", "/admin/api/v1/plans", "/admin"]
    {
        let response = weir.get(path).await;
        let header = |name: &str| {
            response.headers().get(name).map_or("", |value| value.to_str().unwrap()).to_owned()
        };
        assert_eq!(header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(header("x-frame-options"), "DENY", "{path}");
        assert_eq!(header("referrer-policy"), "same-origin", "{path}");
        assert_eq!(header("cross-origin-opener-policy"), "same-origin", "{path}");
        assert!(header("permissions-policy").contains("camera=()"), "{path}");
        assert!(header("cache-control").contains("no-"), "{path}: {}", header("cache-control"));
        let policy = header("content-security-policy");
        assert!(policy.starts_with("default-src 'none'"), "{path}: {policy}");
        assert!(!policy.contains("unsafe-inline") && !policy.contains("'unsafe-eval'"), "{path}");
        assert_eq!(header("strict-transport-security"), "", "plain HTTP cannot promise TLS");
    }
    weir.end().await;
}

#[tokio::test]
async fn each_page_admits_its_own_script_by_a_fresh_nonce() {
    let weir = TestWeir::start().await;
    let mut browser = Browser::new(&weir);
    let mut nonces = Vec::new();
    for _ in 0..2 {
        let page = browser.get("/login").await;
        let policy = page.header("content-security-policy").to_owned();
        let nonce = policy.split("'nonce-").nth(1).and_then(|rest| rest.split('\'').next());
        let nonce = nonce.unwrap_or_else(|| panic!("no nonce in {policy}")).to_owned();
        assert!(page.text.contains(&format!("nonce=\"{nonce}\"")), "the page's script lacks it");
        nonces.push(nonce);
    }
    assert_ne!(nonces[0], nonces[1]);
    weir.end().await;
}

#[tokio::test]
async fn what_is_no_route_says_so_in_the_words_of_who_asks() {
    let weir = TestWeir::start().await;
    let json = async |path: &str| {
        let response = weir.get(path).await;
        assert_eq!(response.status(), 404, "{path}");
        serde_json::from_str::<serde_json::Value>(&response.text().await.unwrap()).unwrap()
    };
    assert_eq!(json("/v1/nothing").await["error"]["code"], "not_found");
    assert_eq!(json("/v1beta/nothing").await["error"]["status"], "NOT_FOUND");
    assert_eq!(json("/v1/messages/nothing").await["error"]["type"], "not_found_error");
    assert_eq!(json("/admin/api/v1/nothing").await["code"], "not_found");
    let page = weir.get("/nowhere").await;
    assert_eq!(page.status(), 404);
    assert!(page.headers()["content-type"].to_str().unwrap().starts_with("text/html"));

    let url = weir.url("/admin/api/v1/plans");
    let wrong = weir.client.delete(url).send().await.unwrap();
    assert_eq!(wrong.status(), 405);
    assert_eq!(wrong.headers()["content-type"], "application/problem+json");
    weir.end().await;
}
