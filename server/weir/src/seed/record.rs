//! A call as it is written down.

use domain::admission::{Reason, Refusal};
use domain::id::RequestId;
use domain::money::MoneyError;
use domain::usage::Dialect;
use domain::window::UnixMs;
use ledger::{Attempt, DriftNote, RefusedCall, UsageEvent};
use limiter::Actual;

use super::ask::Ask;
use super::dice::Dice;
use super::fate::Fate;
use super::stage::StagedTenant;

/// In one of so many events the provider's figures did not add up.
const CLAMPED_ONE_IN: u64 = 4_000;

/// An event, and what it used.
#[derive(Debug)]
pub(crate) struct Recorded {
    pub(crate) event: UsageEvent,
    pub(crate) actual: Actual,
}

/// The event of an admitted call, without its bookings.
pub(crate) fn event(
    ask: &mut Ask<'_>,
    tenant: &StagedTenant,
    fate: Fate,
    now: UnixMs,
) -> Result<Recorded, MoneyError> {
    let (cost, charge) = ask.price(&fate.usage, tenant)?;
    let at = ask.call.at;
    // What is still running now is taken for done: the history has no open calls.
    let duration = fate.duration_ms.min(now.since_ms(at));
    let duration_ms = i32::try_from(duration).unwrap_or(i32::MAX);
    let first_byte = fate.first_byte_ms.map(|ms| ms.min(duration));
    let request_id = request_id(at, &mut ask.dice);
    let dialect = ask.offer.model.dialect;
    let model = &ask.offer.model.name;
    let provider_id = ask.offer.provider;
    let answered = fate.upstream_status.is_some_and(|status| status < 300);
    let attempt = Attempt {
        attempt: 1,
        provider_id,
        model: model.clone(),
        status: fate.upstream_status,
        duration_ms,
        error: fate.error.map(ToOwned::to_owned),
        started_at: at,
    };
    let event = UsageEvent {
        request_id,
        tenant_id: tenant.id,
        team_id: ask.key.team,
        key_id: ask.key.id,
        plan_id: tenant.plan.id,
        provider_id,
        dialect,
        route: route(dialect, ask.stream).to_owned(),
        model: model.clone(),
        served_model: answered.then(|| model.clone()),
        price_id: ask.card.price_id,
        stream: ask.stream,
        admitted_at: at,
        ended_at: at.plus_ms(duration),
        first_byte_ms: first_byte.map(|ms| i32::try_from(ms).unwrap_or(i32::MAX)),
        duration_ms,
        outcome: fate.outcome,
        http_status: fate.http_status,
        usage_source: fate.source,
        anomaly: None,
        usage: fate.usage,
        cost,
        charge,
        hold: ask.estimate.charge,
        client_request_id: None,
        provider_request_id: answered.then(|| provider_request_id(dialect, &mut ask.dice)),
        attempts: vec![attempt],
        bookings: Vec::new(),
        drift: drift(&fate, &mut ask.dice),
    };
    let actual = Actual { tokens: event.usage.total(), charge };
    Ok(Recorded { event, actual })
}

/// The note of a call that was not admitted.
pub(crate) fn refusal(ask: &mut Ask<'_>, tenant: &StagedTenant, limit: Refusal) -> RefusedCall {
    let at = ask.call.at;
    RefusedCall {
        request_id: request_id(at, &mut ask.dice),
        tenant_id: tenant.id,
        key_id: ask.key.id,
        at,
        route: route(ask.offer.model.dialect, ask.stream).to_owned(),
        model: Some(ask.offer.model.name.clone()),
        status: match limit.reason {
            Reason::BudgetExhausted | Reason::BalanceExhausted => 402,
            Reason::ExceedsCapacity => 413,
            Reason::RateLimited
            | Reason::TokenRateLimited
            | Reason::WindowExhausted
            | Reason::ConcurrencyExhausted => 429,
        },
        code: limit.reason.code().to_owned(),
        limit: Some(limit),
        client_request_id: None,
    }
}

/// The gateway's words for its routes.
const fn route(dialect: Dialect, stream: bool) -> &'static str {
    match (dialect, stream) {
        (Dialect::Openai, _) => "openai.chat",
        (Dialect::Anthropic, _) => "anthropic.messages",
        (Dialect::Gemini, false) => "gemini.generate",
        (Dialect::Gemini, true) => "gemini.stream",
    }
}

fn request_id(at: UnixMs, dice: &mut Dice) -> RequestId {
    let random = (u128::from(dice.roll()) << 64) | u128::from(dice.roll());
    RequestId::from_parts(u64::try_from(at.0).unwrap_or(0), random)
}

fn provider_request_id(dialect: Dialect, dice: &mut Dice) -> String {
    let (high, low) = (dice.roll(), dice.roll());
    match dialect {
        Dialect::Openai => format!("chatcmpl-{high:016x}{:08x}", low >> 32),
        Dialect::Anthropic => format!("msg_01{high:016x}{:06x}", low >> 40),
        Dialect::Gemini => format!("{high:016x}{:06x}", low >> 40),
    }
}

/// Now and then a provider says that more was cached than there was.
fn drift(fate: &Fate, dice: &mut Dice) -> Vec<DriftNote> {
    if fate.usage.cached_input == 0 || dice.below(CLAMPED_ONE_IN) > 0 {
        return Vec::new();
    }
    vec![DriftNote {
        kind: "usage_clamped".to_owned(),
        meter: None,
        expected: fate.usage.cached_input,
        found: fate.usage.cached_input + dice.between(1, 64),
        cause: "cached tokens above the prompt's".to_owned(),
    }]
}
