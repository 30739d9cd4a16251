//! What Weir has written down, read by plain SQL and checked against itself.

use std::collections::BTreeMap;

use sqlx::PgPool;

/// One usage event, as far as the storm compares it.
#[derive(Debug, Clone, sqlx::FromRow)]
pub(crate) struct Event {
    pub(crate) request_id: String,
    pub(crate) client_request_id: Option<String>,
    pub(crate) provider_request_id: Option<String>,
    pub(crate) tenant_id: i64,
    pub(crate) model: String,
    pub(crate) outcome: String,
    pub(crate) http_status: Option<i32>,
    pub(crate) usage_source: String,
    pub(crate) anomaly: Option<String>,
    pub(crate) input: i64,
    pub(crate) cached_input: i64,
    pub(crate) cache_write_short: i64,
    pub(crate) cache_write_long: i64,
    pub(crate) output: i64,
    pub(crate) reasoning: i64,
    pub(crate) other: i64,
    pub(crate) cost_nanos: i64,
    pub(crate) charge_nanos: i64,
    pub(crate) hold_nanos: i64,
    pub(crate) ledger_transaction: Option<i64>,
}

impl Event {
    pub(crate) fn tokens(&self) -> i64 {
        self.input
            + self.cached_input
            + self.cache_write_short
            + self.cache_write_long
            + self.output
            + self.reasoning
            + self.other
    }
}

/// All events, in the order of their ids.
pub(crate) async fn events(pool: &PgPool) -> Vec<Event> {
    sqlx::query_as(
        r#"select request_id, client_request_id, provider_request_id, tenant_id, model, outcome, http_status,
                  usage_source, anomaly, input, cached_input, cache_write_short, cache_write_long, output,
                  reasoning, input_audio + output_audio + output_image as other, cost_nanos, charge_nanos,
                  hold_nanos, ledger_transaction
           from usage_events order by request_id"#,
    )
    .fetch_all(pool)
    .await
    .unwrap()
}

/// What is still set aside: holds, and the held amounts of the meters.
pub(crate) async fn held(pool: &PgPool) -> (i64, i64) {
    sqlx::query_as(
        "select (select count(*) from holds), (select coalesce(sum(held), 0)::bigint from meter_states)",
    )
    .fetch_one(pool)
    .await
    .unwrap()
}

/// Each refused call on record: its id and its status.
pub(crate) async fn refusals(pool: &PgPool) -> Vec<(String, i32)> {
    sqlx::query_as("select request_id, status from refusals").fetch_all(pool).await.unwrap()
}

/// Checks that attempts, slices, rollups, ledger and balances say what the events say.
pub(crate) async fn agree(pool: &PgPool, events: &[Event]) {
    attempts(pool, events).await;
    slices(pool, events).await;
    rollups(pool, events).await;
    ledger(pool, events).await;
    balances(pool, events).await;
}

async fn attempts(pool: &PgPool, events: &[Event]) {
    let rows: Vec<(String, i32)> =
        sqlx::query_as("select request_id, attempt from attempts order by request_id")
            .fetch_all(pool)
            .await
            .unwrap();
    let wanted: Vec<(String, i32)> = events.iter().map(|e| (e.request_id.clone(), 1)).collect();
    assert_eq!(rows, wanted, "every event has exactly one attempt, and every attempt its event");
}

