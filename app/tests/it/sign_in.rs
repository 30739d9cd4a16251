//! First run and sign-in.

use crate::answer::{attribute, get};
use crate::fake::{SETUP_TOKEN, Scene};
use axum::http::StatusCode;

#[tokio::test]
async fn set_up_does_not_exist_without_its_token() {
    for path in ["/setup", "/setup?token=", "/setup?token=guess"] {
        let answer = get(Scene::Empty, "nobody", path).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{path}");
        assert!(!answer.has("setup-form"), "{path}");
    }
}

#[tokio::test]
async fn set_up_asks_for_the_first_owner_and_keeps_what_was_typed() {
    let path = format!("/setup?token={SETUP_TOKEN}&error=password_too_short&email=a%40b.c");
    let answer = get(Scene::Empty, "nobody", &path).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert!(answer.body.contains("The password needs at least 12 characters."));
    let inputs = answer.tags("input");
    let field =
        |name: &str| *inputs.iter().find(|tag| attribute(tag, "name") == name).expect("the field");
    assert_eq!(attribute(field("token"), "value"), SETUP_TOKEN);
    assert_eq!(attribute(field("email"), "value"), "a@b.c");
    assert_eq!(attribute(field("password"), "value"), "");
    assert_eq!(attribute(field("password"), "autocomplete"), "new-password");
}

#[tokio::test]
async fn sign_in_gives_one_answer_for_wrong_mail_and_wrong_password() {
    let answer = get(Scene::Rich, "nobody", "/login?error=credentials&email=a%40b.c").await;
    assert!(answer.body.contains("E-mail or password is not right."));
    assert_eq!(answer.heading(), "Sign in to Acme production");
    let inputs = answer.tags("input");
    let names: Vec<&str> = inputs.iter().map(|tag| attribute(tag, "autocomplete")).collect();
    assert!(names.contains(&"username") && names.contains(&"current-password"));
}

#[tokio::test]
async fn sign_in_goes_back_only_to_this_site() {
    for (next, kept) in [
        ("%2Fadmin%2Ftenants", "/admin/tenants"),
        ("%2F%2Fevil", ""),
        ("https%3A%2F%2Fevil", ""),
        ("%2F%5Cevil", ""),
    ] {
        let answer = get(Scene::Rich, "nobody", &format!("/login?next={next}")).await;
        let inputs = answer.tags("input");
        let field = inputs.iter().find(|tag| attribute(tag, "name") == "next").expect("the field");
        assert_eq!(attribute(field, "value"), kept);
    }
}

#[tokio::test]
async fn who_is_signed_in_is_sent_on() {
    let answer = get(Scene::Rich, "owner", "/login").await;
    assert_eq!((answer.status, answer.header("location")), (StatusCode::SEE_OTHER, "/admin"));
}

#[tokio::test]
async fn before_the_first_owner_sign_in_points_to_set_up() {
    assert!(get(Scene::Empty, "nobody", "/login").await.has("setup-hint"));
    assert!(!get(Scene::Rich, "nobody", "/login").await.has("setup-hint"));
}
