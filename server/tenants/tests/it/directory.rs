//! What one process changes, every process sees.

use std::sync::Arc;
use std::time::Duration;

use domain::plan::{LimitRule, Metric};
use sqlx::{AssertSqlSafe, PgPool};
use tenants::context::Denied;
use tenants::directory::Changed;
use tenants::tenant::TenantStatus;
use tenants::{api_key, plan, team, tenant};
use testkit::fixtures;
use tokio_util::task::TaskTracker;

use crate::slow_line::SlowLine;
use crate::world::{SEEN_WITHIN, World, until};

#[tokio::test]
async fn a_revocation_is_seen_by_every_process_within_a_second() {
    let mut world = World::new().await;
    let (key, secret) = world.key().await;
    let (one, two) = (world.process().await, world.process().await);
    // A process that has heard of a new key is listening.
    let (_, heard) = world.key().await;
    for directory in [&one, &two] {
        until("a new key is known", || world.identify(directory, &heard).is_ok()).await;
        assert!(world.identify(directory, &secret).is_ok());
    }
    api_key::revoke(&world.pool, world.tenant, key, world.now()).await.unwrap();
    for directory in [&one, &two] {
        let took = until("the key is revoked", || {
            matches!(world.identify(directory, &secret), Err(Denied::KeyRevoked(_)))
        })
        .await;
        assert!(took < SEEN_WITHIN, "{took:?}");
    }
}

#[tokio::test]
async fn every_change_of_tenant_team_plan_and_key_is_seen() {
    let mut world = World::new().await;
    let team = world.team("search").await;
    let (key, secret) = world.key_with(|new| new.team = Some(team)).await;
    let directory = world.process().await;
    let context = || world.identify(&directory, &secret).unwrap();

    let limit = LimitRule::Lease { limit: 3 };
    team::edit(&world.pool, world.tenant, team, "find", std::slice::from_ref(&limit))
        .await
        .unwrap();
    until("the team's limit", || context().team.unwrap().rules == [limit.clone()]).await;

    tenant::edit(&world.pool, world.tenant, "Acme & Sons", "Asia/Kathmandu").await.unwrap();
    until("the tenant's name", || context().tenant.name == "Acme & Sons").await;

    let mut next = plan::defaults().unwrap().remove(1);
    next.markup_bps = 2_000;
    let version = plan::insert_version(&world.pool, &next).await.unwrap();
    tenant::set_plan(&world.pool, world.tenant, version).await.unwrap();
    until("the new plan version", || context().plan.markup_bps == 2_000).await;
    assert_eq!((context().plan.version, context().plan.name.as_str()), (2, "starter"));

    tenant::set_status(&world.pool, world.tenant, TenantStatus::Suspended).await.unwrap();
    until("the suspension", || {
        matches!(world.identify(&directory, &secret), Err(Denied::TenantSuspended(_)))
    })
    .await;
    tenant::set_status(&world.pool, world.tenant, TenantStatus::Active).await.unwrap();
    until("its end", || world.identify(&directory, &secret).is_ok()).await;

    api_key::disable(&world.pool, world.tenant, key).await.unwrap();
    until("the key is disabled", || {
        matches!(world.identify(&directory, &secret), Err(Denied::KeyDisabled(_)))
    })
    .await;
    api_key::enable(&world.pool, world.tenant, key).await.unwrap();
    until("and enabled", || world.identify(&directory, &secret).is_ok()).await;
}

#[tokio::test]
async fn a_lost_connection_and_what_was_said_meanwhile_do_no_harm() {
    let mut world = World::new().await;
    let (key, secret) = world.key().await;
    let directory = world.process().await;
    let (_, heard) = world.key().await;
    until("a new key is known", || world.identify(&directory, &heard).is_ok()).await;

    // Without its trigger the table tells nobody, as when a notification is lost.
    let run = |statement: &'static str| sqlx::raw_sql(statement).execute(&world.pool);
    run("alter table api_keys disable trigger user").await.unwrap();
    api_key::revoke(&world.pool, world.tenant, key, world.now()).await.unwrap();
    run("alter table api_keys enable trigger user").await.unwrap();
    // Nobody was told. A late reading of the other key's news may have come by all the same, so this is not asserted.

    // Whoever listens is thrown out; the comparison after coming back finds what nobody told.
    let killed: i64 = sqlx::query_scalar(
        "select count(pg_terminate_backend(pid)) from pg_stat_activity
         where datname = current_database() and query ilike 'listen%'",
    )
    .fetch_one(&world.pool)
    .await
    .unwrap();
    assert_eq!(killed, 1);
    until("the revocation is found", || {
        matches!(world.identify(&directory, &secret), Err(Denied::KeyRevoked(_)))
    })
    .await;
    let (_, again) = world.key().await;
    let took = until("it listens again", || world.identify(&directory, &again).is_ok()).await;
    assert!(took < SEEN_WITHIN, "{took:?}");
}

