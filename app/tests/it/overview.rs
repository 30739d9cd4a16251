//! The operators' overview.

use crate::answer::{attribute, between, get, value};
use crate::fake::Scene;
use axum::http::StatusCode;

#[tokio::test]
async fn the_ten_largest_tenants_stand_in_order_and_add_up_to_the_total() {
    let answer = get(Scene::Rich, "owner", "/admin").await;
    let rows = answer.parts("spend-row");
    assert_eq!(rows.len(), 10);
    let amounts = |part: &str| {
        let settled = between(part, "data-label=\"Settled\"", "</td>");
        let held = between(part, "data-label=\"Held\"", "</td>");
        (value(settled), value(held))
    };
    let mut settled: Vec<i64> = rows.iter().map(|row| amounts(row).0).collect();
    let other = amounts(answer.parts("spend-other")[0]);
    let total = amounts(answer.parts("spend-total")[0]);
    assert_eq!(settled.iter().sum::<i64>() + other.0, total.0);
    assert_eq!(rows.iter().map(|row| amounts(row).1).sum::<i64>() + other.1, total.1);
    let shown = settled.clone();
    settled.sort_by(|one, two| two.cmp(one));
    assert_eq!(shown, settled);
    assert_eq!(value(answer.parts("stat-spend")[0]), total.0);
}

#[tokio::test]
async fn the_held_part_is_seen_and_said() {
    let answer = get(Scene::Rich, "owner", "/admin").await;
    let globex = answer.parts("spend-row")[3];
    assert!(globex.contains("aria-label=\"$170.04 settled and $5.60 held of $200.00\""));
    assert!(between(globex, "<svg", "</svg>").contains("class=\"held\""));
    assert!(between(globex, "data-label=\"Used\"", "</td>").contains("87\u{a0}%"));
}

#[tokio::test]
async fn a_tenant_keeps_the_month_that_was_chosen() {
    let answer = get(Scene::Rich, "owner", "/admin?month=2026-10").await;
    assert!(answer.body.contains("href=\"/admin/tenants/stark?month=2026-10\""));
    assert!(answer.body.contains("October 2026"));
    let now = get(Scene::Rich, "owner", "/admin").await;
    assert!(now.body.contains("href=\"/admin/tenants/stark\""));
}

#[tokio::test]
async fn every_choice_has_an_address_that_keeps_the_others() {
    let answer = get(Scene::Rich, "owner", "/admin?month=2026-10&range=7d&metric=cost").await;
    let link = |testid: &str| {
        let links = answer.tags("a");
        let tag = links.iter().find(|tag| attribute(tag, "data-testid") == testid);
        attribute(tag.expect("the link"), "href").replace("&amp;", "&")
    };
    assert_eq!(link("switch-requests"), "/admin?month=2026-10&range=7d&metric=requests");
    assert_eq!(link("switch-tokens"), "/admin?month=2026-10&range=7d");
    assert_eq!(link("switch---of-cap"), "/admin?month=2026-10&range=7d&metric=cost&order=cap");
}

#[tokio::test]
async fn nonsense_in_the_address_is_named_and_not_an_error() {
    let answer = get(Scene::Rich, "owner", "/admin?month=2026-13&range=%00&metric=%FF").await;
    assert_eq!(answer.status, StatusCode::OK);
    assert!(answer.has("bad-parameter"));
    assert!(answer.body.contains("month=2026-13"));
}

#[tokio::test]
async fn a_broken_panel_fails_alone_with_its_request_id() {
    let answer = get(Scene::Broken, "owner", "/admin").await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(answer.parts("panel-error").len(), 2);
    assert!(answer.body.contains("01KBROKEN0PANEL"));
    assert!(answer.body.contains("01KSLOW0PANEL"));
    assert_eq!(answer.parts("spend-row").len(), 10);
    assert!(answer.body.contains("Degraded: PostgreSQL admits"));
}

#[tokio::test]
async fn operators_are_told_on_every_page_that_the_second_engine_admits() {
    let fallback = get(Scene::Broken, "owner", "/admin").await;
    assert_eq!(fallback.parts("fallback-banner").len(), 1);
    let as_configured = get(Scene::Rich, "owner", "/admin").await;
    assert_eq!(as_configured.parts("fallback-banner").len(), 0);
}

#[tokio::test]
async fn a_new_installation_says_what_will_be_seen_and_what_to_do() {
    let answer = get(Scene::Empty, "owner", "/admin").await;
    assert_eq!(answer.parts("panel-empty").len(), 3);
    assert!(answer.body.contains("weir tenant create"));
    assert!(!answer.has("attention"));
}

#[tokio::test]
async fn what_wants_attention_leads_to_the_tenants_it_is_about() {
    let answer = get(Scene::Rich, "owner", "/admin").await;
    assert!(answer.body.contains("href=\"/admin/tenants?status=refused\""));
    assert!(answer.body.contains("href=\"/admin/tenants?status=over80\""));
    assert!(answer.body.contains("2\u{a0}tenants over 80 %"));
}

#[tokio::test]
async fn the_chart_and_its_table_hold_the_same_days() {
    let answer = get(Scene::Rich, "owner", "/admin").await;
    let wide = between(&answer.body, "<svg class=\"chart wide\"", "</svg>");
    assert_eq!(wide.matches("class=\"hit\"").count(), 28);
    let rows = between(&answer.body, "id=\"spend-days-1\"", "</table>");
    let day = between(rows, "", "</tr>");
    let cells: Vec<i64> = day.split("<td").skip(1).map(value).collect();
    let (total, series) = cells.split_last().expect("cells");
    assert_eq!(series.iter().sum::<i64>(), *total);
    assert_eq!(series.len(), 6);
    assert!(rows.contains("28\u{a0}Nov"));
    assert!(rows.contains(" so far"));
}

#[tokio::test]
async fn the_mix_shows_five_models_and_the_rest_and_all_classes_below() {
    let answer = get(Scene::Rich, "owner", "/admin").await;
    let rows = answer.parts("mix-row");
    assert_eq!(rows.len(), 6);
    assert!(rows[0].contains("gemini-2.5-flash"));
    assert!(between(rows[0], "<svg", "</svg>").contains("fill=\"url(#hatch-cached)\""));
    assert!(between(&answer.body, "data-testid=\"mix-data\"", "</details>").contains("Other"));
}
