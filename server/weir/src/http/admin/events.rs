//! Single calls: those that were made, and those that were refused.

use axum::Json;
use domain::id::{RequestId, TenantId};
use domain::usage::{Outcome, Usage};
use domain::window::UnixMs;
use ledger::report::{EventCursor, EventRow, StoredEvent, find_event, find_refusal, recent_events};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::ask::{Ask, At, Page, Params, Problem, rfc3339};
use crate::http::error::Code;

/// How many rows are read at once while a filter looks for its own.
const READ_AT_ONCE: i64 = 500;
/// How many rows one request looks through: a rare filter goes on at `next_cursor`.
const LOOKED_THROUGH_MAX: i64 = 5_000;
/// The most rows of a page.
const PAGE_ROWS_MAX: i64 = 500;

/// Which events.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct EventFilter {
    /// Whose. Needed unless `request_id` is given.
    tenant_id: Option<i64>,
    key_id: Option<i64>,
    model: Option<String>,
    /// `ok`, `blocked`, `provider_error`, `provider_timeout`, `client_disconnected`, `interrupted`
    /// or `orphaned`.
    outcome: Option<String>,
    /// One call; the other filters must fit it.
    request_id: Option<String>,
    /// How many rows, at most 500; 100 when nothing is said.
    limit: Option<i64>,
    /// `next_cursor` of the page before.
    cursor: Option<String>,
}

/// A line of the list of events.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct EventLine {
    request_id: String,
    tenant_id: i64,
    key_id: i64,
    model: String,
    stream: bool,
    outcome: &'static str,
    /// What the client got; null when it had left.
    http_status: Option<u16>,
    /// `provider`, `estimated` or `none`.
    usage_source: &'static str,
    input_tokens: i64,
    output_tokens: i64,
    charge_nanos: i64,
    duration_ms: i32,
    first_byte_ms: Option<i32>,
    admitted_at: String,
}

/// The tokens of a call, in classes that do not overlap.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct Tokens {
    input: i64,
    cached_input: i64,
    cache_write_short: i64,
    cache_write_long: i64,
    input_audio: i64,
    output: i64,
    reasoning: i64,
    output_audio: i64,
    output_image: i64,
}

/// One try at a provider.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct Attempt {
    attempt: i32,
    provider_id: i64,
    model: String,
    status: Option<u16>,
    duration_ms: i32,
    error: Option<String>,
    started_at: String,
}

/// All that is known of a call.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct Event {
    #[serde(flatten)]
    line: EventLine,
    team_id: Option<i64>,
    plan_id: i64,
    price_id: i64,
    provider_id: i64,
    dialect: &'static str,
    route: String,
    served_model: Option<String>,
    tokens: Tokens,
    anomaly: Option<String>,
    cost_nanos: i64,
    hold_nanos: i64,
    client_request_id: Option<String>,
    provider_request_id: Option<String>,
    ledger_transaction: Option<i64>,
    attempts: Vec<Attempt>,
    ended_at: String,
    persisted_at: String,
}

/// A call that was refused.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct Refusal {
    request_id: String,
    tenant_id: i64,
    key_id: i64,
    at: String,
    route: String,
    model: Option<String>,
    status: u16,
    code: String,
    scope: Option<&'static str>,
    meter: Option<String>,
    limit: Option<i64>,
    used: Option<i64>,
    held: Option<i64>,
    wanted: Option<i64>,
    client_request_id: Option<String>,
}

