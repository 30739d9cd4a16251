use domain::plan::LimitRule;
use domain::usage::Dialect;
use sqlx::types::Json;
use sqlx::{Connection, PgConnection};
use testkit::{TestClock, fixtures};

async fn exists(url: &str, name: &str) -> bool {
    // The database asked about may be gone: ask from the one that is always there.
    let (server, _) = url.rsplit_once('/').unwrap();
    let mut admin = PgConnection::connect(&format!("{server}/postgres")).await.unwrap();
    let found: bool =
        sqlx::query_scalar("select exists (select from pg_database where datname = $1)")
            .bind(name)
            .fetch_one(&mut admin)
            .await
            .unwrap();
    found
}

async fn own_name(pool: &sqlx::PgPool) -> String {
    sqlx::query_scalar("select current_database()::text").fetch_one(pool).await.unwrap()
}

#[tokio::test]
async fn two_tests_do_not_see_each_others_rows() {
    let (one, two) = tokio::join!(testkit::database(), testkit::database());
    fixtures::plans(&one.pool).await;
    let count = "select count(*) from plans";
    let seen: i64 = sqlx::query_scalar(count).fetch_one(&two.pool).await.unwrap();
    assert_eq!(seen, 0);
    let seen: i64 = sqlx::query_scalar(count).fetch_one(&one.another_pool()).await.unwrap();
    assert_eq!(seen, 4);
}

#[tokio::test]
async fn a_database_goes_with_its_passing_test_even_while_in_use() {
    let database = testkit::database().await;
    let (url, name) = (database.url.clone(), own_name(&database.pool).await);
    let busy = database.pool.acquire().await.unwrap();
    assert!(exists(&url, &name).await);
    drop(database);
    assert!(!exists(&url, &name).await);
    drop(busy);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_stays_when_its_test_fails() {
    let database = testkit::database().await;
    let (url, name) = (database.url.clone(), own_name(&database.pool).await);
    let failed = std::thread::spawn(move || {
        let _kept = database;
        panic!("as a failing test does");
    });
    assert!(failed.join().is_err());
    assert!(exists(&url, &name).await);
    let (server, _) = url.rsplit_once('/').unwrap();
    let mut admin = PgConnection::connect(&format!("{server}/postgres")).await.unwrap();
    let statement = format!("drop database {name} with (force)");
    sqlx::raw_sql(sqlx::AssertSqlSafe(statement)).execute(&mut admin).await.unwrap();
}

#[tokio::test]
async fn the_schema_is_the_migrations() {
    let database = testkit::database().await;
    let applied: i64 = sqlx::query_scalar("select count(*) from _sqlx_migrations where success")
        .fetch_one(&database.pool)
        .await
        .unwrap();
    assert_eq!(usize::try_from(applied).unwrap(), testkit::MIGRATOR.iter().count());
}

#[tokio::test]
async fn the_fixtures_fit_together() {
    let database = testkit::database().await;
    let pool = &database.pool;
    let plans = fixtures::plans(pool).await;
    let tenant = fixtures::tenant(pool, "acme", plans.pro).await;
    let team = fixtures::team(pool, tenant, "search", &[LimitRule::Lease { limit: 2 }]).await;
    let key = fixtures::key(pool, tenant, Some(team)).await;
    assert_ne!(key, fixtures::key(pool, tenant, None).await);
    let catalog = fixtures::catalog(pool, "http://127.0.0.1:9").await;
    assert_eq!(catalog.gemini.dialect, Dialect::Gemini);
    let Json(rules): Json<Vec<LimitRule>> =
        sqlx::query_scalar("select rules from plans where id = $1")
            .bind(plans.starter.0)
            .fetch_one(pool)
            .await
            .unwrap();
    assert_eq!(rules.len(), 6);
}

#[test]
fn a_clock_and_its_clones_show_the_same_time() {
    let clock = TestClock::default();
    let (noon, reader) = (clock.now(), clock.reader());
    assert_eq!(clock.advance_ms(1), noon.plus_ms(1));
    assert_eq!(reader(), noon.plus_ms(1));
    clock.set(noon);
    assert_eq!(clock.clone().now(), noon);
}
