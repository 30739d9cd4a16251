//! The rows about keys.

use domain::plan::LimitRule;
use sqlx::postgres::PgListener;
use tenants::TenantsError;
use tenants::api_key::{self, KeyEdit, KeyStatus, NewKey};

use crate::world::World;

#[tokio::test]
async fn a_key_is_kept_as_hash_and_mask_only() {
    let world = World::new().await;
    let limits = vec![LimitRule::Lease { limit: 4 }];
    let (key, secret) = world.key_with(|new| new.rules.clone_from(&limits)).await;
    let row = api_key::find(&world.pool, world.tenant, key).await.unwrap();
    assert_eq!((row.masked, row.rules, row.status), (secret.masked(), limits, KeyStatus::Active));
    let all: String = sqlx::query_scalar("select api_keys::text from api_keys")
        .fetch_one(&world.pool)
        .await
        .unwrap();
    assert!(!all.contains(&secret.expose()[8..]));
    let found = api_key::find_by_hash(&world.pool, secret.hash()).await.unwrap();
    assert_eq!(found.unwrap().id, key);
}

#[tokio::test]
async fn revoked_is_for_good_and_keeps_its_first_instant() {
    let world = World::new().await;
    let (key, _) = world.key().await;
    let (pool, tenant, first) = (&world.pool, world.tenant, world.now());
    api_key::revoke(pool, tenant, key, first).await.unwrap();
    api_key::revoke(pool, tenant, key, world.clock.advance_ms(1_000)).await.unwrap();
    assert_eq!(api_key::find(pool, tenant, key).await.unwrap().revoked_at, Some(first));
    let edit = KeyEdit { team: None, name: "x".to_owned(), rules: Vec::new(), expires_at: None };
    let secret = api_key::ApiKeySecret::generate();
    for refused in [
        api_key::enable(pool, tenant, key).await,
        api_key::disable(pool, tenant, key).await,
        api_key::edit(pool, tenant, key, &edit).await,
        api_key::rotate(pool, tenant, key, &secret, first).await,
    ] {
        assert!(matches!(refused, Err(TenantsError::Conflict { .. })), "{refused:?}");
    }
    let row = api_key::find(pool, tenant, key).await.unwrap();
    assert_eq!((row.status, row.name.as_str()), (KeyStatus::Revoked, "backend"));
}

#[tokio::test]
async fn another_tenants_key_and_team_are_not_there() {
    let world = World::new().await;
    let (key, _) = world.key().await;
    let pool = &world.pool;
    let stranger = world.new_tenant("stranger", world.plans.free).await;
    let missing = |result: Result<(), TenantsError>| {
        assert!(matches!(result, Err(TenantsError::NotFound { what: "key" })), "{result:?}");
    };
    missing(api_key::revoke(pool, stranger, key, world.now()).await);
    missing(api_key::disable(pool, stranger, key).await);
    missing(api_key::find(pool, stranger, key).await.map(drop));
    assert!(api_key::list(pool, Some(stranger), None, 10).await.unwrap().is_empty());
    assert_eq!(api_key::find(pool, world.tenant, key).await.unwrap().status, KeyStatus::Active);

    let team = world.team("search").await;
    let new = NewKey {
        tenant: stranger,
        team: Some(team),
        name: "x".to_owned(),
        rules: Vec::new(),
        expires_at: None,
    };
    let refused = api_key::create(pool, &new, &api_key::ApiKeySecret::generate()).await;
    assert!(matches!(refused, Err(TenantsError::NotFound { what: "team" })), "{refused:?}");
}

#[tokio::test]
async fn last_use_only_moves_forward_and_tells_nobody() {
    let world = World::new().await;
    let (key, _) = world.key().await;
    let (other, _) = world.key().await;
    let mut listener = PgListener::connect_with(&world.pool).await.unwrap();
    listener.listen("weir_config").await.unwrap();
    let (pool, tenant, now) = (&world.pool, world.tenant, world.now());
    let last = async || api_key::find(pool, tenant, key).await.unwrap().last_used_at;
    // Twice in one batch, the later one first.
    api_key::touch(pool, &[(key, now), (key, now.plus_ms(-5)), (other, now)]).await.unwrap();
    assert_eq!(last().await, Some(now));
    api_key::touch(pool, &[(key, now.plus_ms(-1))]).await.unwrap();
    assert_eq!(last().await, Some(now));
    api_key::touch(pool, &[(key, now.plus_ms(1)), (other, now)]).await.unwrap();
    assert_eq!(last().await, Some(now.plus_ms(1)));
    api_key::touch(pool, &[]).await.unwrap();
    // Notifications come in order: the first one heard is that of a real change.
    api_key::disable(pool, tenant, other).await.unwrap();
    let heard = listener.recv().await.unwrap();
    assert_eq!(heard.payload(), format!("api_keys:{other}"));
    api_key::touch(pool, &[(key, now.plus_ms(2))]).await.unwrap();
    api_key::enable(pool, tenant, key).await.unwrap();
    assert_eq!(listener.recv().await.unwrap().payload(), format!("api_keys:{key}"));
    assert!(listener.next_buffered().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn processes_that_touch_the_same_keys_do_not_block_each_other_for_good() {
    let world = World::new().await;
    let mut keys = Vec::new();
    for _ in 0..20 {
        keys.push(world.key().await.0);
    }
    let tasks = tokio_util::task::TaskTracker::new();
    for turn in 0..8 {
        let (pool, mut keys, now) = (world.pool.clone(), keys.clone(), world.now());
        keys.rotate_left(turn);
        if turn % 2 == 0 {
            keys.reverse();
        }
        tasks.spawn(async move {
            for step in 0..10 {
                let seen: Vec<_> = keys.iter().map(|key| (*key, now.plus_ms(step))).collect();
                api_key::touch(&pool, &seen).await.unwrap();
            }
        });
    }
    tasks.close();
    tasks.wait().await;
    for key in keys {
        let row = api_key::find(&world.pool, world.tenant, key).await.unwrap();
        assert_eq!(row.last_used_at, Some(world.now().plus_ms(9)));
    }
}

#[tokio::test]
async fn lists_go_on_where_they_ended() {
    let world = World::new().await;
    let mut made = Vec::new();
    for _ in 0..5 {
        made.push(world.key().await.0);
    }
    made.reverse();
    let ids = |rows: Vec<api_key::KeyRow>| rows.iter().map(|row| row.id).collect::<Vec<_>>();
    let (pool, tenant) = (&world.pool, Some(world.tenant));
    let first = ids(api_key::list(pool, tenant, None, 3).await.unwrap());
    let rest = ids(api_key::list(pool, None, first.last().copied(), 3).await.unwrap());
    assert_eq!([first, rest].concat(), made);
}
