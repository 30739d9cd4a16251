use std::convert::Infallible;
use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};

use domain::admission::{Counter, Decision, MICRO, Meter, decide};
use domain::id::RequestId;
use domain::money::Nanos;
use domain::plan::{LimitRule, Metric};
use domain::window::UnixMs;
use tokio::time::sleep;
use tokio_util::task::TaskTracker;

use super::*;

const PROVIDER: Owner = (Scope::Provider, 9);
const ONE: Estimate = Estimate { tokens: 1, charge: Nanos(1) };

/// An engine with a single bucket, by tokio's clock.
struct Quota {
    meter: Meter,
    counter: Mutex<Counter>,
    born: Instant,
    asked: AtomicUsize,
}

impl Quota {
    fn of(owner: Owner, metric: Metric, per_second: i64, capacity: i64) -> Arc<Self> {
        let rule = LimitRule::Bucket { metric, rate_milli_per_s: per_second * 1_000, capacity };
        let counter = Counter::Bucket { level_micro: capacity * MICRO, at: UnixMs(0) };
        Arc::new(Self {
            meter: Meter { scope: owner.0, scope_id: owner.1, rule },
            counter: Mutex::new(counter),
            born: Instant::now(),
            asked: AtomicUsize::new(0),
        })
    }

    async fn ask(&self, estimate: Estimate) -> Result<Verdict, Infallible> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let now = UnixMs(i64::try_from(self.born.elapsed().as_millis()).unwrap());
        let mut counter = self.counter.lock().unwrap();
        let (meters, counters) = (std::slice::from_ref(&self.meter), [counter.clone()]);
        match decide(meters, &counters, &estimate, now).unwrap() {
            Decision::Refuse(refusal) => Ok(Verdict::Refuse(refusal)),
            Decision::Admit(takes) => {
                let (
                    Counter::Bucket { level_micro, at },
                    LimitRule::Bucket { rate_milli_per_s, capacity, .. },
                ) = (&mut *counter, &self.meter.rule)
                else {
                    panic!("a bucket")
                };
                let level = domain::admission::refilled(
                    *level_micro,
                    *at,
                    *rate_milli_per_s,
                    *capacity,
                    now,
                );
                (*level_micro, *at) = (level - takes[0].amount * MICRO, now);
                Ok(Verdict::Admit(hold()))
            }
        }
    }
}

fn hold() -> Hold {
    Hold {
        request_id: RequestId::from_parts(0, 0),
        tenant_id: TenantId(1),
        admitted_at: UnixMs(0),
        expires_at: UnixMs(0),
        takes: Vec::new(),
        charge: Nanos::ZERO,
        alerts: Vec::new(),
    }
}

fn caller(tenant: i64) -> Caller {
    let own = (Scope::Tenant, tenant);
    Caller {
        tenant: TenantId(tenant),
        owners: [(Scope::Key, tenant * 10), own, own, PROVIDER],
        estimate: ONE,
        weight: 1,
        own_patience: Duration::ZERO,
        bytes: 100,
    }
}

fn refusal(reason: Reason, owner: Owner, retry_after_ms: Option<i64>) -> Refusal {
    Refusal {
        reason,
        scope: owner.0,
        scope_id: owner.1,
        meter: "requests_rate".to_owned(),
        metric: Metric::Requests,
        limit: 1,
        used: 1,
        held: 0,
        wanted: 1,
        resets_at: None,
        retry_after_ms,
    }
}

/// Nobody waits and nothing is left behind.
fn assert_empty(queue: &Queue) {
    let lines = queue.lock();
    assert_eq!((lines.waiting, lines.bytes), (0, 0));
    assert!(lines.lines.is_empty() && lines.by_tenant.is_empty());
}

