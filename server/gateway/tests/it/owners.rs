//! Whose limit binds: the key's, the team's, the tenant's, for a while another one, or the operator's own.

use domain::admission::{Reason, Refusal, Scope};
use domain::plan::{LimitRule, Metric};
use domain::usage::Dialect;
use domain::window::RollingWindow;
use futures_util::future::join_all;
use gateway::{CallError, Reply};
use sqlx::AssertSqlSafe;
use tenants::api_key::{self, ApiKeySecret, NewKey};
use tenants::directory::Changed;
use tenants::limit_override::{self, NewOverride};
use tenants::{context, team};

use crate::world::{DIALECTS, World, read, roomy};

pub(crate) fn day(metric: Metric, limit: i64) -> LimitRule {
    LimitRule::Window { metric, window: RollingWindow::Day, limit }
}

pub(crate) fn refused(result: Result<Reply, CallError>) -> Refusal {
    match result {
        Err(CallError::Refused(refusal)) => *refusal,
        other => panic!("not refused: {other:?}"),
    }
}

impl World {
    /// From here on calls come with a new key of a new team, which have these limits.
    pub(crate) async fn under(&mut self, team_rules: &[LimitRule], key_rules: &[LimitRule]) {
        let (pool, tenant) = (self.pool().clone(), self.tenant.tenant.id);
        let secret = ApiKeySecret::generate();
        let team = team::create(&pool, tenant, &secret.masked(), team_rules).await.unwrap();
        let new = NewKey {
            tenant,
            team: Some(team),
            name: "of a team".to_owned(),
            rules: key_rules.to_vec(),
            expires_at: None,
        };
        let key = api_key::create(&pool, &new, &secret).await.unwrap();
        let changed = [
            Changed::Plan(self.tenant.plan.id),
            Changed::Team(team),
            Changed::ApiKey(key),
            Changed::Overrides(tenant),
        ];
        let directory = self.gateway.directory();
        directory.refresh(&pool, &changed).await.unwrap();
        let found = context::identify(&directory.snapshot(), secret.expose(), self.clock.now());
        self.tenant = found.unwrap();
    }

    /// Changes the tenant's plan in place, which only a test may do.
    pub(crate) async fn plan_says(&mut self, what: &str) {
        let sql = format!("update plans set {what}");
        sqlx::query(AssertSqlSafe(sql)).execute(self.pool()).await.unwrap();
        self.under(&[], &[]).await;
    }

    /// Sets the operator's own quota at the provider of the OpenAI dialect.
    pub(crate) async fn quota(&self, rules: &[LimitRule]) {
        let snapshot = self.gateway.directory().snapshot();
        let route = &snapshot.model("openai-flash").unwrap().routes[0];
        tenants::catalog::set_quota(self.pool(), route.provider, rules).await.unwrap();
        self.gateway.directory().refresh(self.pool(), &[Changed::Catalog]).await.unwrap();
    }
}

#[tokio::test]
async fn the_smallest_of_key_team_and_tenant_binds_and_is_named() {
    for (caps, scope) in
        [([9, 9, 2], Scope::Tenant), ([9, 2, 9], Scope::Team), ([2, 9, 9], Scope::Key)]
    {
        let mut world = World::with(&[day(Metric::Requests, caps[2])]).await;
        world.under(&[day(Metric::Requests, caps[1])], &[day(Metric::Requests, caps[0])]).await;
        for _ in 0..2 {
            read(world.call(Dialect::Openai, false, "").await.unwrap()).await;
        }
        world.idle().await;
        let no = refused(world.call(Dialect::Openai, false, "").await);
        let id = match scope {
            Scope::Key => world.tenant.key.id.0,
            Scope::Team => world.tenant.team.as_ref().unwrap().id.0,
            _ => world.tenant.tenant.id.0,
        };
        assert_eq!((no.scope, no.scope_id, no.limit, no.used), (scope, id, 2, 2));
        assert_eq!(world.sim.served(), 2);
    }
}

