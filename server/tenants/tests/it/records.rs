//! Plans, tenants, sessions, the audit log and the instance.

use serde_json::json;
use tenants::audit::{self, NewEntry};
use tenants::tenant::NewTenant;
use tenants::{TenantsError, instance, plan, session, tenant};

use crate::world::World;

#[tokio::test]
async fn the_default_plans_are_read_as_they_are_stored() {
    let database = testkit::database().await;
    let pool = &database.pool;
    assert_eq!(plan::insert_defaults(pool).await.unwrap(), 4);
    assert_eq!(plan::insert_defaults(pool).await.unwrap(), 0);
    let stored = plan::list(pool, None, 10).await.unwrap();
    let defaults = plan::defaults().unwrap();
    let names: Vec<_> = defaults.iter().map(|plan| plan.name.as_str()).collect();
    assert_eq!(names, ["free", "starter", "pro", "enterprise"]);
    for (stored, default) in stored.iter().zip(&defaults) {
        assert_eq!((&stored.name, stored.version), (&default.name, 1));
        assert_eq!((&stored.rules, &stored.models), (&default.rules, &default.models));
        assert_eq!(stored.terms, default.terms);
    }
    let caps: Vec<_> = stored.iter().map(|plan| plan.month_cap().unwrap().0.0).collect();
    assert_eq!(caps, [500_000_000, 20_000_000_000, 200_000_000_000, 2_000_000_000_000]);
}

#[tokio::test]
async fn a_plan_is_never_changed_only_followed() {
    let world = World::new().await;
    let mut next = plan::defaults().unwrap().remove(2);
    next.max_output_tokens = 100_000;
    let id = plan::insert_version(&world.pool, &next).await.unwrap();
    let newest = plan::find_newest(&world.pool, "pro").await.unwrap();
    assert_eq!((newest.id, newest.version, newest.max_output_tokens), (id, 2, 100_000));
    assert_eq!(plan::find(&world.pool, world.plans.pro).await.unwrap().max_output_tokens, 65_536);

    next.default_max_output_tokens = next.max_output_tokens + 1;
    let refused = plan::insert_version(&world.pool, &next).await;
    assert!(matches!(
        refused,
        Err(TenantsError::Invalid { what: "default_max_output_tokens", .. })
    ));
    next.rules.push(next.rules[0].clone());
    let refused = plan::insert_version(&world.pool, &next).await;
    assert!(matches!(refused, Err(TenantsError::Invalid { what: "limits", .. })));
}

#[tokio::test]
async fn a_tenant_needs_a_free_slug_a_plan_and_a_real_time_zone() {
    let world = World::new().await;
    let pool = &world.pool;
    let good = NewTenant {
        slug: "globex".to_owned(),
        name: "Globex".to_owned(),
        plan: world.plans.free,
        time_zone: "Europe/Vienna".to_owned(),
    };
    let id = tenant::create(pool, &good).await.unwrap();
    let found = tenant::find_by_slug(pool, "globex").await.unwrap();
    assert_eq!((found.id, found.plan, found.time_zone.as_str()), (id, good.plan, "Europe/Vienna"));
    let taken = tenant::create(pool, &good).await;
    assert!(matches!(taken, Err(TenantsError::Conflict { what: "tenant slug" })));
    let strange = NewTenant { slug: "No Slug".to_owned(), ..good.clone() };
    let refused = tenant::create(pool, &strange).await;
    assert!(matches!(refused, Err(TenantsError::Invalid { what: "tenant slug", .. })));
    let mars = NewTenant { slug: "m".to_owned(), time_zone: "Mars/Olympus".to_owned(), ..good };
    let refused = tenant::create(pool, &mars).await;
    assert!(matches!(refused, Err(TenantsError::Invalid { what: "time zone", .. })));
    let nowhere = tenant::set_plan(pool, id, domain::id::PlanId(999)).await;
    assert!(matches!(nowhere, Err(TenantsError::NotFound { what: "plan" })));
    let all = tenant::list(pool, Some(world.tenant), 10).await.unwrap();
    assert_eq!(all.iter().map(|tenant| tenant.id).collect::<Vec<_>>(), [id]);
}