/// A tenant's events, newest first. A page may hold fewer rows than asked for, or none, while
/// `next_cursor` says that there is more to look through.
#[utoipa::path(
    get,
    path = "/admin/api/v1/events",
    tag = "events",
    params(EventFilter),
    responses((status = 200, body = Page<EventLine>))
)]
pub(in crate::http) async fn list(
    ask: Ask,
    Params(filter): Params<EventFilter>,
) -> Result<Json<Page<EventLine>>, Problem> {
    let outcome = filter.outcome.as_deref().map(|code| {
        Outcome::parse(code).ok_or_else(|| ask.invalid("outcome", "is not an outcome"))
    });
    let outcome = outcome.transpose()?;
    let fits = |line: &EventLine| {
        filter.tenant_id.is_none_or(|id| id == line.tenant_id)
            && filter.key_id.is_none_or(|id| id == line.key_id)
            && filter.model.as_ref().is_none_or(|model| *model == line.model)
            && outcome.is_none_or(|outcome| outcome.code() == line.outcome)
    };
    if let Some(id) = &filter.request_id {
        let stored = match id.parse::<RequestId>() {
            Ok(id) => find_event(&ask.weir.pool, id).await.map_err(|e| ask.of_ledger(e))?,
            Err(_) => None,
        };
        let found = stored.map(|stored| line_of(&stored)).filter(fits);
        return Ok(Json(Page::whole(found.into_iter().collect())));
    }
    let tenant = filter.tenant_id.map(TenantId);
    let tenant = tenant.ok_or_else(|| ask.invalid("tenant_id", "say tenant_id or request_id"))?;
    let mut cursor = filter.cursor.as_deref().map(|text| read_cursor(&ask, text)).transpose()?;
    let wanted = filter.limit.unwrap_or(100).clamp(1, PAGE_ROWS_MAX);
    let wanted = usize::try_from(wanted).unwrap_or(1);
    let (mut data, mut looked_through) = (Vec::new(), 0_i64);
    loop {
        let rows = recent_events(&ask.weir.pool, tenant, cursor, READ_AT_ONCE).await;
        let rows = rows.map_err(|e| ask.of_ledger(e))?;
        let last_page = i64::try_from(rows.len()).unwrap_or(i64::MAX) < READ_AT_ONCE;
        for row in rows {
            cursor = Some(row.cursor());
            looked_through = looked_through.saturating_add(1);
            let line = line(tenant, row);
            if fits(&line) {
                data.push(line);
            }
            if data.len() >= wanted || looked_through >= LOOKED_THROUGH_MAX {
                return Ok(Json(Page { data, next_cursor: cursor.map(write_cursor) }));
            }
        }
        if last_page {
            return Ok(Json(Page::whole(data)));
        }
    }
}

/// All that is known of a call.
#[utoipa::path(
    get,
    path = "/admin/api/v1/events/{request_id}",
    tag = "events",
    params(("request_id" = String, Path)),
    responses((status = 200, body = Event), (status = 404, description = "no such event"))
)]
pub(in crate::http) async fn one(ask: Ask, At(id): At<String>) -> Result<Json<Event>, Problem> {
    let none = || ask.problem(Code::NotFound, "There is no event of this request id.");
    let id: RequestId = id.parse().map_err(|_| none())?;
    let stored = find_event(&ask.weir.pool, id).await.map_err(|e| ask.of_ledger(e))?;
    Ok(Json(event(stored.ok_or_else(none)?)))
}

/// A call that was refused.
#[utoipa::path(
    get,
    path = "/admin/api/v1/refusals/{request_id}",
    tag = "events",
    params(("request_id" = String, Path)),
    responses((status = 200, body = Refusal), (status = 404, description = "no such refusal"))
)]
pub(in crate::http) async fn refusal(
    ask: Ask,
    At(id): At<String>,
) -> Result<Json<Refusal>, Problem> {
    let none = || ask.problem(Code::NotFound, "There is no refusal of this request id.");
    let id: RequestId = id.parse().map_err(|_| none())?;
    let stored = find_refusal(&ask.weir.pool, id).await.map_err(|e| ask.of_ledger(e))?;
    let stored = stored.ok_or_else(none)?;
    Ok(Json(Refusal {
        request_id: stored.request_id.to_string(),
        tenant_id: stored.tenant_id.0,
        key_id: stored.key_id.0,
        at: rfc3339(stored.at),
        route: stored.route,
        model: stored.model,
        status: stored.status,
        code: stored.code,
        scope: stored.scope.map(domain::admission::Scope::code),
        meter: stored.meter,
        limit: stored.limit,
        used: stored.used,
        held: stored.held,
        wanted: stored.wanted,
        client_request_id: stored.client_request_id,
    }))
}

