//! Starting and stopping.

use std::time::Duration;

use weir::boot::Running;
use weir::config::{Config, Environment, Flags};
use weir::database::{self, Schema};
use weir::failure::Failure;

use crate::process::TestWeir;

fn config(url: &str, more: &[(&str, &str)]) -> Config {
    let folder = std::env::temp_dir().join(format!("weir-it-boot-{}", std::process::id()));
    let mut variables = vec![
        ("DATABASE_URL", url),
        ("WEIR_BIND", "127.0.0.1:0"),
        ("WEIR_METRICS_BIND", "off"),
        ("WEIR_DATA_DIR", folder.to_str().unwrap()),
    ];
    variables.extend_from_slice(more);
    Config::load(&Flags::default(), &Environment::of(&variables)).unwrap()
}

async fn refusal(config: Config) -> String {
    match Running::start(config).await {
        Ok(_) => panic!("it started"),
        Err(failure) => failure.to_string(),
    }
}

#[tokio::test]
async fn a_schema_that_is_not_ours_is_refused_with_the_command_that_mends_it() {
    let database = testkit::database().await;
    let pool = &database.pool;
    assert_eq!(database::schema(pool).await.unwrap(), Schema::Current);

    let version = database::newest();
    sqlx::query("delete from _sqlx_migrations where version = $1")
        .bind(version)
        .execute(pool)
        .await
        .unwrap();
    let older = Schema::Older { found: version - 1 };
    assert_eq!(database::schema(pool).await.unwrap(), older);
    let said = refusal(config(&database.url, &[("WEIR_MIGRATE", "off")])).await;
    assert!(said.contains("run `weir migrate`"), "{said}");

    sqlx::query(
        "insert into _sqlx_migrations (version, description, success, checksum, execution_time)
         values ($1, 'later', true, '', 0), ($2, 'later', true, '', 0)",
    )
    .bind(version)
    .bind(version + 1)
    .execute(pool)
    .await
    .unwrap();
    assert_eq!(database::schema(pool).await.unwrap(), Schema::Newer { found: version + 1 });
    let said = refusal(config(&database.url, &[])).await;
    assert!(said.contains("newer than this program's"), "{said}");
}

#[tokio::test]
async fn an_address_that_is_none_is_told_without_its_password() {
    let said = refusal(config("postgres://u:s3cret@127.0.0.1:1/none", &[])).await;
    assert!(said.contains("cannot reach the database") && !said.contains("s3cret"), "{said}");
    let said = refusal(config("mysql://u:s3cret@h/d", &[])).await;
    assert!(said.contains("DATABASE_URL") && !said.contains("s3cret"), "{said}");
}

#[tokio::test]
async fn a_taken_address_is_told() {
    let weir = TestWeir::start().await;
    let address = weir.url("").trim_start_matches("http://").to_owned();
    let database = testkit::database().await;
    let started = Running::start(config(&database.url, &[("WEIR_BIND", &address)])).await;
    let Err(failure) = started else { panic!("it started") };
    assert!(matches!(failure, Failure::Missing(_)));
    assert!(failure.to_string().contains(&address), "{failure}");
    weir.end().await;
}

#[tokio::test]
async fn a_connection_that_comes_back_with_an_open_transaction_is_not_used_again() {
    let database = testkit::database().await;
    let pool = database::open(&database.url.as_str().into(), 4).await.unwrap();
    let mut connection = pool.acquire().await.unwrap();
    let pid: i32 =
        sqlx::query_scalar("select pg_backend_pid()").fetch_one(&mut *connection).await.unwrap();
    // What a begin leaves behind whose caller went away: sqlx does not know of it.
    sqlx::raw_sql("begin").execute(&mut *connection).await.unwrap();
    drop(connection);
    let gone = async {
        loop {
            let alive: bool =
                sqlx::query_scalar("select exists (select from pg_stat_activity where pid = $1)")
                    .bind(pid)
                    .fetch_one(&database.pool)
                    .await
                    .unwrap();
            if !alive {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), gone).await.expect("the connection lives on");

    // A clean one is used again.
    let first: i32 = sqlx::query_scalar("select pg_backend_pid()").fetch_one(&pool).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let second: i32 = sqlx::query_scalar("select pg_backend_pid()").fetch_one(&pool).await.unwrap();
    assert_eq!(first, second);
    pool.close().await;
}

#[tokio::test]
async fn readiness_follows_the_database_and_says_nothing_secret() {
    let weir = TestWeir::start().await;
    let ready = weir.get("/readyz").await;
    assert_eq!(ready.status(), 200);
    let body: serde_json::Value = serde_json::from_str(&ready.text().await.unwrap()).unwrap();
    assert_eq!((body["status"].as_str(), body["draining"].as_bool()), (Some("ready"), Some(false)));
    assert!(!body.to_string().contains("postgres://"));
    sqlx::query("update _sqlx_migrations set checksum = '' where version = 1")
        .execute(weir.pool())
        .await
        .unwrap();
    // An answer of the database holds for a second.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    assert_eq!(weir.get("/readyz").await.status(), 503);
    assert_eq!(weir.get("/healthz").await.status(), 200, "the process itself lives");
    weir.end().await;
}

#[tokio::test]
async fn the_default_plans_are_there_after_the_first_start_and_the_second_adds_none() {
    let weir = TestWeir::start().await;
    let plans = || async {
        sqlx::query_scalar::<_, i64>("select count(*) from plans")
            .fetch_one(weir.pool())
            .await
            .unwrap()
    };
    assert_eq!(plans().await, 4);
    let url = weir.weir().config.database_url.clone().unwrap();
    let url = secrecy::ExposeSecret::expose_secret(&url).to_owned();
    let second = Running::start(config(&url, &[])).await.unwrap();
    second.stop().await.unwrap();
    assert_eq!(plans().await, 4);
    weir.end().await;
}

#[tokio::test]
async fn when_a_key_was_used_is_written_down() {
    let weir = TestWeir::start().await;
    let tenant = weir.tenant("acme", "free").await;
    let (id, _) = weir.key(tenant, "ci").await;
    let now = weir.weir().clock.now();
    weir.weir().last_used.note(domain::id::KeyId(id), now);
    let pool = weir.pool().clone();
    let used = || async {
        sqlx::query_scalar::<_, bool>("select last_used_at is not null from api_keys where id = $1")
            .bind(id)
            .fetch_one(&pool)
            .await
            .unwrap()
    };
    assert!(!used().await);
    weir.weir().last_used.write(&pool).await.unwrap();
    assert!(used().await);
    weir.end().await;
}

#[tokio::test]
async fn the_clock_of_tests_is_shut_unless_it_is_asked_for() {
    let weir = TestWeir::start_with(&[("WEIR_TEST_CLOCK", "0")]).await;
    let set = |weir: &TestWeir, body: &str| {
        let request = weir.client.post(weir.url("/test/clock"));
        request.header("content-type", "application/json").body(body.to_owned()).send()
    };
    assert_eq!(set(&weir, "{\"advance_ms\": 5}").await.unwrap().status(), 404);
    weir.end().await;

    let weir = TestWeir::start().await;
    let answer = set(&weir, "{\"now\": \"2027-02-28T23:59:59Z\"}").await.unwrap();
    assert_eq!(answer.status(), 200);
    let shown = weir.weir().clock.now().0;
    assert!((1_803_859_199_000..1_803_859_259_000).contains(&shown), "{shown}");
    assert_eq!(set(&weir, "{}").await.unwrap().status(), 400);
    weir.end().await;
}
