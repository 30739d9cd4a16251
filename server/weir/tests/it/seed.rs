//! The demonstration's data: whole, the same for the same day, and a base on which limits work.

use std::sync::Arc;

use domain::admission::{Estimate, Reason};
use domain::id::{RequestId, TenantId};
use domain::money::Nanos;
use domain::window::{UnixMs, Zone, month_period};
use ledger::{alert, books, partition};
use limiter::{Admission, Ask, PostgresEngine, Verdict};
use secrecy::{ExposeSecret, SecretBox};
use sqlx::PgPool;
use tenants::api_key::ApiKeySecret;
use tenants::context::identify;
use tenants::directory::Directory;
use tenants::member;
use tenants::password::Passwords;
use tenants::provider_key::Sealer;
use tokio::sync::Notify;
use tokio_util::task::TaskTracker;
use weir::seed::{self, DemoFacts, DemoSecrets, SeedError};

/// Sunday, 15 November 2026, 12:34 UTC.
const NOW: UnixMs = UnixMs(1_794_746_040_000);
/// The demonstration must not keep people waiting. An unoptimised build beside other work reaches several times this.
const EVENTS_PER_SECOND_LEAST: u128 = 2_000;

fn sealer() -> Sealer {
    Sealer::from_key(SecretBox::new(Box::new([7; 32])))
}

async fn seed_at(pool: &PgPool, secrets: &DemoSecrets, url: &str) -> Result<DemoFacts, SeedError> {
    let progress = |p: seed::Progress| {
        let (done, all) = p.days;
        eprintln!("{done:>3} of {all} days, {:>6} events, {:.1?}", p.events, p.elapsed);
    };
    seed::demo(pool, &sealer(), secrets, NOW, url, progress).await
}

async fn count(pool: &PgPool, sql: &'static str) -> i64 {
    sqlx::query_scalar(sql).fetch_one(pool).await.unwrap()
}

/// All that the history is made of, as one number: two databases with the same one hold the same rows.
async fn print_of_the_books(pool: &PgPool) -> Vec<(String, i64, Option<String>)> {
    let mut prints = Vec::new();
    for (table, sql) in [
        (
            "usage_events",
            "select count(*), md5(string_agg(t::text, '|' order by request_id)) from usage_events t",
        ),
        (
            "attempts",
            "select count(*), md5(string_agg(t::text, '|' order by request_id)) from attempts t",
        ),
        (
            "usage_rollups",
            "select count(*), md5(string_agg(t::text, '|' order by t::text)) from usage_rollups t",
        ),
        (
            "meter_slices",
            "select count(*), md5(string_agg(t::text, '|' order by t::text)) from meter_slices t",
        ),
        (
            "balance_ledger",
            "select count(*), md5(string_agg(t::text, '|' order by transaction_id, line)) from balance_ledger t",
        ),
        (
            "refusals",
            "select count(*), md5(string_agg(t::text, '|' order by request_id)) from refusals t",
        ),
        ("alerts", "select count(*), md5(string_agg(t::text, '|' order by id)) from alerts t"),
    ] {
        let (rows, print): (i64, Option<String>) =
            sqlx::query_as(sql).fetch_one(pool).await.unwrap();
        prints.push((table.to_owned(), rows, print));
    }
    prints
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_becomes_a_demonstration_once_and_its_books_agree() {
    let db = testkit::database().await;
    let (pool, secrets) = (&db.pool, DemoSecrets::generate());
    let facts = seed_at(pool, &secrets, "http://127.0.0.1:9101").await.unwrap();
    let seeded = facts.seeded.unwrap();
    let per_second = 1_000 * seeded.events as u128 / seeded.elapsed.as_millis().max(1);
    eprintln!("{} events in {:?}: {per_second} a second", seeded.events, seeded.elapsed);
    assert!(per_second >= EVENTS_PER_SECOND_LEAST, "{per_second}");
    assert!((60_000..100_000).contains(&seeded.events), "{}", seeded.events);
    assert_eq!(facts.tenants.len(), 12);

    the_books_agree(pool, seeded.events).await;
    every_kind_of_row_is_there(pool).await;
    one_tenant_is_over_its_budget_and_two_are_near(pool).await;
    limits_work_at_once(pool, &secrets).await;
    people_can_sign_in(pool, &secrets).await;

    let before = print_of_the_books(pool).await;
    let other_secrets = DemoSecrets::generate();
    let again = seed_at(pool, &other_secrets, "http://127.0.0.1:9102").await.unwrap();
    assert_eq!((again.seeded, again.tenants), (None, facts.tenants));
    assert_eq!(print_of_the_books(pool).await, before);
    people_can_sign_in(pool, &other_secrets).await;
    limits_work_at_once(pool, &other_secrets).await;
    let moved = "select count(*) from providers where base_url = 'http://127.0.0.1:9102'";
    assert_eq!(count(pool, moved).await, 3);
    // What was thought up by chance at another time, in another database, is the same.
    let other = testkit::database().await;
    seed_at(&other.pool, &other_secrets, "http://127.0.0.1:9103").await.unwrap();
    assert_eq!(print_of_the_books(&other.pool).await, before);
}

async fn the_books_agree(pool: &PgPool, events: usize) {
    let lines = books::verify(pool, None).await.unwrap();
    assert_eq!(lines.len(), 12);
    for line in &lines {
        assert!(line.agrees(), "{line:?}");
        assert_eq!(line.month_slices, Some(line.events_charge), "{line:?}");
        assert!(line.events_charge > 0);
    }
    assert_eq!(lines.iter().map(|line| line.events).sum::<i64>(), i64::try_from(events).unwrap());
    let house = books::verify_house(pool).await.unwrap();
    assert!(house.agrees() && house.events_cost > 0, "{house:?}");
    assert_eq!(partition::strays(pool).await.unwrap(), 0);
    let unlinked = "select count(*) from usage_events e where charge_nanos > 0 and not exists
                    (select from balance_ledger l where l.transaction_id = e.ledger_transaction
                        and l.tenant_id = e.tenant_id and l.account = 'usage')";
    assert_eq!(count(pool, unlinked).await, 0);
    let astray = "select count(*) from (
                      select ledger_transaction, sum(charge_nanos) as charge from usage_events
                      where ledger_transaction is not null group by 1) e
                  join balance_ledger l on l.transaction_id = e.ledger_transaction and l.account = 'usage'
                  where l.amount_nanos <> e.charge";
    assert_eq!(count(pool, astray).await, 0);
    let unpriced = "select count(*) from usage_events e where not exists (select from prices p
                    where p.id = e.price_id and p.effective_from <= e.admitted_at)";
    assert_eq!(count(pool, unpriced).await, 0);
}

