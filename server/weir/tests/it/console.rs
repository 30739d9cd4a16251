//! The console's doors: setting up, signing in and out, and forms that are not ours.

use tenants::member::{self, Role};
use weir::setup;

use crate::browser::Browser;
use crate::process::{ANA, PASSWORD, TestWeir, with_owner};

const HOUR_MS: i64 = 60 * 60 * 1_000;

/// Path and query of a link.
fn path_of(link: &str) -> String {
    let after_scheme = link.split_once("://").unwrap().1;
    after_scheme[after_scheme.find('/').unwrap()..].to_owned()
}

#[tokio::test]
async fn the_first_owner_is_made_with_the_token_and_the_token_works_once() {
    let weir = TestWeir::start().await;
    let link = setup::link(weir.weir()).await.unwrap().unwrap();
    let path = path_of(&link);
    let token = path.split("token=").nth(1).unwrap().to_owned();
    let stored: Vec<String> =
        sqlx::query_scalar("select id from sessions").fetch_all(weir.pool()).await.unwrap();
    assert!(stored.iter().all(|id| !id.contains(&token)), "the token itself is stored");

    let mut browser = Browser::new(&weir);
    assert_eq!(browser.get("/setup").await.status, 404);
    assert_eq!(browser.get("/setup?token=guess").await.status, 404);
    assert_eq!(browser.get(&path).await.status, 200);
    let fields = |password| {
        [
            ("token", token.as_str()),
            ("email", ANA),
            ("password", password),
            ("instance_name", "Acme"),
        ]
    };
    let short = browser.post("/setup", &fields("short")).await;
    assert!(short.location().contains("error=password_too_short"), "{}", short.location());
    assert!(!short.location().contains("=short"), "the password came back: {}", short.location());
    let made = browser.post("/setup", &fields(PASSWORD)).await;
    assert_eq!((made.status, made.location()), (303, "/admin"));
    assert_eq!(browser.get("/admin").await.status, 200, "the owner is signed in");

    let mut other = Browser::new(&weir);
    assert_eq!(other.get(&path).await.status, 404);
    other.get("/login").await;
    assert_eq!(other.post("/setup", &fields(PASSWORD)).await.status, 404);
    assert_eq!(setup::link(weir.weir()).await.unwrap(), None);
    let owners: i64 =
        sqlx::query_scalar("select count(*) from users").fetch_one(weir.pool()).await.unwrap();
    assert_eq!(owners, 1);
    weir.end().await;
}

#[tokio::test]
async fn a_token_used_twice_at_once_makes_one_owner() {
    let weir = TestWeir::start().await;
    let link = setup::link(weir.weir()).await.unwrap().unwrap();
    let token = path_of(&link).split("token=").nth(1).unwrap().to_owned();
    let first = |email: &str| setup::FirstOwner {
        token: token.clone(),
        email: email.to_owned(),
        password: PASSWORD.into(),
        instance_name: "Acme".to_owned(),
        request_id: String::new(),
    };
    let (one, two) = tokio::join!(
        setup::create_owner(weir.weir(), first("a@b.example")),
        setup::create_owner(weir.weir(), first("c@d.example")),
    );
    let made = [one, two].into_iter().filter(|made| matches!(made, Ok(Some(_)))).count();
    assert_eq!(made, 1);
    weir.end().await;
}

