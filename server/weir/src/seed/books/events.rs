//! Events and their attempts.

use ledger::UsageEvent;
use sqlx::PgConnection;

use super::copy::Rows;
use crate::seed::SeedError;

/// An event and the transaction of the ledger that it is part of.
pub(super) type Row<'a> = (&'a UsageEvent, Option<i64>);

const EVENTS: &str = "copy usage_events (request_id, tenant_id, team_id, key_id, plan_id, provider_id, dialect, \
    route, model, served_model, price_id, stream, admitted_at, ended_at, first_byte_ms, duration_ms, outcome, \
    http_status, usage_source, input, cached_input, cache_write_short, output, reasoning, cost_nanos, \
    charge_nanos, hold_nanos, provider_request_id, ledger_transaction, persisted_at, bookings) \
    from stdin (format binary)";
const EVENT_COLUMNS: i16 = 31;

const ATTEMPTS: &str = "copy attempts (request_id, attempt, provider_id, model, status, duration_ms, error, \
    started_at) from stdin (format binary)";
const ATTEMPT_COLUMNS: i16 = 8;

/// Writes the events. They count as written down when they ended.
pub(super) async fn copy(db: &mut PgConnection, rows: &[Row<'_>]) -> Result<(), SeedError> {
    let mut copy = Rows::of(EVENT_COLUMNS, rows.len());
    for (event, transaction) in rows {
        copy.row()
            .text(&event.request_id.to_string())
            .big(event.tenant_id.0)
            .big_or_null(event.team_id.map(|team| team.0))
            .big(event.key_id.0)
            .big(event.plan_id.0)
            .big(event.provider_id.0)
            .text(event.dialect.code())
            .text(&event.route)
            .text(&event.model)
            .text_or_null(event.served_model.as_deref())
            .big(event.price_id.0)
            .yes(event.stream)
            .instant(event.admitted_at)
            .instant(event.ended_at)
            .int_or_null(event.first_byte_ms)
            .int(event.duration_ms)
            .text(event.outcome.code())
            .int_or_null(event.http_status.map(i32::from))
            .text(event.usage_source.code())
            .big(event.usage.input)
            .big(event.usage.cached_input)
            .big(event.usage.cache_write_short)
            .big(event.usage.output)
            .big(event.usage.reasoning)
            .big(event.cost.0)
            .big(event.charge.0)
            .big(event.hold.0)
            .text_or_null(event.provider_request_id.as_deref())
            .big_or_null(*transaction)
            .instant(event.ended_at)
            .text(&ledger::booked::written(&event.bookings));
    }
    copy.copy(db, EVENTS).await
}

/// Writes what went upstream for each event.
pub(super) async fn copy_attempts(
    db: &mut PgConnection,
    rows: &[Row<'_>],
) -> Result<(), SeedError> {
    let mut copy = Rows::of(ATTEMPT_COLUMNS, rows.len());
    for (event, _) in rows {
        for attempt in &event.attempts {
            copy.row()
                .text(&event.request_id.to_string())
                .int(attempt.attempt)
                .big(attempt.provider_id.0)
                .text(&attempt.model)
                .int_or_null(attempt.status.map(i32::from))
                .int(attempt.duration_ms)
                .text_or_null(attempt.error.as_deref())
                .instant(attempt.started_at);
        }
    }
    copy.copy(db, ATTEMPTS).await
}
