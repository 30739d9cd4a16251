//! What the program may do while it runs as a member of `weir_runtime`.

use domain::id::TenantId;
use domain::money::Nanos;
use ledger::balance::{Movement, top_up};
use ledger::partition::{adopt_strays, ensure_partitions};
use ledger::reconcile::{self, Extent};
use ledger::{Ledger, WriterConfig};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, PgConnection, PgPool};
use testkit::TestDatabase;
use tokio_util::task::TaskTracker;

use crate::fixture::{NOON, agreed, event, event_at, note};
use crate::keeping::FAR;

/// PostgreSQL's code for a right that is missing.
const NOT_ALLOWED: &str = "42501";
/// Every table of facts.
const FACTS: [&str; 11] = [
    "usage_events",
    "usage_events_default",
    "attempts",
    "balance_ledger",
    "prices",
    "drift",
    "alerts",
    "refusals",
    "audit_log",
    "movements",
    "give_backs",
];

/// A role that may sign in and is a member of the group, and a pool of it.
struct Member {
    pool: PgPool,
    name: String,
    admin: PgConnection,
}

impl Member {
    async fn of(db: &TestDatabase) -> Self {
        let mut admin = PgConnection::connect(&db.url).await.unwrap();
        // Roles are the whole server's: the name is this test's own.
        let name: String =
            sqlx::query_scalar("select 'weir_member_' || md5(gen_random_uuid()::text)")
                .fetch_one(&mut admin)
                .await
                .unwrap();
        run(&mut admin, format!("create role {name} login password 'm' in role weir_runtime"))
            .await;
        let options: PgConnectOptions = db.url.parse().unwrap();
        let options = options.username(&name).password("m").disable_statement_logging();
        let pool = PgPoolOptions::new().max_connections(5).connect_with(options).await.unwrap();
        Self { pool, name, admin }
    }

    async fn end(mut self) {
        self.pool.close().await;
        run(&mut self.admin, format!("drop role {}", self.name)).await;
    }
}

async fn run(connection: &mut PgConnection, statement: String) {
    sqlx::raw_sql(AssertSqlSafe(statement)).execute(connection).await.unwrap();
}

async fn refused(pool: &PgPool, statement: String) {
    let done = sqlx::raw_sql(AssertSqlSafe(statement.clone())).execute(pool).await;
    let code = done.map_err(|e| e.as_database_error().and_then(|e| e.code().map(String::from)));
    assert_eq!(code.map(drop).unwrap_err().as_deref(), Some(NOT_ALLOWED), "{statement}");
}

#[tokio::test]
async fn the_program_needs_no_more_than_the_rights_of_its_group() {
    let db = testkit::database().await;
    let member = Member::of(&db).await;
    let tasks = TaskTracker::new();
    let ledger = Ledger::start(member.pool.clone(), &tasks, WriterConfig::default());
    let mut call = event(1, 900);
    call.drift = vec![note("estimate")];
    let rule = ledger::AlertRule { limit: 1_000, thresholds_percent: vec![80] };
    call.bookings[0].alert = Some(rule);
    ledger.append(call.clone()).await.unwrap();
    ledger.append(call).await.unwrap();
    ledger.append(event_at(1, 5, FAR)).await.unwrap();
    let (tenant_id, amount) = (TenantId(1), Nanos(50));
    let paid = Movement { tenant_id, amount, actor: "a", reason: "b" };
    top_up(&member.pool, paid).await.unwrap();
    // Partitions are made, and strays adopted, with their owner's rights.
    assert_eq!(adopt_strays(&member.pool).await.unwrap(), 1);
    ensure_partitions(&member.pool, FAR).await.unwrap();
    ledger.append(event_at(1, 5, FAR)).await.unwrap();
    reconcile::tenant(&member.pool, tenant_id, Extent::Whole, NOON).await.unwrap();
    ledger::retention::prune_slices(&member.pool, NOON).await.unwrap();
    drop(ledger);
    tasks.close();
    tasks.wait().await;
    assert_eq!(agreed(&db.pool).await[0].events, 3);
    member.end().await;
}

#[tokio::test]
async fn facts_are_out_of_reach_and_so_is_the_schema() {
    let db = testkit::database().await;
    let member = Member::of(&db).await;
    for table in FACTS {
        refused(&member.pool, format!("delete from {table}")).await;
        refused(&member.pool, format!("truncate {table}")).await;
    }
    for statement in [
        "update usage_events set charge_nanos = 0",
        "update balance_ledger set amount_nanos = 0",
        "update movements set amount_nanos = 0",
        "update drift set found = expected",
        "delete from usage_events_2026_11",
        "truncate usage_rollups",
        "alter table usage_events disable trigger user",
        "drop table drift",
        "create table mine (id int)",
        "insert into _sqlx_migrations default values",
        "select grant_runtime_rights('weir_runtime')",
    ] {
        refused(&member.pool, statement.to_owned()).await;
    }
    member.end().await;
}

#[tokio::test]
async fn every_table_of_facts_is_one_by_its_trigger_and_by_its_rights() {
    let db = testkit::database().await;
    let editable: Vec<String> = sqlx::query_scalar(
        "select c.relname::text from pg_class c
         where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')
           and exists (select from pg_trigger g where g.tgrelid = c.oid and g.tgfoid = 'refuse_change'::regproc)
           and (has_table_privilege('weir_runtime', c.oid, 'update')
                or has_table_privilege('weir_runtime', c.oid, 'delete')
                or has_table_privilege('weir_runtime', c.oid, 'truncate')
                or (select count(*) from pg_trigger g where g.tgrelid = c.oid and g.tgfoid = 'refuse_change'::regproc) <> 2)",
    )
    .fetch_all(&db.pool)
    .await
    .unwrap();
    assert_eq!(editable, Vec::<String>::new());
}
