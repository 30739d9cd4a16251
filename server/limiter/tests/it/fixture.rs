//! A database with an engine and the books, and asks to put to them.

use domain::admission::{Estimate, Meter, Refusal, Scope};
use domain::id::{KeyId, PlanId, PriceId, ProviderId, RequestId, TenantId};
use domain::money::Nanos;
use domain::plan::{LimitRule, Metric};
use domain::usage::{Dialect, Outcome, Usage, UsageSource};
use domain::window::{UnixMs, Zone};
use ledger::{Ledger, UsageEvent, WriterConfig};
use limiter::{Admission, Ask, Hold, Reading, RedisConfig, Verdict};
use sqlx::PgPool;
use testkit::{TestDatabase, TestRedis};
use tokio_util::task::TaskTracker;

use crate::engine::{DEADLINE, EPOCH};
pub(crate) use crate::engine::{Engine, Kind};

/// Noon of 15 November 2026, UTC.
pub(crate) const NOON: UnixMs = UnixMs(1_794_744_000_000);

pub(crate) struct House {
    pub(crate) db: TestDatabase,
    pub(crate) tasks: TaskTracker,
    pub(crate) engine: Engine,
    pub(crate) ledger: Ledger,
    redis: Option<RedisConfig>,
    /// Keeps the test's keys until it is over.
    pub(crate) keys: Option<TestRedis>,
}

impl House {
    /// A database with an engine of this kind, which has the authority.
    pub(crate) async fn on(kind: Kind) -> Self {
        let db = testkit::database().await;
        let tasks = TaskTracker::new();
        let keys = match kind {
            Kind::Postgres => None,
            Kind::Redis => Some(testkit::redis()),
            Kind::Cluster => Some(testkit::redis_cluster()),
        };
        let redis = keys.as_ref().map(|keys| RedisConfig {
            url: keys.url.clone(),
            prefix: keys.prefix.trim_end_matches(':').to_owned(),
            deadline: DEADLINE,
        });
        if redis.is_some() {
            sqlx::query("update limiter_authority set mode = 'redis', epoch = $1")
                .bind(EPOCH)
                .execute(&db.pool)
                .await
                .unwrap();
        }
        let engine = Engine::new(&db.pool, redis.as_ref(), &tasks);
        let ledger = Ledger::start(db.another_pool(), &tasks, WriterConfig::default());
        Self { db, tasks, engine, ledger, redis, keys }
    }

    /// An engine with connections of its own, as a second process would have one.
    pub(crate) fn another_engine(&self) -> Engine {
        Engine::new(&self.db.pool, self.redis.as_ref(), &self.tasks)
    }

    /// Now this process's engine and now another's.
    pub(crate) fn another_engine_every(&self, number: i64) -> Engine {
        if number % 40 == 0 { self.another_engine() } else { self.engine.clone() }
    }

    /// The end of a call: the event is written, then the hold is settled.
    pub(crate) async fn finish(&self, hold: &Hold, tokens: i64, charge: i64, now: UnixMs) {
        self.ledger.append(event(hold, tokens, charge)).await.unwrap();
        self.settle(hold, tokens, charge, now).await;
    }

    pub(crate) async fn settle(&self, hold: &Hold, tokens: i64, charge: i64, now: UnixMs) {
        let actual = limiter::Actual { tokens, charge: Nanos(charge) };
        self.engine.settle(hold, &actual, Some(now)).await.unwrap();
    }

    pub(crate) async fn release(&self, hold: &Hold, now: UnixMs) {
        self.engine.release(hold, Some(now)).await.unwrap();
    }

    pub(crate) async fn readings(&self, ask: &Ask, now: UnixMs) -> Vec<Reading> {
        self.engine.readings(ask.tenant_id, &ask.zone, &ask.meters, Some(now)).await.unwrap()
    }

    pub(crate) async fn reading(&self, ask: &Ask, now: UnixMs) -> Reading {
        self.readings(ask, now).await.remove(0)
    }

    pub(crate) async fn admitted(&self, ask: &Ask) -> Hold {
        admitted(self.engine.admit(ask).await.unwrap())
    }