#[tokio::test]
async fn a_limit_of_nothing_refuses_on_every_route_wherever_it_stands() {
    let month = LimitRule::Month { metric: Metric::Cost, limit: 0, overage_bps: 0, anchor_day: 1 };
    let rules = [month, day(Metric::Requests, 0), day(Metric::Tokens, 0), day(Metric::Cost, 0)];
    for rule in &rules {
        let nothing = std::slice::from_ref(rule);
        for scope in [Scope::Key, Scope::Team, Scope::Tenant, Scope::Provider] {
            let plan = if scope == Scope::Tenant { nothing } else { &[] };
            let mut world = World::with(plan).await;
            match scope {
                Scope::Key => world.under(&[], nothing).await,
                Scope::Team => world.under(nothing, &[]).await,
                Scope::Tenant => {}
                // A month is every tenant's own.
                Scope::Provider if matches!(rule, LimitRule::Month { .. }) => continue,
                Scope::Provider => world.quota(nothing).await,
            }
            for dialect in DIALECTS {
                if scope == Scope::Provider && dialect != Dialect::Openai {
                    continue;
                }
                for stream in [false, true] {
                    let no = refused(world.call(dialect, stream, "").await);
                    assert_eq!((no.scope, no.meter.as_str()), (scope, rule.meter_name()));
                    assert_eq!(no.limit, 0);
                }
            }
            assert_eq!((world.sim.served(), world.events().await.len()), (0, 0));
        }
    }
}

#[tokio::test]
async fn of_the_very_first_calls_of_a_team_and_a_key_as_many_pass_as_fit() {
    for in_team in [true, false] {
        let mut world = World::with(&roomy()).await;
        let cap = [day(Metric::Requests, 7)];
        if in_team {
            world.under(&cap, &[]).await
        } else {
            world.under(&[], &cap).await
        }
        let replies = join_all((0..60).map(|_| world.call(Dialect::Openai, false, ""))).await;
        let passed = replies.iter().filter(|reply| reply.is_ok()).count();
        assert_eq!(passed, 7, "in a team: {in_team}");
        assert_eq!((world.events().await.len(), world.sim.served()), (7, 7));
        world.assert_settled().await;
    }
}

#[tokio::test]
async fn an_override_lets_calls_pass_until_its_end() {
    let mut world = World::with(&[day(Metric::Requests, 1)]).await;
    let (tenant, now) = (world.tenant.tenant.id, world.clock.now());
    let until = now.plus_ms(60_000);
    let new = NewOverride {
        tenant,
        rule: day(Metric::Requests, 2),
        until,
        reason: "test".to_owned(),
        actor: "test".to_owned(),
    };
    let mut change = world.pool().begin().await.unwrap();
    limit_override::set(&mut change, &new, now).await.unwrap();
    change.commit().await.unwrap();
    world.under(&[], &[]).await;
    for _ in 0..2 {
        read(world.call(Dialect::Openai, false, "").await.unwrap()).await;
    }
    assert_eq!(refused(world.call(Dialect::Openai, false, "").await).limit, 2);
    world.at(until);
    world.under(&[], &[]).await;
    assert_eq!(refused(world.call(Dialect::Openai, false, "").await).limit, 1);
}

#[tokio::test]
async fn a_call_above_the_plans_maximum_is_refused_before_anything_is_held() {
    let mut world = World::with(&roomy()).await;
    world.plan_says("max_request_charge_nanos = 1000").await;
    let no = refused(world.call(Dialect::Openai, false, "").await);
    assert_eq!((no.reason, no.meter.as_str()), (Reason::ExceedsCapacity, "request_cost"));
    assert!(no.limit == 1_000 && no.wanted > 1_000, "{no:?}");
    world.plan_says("max_request_charge_nanos = null, max_request_tokens = 400").await;
    let no = refused(world.call(Dialect::Openai, true, "").await);
    assert_eq!((no.meter.as_str(), no.limit), ("request_tokens", 400));
    assert!((500..600).contains(&no.wanted), "{no:?}");
    world.plan_says("max_request_tokens = 600").await;
    read(world.call(Dialect::Openai, false, "").await.unwrap()).await;
    assert_eq!(world.sim.served(), 1);
}
