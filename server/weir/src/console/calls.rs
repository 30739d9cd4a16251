//! A tenant's newest calls.

use app::views::{CallOutcome, CallRow, CallsPanel};
use domain::usage::{Outcome, UsageSource};
use futures_util::{StreamExt, TryStreamExt, stream};
use ledger::report::{EventRow, find_event, recent_events};
use tenants::directory::Snapshot;
use tenants::tenant::Tenant;

use super::Fault;
use crate::weir::Weir;

/// How many calls the panel shows.
const ROWS: i64 = 20;
/// How many details are read at once: the page must not take all connections.
const READ_AT_ONCE: usize = 4;

pub(super) async fn panel(
    weir: &Weir,
    snapshot: &Snapshot,
    tenant: &Tenant,
) -> Result<CallsPanel, Fault> {
    let now = weir.clock.now();
    let events = recent_events(&weir.pool, tenant.id, None, ROWS).await?;
    // The list does not tell thinking from visible output.
    let rows: Vec<CallRow> = stream::iter(events)
        .map(|event| async {
            let stored = find_event(&weir.pool, event.request_id).await?;
            let reasoning = stored.map_or(0, |stored| stored.event.usage.reasoning);
            let key = snapshot.key(event.key_id).map(|key| key.name.to_string());
            Ok::<_, Fault>(row(event, reasoning, key.unwrap_or_default()))
        })
        .buffered(READ_AT_ONCE)
        .try_collect()
        .await?;
    Ok(CallsPanel { zone: tenant.time_zone.clone(), as_of_ms: now.0, rows })
}

fn row(event: EventRow, reasoning_tokens: i64, key_name: String) -> CallRow {
    CallRow {
        request_id: event.request_id.to_string(),
        at_ms: event.admitted_at.0,
        key_name,
        model: event.model,
        outcome: match event.outcome {
            // Withheld by the provider: it answered to the end all the same.
            Outcome::Ok | Outcome::Blocked => CallOutcome::Completed,
            Outcome::ProviderError => CallOutcome::ProviderFailed,
            Outcome::ProviderTimeout => CallOutcome::TimedOut,
            Outcome::ClientDisconnected => CallOutcome::ClientGone,
            Outcome::Interrupted => CallOutcome::Interrupted,
            Outcome::Orphaned => CallOutcome::Orphaned,
        },
        input_tokens: event.input_tokens,
        output_tokens: event.output_tokens.saturating_sub(reasoning_tokens),
        reasoning_tokens,
        charge_nanos: event.charge.0,
        latency_ms: i64::from(event.duration_ms),
        estimated: event.usage_source == UsageSource::Estimated,
    }
}