async fn every_kind_of_row_is_there(pool: &PgPool) {
    for (least, sql) in [
        (12, "select count(*) from tenants"),
        (5, "select count(distinct plan_id) from tenants"),
        (3, "select count(distinct dialect) from usage_events"),
        (6, "select count(distinct outcome) from usage_events"),
        (20, "select count(*) from refusals where status = 402"),
        (100, "select count(*) from refusals where status = 429"),
        (3, "select count(*) from alerts where threshold_percent = 80"),
        (1, "select count(*) from alerts where threshold_percent = 100"),
        (1, "select count(*) from drift"),
        (12, "select count(*) from balance_ledger where kind = 'top_up'"),
        (100, "select count(*) from meter_slices where meter = '5h_cost'"),
        (100, "select count(*) from meter_slices where meter = 'week_cost'"),
        (
            1,
            "select count(*) from models m where not exists (select from prices p where p.model_id = m.id)",
        ),
        (1, "select count(*) from prices where effective_from > '2026-11-15 12:34Z'"),
        (20, "select count(*) from api_keys where last_used_at > '2026-11-14 12:00Z'"),
    ] {
        let found = count(pool, sql).await;
        assert!(found >= least, "{sql}: {found}");
    }
    for sql in [
        "select count(*) from usage_events where ended_at > '2026-11-15 12:34Z'",
        "select count(*) from api_keys where last_used_at > '2026-11-15 12:34Z'",
        "select count(*) from balance_ledger where at > '2026-11-15 12:34Z'",
        "select count(*) from alerts a join alerts b on a.id < b.id and a.fired_at > b.fired_at",
        "select count(*) from instance where not demo",
    ] {
        assert_eq!(count(pool, sql).await, 0, "{sql}");
    }
}

