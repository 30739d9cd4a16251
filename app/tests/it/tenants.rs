//! The list of tenants, one tenant, and a tenant's own page.

use crate::answer::{attribute, between, get};
use crate::fake::Scene;
use axum::http::StatusCode;

#[tokio::test]
async fn a_filter_narrows_the_list_and_can_be_cleared() {
    let all = get(Scene::Rich, "viewer", "/admin/tenants").await;
    assert_eq!(all.parts("tenant-row").len(), 12);
    let some = get(Scene::Rich, "viewer", "/admin/tenants?status=over80").await;
    assert_eq!(some.parts("tenant-row").len(), 2);
    assert!(some.has("clear"));
    let none = get(Scene::Rich, "viewer", "/admin/tenants?q=zzz&plan=pro").await;
    assert!(none.body.contains("No tenant matches “zzz” on plan pro."));
    assert!(none.has("clear-filters"));
}

#[tokio::test]
async fn sorting_says_its_direction_and_turns_round() {
    let answer = get(Scene::Rich, "owner", "/admin/tenants?sort=-cap&plan=pro").await;
    let heads = answer.tags("th");
    assert_eq!(heads.iter().filter(|tag| tag.contains("aria-sort")).count(), 1);
    let links = answer.tags("a");
    let link = |testid: &str| {
        let tag = links.iter().find(|tag| attribute(tag, "data-testid") == testid);
        attribute(tag.expect("a link"), "href").replace("&amp;", "&")
    };
    assert_eq!(link("sort-cap"), "/admin/tenants?plan=pro&sort=cap");
    assert_eq!(link("sort-name"), "/admin/tenants?plan=pro&sort=name");
    assert_eq!(link("sort-spend"), "/admin/tenants?plan=pro");
}

#[tokio::test]
async fn without_tenants_the_list_says_what_a_tenant_is() {
    let answer = get(Scene::Empty, "owner", "/admin/tenants").await;
    assert!(answer.body.contains("A tenant is a customer with a plan, a budget and keys."));
}

#[tokio::test]
async fn a_hostile_name_stays_text_in_the_title_of_the_window() {
    let answer = get(Scene::Hostile, "owner", "/admin/tenants/acme").await;
    let title = between(&answer.body, "<title>", "</title>");
    assert!(title.starts_with("&lt;/td&gt;&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;"));
}

#[tokio::test]
async fn one_tenant_shows_budget_keys_days_and_calls() {
    let answer = get(Scene::Rich, "owner", "/admin/tenants/acme").await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(answer.heading(), "Acme");
    assert_eq!(answer.parts("key-row").len(), 4);
    assert_eq!(answer.parts("call-row").len(), 12);
    assert!(answer.body.contains("Calls are refused at $21.00, the cap with its overage."));
    // A revoked key has no button; the others have.
    assert_eq!(answer.parts("revoke-key").len(), 3);
    let form = answer.parts("create-key-form")[0];
    assert!(form.contains("name=\"name\""));
    assert!(answer.body.contains("action=\"/admin/tenants/acme/keys\""));
}

#[tokio::test]
async fn a_role_without_the_right_sees_no_button_but_the_reason() {
    let answer = get(Scene::Rich, "viewer", "/admin/tenants/acme").await;
    assert!(!answer.has("create-key-form"));
    assert!(!answer.has("revoke-key"));
    assert!(answer.has("may-not-create"));
    // A viewer may not see single calls either: that panel says so, the page stands.
    assert_eq!(answer.parts("panel-error").len(), 1);
    assert!(answer.body.contains("You may not see single requests."));
}

#[tokio::test]
async fn a_tenant_that_is_refused_says_why() {
    let refused = get(Scene::Rich, "owner", "/admin/tenants/northwind").await;
    assert!(refused.body.contains("This tenant is at its cap."));
    let suspended = get(Scene::Rich, "owner", "/admin/tenants/wonka").await;
    assert!(suspended.body.contains("This tenant is suspended."));
}

#[tokio::test]
async fn a_refused_key_name_comes_back_with_its_reason() {
    let path = "/admin/tenants/acme?error=name_taken&name=ci+runner";
    let answer = get(Scene::Rich, "owner", path).await;
    assert!(between(answer.parts("form-error")[0], "<p>", "</p>").contains("already has"));
    assert!(answer.body.contains("value=\"ci runner\""));
}

#[tokio::test]
async fn a_tenant_sees_its_own_month_and_its_keys_without_buttons() {
    let answer = get(Scene::Rich, "member", "/t/acme").await;
    assert_eq!(answer.heading(), "Overview");
    assert!(answer.has("budget-settled"));
    assert_eq!(answer.parts("key-row").len(), 4);
    assert!(!answer.has("revoke-key"));
    assert!(answer.has("portal-days"));
    let billing = get(Scene::Rich, "billing", "/t/acme").await;
    assert!(!billing.has("key-row"));
    assert!(billing.has("budget-settled"));
}
