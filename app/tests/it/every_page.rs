//! What holds on every page, in every scene.

use crate::answer::{Answer, attribute, between, get, get_with};
use crate::fake::{SETUP_TOKEN, Scene};
use crate::site::CSRF;
use axum::http::StatusCode;
use std::collections::BTreeSet;

const SCENES: [Scene; 4] = [Scene::Rich, Scene::Empty, Scene::Broken, Scene::Hostile];

/// Every page with somebody who may see it.
fn pages() -> Vec<(&'static str, String)> {
    let operators = [
        "/admin",
        "/admin?metric=cost&order=cap&range=7d&month=2026-10",
        "/admin?metric=requests",
        "/admin/tenants",
        "/admin/tenants?q=ac&status=active&sort=name",
        "/admin/tenants?q=%3Cscript%3Ealert(1)%3C/script%3E",
        "/admin/tenants/acme",
        "/admin/tenants/acme?done=key_revoked&key=%3Cscript%3Ealert(1)%3C/script%3E",
        "/admin/tenants/acme?error=name_taken&name=%22%3E%3Cscript%3Ealert(1)%3C/script%3E",
        "/admin/tenants/wonka",
        "/admin/tenants/northwind",
        "/admin/tenants/acme/keys/3/created",
        "/admin/tenants/acme/keys/2/created",
        "/admin/tenants/acme/keys/2/revoke",
        "/admin/tenants/acme/keys/0/revoke?error=confirm_mismatch",
    ];
    let mut pages: Vec<(&'static str, String)> =
        operators.into_iter().map(|path| ("owner", path.to_owned())).collect();
    pages.push(("viewer", "/admin/tenants/acme".to_owned()));
    pages.push(("member", "/t/acme".to_owned()));
    pages.push(("billing", "/t/acme?month=2026-10".to_owned()));
    pages.push(("nobody", "/login?error=credentials&email=%22%3E%3Cb%3E".to_owned()));
    pages.push(("nobody", format!("/setup?token={SETUP_TOKEN}")));
    pages.push(("nobody", "/setup".to_owned()));
    pages.push(("owner", "/nowhere".to_owned()));
    pages
}

async fn each(check: impl Fn(&Answer, &str)) {
    for scene in SCENES {
        for (who, path) in pages() {
            let answer = get(scene, who, &path).await;
            check(&answer, &format!("{scene:?} {who} {path}"));
        }
    }
}

#[tokio::test]
async fn has_one_heading_a_title_and_a_main_part() {
    each(|answer, page| {
        assert_eq!(answer.tags("h1").len(), 1, "{page}");
        assert_eq!(answer.tags("main").len(), 1, "{page}");
        assert_eq!(
            answer.tags("title").len(),
            1 + answer.tags("svg").iter().filter(|tag| tag.contains("\"chart ")).count()
                + answer.body.matches("class=\"hit\"").count(),
            "{page}"
        );
        assert!(between(&answer.body, "<title>", "</title>").contains(" · "), "{page}");
        assert!(!answer.heading().is_empty(), "{page}");
    })
    .await;
}

#[tokio::test]
async fn carries_no_inline_style_and_nothing_foreign() {
    each(|answer, page| {
        assert!(!answer.body.contains(" style="), "{page}");
        assert!(!answer.body.contains("<style"), "{page}");
        for tag in
            ["a", "link", "script", "img", "form", "iframe"].map(|tag| answer.tags(tag)).concat()
        {
            for name in ["href", "src", "action"] {
                let url = attribute(tag, name);
                assert!(url.is_empty() || url.starts_with(['/', '#']), "{page}: {url}");
                assert!(!url.starts_with("//"), "{page}: {url}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn lets_no_name_out_of_its_place() {
    each(|answer, page| {
        assert!(!answer.body.contains("<script>alert"), "{page}");
        assert!(!answer.body.contains("<img"), "{page}");
        let nonce = attribute(answer.tags("script")[0], "nonce");
        for script in answer.tags("script") {
            assert_eq!(attribute(script, "nonce"), nonce, "{page}");
        }
        let names = answer.body.matches("onerror=").count();
        let harmless = answer.body.matches("&lt;img src=x onerror=").count();
        assert_eq!(names, harmless, "{page}");
    })
    .await;
}

#[tokio::test]
async fn names_what_can_be_used() {
    each(|answer, page| {
        for element in ["a", "button", "select", "summary", "input"] {
            for tag in answer.tags(element) {
                let skip = tag.contains("class=\"skip\"") || attribute(tag, "type") == "hidden";
                assert!(skip || tag.contains("data-testid=\""), "{page}: <{element}{tag}>");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn posts_only_with_the_token_of_the_session() {
    each(|answer, page| {
        let posts =
            answer.tags("form").iter().filter(|tag| attribute(tag, "method") == "post").count();
        let field = format!("value=\"{CSRF}\"");
        let tokens = answer.tags("input").iter().filter(|tag| tag.contains(&field)).count();
        assert_eq!(posts, tokens, "{page}");
    })
    .await;
}

#[tokio::test]
async fn has_each_id_once_and_points_only_at_ids_that_exist() {
    each(|answer, page| {
        let found = answer.body.match_indices(" id=\"");
        let ids = found.map(|(at, _)| attribute(&answer.body[at..], "id"));
        let mut known = BTreeSet::new();
        for id in ids {
            assert!(known.insert(id), "{page}: two elements have the id {id}");
        }
        for (open, close) in [
            ("url(#", ")"),
            ("href=\"#", "\""),
            ("aria-labelledby=\"", "\""),
            ("aria-describedby=\"", "\""),
        ] {
            for (at, _) in answer.body.match_indices(open) {
                let id = between(&answer.body[at..], open, close);
                assert!(known.contains(id), "{page}: nothing has the id {id}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn forbids_what_is_not_its_own_and_is_not_kept() {
    each(|answer, page| {
        let policy = answer.header("content-security-policy");
        let nonce = attribute(answer.tags("script")[0], "nonce");
        assert!(!nonce.is_empty(), "{page}");
        assert!(policy.contains(&format!("'nonce-{nonce}'")), "{page}: {policy}");
        assert!(policy.contains("style-src 'self';"), "{page}: {policy}");
        assert_eq!(answer.header("cache-control"), "no-store", "{page}");
    })
    .await;
}

#[tokio::test]
async fn is_whole_without_scripts() {
    each(|answer, page| {
        assert!(!answer.body.contains("<template"), "{page}");
        let (_, behind) = answer.body.split_once("</html>").unwrap_or(("", "cut short"));
        assert!(!behind.contains("cut short") && !behind.contains("<div"), "{page}");
    })
    .await;
}

#[tokio::test]
async fn stays_small() {
    // 150 kB compressed is the limit; text like this compresses to a tenth.
    each(|answer, page| assert!(answer.body.len() < 400_000, "{page}: {}", answer.body.len()))
        .await;
}

#[tokio::test]
async fn follows_the_theme_of_the_cookie_from_the_first_byte() {
    for (cookie, theme) in [
        ("weir_theme=dark", "dark"),
        ("weir_theme=light; x=y", "light"),
        ("weir_theme=z", "system"),
    ] {
        let answer = get_with(Scene::Rich, "owner", "/admin", cookie).await;
        assert_eq!(attribute(answer.tags("html")[0], "data-theme"), theme);
        let pressed = answer.tags("button");
        let pressed = pressed.iter().find(|tag| attribute(tag, "aria-pressed") == "true");
        assert_eq!(pressed.map(|tag| attribute(tag, "value")), Some(theme));
    }
}

#[tokio::test]
async fn of_the_other_audience_does_not_exist() {
    for (who, path) in [
        ("member", "/admin"),
        ("member", "/admin/tenants"),
        ("member", "/admin/tenants/acme"),
        ("member", "/t/globex"),
        ("owner", "/t/acme"),
        ("owner", "/admin/tenants/nobody"),
        ("owner", "/admin/tenants/acme/keys/99/revoke"),
        ("owner", "/admin/tenants/acme/keys/abc/revoke"),
        ("owner", "/nowhere"),
        ("nobody", "/nowhere"),
    ] {
        let answer = get(Scene::Rich, who, path).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{who} {path}");
        assert_eq!(answer.heading(), "Not found", "{who} {path}");
    }
    let foreign = get(Scene::Rich, "member", "/t/globex").await;
    let missing = get(Scene::Rich, "member", "/t/missing").await;
    let text = |answer: &Answer| between(&answer.body, "<main", "</main>").to_owned();
    assert_eq!(text(&foreign), text(&missing));
}

#[tokio::test]
async fn without_the_right_says_which_one_is_missing() {
    for who in ["finance", "support", "viewer"] {
        let answer = get(Scene::Rich, who, "/admin/tenants/acme/keys/2/revoke").await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{who}");
        assert!(answer.body.contains("revoke API keys"), "{who}");
        assert!(answer.body.contains("an owner or admin operator"), "{who}");
    }
}

#[tokio::test]
async fn sends_strangers_to_the_sign_in_page_and_back() {
    let answer = get(Scene::Rich, "nobody", "/admin/tenants?q=a%26b").await;
    assert_eq!(answer.status, StatusCode::SEE_OTHER);
    assert_eq!(answer.header("location"), "/login?next=%2Fadmin%2Ftenants%3Fq%3Da%2526b");
    let root = get(Scene::Rich, "nobody", "/").await;
    assert_eq!((root.status, root.header("location")), (StatusCode::SEE_OTHER, "/login"));
    let home = get(Scene::Rich, "member", "/").await;
    assert_eq!((home.status, home.header("location")), (StatusCode::SEE_OTHER, "/t/acme"));
}

#[tokio::test]
async fn of_a_tenant_never_names_the_operators_console() {
    let answer = get(Scene::Rich, "member", "/t/acme").await;
    assert_eq!(answer.status, StatusCode::OK);
    assert!(!answer.body.contains("/admin"));
    assert!(!answer.body.contains("Redis"));
}
