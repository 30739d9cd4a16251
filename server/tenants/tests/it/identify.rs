//! Which keys let a call in.

use tenants::api_key::{self, ApiKeySecret, KeyEdit};
use tenants::context::{Denied, identify};
use tenants::directory::Changed;

use crate::world::World;

const HOUR_MS: i64 = 60 * 60 * 1_000;

#[tokio::test]
async fn a_good_key_names_its_tenant_and_plan() {
    let world = World::new().await;
    let (key, secret) = world.key().await;
    let directory = world.load().await;
    let context = world.identify(&directory, &secret).unwrap();
    assert_eq!((context.tenant.id, context.key.id), (world.tenant, key));
    assert_eq!((context.tenant.slug.as_str(), context.plan.id), ("acme", world.plans.starter));
    assert!(context.team.is_none());
}

#[tokio::test]
async fn a_wrong_check_sum_is_refused_without_a_look_up() {
    let world = World::new().await;
    let (_, secret) = world.key().await;
    // The hash of the mistyped text is in the table: only its check sum can refuse it.
    let mut mistyped = secret.expose().to_owned();
    let other = if mistyped.ends_with('a') { "b" } else { "a" };
    mistyped.replace_range(43.., other);
    let directory = world.load().await;
    sqlx::query("update api_keys set secret_hash = sha256($1::text::bytea)")
        .bind(&mistyped)
        .execute(&world.pool)
        .await
        .unwrap();
    let all = [Changed::ApiKey(directory.snapshot().key_by_hash(&secret.hash()).unwrap().id)];
    directory.refresh(&world.pool, &all).await.unwrap();
    let denied = identify(&directory.snapshot(), &mistyped, world.now());
    assert_eq!(denied.unwrap_err(), Denied::InvalidKey);
}

#[tokio::test]
async fn a_key_nobody_made_is_invalid_and_nothing_is_known_of_it() {
    let world = World::new().await;
    world.key().await;
    let directory = world.load().await;
    let denied = world.identify(&directory, &ApiKeySecret::generate()).unwrap_err();
    assert_eq!((denied.code(), denied.known()), ("invalid_key", None));
    for text in ["", "weir_sk_", "sk-proj-x", "Bearer x"] {
        assert!(identify(&directory.snapshot(), text, world.now()).is_err(), "{text}");
    }
}

#[tokio::test]
async fn keys_whose_hashes_begin_alike_do_not_collide() {
    let world = World::new().await;
    let (key, secret) = world.key().await;
    let (other, _) = world.key().await;
    // The other key's hash differs from the first one's in its last byte alone.
    let mut near = secret.hash().0;
    near[31] ^= 1;
    sqlx::query("update api_keys set secret_hash = $1 where id = $2")
        .bind(&near[..])
        .bind(other.0)
        .execute(&world.pool)
        .await
        .unwrap();
    let directory = world.load().await;
    assert_eq!(world.identify(&directory, &secret).unwrap().key.id, key);
    assert_eq!(directory.snapshot().key_by_hash(&api_key::KeyHash(near)).unwrap().id, other);
    api_key::revoke(&world.pool, world.tenant, other, world.now()).await.unwrap();
    directory.refresh(&world.pool, &[Changed::ApiKey(other)]).await.unwrap();
    assert!(world.identify(&directory, &secret).is_ok());
}

#[tokio::test]
async fn a_key_works_until_the_instant_it_expires() {
    let world = World::new().await;
    let end = world.now().plus_ms(HOUR_MS);
    let (key, secret) = world.key_with(|new| new.expires_at = Some(end)).await;
    let directory = world.load().await;
    world.clock.set(end.plus_ms(-1));
    assert!(world.identify(&directory, &secret).is_ok());
    world.clock.set(end);
    let denied = world.identify(&directory, &secret).unwrap_err();
    assert_eq!((denied.code(), denied.known().unwrap().key), ("key_expired", key));
}

#[tokio::test]
async fn after_a_rotation_both_secrets_work_until_the_overlap_is_over() {
    let world = World::new().await;
    let (key, old) = world.key().await;
    let directory = world.load().await;
    let rotate = async |secret: &ApiKeySecret, overlap_ms: i64| {
        let until = world.now().plus_ms(overlap_ms);
        api_key::rotate(&world.pool, world.tenant, key, secret, until).await.unwrap();
        directory.refresh(&world.pool, &[Changed::ApiKey(key)]).await.unwrap();
    };
    let new = ApiKeySecret::generate();
    rotate(&new, HOUR_MS).await;
    assert_eq!(world.identify(&directory, &old).unwrap().key.id, key);
    assert_eq!(world.identify(&directory, &new).unwrap().key.id, key);

    let _ = world.clock.advance_ms(HOUR_MS);
    assert_eq!(world.identify(&directory, &old).unwrap_err().code(), "key_revoked");
    assert!(world.identify(&directory, &new).is_ok());

    // A second rotation forgets the first secret altogether.
    let newest = ApiKeySecret::generate();
    rotate(&newest, HOUR_MS).await;
    assert_eq!(world.identify(&directory, &old).unwrap_err(), Denied::InvalidKey);
    assert!(world.identify(&directory, &new).is_ok());
    assert!(world.identify(&directory, &newest).is_ok());
    let row = api_key::find_by_hash(&world.pool, new.hash()).await.unwrap().unwrap();
    assert_eq!((row.id, row.masked), (key, newest.masked()));
}

#[tokio::test]
async fn every_reason_tells_whose_key_it_was() {
    let world = World::new().await;
    let (key, secret) = world.key().await;
    let directory = world.load().await;
    let told = async |changed: Changed| {
        directory.refresh(&world.pool, &[changed]).await.unwrap();
        let denied = world.identify(&directory, &secret).unwrap_err();
        let known = denied.known().unwrap();
        assert_eq!((known.tenant, known.key, known.team), (world.tenant, key, None));
        denied.code()
    };
    let (pool, tenant) = (&world.pool, world.tenant);
    use tenants::tenant::{TenantStatus, set_status};
    set_status(pool, tenant, TenantStatus::Archived).await.unwrap();
    assert_eq!(told(Changed::Tenant(tenant)).await, "tenant_suspended");
    api_key::disable(pool, tenant, key).await.unwrap();
    assert_eq!(told(Changed::ApiKey(key)).await, "key_disabled");
    let past = KeyEdit {
        team: None,
        name: "late".to_owned(),
        rules: Vec::new(),
        expires_at: Some(world.now()),
    };
    api_key::edit(pool, tenant, key, &past).await.unwrap();
    assert_eq!(told(Changed::ApiKey(key)).await, "key_expired");
    api_key::revoke(pool, tenant, key, world.now()).await.unwrap();
    assert_eq!(told(Changed::ApiKey(key)).await, "key_revoked");
}
