//! The books from the command line: verified, damaged, set right.

use std::process::Output;

use domain::admission::Scope;
use domain::id::{KeyId, PlanId, PriceId, ProviderId, RequestId, TenantId};
use domain::money::Nanos;
use domain::usage::{Dialect, Outcome, Usage, UsageSource};
use domain::window::{UnixMs, Zone, month_period};
use ledger::{Booking, Ledger, UsageEvent, WriterConfig};
use serde_json::Value;
use testkit::TestDatabase;
use tokio_util::task::TaskTracker;

use crate::program::{run, said};

/// A call of now, so that its month is the running one.
async fn called(pool: &sqlx::PgPool, tenant: i64, number: u128, charge: i64) -> UsageEvent {
    let now: i64 =
        sqlx::query_scalar("select (extract(epoch from clock_timestamp()) * 1000)::bigint")
            .fetch_one(pool)
            .await
            .unwrap();
    let at = UnixMs(now);
    let month = month_period(at, &Zone::utc(), 1).unwrap();
    UsageEvent {
        request_id: RequestId::from_parts(at.0.unsigned_abs(), number),
        tenant_id: TenantId(tenant),
        team_id: None,
        key_id: KeyId(tenant),
        plan_id: PlanId(1),
        provider_id: ProviderId(1),
        dialect: Dialect::Openai,
        route: "openai.chat".into(),
        model: "m".into(),
        served_model: None,
        price_id: PriceId(1),
        stream: false,
        admitted_at: at,
        ended_at: at,
        first_byte_ms: None,
        duration_ms: 1,
        outcome: Outcome::Ok,
        http_status: Some(200),
        usage_source: UsageSource::Provider,
        anomaly: None,
        usage: Usage { input: 1, ..Usage::default() },
        cost: Nanos(charge),
        charge: Nanos(charge),
        hold: Nanos(charge),
        client_request_id: None,
        provider_request_id: None,
        attempts: Vec::new(),
        bookings: vec![Booking {
            scope: Scope::Tenant,
            scope_id: tenant,
            meter: "month_cost".into(),
            slice_start: month.start,
            amount: charge,
            alert: None,
        }],
        drift: Vec::new(),
    }
}

/// Two tenants with books; their ids.
async fn with_books(db: &TestDatabase) -> [i64; 2] {
    let plans = testkit::fixtures::plans(&db.pool).await;
    let mut ids = [0; 2];
    for (id, slug) in ids.iter_mut().zip(["acme", "globex"]) {
        *id = testkit::fixtures::tenant(&db.pool, slug, plans.pro).await.0;
    }
    let tasks = TaskTracker::new();
    let ledger = Ledger::start(db.another_pool(), &tasks, WriterConfig::default());
    for number in 0..6 {
        let tenant = ids[usize::from(number > 3)];
        ledger.append(called(&db.pool, tenant, number, 1_000_000_000).await).await.unwrap();
    }
    drop(ledger);
    tasks.close();
    tasks.wait().await;
    ids
}

async fn damage(db: &TestDatabase, statement: &'static str) {
    assert!(sqlx::query(statement).execute(&db.pool).await.unwrap().rows_affected() > 0);
}

fn weir(db: &TestDatabase, arguments: &[&str]) -> Output {
    run(arguments, &[("DATABASE_URL", db.url.as_str()), ("WEIR_LOG_LEVEL", "error")])
}

fn printed(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", said(output)))
}