async fn one_tenant_is_over_its_budget_and_two_are_near(pool: &PgPool) {
    let tenants: Vec<(i64, String, String, i64)> = sqlx::query_as(
        "select t.id, t.slug, t.time_zone, (r ->> 'limit')::bigint from tenants t join plans p on p.id = t.plan_id,
                jsonb_array_elements(p.rules) r where r ->> 'rule' = 'month'",
    )
    .fetch_all(pool)
    .await
    .unwrap();
    let (mut over, mut near) = (Vec::new(), Vec::new());
    for (id, slug, zone, limit) in tenants {
        let period = month_period(NOW, &Zone::named(&zone).unwrap(), 1).unwrap();
        let used: i64 = sqlx::query_scalar(
            "select coalesce(sum(charge_nanos), 0)::bigint from usage_events
             where tenant_id = $1 and admitted_at >= to_timestamp($2 / 1000)",
        )
        .bind(id)
        .bind(period.start.0)
        .fetch_one(pool)
        .await
        .unwrap();
        match used * 100 / limit {
            100.. => over.push((TenantId(id), slug)),
            80..100 => near.push((TenantId(id), slug)),
            _ => {}
        }
    }
    assert_eq!((over.len(), near.len()), (1, 2), "{over:?} {near:?}");
    let alerts = alert::list(pool, None, 100).await.unwrap();
    for ((tenant, _), percent) in over.iter().map(|t| (t, 100)).chain(near.iter().map(|t| (t, 80)))
    {
        let told = alerts.iter().any(|a| a.tenant_id == *tenant && a.threshold_percent == percent);
        assert!(told, "{tenant} {percent}");
    }
}

async fn limits_work_at_once(pool: &PgPool, secrets: &DemoSecrets) {
    let directory = Directory::load(pool, Arc::new(sealer())).await.unwrap();
    let engine = PostgresEngine::new(pool.clone(), TaskTracker::new());
    let over = secrets.key("harborline-freight", "support-chat").unwrap();
    match ask(&directory, &engine, over).await {
        Verdict::Refuse(refusal) => {
            assert_eq!((refusal.reason, refusal.limit), (Reason::BudgetExhausted, 420_000_000_000));
            assert!(refusal.used > 400_000_000_000, "{refusal:?}");
        }
        Verdict::Admit(hold) => panic!("{hold:?}"),
    }
    let shown = secrets.key(seed::SHOWN_TENANT, seed::SHOWN_KEY).unwrap();
    assert!(matches!(ask(&directory, &engine, shown).await, Verdict::Admit(_)));
}

/// Asks for a call that may cost 1 USD.
async fn ask(directory: &Directory, engine: &PostgresEngine, key: &ApiKeySecret) -> Verdict {
    let snapshot = directory.snapshot();
    let context = identify(&snapshot, key.expose(), NOW).unwrap();
    let ask = Ask {
        request_id: RequestId::from_parts(u64::try_from(NOW.0).unwrap(), rand::random()),
        tenant_id: context.tenant.id,
        zone: context.tenant.zone.clone(),
        meters: context.meters(),
        estimate: Estimate { tokens: 100, charge: Nanos(1_000_000_000) },
        now: Some(NOW),
    };
    engine.admit(&ask).await.unwrap()
}

async fn people_can_sign_in(pool: &PgPool, secrets: &DemoSecrets) {
    let passwords = Passwords::new();
    for (email, password) in [
        (seed::OPERATOR_EMAIL, &secrets.operator_password),
        (seed::TENANT_EMAIL, &secrets.tenant_password),
    ] {
        let who = member::verify_password(pool, &passwords, email, password.clone()).await.unwrap();
        assert_eq!(who.unwrap().email, email);
        let wrong = format!("{}x", password.expose_secret()).into();
        assert!(member::verify_password(pool, &passwords, email, wrong).await.unwrap().is_none());
    }
}

#[tokio::test]
async fn a_database_with_tenants_of_its_own_is_left_alone() {
    let db = testkit::database().await;
    let plans = testkit::fixtures::plans(&db.pool).await;
    testkit::fixtures::tenant(&db.pool, "acme", plans.pro).await;
    let refused = seed_at(&db.pool, &DemoSecrets::generate(), "http://127.0.0.1:9101").await;
    assert!(matches!(refused, Err(SeedError::NotEmpty)), "{refused:?}");
    assert_eq!(count(&db.pool, "select count(*) from tenants").await, 1);
    assert_eq!(count(&db.pool, "select count(*) from providers").await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn seeding_that_is_broken_off_leaves_nothing_behind() {
    let db = testkit::database().await;
    let secrets = DemoSecrets::generate();
    let sealer = sealer();
    let begun = Notify::new();
    let progress = |p: seed::Progress| {
        assert!(p.events > 0);
        begun.notify_one();
    };
    let work = seed::demo(&db.pool, &sealer, &secrets, NOW, "http://127.0.0.1:9101", progress);
    tokio::select! {
        done = work => panic!("it was not broken off: {done:?}"),
        () = begun.notified() => {}
    }
    let another = db.another_pool();
    for sql in [
        "select count(*) from tenants",
        "select count(*) from usage_events",
        "select count(*) from instance where demo",
    ] {
        assert_eq!(count(&another, sql).await, 0, "{sql}");
    }
}