/// Callers that come again and again until the end; says how many were served.
fn crowd(
    tasks: &TaskTracker,
    queue: &Arc<Queue>,
    quota: &Arc<Quota>,
    who: &Caller,
    callers: usize,
    seconds: u64,
) -> Arc<AtomicUsize> {
    let served = Arc::new(AtomicUsize::new(0));
    let end = Instant::now() + Duration::from_secs(seconds);
    for _ in 0..callers {
        let (queue, quota, who) = (Arc::clone(queue), Arc::clone(quota), who.clone());
        let served = Arc::clone(&served);
        tasks.spawn(async move {
            while Instant::now() < end {
                let Ok(outcome) = queue.admit(&who, || quota.ask(who.estimate), pending()).await;
                match outcome {
                    Outcome::Admitted(_) => drop(served.fetch_add(1, Ordering::Relaxed)),
                    // A client that comes again much sooner than it was told.
                    _ => sleep(Duration::from_millis(10)).await,
                }
            }
        });
    }
    served
}

async fn all_done(tasks: &TaskTracker) {
    tasks.close();
    tasks.wait().await;
}

#[tokio::test(start_paused = true)]
async fn two_tenants_share_a_providers_quota_by_their_weights() {
    let (queue, tasks) = (Arc::new(Queue::default()), TaskTracker::new());
    let quota = Quota::of(PROVIDER, Metric::Requests, 40, 4);
    let heavy = Caller { weight: 3, ..caller(2) };
    let light = crowd(&tasks, &queue, &quota, &caller(1), 60, 30);
    let heavy = crowd(&tasks, &queue, &quota, &heavy, 60, 30);
    all_done(&tasks).await;
    let (light, heavy) = (light.load(Ordering::Relaxed), heavy.load(Ordering::Relaxed));
    let all = light + heavy;
    assert!((1_180..=1_250).contains(&all), "the quota is used: {all}");
    let percent = heavy * 100 / light;
    assert!((270..=330).contains(&percent), "{light} : {heavy}");
    assert_empty(&queue);
}

#[tokio::test(start_paused = true)]
async fn a_share_is_of_what_the_quota_counts_not_of_calls() {
    let (queue, tasks) = (Arc::new(Queue::default()), TaskTracker::new());
    let quota = Quota::of(PROVIDER, Metric::Tokens, 4_000, 400);
    let large = Caller { estimate: Estimate { tokens: 300, ..ONE }, ..caller(1) };
    let small = Caller { estimate: Estimate { tokens: 100, ..ONE }, ..caller(2) };
    let large = crowd(&tasks, &queue, &quota, &large, 60, 30);
    let small = crowd(&tasks, &queue, &quota, &small, 60, 30);
    all_done(&tasks).await;
    let (large, small) = (large.load(Ordering::Relaxed), small.load(Ordering::Relaxed));
    let percent = small * 100 / large;
    assert!((270..=330).contains(&percent), "{large} : {small}");
}

#[tokio::test(start_paused = true)]
async fn a_noisy_tenant_cannot_starve_a_quiet_one() {
    let (queue, tasks) = (Arc::new(Queue::default()), TaskTracker::new());
    let quota = Quota::of(PROVIDER, Metric::Requests, 40, 4);
    let noisy = crowd(&tasks, &queue, &quota, &caller(1), 200, 11);
    let mut slowest = Duration::ZERO;
    for _ in 0..100 {
        sleep(Duration::from_millis(100)).await;
        let began = Instant::now();
        let quiet = caller(2);
        let outcome = queue.admit(&quiet, || quota.ask(ONE), pending()).await;
        assert!(matches!(outcome, Ok(Outcome::Admitted(_))), "{outcome:?}");
        slowest = slowest.max(began.elapsed());
    }
    all_done(&tasks).await;
    assert!(slowest <= Duration::from_millis(60), "two turns at most: {slowest:?}");
    assert!(noisy.load(Ordering::Relaxed) > 280);
}

