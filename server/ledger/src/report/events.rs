//! Single calls: a page of the newest, or one by its id.

use domain::admission::Scope;
use domain::id::{KeyId, PlanId, PriceId, ProviderId, RequestId, TeamId, TenantId};
use domain::money::Nanos;
use domain::usage::{Dialect, Outcome, Usage, UsageSource};
use domain::window::UnixMs;
use sqlx::PgPool;

use crate::error::LedgerError;
use crate::instant::{instant, to_ms};
use crate::usage_event::{Attempt, UsageEvent};

/// The most events on one page.
const MAX_PAGE: i64 = 1_000;

/// Where a page of events begins: before this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventCursor {
    /// Its instant of admission.
    pub admitted_at: UnixMs,
    /// Its id.
    pub request_id: RequestId,
}

/// One line of a list of events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRow {
    /// Names the call.
    pub request_id: RequestId,
    /// When it was admitted.
    pub admitted_at: UnixMs,
    /// The key that called.
    pub key_id: KeyId,
    /// The model that the client named.
    pub model: String,
    /// Whether the answer was a stream.
    pub stream: bool,
    /// How it ended.
    pub outcome: Outcome,
    /// The status that the client got.
    pub http_status: Option<u16>,
    /// Where the token counts come from.
    pub usage_source: UsageSource,
    /// Input tokens of all classes.
    pub input_tokens: i64,
    /// Output tokens of all classes.
    pub output_tokens: i64,
    /// What the tenant is charged.
    pub charge: Nanos,
    /// From the admission to the end, in milliseconds.
    pub duration_ms: i32,
    /// From the admission to the first byte, in milliseconds.
    pub first_byte_ms: Option<i32>,
}

impl EventRow {
    /// The cursor of the page after this row.
    #[must_use]
    pub const fn cursor(&self) -> EventCursor {
        EventCursor { admitted_at: self.admitted_at, request_id: self.request_id }
    }
}

/// An event as it stands in the books.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    /// The event. What it booked and noted is not kept with it: both lists are empty.
    pub event: UsageEvent,
    /// The transaction of the ledger that its charge is part of; nothing when nothing was charged.
    pub ledger_transaction: Option<i64>,
    /// When it was written.
    pub persisted_at: UnixMs,
}

/// A refused call as it stands in the records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRefusal {
    /// Names the call.
    pub request_id: RequestId,
    /// Whose key it was.
    pub tenant_id: TenantId,
    /// The key.
    pub key_id: KeyId,
    /// When it was refused.
    pub at: UnixMs,
    /// The route's pattern.
    pub route: String,
    /// The model that the client named.
    pub model: Option<String>,
    /// The status that the client got.
    pub status: u16,
    /// The word for why.
    pub code: String,
    /// Whose limit said no, if one did.
    pub scope: Option<Scope>,
    /// Which meter said no.
    pub meter: Option<String>,
    /// Where calls stopped.
    pub limit: Option<i64>,
    /// What was used.
    pub used: Option<i64>,
    /// What was held.
    pub held: Option<i64>,
    /// What the call would have taken.
    pub wanted: Option<i64>,
    /// The client's own name of the request.
    pub client_request_id: Option<String>,
}

fn source(code: &str) -> Option<UsageSource> {
    let all = [UsageSource::Provider, UsageSource::Estimated, UsageSource::None];
    all.into_iter().find(|source| source.code() == code)
}

fn status(code: Option<i32>) -> Option<u16> {
    code.and_then(|code| u16::try_from(code).ok())
}

/// A tenant's newest events before `before`, newest first; at most `limit`, and never more than 1,000.
///
/// # Errors
/// When the database cannot be reached.
pub async fn recent_events(
    pool: &PgPool,
    tenant_id: TenantId,
    before: Option<EventCursor>,
    limit: i64,
) -> Result<Vec<EventRow>, LedgerError> {
    let before_at = before.map(|cursor| instant(cursor.admitted_at)).transpose()?;
    let rows = sqlx::query!(
        r#"select request_id, admitted_at, key_id, model, stream, outcome, http_status, usage_source,
                  input + cached_input + cache_write_short + cache_write_long + input_audio as "input_tokens!",
                  output + reasoning + output_audio + output_image as "output_tokens!",
                  charge_nanos, duration_ms, first_byte_ms
           from usage_events
           where tenant_id = $1
             and admitted_at <= coalesce($2::timestamptz, 'infinity')
             and ($2::timestamptz is null or (admitted_at, request_id) < ($2, $3))
           order by admitted_at desc, request_id desc
           limit $4"#,
        tenant_id.0,
        before_at,
        before.map(|cursor| cursor.request_id.to_string()),
        limit.clamp(0, MAX_PAGE),
    )
    .fetch_all(pool)
    .await?;
    let events = rows.into_iter().map(|row| {
        Some(EventRow {
            request_id: row.request_id.parse().ok()?,
            admitted_at: to_ms(row.admitted_at),
            key_id: KeyId(row.key_id),
            model: row.model,
            stream: row.stream,
            outcome: Outcome::parse(&row.outcome)?,
            http_status: status(row.http_status),
            usage_source: source(&row.usage_source)?,
            input_tokens: row.input_tokens,
            output_tokens: row.output_tokens,
            charge: Nanos(row.charge_nanos),
            duration_ms: row.duration_ms,
            first_byte_ms: row.first_byte_ms,
        })
    });
    events.collect::<Option<_>>().ok_or_else(|| LedgerError::unreadable("usage_events"))
}