#[tokio::test(flavor = "multi_thread")]
async fn books_are_verified_damaged_found_out_and_set_right_on_the_command_line() {
    let db = testkit::database().await;
    let [acme, _] = with_books(&db).await;
    let sound = weir(&db, &["books", "verify"]);
    assert_eq!(sound.status.code(), Some(0), "{}", said(&sound));
    let table = printed(&sound);
    let line = table.lines().find(|line| line.starts_with("acme")).unwrap();
    let cells: Vec<&str> = line.split_whitespace().collect();
    let four = "4.000000000";
    let expected = [
        "acme",
        "4",
        four,
        four,
        four,
        four,
        four,
        "0.000000000",
        "-4.000000000",
        "-4.000000000",
        "0",
    ];
    assert_eq!(cells, expected);
    assert!(table.contains("All places agree"), "{table}");
    assert!(table.contains("house: events cost 6.000000000"), "{table}");

    damage(&db, "update meter_slices set used = used + 7 where used = 4000000000").await;
    damage(
        &db,
        "update usage_rollups set charge_nanos = charge_nanos - 1, requests = requests + 1",
    )
    .await;
    let wrong = weir(&db, &["books", "verify", "--json"]);
    assert_eq!(wrong.status.code(), Some(1), "{}", said(&wrong));
    let told = json(&wrong);
    let differences = &told["tenants"][0]["differences"];
    assert_eq!((differences["slices"].as_i64(), told["agrees"].as_bool()), (Some(7), Some(false)));
    // Every key of every quarter of an hour has a row; calls of one moment share one, or lie in two.
    let rows = differences["rollup calls"].as_i64().unwrap();
    assert_eq!(differences["rollups"].as_i64(), Some(-rows));
    let month = weir(&db, &["books", "verify", "--tenant", "globex", "--json"]);
    assert_eq!(json(&month)["tenants"].as_array().unwrap().len(), 1);

    let mended = weir(&db, &["reconcile", "--json"]);
    assert_eq!(mended.status.code(), Some(0), "{}", said(&mended));
    let mended = json(&mended);
    assert_eq!(mended["compared"], 2);
    assert_eq!(mended["differences"], mended["repaired"]);
    assert_eq!(weir(&db, &["books", "verify"]).status.code(), Some(0));
    let by_id = weir(&db, &["books", "verify", "--tenant", &acme.to_string()]);
    assert_eq!(by_id.status.code(), Some(0), "{}", said(&by_id));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_not_be_repaired_is_told_by_the_exit_code_until_somebody_mends_it() {
    let db = testkit::database().await;
    with_books(&db).await;
    damage(&db, "update balances set balance_nanos = balance_nanos + 5").await;
    // The quick round does not read the ledger; the deep one does.
    assert_eq!(weir(&db, &["reconcile"]).status.code(), Some(0));
    for _ in 0..2 {
        let deep = weir(&db, &["reconcile", "--deep"]);
        assert_eq!(deep.status.code(), Some(1));
        assert!(
            printed(&deep).contains("3 compared: 2 differences, 0 repaired, 2 to be looked at")
        );
    }
    let verified = weir(&db, &["books", "verify"]);
    assert_eq!(verified.status.code(), Some(1));
    assert!(printed(&verified).contains("balance +0.000000005"), "{}", printed(&verified));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_month_and_a_tenant_are_asked_for_by_name() {
    let db = testkit::database().await;
    with_books(&db).await;
    let long_ago = weir(&db, &["books", "verify", "--month", "2024-02", "--json"]);
    assert_eq!(long_ago.status.code(), Some(0), "{}", said(&long_ago));
    let told = json(&long_ago);
    assert_eq!(
        (told["tenants"][0]["events"].as_i64(), told["tenants"][0]["counter_nanos"].is_null()),
        (Some(0), true)
    );
    assert_eq!(weir(&db, &["books", "verify", "--month", "2026-13"]).status.code(), Some(2));
    let nobody = weir(&db, &["books", "verify", "--tenant", "nobody"]);
    assert_eq!(nobody.status.code(), Some(1));
    assert!(said(&nobody).contains("no such tenant"), "{}", said(&nobody));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_books_are_verified_without_an_engine_that_does_not_answer() {
    let db = testkit::database().await;
    with_books(&db).await;
    damage(&db, "update limiter_authority set mode = 'redis'").await;
    let verified = weir(&db, &["books", "verify"]);
    assert_eq!(verified.status.code(), Some(0), "{}", said(&verified));
    assert_eq!(printed(&verified).matches("unread").count(), 2, "{}", printed(&verified));
}