#[tokio::test(start_paused = true)]
async fn turns_that_cannot_lead_to_anything_do_not_hold_others_up() {
    let (queue, tasks) = (Arc::new(Queue::default()), TaskTracker::new());
    let quota = Quota::of(PROVIDER, Metric::Requests, 40, 4);
    let served = crowd(&tasks, &queue, &quota, &caller(2), 40, 10);
    let end = Instant::now() + Duration::from_secs(10);
    for _ in 0..20 {
        let queue = Arc::clone(&queue);
        tasks.spawn(async move {
            let who = caller(1);
            while Instant::now() < end {
                // Its own limit says no, and an engine takes its time to do so.
                let ask = || async {
                    sleep(Duration::from_millis(5)).await;
                    let no = refusal(Reason::RateLimited, (Scope::Tenant, 1), Some(60_000));
                    Ok::<_, Infallible>(Verdict::Refuse(no))
                };
                let outcome = queue.admit(&who, ask, pending()).await;
                assert!(matches!(outcome, Ok(Outcome::Refused(_))));
            }
        });
    }
    all_done(&tasks).await;
    let served = served.load(Ordering::Relaxed);
    assert!(served >= 360, "{served} of 400");
    assert_empty(&queue);
}

#[tokio::test(start_paused = true)]
async fn calls_of_a_tenant_are_served_in_the_order_in_which_they_came() {
    let (queue, tasks) = (Arc::new(Queue::default()), TaskTracker::new());
    let quota = Quota::of((Scope::Tenant, 1), Metric::Requests, 10, 1);
    let order = Arc::new(Mutex::new(Vec::new()));
    for number in 0..12_u64 {
        let (queue, quota, order) = (Arc::clone(&queue), Arc::clone(&quota), Arc::clone(&order));
        tasks.spawn(async move {
            // The later half comes when the bucket is about to have its next place.
            sleep(Duration::from_millis(if number < 6 { number } else { 99 + number * 100 })).await;
            let who = Caller { own_patience: Duration::from_secs(5), ..caller(1) };
            let outcome = queue.admit(&who, || quota.ask(ONE), pending()).await;
            assert!(matches!(outcome, Ok(Outcome::Admitted(_))));
            order.lock().unwrap().push((number, quota.born.elapsed().as_millis()));
        });
    }
    all_done(&tasks).await;
    let order = order.lock().unwrap();
    let numbers: Vec<u64> = order.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, (0..12).collect::<Vec<_>>());
    assert!(order[1].1 >= 100 && order[5].1 <= 520, "{order:?}");
    assert_empty(&queue);
}

#[tokio::test(start_paused = true)]
async fn who_leaves_frees_the_place_and_the_turn() {
    let queue = Arc::new(Queue::default());
    let quota = Quota::of((Scope::Tenant, 1), Metric::Requests, 1, 1);
    let who = Caller { own_patience: Duration::from_secs(5), ..caller(1) };
    quota.ask(ONE).await.unwrap();
    let leaving = queue.admit(&who, || quota.ask(ONE), sleep(Duration::from_millis(300)));
    let staying = async {
        sleep(Duration::from_millis(1)).await;
        queue.admit(&who, || quota.ask(ONE), pending()).await
    };
    let (left, stayed) = tokio::join!(leaving, staying);
    assert!(matches!(left, Ok(Outcome::Gone)));
    assert!(matches!(stayed, Ok(Outcome::Admitted(_))));
    assert_eq!(quota.born.elapsed().as_millis(), 1_000);
    // One that is dropped leaves as well.
    let dropped = tokio::time::timeout(
        Duration::from_millis(10),
        queue.admit(&who, || quota.ask(ONE), pending()),
    );
    assert!(dropped.await.is_err());
    assert_empty(&queue);
}

