//! After a fault: the provider's journal, the events, the ledger and the counters of one load's tenants.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use sim::Served;
use sqlx::PgPool;

use super::load::{Cast, Seen};
use super::{Fleet, PLACES};

/// The accounts of one load, and what is wrong with them.
#[derive(Debug, Default)]
pub(crate) struct Books {
    /// Calls that reached the provider.
    pub(crate) journal: usize,
    pub(crate) events: usize,
    /// Events whose charge is posted.
    pub(crate) posted: usize,
    pub(crate) charge_nanos: i64,
    pub(crate) ledger_nanos: i64,
    pub(crate) estimated: usize,
    pub(crate) estimated_nanos: i64,
    pub(crate) orphaned: usize,
    /// Events of calls that were on record and never sent.
    pub(crate) unsent: usize,
    /// What the capped tenant used beyond its money.
    pub(crate) over_nanos: i64,
    /// What it used of it, of a thousand parts.
    pub(crate) used_permille: i64,
    /// Calls of the narrow tenant at the same time, beyond its places.
    pub(crate) over_places: usize,
    /// The names of the calls that have an event.
    pub(crate) named: BTreeSet<String>,
    pub(crate) wrong: Vec<String>,
}

#[derive(Debug, sqlx::FromRow)]
struct Event {
    client_request_id: Option<String>,
    tenant_id: i64,
    outcome: String,
    usage_source: String,
    input: i64,
    output: i64,
    charge_nanos: i64,
    cost_nanos: i64,
    hold_nanos: i64,
    ledger_transaction: Option<i64>,
}

/// Compares all accounts of the load `name`. Holds have to be over.
pub(crate) async fn compare(fleet: &Fleet, name: &str, cast: &Cast, seen: &[Seen]) -> Books {
    let mut books = Books::default();
    let journal = fleet.journal(name);
    let events = events(&fleet.pool, cast).await;
    books.journal = journal.len();
    books.events = events.len();
    books.posted = events.iter().filter(|event| event.ledger_transaction.is_some()).count();
    books.charge_nanos = events.iter().map(|event| event.charge_nanos).sum();
    one_to_one(&journal, &events, &mut books);
    served_ones(seen, &events, &mut books);
    ledger(&fleet.pool, cast, &events, &mut books).await;
    for event in &events {
        figures(event, fleet, &mut books);
    }
    caps(cast, &journal, &events, &mut books);
    verified(fleet, cast, &mut books).await;
    books
}

async fn events(pool: &PgPool, cast: &Cast) -> Vec<Event> {
    sqlx::query_as(
        "select client_request_id, tenant_id, outcome, usage_source, input, output + reasoning as output,
                charge_nanos, cost_nanos, hold_nanos, ledger_transaction
         from usage_events where tenant_id = any($1)",
    )
    .bind(cast.ids().to_vec())
    .fetch_all(pool)
    .await
    .unwrap()
}

/// Each call that reached the provider is one event; an event without one is a call that was never sent.
fn one_to_one(journal: &[Served], events: &[Event], books: &mut Books) {
    let mut by_name: BTreeMap<&str, Vec<&Event>> = BTreeMap::new();
    for event in events {
        match event.client_request_id.as_deref() {
            Some(name) => by_name.entry(name).or_default().push(event),
            None => books.wrong.push(format!("an event without its client's name: {event:?}")),
        }
    }
    for (name, several) in by_name.iter().filter(|(_, events)| events.len() > 1) {
        books.wrong.push(format!("{name} has {} events", several.len()));
    }
    for served in journal {
        let name = name_of(served);
        let Some(event) = by_name.remove(name).and_then(|events| events.first().copied()) else {
            books.wrong.push(format!("{name} reached the provider and has no event: {served:?}"));
            continue;
        };
        if event.usage_source == "provider" {
            let told = (served.tokens.input, served.tokens.output);
            let found = (u64::try_from(event.input).ok(), u64::try_from(event.output).ok());
            if found != (Some(told.0), Some(told.1)) {
                books.wrong.push(format!("{name}: {told:?} tokens, in the books {event:?}"));
            }
        } else if event.charge_nanos == 0 && served.tokens.output > 0 {
            books.wrong.push(format!("{name} was served and is free: {event:?}"));
        }
    }
    for event in by_name.into_values().flatten() {
        books.unsent += 1;
        if !matches!(event.outcome.as_str(), "orphaned" | "client_disconnected" | "interrupted") {
            books.wrong.push(format!("an event of a call that never was: {event:?}"));
        }
    }
}

/// The name of the call, which its script put into the answer's id.
fn name_of(served: &Served) -> &str {
    let script = served.script.as_deref().unwrap_or_default();
    script.split(';').next().and_then(|first| first.strip_prefix("id=")).unwrap_or_default()
}