#[tokio::test]
async fn signing_in_begins_a_session_under_a_new_id_in_a_guarded_cookie() {
    let weir = with_owner().await;
    let mut browser = Browser::new(&weir);
    // Somebody else's idea of a session id.
    browser.cookies.insert("weir_operator".into(), "AAAAAAAAAAAAAAAAAAAAAA".into());
    let landed = browser.sign_in(ANA, PASSWORD).await;
    assert_eq!((landed.status, landed.location()), (303, "/admin"));
    let first = browser.cookies["weir_operator"].clone();
    assert_ne!(first, "AAAAAAAAAAAAAAAAAAAAAA");
    let cookie = browser.set_cookies.iter().rfind(|c| c.starts_with("weir_operator=")).unwrap();
    for part in ["HttpOnly", "SameSite=Lax", "Path=/"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert!(!cookie.contains("Secure"), "plain HTTP would never send it back");
    let stored: Vec<String> =
        sqlx::query_scalar("select id from sessions").fetch_all(weir.pool()).await.unwrap();
    assert!(!stored.contains(&first), "who reads the table could take the session over");

    // Signing in again, from within the session, changes the id and ends the old one.
    browser.get("/admin").await;
    let again = browser.post("/login", &[("email", ANA), ("password", PASSWORD)]).await;
    assert_eq!(again.location(), "/admin");
    let second = browser.cookies["weir_operator"].clone();
    assert_ne!(first, second);
    browser.cookies.insert("weir_operator".into(), first);
    assert!(browser.get("/admin").await.location().starts_with("/login"));
    weir.end().await;
}

#[tokio::test]
async fn over_tls_cookies_are_bound_to_the_host_and_browsers_remember_tls() {
    let weir = TestWeir::start_with(&[("WEIR_PUBLIC_URL", "https://gw.example")]).await;
    weir.member(ANA, Role::Owner, None).await;
    let mut browser = Browser::new(&weir);
    let page = browser.get("/login").await;
    assert!(page.header("strict-transport-security").contains("max-age=31536000"));
    let token = browser.csrf.clone();
    let fields = [("email", ANA), ("password", PASSWORD)];
    let headers = [("origin", "https://gw.example"), ("sec-fetch-site", "same-origin")];
    let landed = browser.post_as("/login", &fields, &token, &headers).await;
    assert_eq!(landed.location(), "/admin");
    for cookie in &browser.set_cookies {
        assert!(cookie.starts_with("__Host-") && cookie.contains("; Secure"), "{cookie}");
    }
    weir.end().await;
}

#[tokio::test]
async fn an_unknown_address_and_a_wrong_password_get_the_same_answer() {
    let weir = with_owner().await;
    weir.member("out@weir.example", Role::Admin, None).await;
    let out = member::find_by_email(weir.pool(), "out@weir.example").await.unwrap().unwrap();
    let now = weir.weir().clock.now();
    member::set_disabled(weir.pool(), out.id, Some(now)).await.unwrap();
    let mut browser = Browser::new(&weir);
    let mut answers = Vec::new();
    for (email, password) in [
        (ANA, "wrong password!"),
        ("nobody@weir.example", PASSWORD),
        ("out@weir.example", PASSWORD),
    ] {
        let seen = browser.sign_in(email, password).await;
        let kept = app::routes::segment(email);
        answers.push((seen.status, seen.location().replace(&kept, "EMAIL")));
    }
    assert_eq!(answers[0], (303, "/login?error=credentials&email=EMAIL".to_owned()));
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    weir.end().await;
}

#[tokio::test]
async fn after_five_failures_the_wait_is_named_and_after_it_the_password_works() {
    let weir = with_owner().await;
    let mut browser = Browser::new(&weir);
    for _ in 0..5 {
        let seen = browser.sign_in(ANA, "wrong password!").await;
        assert!(seen.location().contains("error=credentials"), "{}", seen.location());
    }
    let seen = browser.sign_in(ANA, PASSWORD).await;
    assert!(seen.location().contains("error=too_many_tries"), "{}", seen.location());
    assert!(seen.location().contains("wait_s=15"), "{}", seen.location());
    weir.weir().clock.advance(15_000);
    assert_eq!(browser.sign_in(ANA, PASSWORD).await.location(), "/admin");
    weir.end().await;
}

#[tokio::test]
async fn after_signing_in_nobody_is_sent_to_another_site() {
    let weir = with_owner().await;
    for (next, to) in [
        ("//evil.example", "/admin"),
        ("https://evil.example", "/admin"),
        ("/\\evil.example", "/admin"),
        ("/t/acme", "/admin"),
        ("/admin/tenants?q=a", "/admin/tenants?q=a"),
    ] {
        let mut browser = Browser::new(&weir);
        browser.get("/login").await;
        let fields = [("email", ANA), ("password", PASSWORD), ("next", next)];
        assert_eq!(browser.post("/login", &fields).await.location(), to, "{next}");
    }
    weir.end().await;
}

#[tokio::test]
async fn a_form_that_does_not_come_from_our_page_changes_nothing() {
    let weir = with_owner().await;
    let tenant = weir.tenant("acme", "free").await;
    let mut browser = Browser::signed_in(&weir, ANA).await;
    browser.get("/admin/tenants/acme").await;
    let (token, own) = (browser.csrf.clone(), weir.url(""));
    assert!(!token.is_empty(), "the page has no form token");
    let mut stranger = Browser::new(&weir);
    stranger.get("/login").await;
    let foreign_token = stranger.csrf.clone();
    let path = "/admin/tenants/acme/keys";
    let evil = ("origin", "https://evil.example");
    for (token, headers) in [
        ("", vec![("origin", own.as_str())]),
        ("guess", vec![("origin", own.as_str())]),
        (foreign_token.as_str(), vec![("origin", own.as_str())]),
        (token.as_str(), vec![evil]),
        (token.as_str(), vec![("origin", "null")]),
        (token.as_str(), vec![("sec-fetch-site", "cross-site")]),
        (token.as_str(), vec![("sec-fetch-site", "same-site")]),
    ] {
        let seen = browser.post_as(path, &[("name", "ci")], token, &headers).await;
        assert_eq!(seen.status, 303);
        assert_eq!(seen.location(), "/admin/tenants/acme?error=expired_form", "{headers:?}");
    }
    let keys: i64 = sqlx::query_scalar("select count(*) from api_keys where tenant_id = $1")
        .bind(tenant)
        .fetch_one(weir.pool())
        .await
        .unwrap();
    assert_eq!(keys, 0);
    let seen = browser.post(path, &[("name", "ci")]).await;
    assert!(seen.location().ends_with("/created"), "{}", seen.location());
    weir.end().await;
}

#[tokio::test]
async fn signing_out_ends_the_session_on_the_server() {
    let weir = with_owner().await;
    let mut browser = Browser::signed_in(&weir, ANA).await;
    browser.get("/admin").await;
    let session = browser.cookies["weir_operator"].clone();
    let seen = browser.post("/logout", &[]).await;
    assert_eq!(seen.location(), "/login?done=signed_out");
    assert!(!browser.cookies.contains_key("weir_operator"), "the browser still has the cookie");
    browser.cookies.insert("weir_operator".into(), session);
    assert!(browser.get("/admin").await.location().starts_with("/login"));
    weir.end().await;
}

#[tokio::test]
async fn a_person_who_is_kept_out_is_out_on_the_next_request() {
    let weir = with_owner().await;
    let mut browser = Browser::signed_in(&weir, ANA).await;
    assert_eq!(browser.get("/admin").await.status, 200);
    let ana = member::find_by_email(weir.pool(), ANA).await.unwrap().unwrap();
    let now = weir.weir().clock.now();
    member::set_disabled(weir.pool(), ana.id, Some(now)).await.unwrap();
    assert!(browser.get("/admin").await.location().starts_with("/login"));
    member::set_disabled(weir.pool(), ana.id, None).await.unwrap();
    assert!(browser.get("/admin").await.location().starts_with("/login"), "the session is gone");
    weir.end().await;
}

#[tokio::test]
async fn a_session_ends_when_nobody_uses_it_and_after_a_week_at_the_latest() {
    let weir = with_owner().await;
    let clock = &weir.weir().clock;
    let mut idle = Browser::signed_in(&weir, ANA).await;
    clock.advance(12 * HOUR_MS - 60_000);
    assert_eq!(idle.get("/admin").await.status, 200);
    clock.advance(12 * HOUR_MS);
    assert!(idle.get("/admin").await.location().starts_with("/login"), "idle for 12 hours");

    let mut busy = Browser::signed_in(&weir, ANA).await;
    for _ in 0..16 {
        assert_eq!(busy.get("/admin").await.status, 200);
        clock.advance(10 * HOUR_MS);
    }
    clock.advance(8 * HOUR_MS);
    assert!(busy.get("/admin").await.location().starts_with("/login"), "a week old");
    weir.end().await;
}

#[tokio::test]
async fn the_theme_is_kept_in_a_cookie_and_painted_at_once() {
    let weir = with_owner().await;
    let mut browser = Browser::new(&weir);
    browser.get("/login").await;
    let seen = browser.post("/theme", &[("theme", "dark"), ("back", "/login")]).await;
    assert_eq!(seen.location(), "/login");
    assert_eq!(browser.cookies["weir_theme"], "dark");
    assert!(browser.get("/login").await.text.contains("data-theme=\"dark\""));
    let evil = browser.post("/theme", &[("theme", "dark"), ("back", "//evil.example")]).await;
    assert_eq!(evil.location(), "/");
    browser.post("/theme", &[("theme", "neon"), ("back", "/login")]).await;
    assert_eq!(browser.cookies["weir_theme"], "dark", "what is no theme changes nothing");
    weir.end().await;
}