#[tokio::test]
async fn a_session_lasts_until_its_end_and_its_name_is_not_kept() {
    let world = World::new().await;
    let (pool, now) = (&world.pool, world.now());
    let end = now.plus_ms(1_000);
    session::create(pool, "canary-name", &json!({"user": 1}), end).await.unwrap();
    let again = session::create(pool, "canary-name", &json!({"user": 2}), end).await;
    assert!(matches!(again, Err(TenantsError::Conflict { what: "session name" })));
    session::save(pool, "canary-name", &json!({"user": 3}), end).await.unwrap();
    let load = async |at| session::load(pool, "canary-name", at).await.unwrap();
    assert_eq!(load(end.plus_ms(-1)).await, Some(json!({"user": 3})));
    assert_eq!(load(end).await, None);
    let kept: String =
        sqlx::query_scalar("select sessions::text from sessions").fetch_one(pool).await.unwrap();
    assert!(!kept.contains("canary"));

    assert_eq!(session::delete_expired(pool, end.plus_ms(-1)).await.unwrap(), 0);
    session::save(pool, "other", &json!({}), end.plus_ms(1)).await.unwrap();
    assert_eq!(session::delete_expired(pool, end).await.unwrap(), 1);
    session::delete(pool, "other").await.unwrap();
    assert_eq!(session::load(pool, "other", now).await.unwrap(), None);
}

#[tokio::test]
async fn the_audit_log_only_grows() {
    let world = World::new().await;
    let (pool, now) = (&world.pool, world.now());
    let entry = |action: &str, tenant| NewEntry {
        at: now,
        actor: "ada@example.com".to_owned(),
        action: action.to_owned(),
        target: "key/7".to_owned(),
        tenant,
        detail: json!({"before": "active"}),
        request_id: None,
    };
    audit::append(pool, &entry("key.revoke", Some(world.tenant))).await.unwrap();
    audit::append(pool, &entry("plan.insert", None)).await.unwrap();
    let all = audit::list(pool, None, None, 10).await.unwrap();
    assert_eq!(all[1].said, entry("key.revoke", Some(world.tenant)));
    assert_eq!(audit::list(pool, Some(world.tenant), None, 10).await.unwrap().len(), 1);
    assert_eq!(audit::list(pool, None, Some(all[0].id), 10).await.unwrap(), all[1..]);
    for change in ["update audit_log set actor = ''", "delete from audit_log", "truncate audit_log"]
    {
        assert!(sqlx::raw_sql(change).execute(pool).await.is_err(), "{change}");
    }

    // A change that is taken back takes its line with it.
    let mut transaction = pool.begin().await.unwrap();
    audit::append(&mut *transaction, &entry("key.create", None)).await.unwrap();
    transaction.rollback().await.unwrap();
    assert_eq!(audit::list(pool, None, None, 10).await.unwrap().len(), 2);
}

#[tokio::test]
async fn the_instance_has_a_name_and_may_be_a_demonstration() {
    let world = World::new().await;
    let found = instance::find(&world.pool).await.unwrap();
    assert_eq!((found.name.as_str(), found.demo), ("Weir", false));
    instance::rename(&world.pool, "Tollgate").await.unwrap();
    instance::mark_demo(&world.pool).await.unwrap();
    let found = instance::find(&world.pool).await.unwrap();
    assert_eq!((found.name.as_str(), found.demo), ("Tollgate", true));
    assert!(instance::rename(&world.pool, " ").await.is_err());
}

#[tokio::test]
async fn a_database_that_is_gone_is_told_apart_from_a_refusal() {
    let world = World::new().await;
    world.pool.close().await;
    let error = instance::find(&world.pool).await.unwrap_err();
    assert!(matches!(error, TenantsError::Unavailable(_)), "{error:?}");
}