fn line(tenant: TenantId, row: EventRow) -> EventLine {
    EventLine {
        request_id: row.request_id.to_string(),
        tenant_id: tenant.0,
        key_id: row.key_id.0,
        model: row.model,
        stream: row.stream,
        outcome: row.outcome.code(),
        http_status: row.http_status,
        usage_source: row.usage_source.code(),
        input_tokens: row.input_tokens,
        output_tokens: row.output_tokens,
        charge_nanos: row.charge.0,
        duration_ms: row.duration_ms,
        first_byte_ms: row.first_byte_ms,
        admitted_at: rfc3339(row.admitted_at),
    }
}

fn line_of(stored: &StoredEvent) -> EventLine {
    let event = &stored.event;
    EventLine {
        request_id: event.request_id.to_string(),
        tenant_id: event.tenant_id.0,
        key_id: event.key_id.0,
        model: event.model.clone(),
        stream: event.stream,
        outcome: event.outcome.code(),
        http_status: event.http_status,
        usage_source: event.usage_source.code(),
        input_tokens: event.usage.input_tokens(),
        output_tokens: event.usage.output_tokens(),
        charge_nanos: event.charge.0,
        duration_ms: event.duration_ms,
        first_byte_ms: event.first_byte_ms,
        admitted_at: rfc3339(event.admitted_at),
    }
}

fn event(stored: StoredEvent) -> Event {
    let line = line_of(&stored);
    let StoredEvent { event, ledger_transaction, persisted_at } = stored;
    let attempts = event.attempts.into_iter().map(|attempt| Attempt {
        attempt: attempt.attempt,
        provider_id: attempt.provider_id.0,
        model: attempt.model,
        status: attempt.status,
        duration_ms: attempt.duration_ms,
        error: attempt.error,
        started_at: rfc3339(attempt.started_at),
    });
    Event {
        line,
        team_id: event.team_id.map(|team| team.0),
        plan_id: event.plan_id.0,
        price_id: event.price_id.0,
        provider_id: event.provider_id.0,
        dialect: event.dialect.code(),
        route: event.route,
        served_model: event.served_model,
        tokens: tokens(&event.usage),
        anomaly: event.anomaly,
        cost_nanos: event.cost.0,
        hold_nanos: event.hold.0,
        client_request_id: event.client_request_id,
        provider_request_id: event.provider_request_id,
        ledger_transaction,
        attempts: attempts.collect(),
        ended_at: rfc3339(event.ended_at),
        persisted_at: rfc3339(persisted_at),
    }
}

const fn tokens(usage: &Usage) -> Tokens {
    Tokens {
        input: usage.input,
        cached_input: usage.cached_input,
        cache_write_short: usage.cache_write_short,
        cache_write_long: usage.cache_write_long,
        input_audio: usage.input_audio,
        output: usage.output,
        reasoning: usage.reasoning,
        output_audio: usage.output_audio,
        output_image: usage.output_image,
    }
}

fn write_cursor(cursor: EventCursor) -> String {
    format!("{}-{}", cursor.admitted_at.0, cursor.request_id)
}

fn read_cursor(ask: &Ask, text: &str) -> Result<EventCursor, Problem> {
    let parts = text.split_once('-').and_then(|(at, id)| {
        Some(EventCursor { admitted_at: UnixMs(at.parse().ok()?), request_id: id.parse().ok()? })
    });
    parts.ok_or_else(|| ask.invalid("cursor", "send `next_cursor` of the page before"))
}
