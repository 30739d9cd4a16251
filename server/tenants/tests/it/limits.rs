//! Limits beside a plan's list: overrides of one tenant, quotas of providers, and what was learned of tokens.

use domain::admission::{Meter, Scope};
use domain::id::{ModelId, TenantId};
use domain::plan::{LimitRule, Metric};
use domain::window::UnixMs;
use tenants::calibration::{self, Learned};
use tenants::directory::{Changed, Directory};
use tenants::limit_override::{self, NewOverride};
use tenants::{TenantsError, catalog, plan, tenant};
use testkit::fixtures;

use crate::world::{SEEN_WITHIN, World, until};

const HOUR_MS: i64 = 3_600_000;
const USD: i64 = 1_000_000_000;

fn month(limit: i64, anchor_day: u8) -> LimitRule {
    LimitRule::Month { metric: Metric::Cost, limit, overage_bps: 0, anchor_day }
}

impl World {
    fn over(&self, rule: LimitRule, until: UnixMs) -> NewOverride {
        NewOverride {
            tenant: self.tenant,
            rule,
            until,
            reason: "launch day".to_owned(),
            actor: "ops@example.com".to_owned(),
        }
    }

    async fn set(&self, new: &NewOverride) -> Result<i64, TenantsError> {
        let mut change = self.pool.begin().await.unwrap();
        let set = limit_override::set(&mut change, new, self.now()).await?;
        change.commit().await.unwrap();
        Ok(set)
    }

    async fn end(&self, meter: &str) -> Result<i64, TenantsError> {
        let mut change = self.pool.begin().await.unwrap();
        let (actor, now) = ("ops@example.com", self.now());
        let ended =
            limit_override::end(&mut change, self.tenant, meter, "over", actor, now).await?;
        change.commit().await.unwrap();
        Ok(ended)
    }

    /// Where the tenant's month of money ends, as a call would be metered now.
    fn month_limit(&self, meters: &[Meter]) -> Option<i64> {
        meters.iter().find_map(|meter| match meter.rule {
            LimitRule::Month { limit, .. } if meter.scope == Scope::Tenant => Some(limit),
            _ => None,
        })
    }
}

#[tokio::test]
async fn an_override_holds_until_its_end_which_no_event_tells() {
    let world = World::new().await;
    let (_, secret) = world.key().await;
    let directory = world.load().await;
    let limit = |directory: &Directory| {
        world.month_limit(&world.identify(directory, &secret).unwrap().meters())
    };
    assert_eq!(limit(&directory), Some(20 * USD));

    let end = world.now().plus_ms(HOUR_MS);
    world.set(&world.over(month(90 * USD, 1), end)).await.unwrap();
    world.set(&world.over(LimitRule::Balance, end)).await.unwrap();
    directory.refresh(&world.pool, &[Changed::Overrides(world.tenant)]).await.unwrap();
    assert_eq!(limit(&directory), Some(90 * USD));
    let meters = world.identify(&directory, &secret).unwrap().meters();
    let own = plan::find(&world.pool, world.plans.starter).await.unwrap().rules.len();
    assert_eq!(meters.len(), own + 1, "one takes a place, one comes behind");
    let snapshot = directory.snapshot();
    assert_eq!(snapshot.tenant_rules(world.tenant, world.now()).unwrap().len(), own + 1);

    world.clock.set(end.plus_ms(-1));
    assert_eq!(limit(&directory), Some(90 * USD));
    world.clock.set(end);
    assert_eq!(limit(&directory), Some(20 * USD));
    assert_eq!(directory.snapshot().tenant_rules(world.tenant, end).unwrap().len(), own);
}

#[tokio::test]
async fn every_process_hears_of_an_override_and_of_its_early_end() {
    let mut world = World::new().await;
    let (_, secret) = world.key().await;
    let directory = world.process().await;
    let (_, heard) = world.key().await;
    until("a new key is known", || world.identify(&directory, &heard).is_ok()).await;
    let limit = || world.month_limit(&world.identify(&directory, &secret).unwrap().meters());

    let end = world.now().plus_ms(HOUR_MS);
    world.set(&world.over(month(7, 1), end)).await.unwrap();
    let took = until("the override", || limit() == Some(7)).await;
    assert!(took < SEEN_WITHIN, "{took:?}");
    world.set(&world.over(month(8, 1), end)).await.unwrap();
    until("the one in its place", || limit() == Some(8)).await;
    world.end("month_cost").await.unwrap();
    until("the plan's own", || limit() == Some(20 * USD)).await;
    // What a comparison finds is the same.
    let fresh = world.load().await;
    assert!(fresh.snapshot().overrides(world.tenant).is_none());
}