#[tokio::test(start_paused = true)]
async fn nothing_waits_where_waiting_does_not_help_or_not_in_time() {
    let queue = Queue::default();
    let (own, began) = ((Scope::Tenant, 1), Instant::now());
    let patient = Caller { own_patience: Duration::from_secs(2), ..caller(1) };
    for (who, no) in [
        (&patient, refusal(Reason::BudgetExhausted, own, None)),
        (&patient, refusal(Reason::BalanceExhausted, own, None)),
        (&patient, refusal(Reason::ExceedsCapacity, own, None)),
        (&patient, refusal(Reason::WindowExhausted, own, Some(2_001))),
        (&patient, refusal(Reason::RateLimited, own, None)),
        // A plan that does not wait, and its own limit.
        (&caller(1), refusal(Reason::RateLimited, own, Some(1))),
        (&caller(1), refusal(Reason::ConcurrencyExhausted, (Scope::Key, 10), Some(1_000))),
        (&caller(1), refusal(Reason::RateLimited, PROVIDER, Some(1_001))),
    ] {
        let ask = || async { Ok::<_, Infallible>(Verdict::Refuse(no.clone())) };
        let outcome = queue.admit(who, ask, pending()).await;
        assert!(matches!(outcome, Ok(Outcome::Refused(told)) if told == no));
    }
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert_empty(&queue);
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_with_the_plans_patience_and_at_a_provider_within_a_second() {
    let queue = Queue::default();
    for (patience, owner, expected) in [
        (0, PROVIDER, 1_000..=1_000),
        (3_000, PROVIDER, 2_950..=3_000),
        (3_000, (Scope::Tenant, 1), 2_950..=3_000),
    ] {
        let who = Caller { own_patience: Duration::from_millis(patience), ..caller(1) };
        let began = Instant::now();
        let no = refusal(Reason::ConcurrencyExhausted, owner, Some(1_000));
        let ask = || async { Ok::<_, Infallible>(Verdict::Refuse(no.clone())) };
        let outcome = queue.admit(&who, ask, pending()).await;
        assert!(matches!(outcome, Ok(Outcome::Refused(told)) if told == no));
        let waited = began.elapsed().as_millis();
        assert!(expected.contains(&waited), "{waited} ms of {patience}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_tenant_has_so_many_places_and_bodies_so_much_room() {
    let (queue, tasks) = (Arc::new(Queue::default()), TaskTracker::new());
    let quota = Quota::of((Scope::Tenant, 1), Metric::Requests, 1, 1);
    quota.ask(ONE).await.unwrap();
    let who = Caller { own_patience: Duration::from_secs(2), ..caller(1) };
    for _ in 0..MAX_WAITING_PER_TENANT {
        let (queue, quota, who) = (Arc::clone(&queue), Arc::clone(&quota), who.clone());
        tasks.spawn(async move { queue.admit(&who, || quota.ask(ONE), pending()).await });
    }
    sleep(Duration::from_millis(1)).await;
    let asked = quota.asked.load(Ordering::Relaxed);
    let Ok(Outcome::Refused(told)) = queue.admit(&who, || quota.ask(ONE), pending()).await else {
        panic!("one more than there are places")
    };
    assert_eq!((told.reason, told.scope_id), (Reason::RateLimited, 1));
    assert!(told.retry_after_s().is_some());
    assert_eq!(quota.asked.load(Ordering::Relaxed), asked, "it did not overtake by asking");
    all_done(&tasks).await;
    assert_empty(&queue);

    sleep(Duration::from_secs(1)).await;
    let large = Caller { bytes: MAX_WAITING_BYTES + 1, ..who };
    let began = Instant::now();
    let outcome = queue.admit(&large, || quota.ask(ONE), pending()).await;
    assert!(matches!(outcome, Ok(Outcome::Admitted(_))), "there is a place in the bucket");
    let outcome = queue.admit(&large, || quota.ask(ONE), pending()).await;
    assert!(matches!(outcome, Ok(Outcome::Refused(_))));
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_fails_gives_the_turn_on() {
    let queue = Queue::default();
    let who = Caller { own_patience: Duration::from_secs(2), ..caller(1) };
    let no = || Ok(Verdict::Refuse(refusal(Reason::RateLimited, (Scope::Tenant, 1), Some(10))));
    let mut answers = vec![Err("away"), no()];
    let failing = queue.admit(&who, || std::future::ready(answers.pop().unwrap()), pending());
    let other = async {
        sleep(Duration::from_millis(1)).await;
        let mut answers = vec![Ok::<_, &str>(Verdict::Admit(hold()))];
        queue.admit(&who, || std::future::ready(answers.pop().unwrap()), pending()).await
    };
    let (failed, served) = tokio::join!(failing, other);
    assert_eq!(failed.unwrap_err(), "away");
    assert!(matches!(served, Ok(Outcome::Admitted(_))));
    assert_empty(&queue);
}