    pub(crate) async fn refused(&self, ask: &Ask) -> Refusal {
        refused(self.engine.admit(ask).await.unwrap())
    }

    /// Every row of the engine's tables and every key of its own, as text.
    pub(crate) async fn counters(&self) -> Vec<String> {
        let mut counters = rows(&self.db.pool).await;
        counters.extend(self.keys.as_ref().map(TestRedis::dump).unwrap_or_default());
        counters
    }
}

async fn rows(pool: &PgPool) -> Vec<String> {
    sqlx::query_scalar(
        "select row from (select 'h' || h::text as row from holds h
                          union all select 's' || s::text from meter_states s
                          union all select 'm' || m::text from meter_slices m
                          union all select 'd' || d::text from drift d) as all_rows order by 1",
    )
    .fetch_all(pool)
    .await
    .unwrap()
}

pub(crate) fn admitted(verdict: Verdict) -> Hold {
    match verdict {
        Verdict::Admit(hold) => hold,
        Verdict::Refuse(refusal) => panic!("refused: {refusal:?}"),
    }
}

pub(crate) fn refused(verdict: Verdict) -> Refusal {
    match verdict {
        Verdict::Refuse(refusal) => refusal,
        Verdict::Admit(hold) => panic!("admitted: {hold:?}"),
    }
}

/// A request id that no other test ask has.
pub(crate) fn fresh_id() -> RequestId {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    RequestId::from_parts(NOON.0.cast_unsigned(), u128::from(number))
}

pub(crate) fn usd(text: &str) -> i64 {
    text.parse::<Nanos>().unwrap().0
}

pub(crate) fn of_tenant(tenant: i64, rule: LimitRule) -> Meter {
    Meter { scope: Scope::Tenant, scope_id: tenant, rule }
}

pub(crate) fn month(limit: i64, overage_bps: i64) -> LimitRule {
    LimitRule::Month { metric: Metric::Cost, limit, overage_bps, anchor_day: 1 }
}

pub(crate) fn bucket(metric: Metric, rate_milli_per_s: i64, capacity: i64) -> LimitRule {
    LimitRule::Bucket { metric, rate_milli_per_s, capacity }
}

/// An ask of a tenant at noon, on these limits.
pub(crate) fn ask(tenant: i64, rules: &[LimitRule], tokens: i64, charge: i64) -> Ask {
    Ask {
        request_id: fresh_id(),
        tenant_id: TenantId(tenant),
        zone: Zone::utc(),
        meters: rules.iter().map(|rule| of_tenant(tenant, rule.clone())).collect(),
        estimate: Estimate { tokens, charge: Nanos(charge) },
        now: Some(NOON),
    }
}

/// The same ask by another request.
pub(crate) fn again(ask: &Ask) -> Ask {
    Ask { request_id: fresh_id(), ..ask.clone() }
}

/// The same ask by another request at another time.
pub(crate) fn again_at(ask: &Ask, now: UnixMs) -> Ask {
    Ask { now: Some(now), ..again(ask) }
}

pub(crate) fn event(hold: &Hold, tokens: i64, charge: i64) -> UsageEvent {
    UsageEvent {
        request_id: hold.request_id,
        tenant_id: hold.tenant_id,
        team_id: None,
        key_id: KeyId(1),
        plan_id: PlanId(1),
        provider_id: ProviderId(1),
        dialect: Dialect::Openai,
        route: "/v1/chat/completions".to_owned(),
        model: "m".to_owned(),
        served_model: None,
        price_id: PriceId(1),
        stream: false,
        admitted_at: hold.admitted_at,
        ended_at: hold.admitted_at.plus_ms(10),
        first_byte_ms: Some(5),
        duration_ms: 10,
        outcome: Outcome::Ok,
        http_status: Some(200),
        usage_source: UsageSource::Provider,
        anomaly: None,
        usage: Usage { input: tokens, ..Usage::default() },
        cost: Nanos(charge),
        charge: Nanos(charge),
        hold: hold.charge,
        client_request_id: None,
        provider_request_id: None,
        attempts: Vec::new(),
        bookings: hold.bookings(tokens, Nanos(charge)),
        drift: Vec::new(),
    }
}