#[tokio::test]
async fn the_history_says_who_when_and_why_and_is_never_edited() {
    let world = World::new().await;
    let end = world.now().plus_ms(HOUR_MS);
    world.set(&world.over(month(7, 1), end)).await.unwrap();
    world.set(&world.over(month(8, 1), end)).await.unwrap();
    world.set(&world.over(LimitRule::Lease { limit: 3 }, end)).await.unwrap();
    world.end("concurrency").await.unwrap();
    let again = world.end("concurrency").await;
    assert!(matches!(again, Err(TenantsError::NotFound { what: "override in force" })));

    let lines = limit_override::history(&world.pool, world.tenant, None, 10).await.unwrap();
    let told: Vec<_> = lines
        .iter()
        .map(|line| (line.meter.as_str(), line.rule.is_some(), line.is_in_force(world.now())))
        .collect();
    let expected = [
        ("concurrency", false, false),
        ("concurrency", true, false),
        ("month_cost", true, true),
        ("month_cost", true, false),
    ];
    assert_eq!(told, expected);
    assert!(!lines[2].is_in_force(end));
    let last = &lines[3];
    assert_eq!((last.actor.as_str(), last.reason.as_str()), ("ops@example.com", "launch day"));
    assert_eq!((last.at, last.until), (world.now(), Some(end)));
    let older = limit_override::history(&world.pool, world.tenant, Some(lines[2].id), 10).await;
    assert_eq!(older.unwrap(), lines[3..]);
    for statement in ["update limit_overrides set reason = 'x'", "delete from limit_overrides"] {
        assert!(sqlx::query(statement).execute(&world.pool).await.is_err(), "{statement}");
    }
}

#[tokio::test]
async fn an_override_that_cannot_be_kept_is_refused_by_name() {
    let world = World::new().await;
    let (now, end) = (world.now(), world.now().plus_ms(HOUR_MS));
    let good = world.over(month(1, 1), end);
    let too_far = now.plus_ms(limit_override::MAX_DURATION_MS + 1);
    for (what, wrong) in [
        ("until", NewOverride { until: now, ..good.clone() }),
        ("until", NewOverride { until: too_far, ..good.clone() }),
        ("reason", NewOverride { reason: "  ".to_owned(), ..good.clone() }),
        ("reason", NewOverride { reason: "x".repeat(501), ..good.clone() }),
        // It would begin another period, in which nothing is used.
        ("limits", NewOverride { rule: month(1, 2), ..good.clone() }),
        ("limits", NewOverride { rule: month(-1, 1), ..good.clone() }),
        ("limits", NewOverride { rule: LimitRule::Lease { limit: 0 }, ..good.clone() }),
    ] {
        let refused = world.set(&wrong).await.unwrap_err();
        assert!(
            matches!(refused, TenantsError::Invalid { what: told, .. } if told == what),
            "{what}: {refused}"
        );
    }
    let nobody = NewOverride { tenant: TenantId(999), ..good.clone() };
    let refused = world.set(&nobody).await;
    assert!(matches!(refused, Err(TenantsError::NotFound { what: "tenant" })));
    // The plan has six limits: two more fit, a third does not.
    let bucket = LimitRule::Bucket { metric: Metric::Cost, rate_milli_per_s: 1, capacity: 1 };
    for rule in [LimitRule::Balance, bucket] {
        world.set(&world.over(rule, end)).await.unwrap();
    }
    let day = LimitRule::Window {
        metric: Metric::Cost,
        window: domain::window::RollingWindow::Day,
        limit: 1,
    };
    assert!(matches!(world.set(&world.over(day, end)).await, Err(TenantsError::Invalid { .. })));
    assert!(world.set(&good).await.is_ok(), "one in the place of another fits");
}

