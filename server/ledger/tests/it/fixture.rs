//! Books, and events to write into them.

use domain::admission::Scope;
use domain::id::{KeyId, PlanId, PriceId, ProviderId, RequestId, TenantId};
use domain::money::Nanos;
use domain::usage::{Dialect, Outcome, Usage, UsageSource};
use domain::window::UnixMs;
use ledger::books::{BookLine, verify, verify_house};
use ledger::{Attempt, Booking, DriftNote, Ledger, UsageEvent, WriterConfig};
use sqlx::PgPool;
use testkit::TestDatabase;
use tokio_util::task::TaskTracker;

/// Noon of 15 November 2026, UTC.
pub(crate) const NOON: UnixMs = UnixMs(1_794_744_000_000);
/// The first of that month, UTC.
pub(crate) const MONTH: UnixMs = UnixMs(1_793_491_200_000);
/// One hour in milliseconds.
pub(crate) const HOUR: i64 = 3_600_000;

pub(crate) struct Books {
    pub(crate) db: TestDatabase,
    pub(crate) ledger: Ledger,
    pub(crate) tasks: TaskTracker,
}

pub(crate) async fn books() -> Books {
    books_with(WriterConfig::default()).await
}

pub(crate) async fn books_with(config: WriterConfig) -> Books {
    let db = testkit::database().await;
    let tasks = TaskTracker::new();
    let ledger = Ledger::start(db.another_pool(), &tasks, config);
    Books { db, ledger, tasks }
}

impl Books {
    pub(crate) fn pool(&self) -> &PgPool {
        &self.db.pool
    }

    pub(crate) async fn append_all(&self, events: impl IntoIterator<Item = UsageEvent>) {
        for event in events {
            self.ledger.append(event).await.unwrap();
        }
    }

    /// Stops the writer and waits until all is written.
    pub(crate) async fn stop(self) -> TestDatabase {
        let Self { db, ledger, tasks } = self;
        drop(ledger);
        tasks.close();
        tasks.wait().await;
        db
    }
}

/// Each tenant's line, after making sure that every one agrees, and the house's too.
pub(crate) async fn agreed(pool: &PgPool) -> Vec<BookLine> {
    let lines = verify(pool, None).await.unwrap();
    for line in &lines {
        assert!(line.agrees(), "{line:?}");
    }
    let house = verify_house(pool).await.unwrap();
    assert!(house.agrees(), "{house:?}");
    lines
}

/// Every row of the books, as text.
pub(crate) async fn rows(pool: &PgPool) -> Vec<String> {
    sqlx::query_scalar(
        "select row from (select 'e' || t::text as row from usage_events t
                          union all select 't' || t::text from attempts t
                          union all select 's' || t::text from meter_slices t
                          union all select 'a' || t::text from alerts t
                          union all select 'r' || t::text from usage_rollups t
                          union all select 'l' || t::text from balance_ledger t
                          union all select 'b' || t::text from balances t
                          union all select 'd' || t::text from drift t) as all_rows order by 1",
    )
    .fetch_all(pool)
    .await
    .unwrap()
}

pub(crate) async fn count(pool: &PgPool, table: &'static str) -> i64 {
    let counts: Vec<(String, i64)> = sqlx::query_as(
        "select 'usage_events', count(*) from usage_events
         union all select 'attempts', count(*) from attempts
         union all select 'alerts', count(*) from alerts
         union all select 'refusals', count(*) from refusals
         union all select 'balance_ledger', count(*) from balance_ledger
         union all select 'drift', count(*) from drift",
    )
    .fetch_all(pool)
    .await
    .unwrap();
    counts.into_iter().find(|(name, _)| name == table).unwrap().1
}

/// A request id that no other event of the test has.
pub(crate) fn fresh_id() -> RequestId {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    RequestId::from_parts(NOON.0.cast_unsigned(), u128::from(number))
}

/// A call at noon, booked on the month, with one attempt.
pub(crate) fn event(tenant: i64, charge: i64) -> UsageEvent {
    event_at(tenant, charge, NOON)
}

pub(crate) fn event_at(tenant: i64, charge: i64, at: UnixMs) -> UsageEvent {
    UsageEvent {
        request_id: fresh_id(),
        tenant_id: TenantId(tenant),
        team_id: None,
        key_id: KeyId(tenant * 10),
        plan_id: PlanId(1),
        provider_id: ProviderId(1),
        dialect: Dialect::Openai,
        route: "/v1/chat/completions".to_owned(),
        model: "flash".to_owned(),
        served_model: Some("flash-002".to_owned()),
        price_id: PriceId(3),
        stream: true,
        admitted_at: at,
        ended_at: at.plus_ms(250),
        first_byte_ms: Some(90),
        duration_ms: 250,
        outcome: Outcome::Ok,
        http_status: Some(200),
        usage_source: UsageSource::Provider,
        anomaly: None,
        usage: Usage { input: 1_000, output: 200, reasoning: 3_000, ..Usage::default() },
        cost: Nanos(charge / 2),
        charge: Nanos(charge),
        hold: Nanos(charge + 1),
        client_request_id: Some("theirs".to_owned()),
        provider_request_id: None,
        attempts: vec![attempt(1, at)],
        bookings: vec![booking(tenant, charge)],
        drift: Vec::new(),
    }
}

pub(crate) fn attempt(number: i32, at: UnixMs) -> Attempt {
    Attempt {
        attempt: number,
        provider_id: ProviderId(1),
        model: "flash".to_owned(),
        status: Some(200),
        duration_ms: 240,
        error: None,
        started_at: at.plus_ms(1),
    }
}

/// The month budget of a tenant.
pub(crate) fn booking(tenant: i64, amount: i64) -> Booking {
    Booking {
        scope: Scope::Tenant,
        scope_id: tenant,
        meter: "month_cost".to_owned(),
        slice_start: MONTH,
        amount,
        alert: None,
    }
}

pub(crate) fn note(kind: &str) -> DriftNote {
    DriftNote {
        kind: kind.to_owned(),
        meter: None,
        expected: 5,
        found: 7,
        cause: "a test".to_owned(),
    }
}