/// Whoever was served is in the books; whoever was refused is not.
fn served_ones(seen: &[Seen], events: &[Event], books: &mut Books) {
    books.named = events.iter().filter_map(|event| event.client_request_id.clone()).collect();
    for call in seen {
        let is_booked = books.named.contains(&call.name);
        if call.is_served() && !is_booked {
            books.wrong.push(format!("served and not in the books: {call:?}"));
        }
        if call.is_refused() && is_booked {
            books.wrong.push(format!("refused and in the books: {call:?}"));
        }
        if call.status == 500 || call.code == "hangs" {
            books.wrong.push(format!("a client met this: {call:?}"));
        }
    }
}

async fn ledger(pool: &PgPool, cast: &Cast, events: &[Event], books: &mut Books) {
    let uneven: i64 = sqlx::query_scalar(
        "select count(*) from (select 1 from balance_ledger group by transaction_id having sum(amount_nanos) <> 0) as t",
    )
    .fetch_one(pool)
    .await
    .unwrap();
    if uneven != 0 {
        books.wrong.push(format!("{uneven} transactions of the ledger do not add up to zero"));
    }
    let usage: i64 = sqlx::query_scalar(
        "select coalesce(sum(amount_nanos), 0)::bigint from balance_ledger
         where account = 'usage' and tenant_id = any($1)",
    )
    .bind(cast.ids().to_vec())
    .fetch_one(pool)
    .await
    .unwrap();
    books.ledger_nanos = usage;
    if usage != books.charge_nanos {
        books.wrong.push(format!("the ledger says {usage}, the events {}", books.charge_nanos));
    }
    let unposted =
        events.iter().filter(|e| e.charge_nanos != 0 && e.ledger_transaction.is_none()).count();
    if unposted != 0 {
        books.wrong.push(format!("{unposted} charges are not posted"));
    }
}

fn figures(event: &Event, fleet: &Fleet, books: &mut Books) {
    let cost = Fleet::prices().cost_nanos(&[event.input, 0, 0, 0, event.output, 0]);
    if (event.cost_nanos, event.charge_nanos) != (cost, cost) {
        books.wrong.push(format!("another price than {cost}: {event:?}"));
    }
    if event.charge_nanos > event.hold_nanos || event.hold_nanos != fleet.hold_nanos {
        books.wrong.push(format!("above its hold, or another hold: {event:?}"));
    }
    if event.usage_source == "estimated" {
        books.estimated += 1;
        books.estimated_nanos += event.charge_nanos;
    }
    books.orphaned += usize::from(event.outcome == "orphaned");
}

/// No limit was passed.
fn caps(cast: &Cast, journal: &[Served], events: &[Event], books: &mut Books) {
    let budget = cast.budget_nanos;
    let of_capped = events.iter().filter(|event| event.tenant_id == cast.capped.id);
    let used: i64 = of_capped.map(|event| event.charge_nanos).sum();
    books.over_nanos = (used - budget).max(0);
    books.used_permille = used * 1_000 / budget;
    if books.over_nanos > 0 {
        books.wrong.push(format!("the capped tenant used {used} of {budget}"));
    }
    let narrow: BTreeSet<&str> = events
        .iter()
        .filter(|event| event.tenant_id == cast.narrow.id)
        .filter_map(|event| event.client_request_id.as_deref())
        .collect();
    let theirs: Vec<&Served> =
        journal.iter().filter(|served| narrow.contains(name_of(served))).collect();
    books.over_places = most_at_once(&theirs).saturating_sub(usize::try_from(PLACES).unwrap());
    if books.over_places > 0 {
        books.wrong.push(format!("{} calls too many at a time", books.over_places));
    }
}

/// The most that the provider saw at the same time.
fn most_at_once(served: &[&Served]) -> usize {
    let mut turns: Vec<(u64, i32)> = Vec::new();
    for one in served {
        turns.push((one.received_at_ms, 1));
        turns.push((one.ended_at_ms, -1));
    }
    // In one millisecond the end comes first: a place that is given back may be taken.
    turns.sort_unstable();
    let (mut now, mut most) = (0, 0);
    for (_, turn) in turns {
        now += turn;
        most = most.max(now);
    }
    usize::try_from(most).unwrap_or(0)
}

/// What the operator's own proof says.
async fn verified(fleet: &Fleet, cast: &Cast, books: &mut Books) {
    let (said, json) = fleet.verify().await;
    if said.code != Some(0) {
        books.wrong.push(format!("`weir books verify` ends with {:?}: {}", said.code, said.err));
    }
    for line in lines_of(&json, cast) {
        if line["differences"] != Value::Object(Default::default()) {
            books.wrong.push(format!("the books differ: {line}"));
        }
        if line["counter_nanos"].is_null() {
            books.wrong.push(format!("the counter cannot be read: {line}"));
        }
    }
}

/// The lines of these tenants.
pub(crate) fn lines_of<'a>(json: &'a Value, cast: &Cast) -> Vec<&'a Value> {
    let ids = cast.ids();
    let lines = json["tenants"].as_array().into_iter().flatten();
    lines.filter(|line| line["tenant_id"].as_i64().is_some_and(|id| ids.contains(&id))).collect()
}