type Sums = BTreeMap<(i64, &'static str), i64>;

async fn slices(pool: &PgPool, events: &[Event]) {
    let mut wanted = Sums::new();
    for event in events {
        let tenant = event.tenant_id;
        *wanted.entry((tenant, "month_cost")).or_default() += event.charge_nanos;
        *wanted.entry((tenant, "week_cost")).or_default() += event.charge_nanos;
        *wanted.entry((tenant, "5h_tokens")).or_default() += event.tokens();
        *wanted.entry((tenant, "month_requests")).or_default() += 1;
    }
    for ((tenant, meter), sum) in wanted {
        let used: i64 = sqlx::query_scalar(
            "select coalesce(sum(used), 0)::bigint from meter_slices
             where tenant_id = $1 and scope = 'tenant' and meter = $2",
        )
        .bind(tenant)
        .bind(meter)
        .fetch_one(pool)
        .await
        .unwrap();
        assert_eq!(used, sum, "the slices of {meter} of tenant {tenant} are its events' sum");
    }
}

async fn rollups(pool: &PgPool, events: &[Event]) {
    let rows: Vec<(i64, String, String, Vec<i64>)> = sqlx::query_as(
        "select tenant_id, model, outcome,
                array[sum(requests), sum(estimated), sum(input), sum(cached_input), sum(cache_write),
                      sum(output), sum(reasoning), sum(cost_nanos), sum(charge_nanos)]::bigint[]
         from usage_rollups group by 1, 2, 3",
    )
    .fetch_all(pool)
    .await
    .unwrap();
    let found: BTreeMap<_, _> = rows
        .into_iter()
        .map(|(tenant, model, outcome, sums)| ((tenant, model, outcome), sums))
        .collect();
    let mut wanted: BTreeMap<(i64, String, String), Vec<i64>> = BTreeMap::new();
    for event in events {
        let key = (event.tenant_id, event.model.clone(), event.outcome.clone());
        let sums = wanted.entry(key).or_insert_with(|| vec![0; 9]);
        let parts = [
            1,
            i64::from(event.usage_source == "estimated"),
            event.input,
            event.cached_input,
            event.cache_write_short + event.cache_write_long,
            event.output,
            event.reasoning,
            event.cost_nanos,
            event.charge_nanos,
        ];
        for (sum, part) in sums.iter_mut().zip(parts) {
            *sum += part;
        }
    }
    assert_eq!(found, wanted, "the rollups are the events' sums");
}

async fn ledger(pool: &PgPool, events: &[Event]) {
    let rows: Vec<(i64, Option<i64>, String, i64)> = sqlx::query_as(
        "select transaction_id, tenant_id, account, amount_nanos from balance_ledger",
    )
    .fetch_all(pool)
    .await
    .unwrap();
    let mut charged: BTreeMap<i64, i64> = BTreeMap::new();
    for event in events {
        let posted = event.ledger_transaction.is_some();
        assert_eq!(
            posted,
            event.charge_nanos != 0,
            "a charge is posted, and nothing else: {event:?}"
        );
        if let Some(transaction) = event.ledger_transaction {
            *charged.entry(transaction).or_default() += event.charge_nanos;
        }
    }
    let mut sums: BTreeMap<i64, i64> = BTreeMap::new();
    let mut posted: BTreeMap<i64, i64> = BTreeMap::new();
    let mut cost = 0;
    for (transaction, tenant, account, amount) in rows {
        *sums.entry(transaction).or_default() += amount;
        match (tenant, account.as_str()) {
            (Some(_), "usage") => *posted.entry(transaction).or_default() += amount,
            (None, "provider_cost") => cost += amount,
            (Some(_), "balance") | (None, "provider_payable") => {}
            other => panic!("the storm posts nothing to {other:?}"),
        }
    }
    assert!(sums.values().all(|sum| *sum == 0), "every transaction adds up to zero");
    assert_eq!(posted, charged, "each transaction is the sum of the events that name it");
    assert_eq!(cost, events.iter().map(|e| e.cost_nanos).sum::<i64>(), "the house's cost");
}

async fn balances(pool: &PgPool, events: &[Event]) {
    let rows: Vec<(i64, i64)> = sqlx::query_as("select tenant_id, balance_nanos from balances")
        .fetch_all(pool)
        .await
        .unwrap();
    let mut wanted: BTreeMap<i64, i64> = BTreeMap::new();
    for event in events.iter().filter(|event| event.charge_nanos != 0) {
        *wanted.entry(event.tenant_id).or_default() -= event.charge_nanos;
    }
    assert_eq!(rows.into_iter().collect::<BTreeMap<_, _>>(), wanted, "balances are snapshots");
}