#[tokio::test]
async fn an_override_that_nobody_can_read_lets_nothing_pass_until_it_is_ended() {
    let world = World::new().await;
    let (_, secret) = world.key().await;
    let directory = world.load().await;
    sqlx::query(
        r#"insert into limit_overrides (tenant_id, meter, rule, until_at, reason, actor, at)
           values ($1, 'barter', '{"rule": "barter"}', now() + interval '1 day', 'x', 'x', now())"#,
    )
    .bind(world.tenant.0)
    .execute(&world.pool)
    .await
    .unwrap();
    let changed = [Changed::Overrides(world.tenant)];
    directory.refresh(&world.pool, &changed).await.unwrap();
    let denied = world.identify(&directory, &secret).unwrap_err();
    assert_eq!(denied.code(), "admission_unavailable");
    assert!(directory.snapshot().tenant_rules(world.tenant, world.now()).is_none());
    world.end("barter").await.unwrap();
    directory.refresh(&world.pool, &changed).await.unwrap();
    assert!(world.identify(&directory, &secret).is_ok());
}

#[tokio::test]
async fn a_tenant_on_another_plan_keeps_its_overrides() {
    let world = World::new().await;
    let (_, secret) = world.key().await;
    let end = world.now().plus_ms(HOUR_MS);
    world.set(&world.over(month(7, 1), end)).await.unwrap();
    tenant::set_plan(&world.pool, world.tenant, world.plans.pro).await.unwrap();
    let directory = world.load().await;
    let context = world.identify(&directory, &secret).unwrap();
    assert_eq!(context.plan.name, "pro");
    assert_eq!(world.month_limit(&context.meters()), Some(7));
}

#[tokio::test]
async fn a_providers_quota_is_a_limit_of_every_call_that_goes_there() {
    let world = World::new().await;
    let provider = fixtures::catalog(&world.pool, "http://127.0.0.1:9").await.openai.provider;
    let directory = world.load().await;
    assert_eq!(directory.snapshot().upstream(provider).unwrap().meters().count(), 0);
    let quota = [LimitRule::Lease { limit: 4 }];
    catalog::set_quota(&world.pool, provider, &quota).await.unwrap();
    directory.refresh(&world.pool, &[Changed::Catalog]).await.unwrap();
    let snapshot = directory.snapshot();
    let meters: Vec<Meter> = snapshot.upstream(provider).unwrap().meters().collect();
    let (scope, scope_id) = (Scope::Provider, provider.0);
    assert_eq!(meters, [Meter { scope, scope_id, rule: quota[0].clone() }]);
    let listed = catalog::list_providers(&world.pool).await.unwrap();
    assert!(listed.iter().any(|row| row.id == provider && row.quota == quota));

    let refused = catalog::set_quota(&world.pool, provider, &[month(1, 1)]).await;
    assert!(matches!(refused, Err(TenantsError::Invalid { what: "limits", .. })));
    let nowhere = catalog::set_quota(&world.pool, domain::id::ProviderId(999), &quota).await;
    assert!(matches!(nowhere, Err(TenantsError::NotFound { what: "provider" })));
}

#[tokio::test]
async fn what_two_processes_learned_meets_in_the_table() {
    let world = World::new().await;
    let model = fixtures::catalog(&world.pool, "http://127.0.0.1:9").await.openai.model;
    let learned = |milli_bytes_per_token, calls| Learned { model, milli_bytes_per_token, calls };
    let pool = &world.pool;
    assert_eq!(calibration::merge(pool, &[]).await.unwrap(), []);
    assert_eq!(calibration::merge(pool, &[learned(3_000, 5)]).await.unwrap(), [learned(3_000, 5)]);
    // Half of a full weight moves it half the way.
    let met = calibration::merge(pool, &[learned(4_000, 32)]).await.unwrap();
    assert_eq!(met, [learned(3_500, 37)]);
    let full = calibration::merge(pool, &[learned(2_000, 1_000)]).await.unwrap();
    assert_eq!(full, [learned(2_000, 1_037)]);
    let gone = Learned { model: ModelId(999), milli_bytes_per_token: 2_000, calls: 1 };
    assert_eq!(calibration::merge(pool, &[gone]).await.unwrap(), []);
    assert_eq!(calibration::load(pool).await.unwrap(), full);
    assert!(calibration::merge(pool, &[learned(20_000, 64)]).await.is_err(), "out of range");
}
