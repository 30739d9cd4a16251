//! Who sees and does what: members, roles, and the keys they make and end.

use tenants::member::Role;

use crate::browser::{Browser, Seen};
use crate::process::{ANA, PASSWORD, with_owner};

/// The nonce of a page's policy.
fn nonce_of(page: &Seen) -> String {
    let policy = page.header("content-security-policy");
    policy.split("'nonce-").nth(1).unwrap().split('\'').next().unwrap().to_owned()
}

#[tokio::test]
async fn a_member_sees_the_own_tenant_and_no_trace_of_another() {
    let weir = with_owner().await;
    weir.tenant("acme", "free").await;
    weir.tenant("globex", "free").await;
    weir.member("dev@acme.example", Role::TenantDev, Some("acme")).await;
    let mut browser = Browser::new(&weir);
    let landed = browser.sign_in("dev@acme.example", PASSWORD).await;
    assert_eq!(landed.location(), "/t/acme");
    assert!(browser.cookies.contains_key("weir_tenant"));
    assert!(!browser.cookies.contains_key("weir_operator"), "two sides, two cookies");
    let own = browser.get("/t/acme").await;
    assert_eq!(own.status, 200);
    assert!(!own.text.contains("/admin"), "the console must not be told of");

    let foreign = browser.get("/t/globex").await;
    let missing = browser.get("/t/nowhere").await;
    assert_eq!((foreign.status, missing.status), (404, 404));
    let same = |page: &Seen, slug: &str| {
        let nonce = nonce_of(page);
        page.text.replace(&nonce, "NONCE").replace(slug, "SLUG")
    };
    assert!(same(&foreign, "globex") == same(&missing, "nowhere"), "the two pages differ");
    assert!(browser.get("/admin").await.location().starts_with("/login"));
    weir.end().await;
}

#[tokio::test]
async fn a_role_without_the_right_is_told_which_right_is_missing() {
    let weir = with_owner().await;
    let tenant = weir.tenant("acme", "free").await;
    weir.member("look@weir.example", Role::Viewer, None).await;
    let mut browser = Browser::signed_in(&weir, "look@weir.example").await;
    assert_eq!(browser.get("/admin/tenants/acme").await.status, 200);
    let seen = browser.post("/admin/tenants/acme/keys", &[("name", "ci")]).await;
    assert_eq!(seen.status, 403);
    assert!(seen.text.contains("create API keys") && seen.text.contains("owner"), "{}", seen.text);
    let (key, _) = weir.key(tenant, "ci").await;
    let path = format!("/admin/tenants/acme/keys/{key}/revoke");
    assert_eq!(browser.post(&path, &[("confirm", "ci")]).await.status, 403);
    weir.end().await;
}

#[tokio::test]
async fn a_new_key_is_shown_once_and_to_nobody_else() {
    let weir = with_owner().await;
    weir.member("bo@weir.example", Role::Admin, None).await;
    weir.tenant("acme", "pro").await;
    let mut ana = Browser::signed_in(&weir, ANA).await;
    let mut bo = Browser::signed_in(&weir, "bo@weir.example").await;
    ana.get("/admin/tenants/acme").await;
    let seen = ana.post("/admin/tenants/acme/keys", &[("name", "ci-runner")]).await;
    assert_eq!(seen.status, 303);
    let page = seen.location().to_owned();
    let kept: Vec<String> =
        sqlx::query_scalar("select data::text from sessions").fetch_all(weir.pool()).await.unwrap();
    assert!(
        kept.iter().all(|data| !data.contains("weir_sk_")),
        "the text lies open in the database"
    );

    assert!(key_in(&bo.get(&page).await.text).is_none(), "another person sees it");
    let first = ana.get(&page).await;
    assert_eq!(first.header("cache-control"), "no-store");
    let text = key_in(&first.text).expect("the key is not on its page");
    assert!(key_in(&ana.get(&page).await.text).is_none(), "it is shown twice");
    let snapshot = weir.weir().directory.snapshot();
    let now = weir.weir().clock.now();
    assert!(tenants::context::identify(&snapshot, &text, now).is_ok());

    let taken = ana.post("/admin/tenants/acme/keys", &[("name", "ci-runner")]).await;
    assert!(taken.location().contains("error=name_taken"), "{}", taken.location());
    let empty = ana.post("/admin/tenants/acme/keys", &[("name", " ")]).await;
    assert!(empty.location().contains("error=name_invalid"), "{}", empty.location());
    weir.end().await;
}

/// The whole key in a page; a masked one is shorter.
fn key_in(html: &str) -> Option<String> {
    let starts = html.match_indices("weir_sk_").map(|(at, _)| at);
    let texts = starts.map(|at| {
        let rest = &html[at..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        rest[..end].to_owned()
    });
    texts.into_iter().find(|text| text.len() == 44)
}

#[tokio::test]
async fn a_key_is_revoked_once_its_name_is_typed() {
    let weir = with_owner().await;
    let tenant = weir.tenant("acme", "pro").await;
    let (id, text) = weir.key(tenant, "ci <runner>").await;
    let mut browser = Browser::signed_in(&weir, ANA).await;
    let form = format!("/admin/tenants/acme/keys/{id}/revoke");
    assert_eq!(browser.get(&form).await.status, 200);
    let wrong = browser.post(&form, &[("confirm", "ci")]).await;
    assert!(wrong.location().contains("error=confirm_mismatch"), "{}", wrong.location());
    let done = browser.post(&form, &[("confirm", "ci <runner>")]).await;
    assert_eq!(done.location(), "/admin/tenants/acme?done=key_revoked&key=ci%20%3Crunner%3E");
    let snapshot = weir.weir().directory.snapshot();
    let denied = tenants::context::identify(&snapshot, &text, weir.weir().clock.now());
    assert_eq!(denied.unwrap_err().code(), "key_revoked", "it still works in this process");
    let again = browser.post(&form, &[("confirm", "ci <runner>")]).await;
    assert!(again.location().contains("error=already_revoked"), "{}", again.location());
    let audited: Vec<String> =
        sqlx::query_scalar("select actor from audit_log where action = 'key.revoke'")
            .fetch_all(weir.pool())
            .await
            .unwrap();
    assert_eq!(audited, [ANA]);
    weir.end().await;
}
