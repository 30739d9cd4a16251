//! Two thousand mixed calls, half of them decided by each engine, with faults, limits and clients that leave: then all
//! accounts agree.

pub(crate) mod books;
mod calls;
mod client;
mod journal;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use serde_json::Value;

use self::calls::{Call, Fault, Leaves};
use self::client::Answer;
use crate::environment;
use crate::say::say;
use crate::wait::{alone, until};
use crate::world::{
    Engine, Tenant, World, concurrency, month_cost, month_requests, prices, rate, tokens_5h,
    week_cost,
};

/// How many calls for each engine.
const CALLS: usize = 1_000;
/// How many at once.
const AT_ONCE: usize = 64;
/// How long the last calls of clients that left may take to be read to their end and settled.
const SETTLED: Duration = Duration::from_secs(120);
/// More than all calls together can cost, in nano-USD: a limit that refuses nobody.
const PLENTY: i64 = 1_000_000_000_000;
/// The shares of the calls by tenant, in the order of [`tenants`].
const SHARES: [u32; 5] = [40, 20, 15, 15, 10];
/// What the second tenant pays on top, in basis points.
const MARKUP_BPS: i64 = 1_550;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_thousand_mixed_calls_that_postgres_admits_all_books_are_one_account() {
    one_account(Engine::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_thousand_mixed_calls_that_redis_admits_all_books_are_one_account() {
    one_account(Engine::Redis).await;
}

/// Journal, events, ledger, slices, rollups and counters.
async fn one_account(engine: Engine) {
    let _alone = alone().await;
    let seed = environment::seed();
    say(&format!("storm: WEIR_TEST_SEED={seed}"));
    let mut world = World::start_on(engine).await;
    let tenants = tenants(&world).await;
    let calls = calls::draw(seed, CALLS, &SHARES);

    let host = world.weir.authority().to_owned();
    let http = crate::http::client();
    let answers: Vec<(&Call, Option<Answer>)> = stream::iter(&calls)
        .map(|call| {
            let (http, host, key) = (&http, &host, &tenants[call.tenant].key);
            async move { (call, client::make(http, host, key, call).await) }
        })
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;

    settled(&world).await;
    world.still_decides(&[&world.weir]).await;
    let status = world.weir.stop().await;
    assert_eq!(status.code(), Some(0), "SIGTERM ends it well");

    let events = books::events(&world.db.pool).await;
    let served = world.sim.journal();
    let markup = |tenant: i64| if tenant == tenants[1].id { MARKUP_BPS } else { 0 };
    let tally = journal::compare(&served, &events, prices, markup);
    books::agree(&world.db.pool, &events).await;
    assert_eq!(books::held(&world.db.pool).await, (0, 0), "nothing is held");
    let said = clients_agree(&world, &answers, &events).await;

    say(&format!(
        "storm: {} calls: {} reached the provider, {} told ({} tokens, {} nano-USD), {} estimated, {} in doubt, {} free; \
         {} left; answers by status: {said:?}",
        calls.len(),
        served.len(),
        tally.told,
        tally.told_tokens,
        tally.told_charge_nanos,
        tally.estimated,
        tally.in_doubt,
        tally.free,
        calls.iter().filter(|call| call.leaves != Leaves::Never).count(),
    ));
    // A storm that met no fault, no limit and no client that left would prove nothing.
    assert!(tally.told > CALLS / 4 && tally.estimated > 0 && tally.free > 0);
    assert!(said.contains_key(&402) && said.contains_key(&429) && said.contains_key(&502));
}

/// One that is never refused, one with a markup, one with a rate, one with few places, one with
/// little money. All have the same windows, so that all have the same slices.
async fn tenants(world: &World) -> [Tenant; 5] {
    let windows = |cost: i64| {
        vec![month_cost(cost), week_cost(PLENTY), tokens_5h(PLENTY), month_requests(PLENTY)]
    };
    let with = |rule: Value| [windows(PLENTY), vec![rule]].concat();
    [
        world.tenant("roomy", &windows(PLENTY), 0).await,
        world.tenant("marked", &windows(PLENTY), MARKUP_BPS).await,
        world.tenant("rated", &with(rate(4_000, 25)), 0).await,
        world.tenant("narrow", &with(concurrency(2)), 0).await,
        world.tenant("poor", &windows(15_000_000), 0).await,
    ]
}

/// Waits until the calls of clients that left have ended too.
async fn settled(world: &World) {
    until("all calls are settled", SETTLED, async || {
        let stats = world.sim.stats();
        let held = books::held(&world.db.pool).await;
        if held != (0, 0) || stats.arrived != stats.served {
            return Err(format!("{held:?} held, {stats:?}"));
        }
        // What Redis holds too, and whether all places say the same.
        let (said, held) = world.verify().await;
        if held == 0 && said.code == Some(0) { Ok(()) } else { Err(format!("{said:?}")) }
    })
    .await;
}

/// Checks what the clients got against the books; gives how many got which status.
async fn clients_agree(
    world: &World,
    answers: &[(&Call, Option<Answer>)],
    events: &[books::Event],
) -> BTreeMap<u16, usize> {
    let named = events.iter().filter_map(|e| Some((e.client_request_id.as_deref()?, e)));
    let events: BTreeMap<&str, &books::Event> = named.collect();
    let mut statuses = BTreeMap::new();
    let mut refused = BTreeSet::new();
    for (call, answer) in answers {
        let Some(answer) = answer else { continue };
        *statuses.entry(answer.status).or_insert(0) += 1;
        match events.get(call.name.as_str()) {
            Some(event) => served(call, answer, event),
            None => {
                by_a_limit(call, answer);
                refused.insert(answer.request_id.as_str());
            }
        }
    }
    let known: BTreeSet<&str> = answers
        .iter()
        .filter_map(|(_, answer)| Some(answer.as_ref()?.request_id.as_str()))
        .collect();
    let recorded = books::refusals(&world.db.pool).await;
    assert!(!recorded.is_empty(), "refusals are on record");
    for (id, status) in &recorded {
        // Who left before the answer cannot know the id.
        assert!(
            refused.contains(id.as_str()) || !known.contains(id.as_str()),
            "{id} was served and is on record as refused with {status}"
        );
    }
    statuses
}

/// An answer of a call that reached the provider.
fn served(call: &Call, answer: &Answer, event: &books::Event) {
    let text = String::from_utf8_lossy(&answer.body);
    let context = || format!("{call:?}\n{event:?}\n{} {text}", answer.status);
    if answer.status != 0 {
        assert_eq!(event.request_id, answer.request_id, "{}", context());
        assert_eq!(event.http_status, Some(i32::from(answer.status)), "{}", context());
    }
    match &call.fault {
        Fault::None(_) | Fault::NoUsage => {
            assert_eq!(answer.status, 200, "{}", context());
            assert!(!answer.broken && call.is_whole(&answer.body), "not whole: {}", context());
            assert_eq!(event.outcome, "ok", "{}", context());
        }
        Fault::Status(status) => {
            assert!(!(200..300).contains(&answer.status), "{}", context());
            assert!(text.contains("\"source\":\"provider\""), "whose error? {}", context());
            assert!((*status < 500) || answer.status == 502, "{}", context());
            assert_eq!(event.outcome, "provider_error", "{}", context());
        }
        Fault::Breaks(_) => {
            // Late faults may miss a short answer; one that was met must not look like a whole answer.
            let garbled = std::str::from_utf8(&answer.body).is_err();
            let told = answer.broken || garbled || text.contains("\"error\"");
            let whole = answer.status == 200 && !told && call.is_whole(&answer.body);
            assert!(whole || told, "broken and nobody said so: {}", context());
            assert_eq!(event.outcome == "ok", whole, "{}", context());
            if !call.form.streams() && !whole {
                assert_eq!(answer.status, 502, "{}", context());
            }
        }
    }
    let asked_for_usage = call.form == calls::Form::ChatStreamWithUsage;
    if call.form == calls::Form::ChatStream || (asked_for_usage && !call.streams_badly()) {
        let empty = text.contains("\"choices\":[]");
        let wanted = asked_for_usage && answer.status == 200 && call.fault != Fault::NoUsage;
        assert_eq!(empty, wanted, "usage for who asked, and for nobody else: {}", context());
    }
}

/// A refusal: by one of the tenant's limits, in Weir's own name.
fn by_a_limit(call: &Call, answer: &Answer) {
    let text = String::from_utf8_lossy(&answer.body);
    let fits = match call.tenant {
        2 | 3 => answer.status == 429,
        // Some calls alone are larger than the poor tenant's whole month.
        4 => matches!(answer.status, 402 | 413),
        _ => false,
    };
    assert!(fits && text.contains("\"source\":\"gateway\""), "{call:?} {} {text}", answer.status);
}