/// The event of a request id, with its attempts.
///
/// # Errors
/// When the database cannot be reached.
pub async fn find_event(
    pool: &PgPool,
    request_id: RequestId,
) -> Result<Option<StoredEvent>, LedgerError> {
    let Some(mut stored) = stored_event(pool, request_id).await? else { return Ok(None) };
    stored.event.attempts = attempts(pool, request_id).await?;
    Ok(Some(stored))
}

async fn stored_event(
    pool: &PgPool,
    request_id: RequestId,
) -> Result<Option<StoredEvent>, LedgerError> {
    let row = sqlx::query!(
        r#"select tenant_id, team_id, key_id, plan_id, provider_id, dialect, route, model, served_model, price_id,
                  stream, admitted_at, ended_at, first_byte_ms, duration_ms, outcome, http_status, usage_source,
                  anomaly, input, cached_input, cache_write_short, cache_write_long, input_audio, output, reasoning,
                  output_audio, output_image, cost_nanos, charge_nanos, hold_nanos, client_request_id,
                  provider_request_id, ledger_transaction, persisted_at
           from usage_events where request_id = $1"#,
        request_id.to_string()
    )
    .fetch_optional(pool)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let unreadable = || LedgerError::unreadable("usage_events");
    let usage = Usage {
        input: row.input,
        cached_input: row.cached_input,
        cache_write_short: row.cache_write_short,
        cache_write_long: row.cache_write_long,
        input_audio: row.input_audio,
        output: row.output,
        reasoning: row.reasoning,
        output_audio: row.output_audio,
        output_image: row.output_image,
    };
    let event = UsageEvent {
        request_id,
        tenant_id: TenantId(row.tenant_id),
        team_id: row.team_id.map(TeamId),
        key_id: KeyId(row.key_id),
        plan_id: PlanId(row.plan_id),
        provider_id: ProviderId(row.provider_id),
        dialect: Dialect::parse(&row.dialect).ok_or_else(unreadable)?,
        route: row.route,
        model: row.model,
        served_model: row.served_model,
        price_id: PriceId(row.price_id),
        stream: row.stream,
        admitted_at: to_ms(row.admitted_at),
        ended_at: to_ms(row.ended_at),
        first_byte_ms: row.first_byte_ms,
        duration_ms: row.duration_ms,
        outcome: Outcome::parse(&row.outcome).ok_or_else(unreadable)?,
        http_status: status(row.http_status),
        usage_source: source(&row.usage_source).ok_or_else(unreadable)?,
        anomaly: row.anomaly,
        usage,
        cost: Nanos(row.cost_nanos),
        charge: Nanos(row.charge_nanos),
        hold: Nanos(row.hold_nanos),
        client_request_id: row.client_request_id,
        provider_request_id: row.provider_request_id,
        attempts: Vec::new(),
        bookings: Vec::new(),
        drift: Vec::new(),
    };
    let persisted_at = to_ms(row.persisted_at);
    Ok(Some(StoredEvent { event, ledger_transaction: row.ledger_transaction, persisted_at }))
}

async fn attempts(pool: &PgPool, request_id: RequestId) -> Result<Vec<Attempt>, LedgerError> {
    let rows = sqlx::query!(
        r#"select attempt, provider_id, model, status, duration_ms, error, started_at
           from attempts where request_id = $1 order by attempt"#,
        request_id.to_string()
    )
    .fetch_all(pool)
    .await?;
    let attempts = rows.into_iter().map(|row| Attempt {
        attempt: row.attempt,
        provider_id: ProviderId(row.provider_id),
        model: row.model,
        status: status(row.status),
        duration_ms: row.duration_ms,
        error: row.error,
        started_at: to_ms(row.started_at),
    });
    Ok(attempts.collect())
}

/// The refused call of a request id.
///
/// # Errors
/// When the database cannot be reached.
pub async fn find_refusal(
    pool: &PgPool,
    request_id: RequestId,
) -> Result<Option<StoredRefusal>, LedgerError> {
    let row = sqlx::query!(
        r#"select tenant_id, key_id, at, route, model, status, code, scope, meter, limit_amount,
                  used_amount, held_amount, wanted_amount, client_request_id
           from refusals where request_id = $1"#,
        request_id.to_string()
    )
    .fetch_optional(pool)
    .await?;
    Ok(row.map(|row| StoredRefusal {
        request_id,
        tenant_id: TenantId(row.tenant_id),
        key_id: KeyId(row.key_id),
        at: to_ms(row.at),
        route: row.route,
        model: row.model,
        status: u16::try_from(row.status).unwrap_or_default(),
        code: row.code,
        scope: row.scope.and_then(|scope| Scope::parse(&scope)),
        meter: row.meter,
        limit: row.limit_amount,
        used: row.used_amount,
        held: row.held_amount,
        wanted: row.wanted_amount,
        client_request_id: row.client_request_id,
    }))
}