#[tokio::test]
async fn a_look_up_that_began_before_a_revocation_does_not_bring_the_key_back() {
    let world = World::new().await;
    let (key, secret) = world.key().await;
    let directory = world.load().await;
    let mut line = SlowLine::to(&world.database.url).await;
    let refresh = |pool: PgPool| {
        let directory = Arc::clone(&directory);
        async move { directory.refresh(&pool, &[Changed::ApiKey(key)]).await.unwrap() }
    };
    // Once, so that the statement is prepared and the next answer is the row.
    refresh(line.pool.clone()).await;

    let tasks = TaskTracker::new();
    line.hold_back();
    let early = tasks.spawn(refresh(line.pool.clone()));
    line.answered().await;
    // The early look-up has read an active key and does not know it yet.
    api_key::revoke(&world.pool, world.tenant, key, world.now()).await.unwrap();
    let mut late = tasks.spawn(refresh(world.pool.clone()));
    // The late one must not overtake it; if it could, it would do so within the bound.
    let overtaken = tokio::time::timeout(Duration::from_millis(300), &mut late).await.is_ok();
    line.let_go();
    early.await.unwrap();
    if !overtaken {
        late.await.unwrap();
    }
    let denied = world.identify(&directory, &secret).unwrap_err();
    assert!(matches!(denied, Denied::KeyRevoked(_)), "{denied:?}");
    assert!(!overtaken);
}

#[tokio::test]
async fn a_change_of_one_key_leaves_all_others_where_they_are() {
    let world = World::new().await;
    let (key, secret) = world.key().await;
    let (other, _) = world.key().await;
    let directory = world.load().await;
    let before = directory.snapshot();
    api_key::disable(&world.pool, world.tenant, key).await.unwrap();
    directory.refresh(&world.pool, &[Changed::ApiKey(key)]).await.unwrap();
    let after = directory.snapshot();
    assert!(Arc::ptr_eq(before.key(other).unwrap(), after.key(other).unwrap()));
    assert!(!Arc::ptr_eq(before.key(key).unwrap(), after.key(key).unwrap()));
    // A call that began with the old snapshot sees the old state to its end.
    assert!(before.key_by_hash(&secret.hash()).unwrap().status == api_key::KeyStatus::Active);
    directory.refresh(&world.pool, &[Changed::ApiKey(key)]).await.unwrap();
    assert!(Arc::ptr_eq(&after, &directory.snapshot()), "nothing changed, nothing is replaced");
}

#[tokio::test]
async fn a_deleted_row_is_gone_and_a_row_nobody_can_read_lets_nothing_pass() {
    let world = World::new().await;
    let team = world.team("search").await;
    let (_, in_team) = world.key_with(|new| new.team = Some(team)).await;
    let (key, secret) = world.key().await;
    let directory = world.load().await;

    sqlx::query("delete from api_keys where id = $1")
        .bind(key.0)
        .execute(&world.pool)
        .await
        .unwrap();
    directory.refresh(&world.pool, &[Changed::ApiKey(key)]).await.unwrap();
    assert_eq!(world.identify(&directory, &secret).unwrap_err(), Denied::InvalidKey);

    let strange = r#"update teams set rules = '[{"rule": "barter"}]'"#;
    sqlx::raw_sql(AssertSqlSafe(strange)).execute(&world.pool).await.unwrap();
    directory.refresh(&world.pool, &[Changed::Team(team)]).await.unwrap();
    let denied = world.identify(&directory, &in_team).unwrap_err();
    assert_eq!(denied.code(), "admission_unavailable");
    assert_eq!(denied.known().unwrap().team, Some(team));
}

#[tokio::test]
async fn more_keys_than_one_page_are_all_known() {
    let world = World::new().await;
    sqlx::query(
        "insert into api_keys (tenant_id, name, secret_hash, masked)
         select $1, 'bulk', sha256(n::text::bytea), '' from generate_series(1, 4500) as n",
    )
    .bind(world.tenant.0)
    .execute(&world.pool)
    .await
    .unwrap();
    let (_, last) = world.key().await;
    let directory = world.load().await;
    assert_eq!(directory.snapshot().key_count(), 4_501);
    assert!(world.identify(&directory, &last).is_ok());
    assert!(directory.age().as_secs() < 60);
}

#[tokio::test]
async fn a_call_is_metered_by_key_then_team_then_tenant() {
    let world = World::new().await;
    let own = LimitRule::Lease { limit: 1 };
    let month = LimitRule::Month { metric: Metric::Cost, limit: 5, overage_bps: 0, anchor_day: 1 };
    let team = fixtures::team(&world.pool, world.tenant, "search", &[month]).await;
    let (key, secret) = world
        .key_with(|new| {
            new.team = Some(team);
            new.rules = vec![own];
        })
        .await;
    let directory = world.load().await;
    let meters = world.identify(&directory, &secret).unwrap().meters();
    let told: Vec<_> = meters.iter().map(|m| (m.scope.code(), m.scope_id, m.name())).collect();
    assert_eq!(told[0], ("key", key.0, "concurrency"));
    assert_eq!(told[1], ("team", team.0, "month_cost"));
    let tenant = world.tenant.0;
    let plan: Vec<_> = told[2..].iter().map(|(.., name)| *name).collect();
    assert!(told[2..].iter().all(|(scope, id, _)| (*scope, *id) == ("tenant", tenant)));
    assert_eq!(
        plan,
        ["requests_rate", "tokens_rate", "concurrency", "5h_cost", "week_cost", "month_cost"]
    );
}
