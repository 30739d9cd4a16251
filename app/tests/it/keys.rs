//! Making and revoking a key.

use crate::answer::{ask, between, get};
use crate::fake::{SECRET, Scene};
use crate::site::{person, router};
use axum::http::StatusCode;

const CREATED: &str = "/admin/tenants/acme/keys/3/created";

#[tokio::test]
async fn the_text_of_a_new_key_is_shown_once_and_a_reload_shows_the_mask() {
    let site = router(Scene::Rich, person("owner"));
    let first = ask(&site, CREATED, "").await;
    assert_eq!(first.body.matches(SECRET).count(), 1);
    assert_eq!(first.heading(), "Key “ci-runner” created");
    let second = ask(&site, CREATED, "").await;
    assert!(!second.body.contains(SECRET));
    assert!(second.has("key-masked"));
    assert!(second.body.contains("weir_sk_3fK9…x7Q3"));
}

#[tokio::test]
async fn a_command_stands_ready_for_each_dialect_without_the_key_in_it() {
    let answer = get(Scene::Rich, "owner", CREATED).await;
    for (id, part) in [
        ("curl-openai", "https://gw.example/v1/chat/completions"),
        ("curl-anthropic", "https://gw.example/v1/messages"),
        ("curl-gemini", "https://gw.example/v1beta/models/gemini-2.5-flash:generateContent"),
    ] {
        let command = between(answer.parts(id)[0], ">", "</code>");
        assert!(command.contains(part), "{command}");
        assert!(command.contains("$WEIR_KEY"), "{command}");
    }
}

#[tokio::test]
async fn copying_is_offered_only_where_scripts_run() {
    let answer = get(Scene::Rich, "owner", CREATED).await;
    let buttons = answer.tags("button");
    let copies: Vec<_> = buttons.iter().filter(|tag| tag.contains("data-copy=")).collect();
    assert_eq!(copies.len(), 5);
    assert!(copies.iter().all(|tag| tag.contains(" hidden")));
    assert_eq!(answer.body.matches("data-component=\"CopyButtons").count(), 1);
}

#[tokio::test]
async fn revoking_says_what_it_touches_and_asks_for_the_name() {
    let path = "/admin/tenants/acme/keys/2/revoke";
    let answer = get(Scene::Rich, "owner", path).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert!(between(answer.parts("requests-24h")[0], ">", "</dd>").contains("4,210"));
    assert!(between(answer.parts("last-used")[0], ">", "</dd>").contains("1\u{a0}min ago"));
    assert!(answer.body.contains(&format!("action=\"{path}\"")));
    assert!(answer.body.contains("name=\"confirm\""));
    let wrong = get(Scene::Rich, "owner", &format!("{path}?error=confirm_mismatch")).await;
    assert!(wrong.body.contains("Nothing was revoked."));
}

#[tokio::test]
async fn a_revoked_key_cannot_be_revoked_again() {
    let answer = get(Scene::Rich, "owner", "/admin/tenants/acme/keys/0/revoke").await;
    assert!(!answer.has("revoke-form"));
    assert!(answer.body.contains("This key is already revoked."));
}

#[tokio::test]
async fn after_revoking_the_tenant_names_the_key() {
    let path = "/admin/tenants/acme?done=key_revoked&key=ci-runner";
    let answer = get(Scene::Rich, "owner", path).await;
    assert!(between(answer.parts("done")[0], "<strong>", "</strong>").contains("ci-runner"));
}
