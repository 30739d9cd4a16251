//! The simulator's journal against Weir's events: two witnesses of the same calls.

use std::collections::BTreeMap;

use sim::{Dialect, End, Served};

use super::books::Event;
use crate::world::PriceSheet;

/// How the two accounts compare.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Calls whose usage the provider told: equal to the token.
    pub(crate) told: usize,
    /// Calls whose usage it did not tell, or not for sure: estimated.
    pub(crate) estimated: usize,
    /// Calls that were reset, or had garbage in the middle: what the provider told last may not have
    /// been there to read.
    pub(crate) in_doubt: usize,
    /// Calls that the provider failed before a word: free.
    pub(crate) free: usize,
    pub(crate) told_tokens: i64,
    pub(crate) told_charge_nanos: i64,
}

/// Checks that each call that reached the provider is one event and each event one such call.
///
/// `markup_bps` and `prices` are what the test set up: the charge is worked out anew from the
/// journal's tokens.
pub(crate) fn compare(
    journal: &[Served],
    events: &[Event],
    prices: impl Fn(&str) -> PriceSheet,
    markup_bps: impl Fn(i64) -> i64,
) -> Tally {
    let mut by_name: BTreeMap<&str, &Event> = BTreeMap::new();
    for event in events {
        let name =
            event.client_request_id.as_deref().unwrap_or_else(|| panic!("nameless: {event:?}"));
        assert!(by_name.insert(name, event).is_none(), "{name} has two events");
    }
    let mut tally = Tally::default();
    for served in journal {
        let name = name(served);
        let event = by_name
            .remove(name)
            .unwrap_or_else(|| panic!("{name} reached the provider and has no event: {served:?}"));
        same_id(served, event);
        one(served, event, &mut tally, &prices, &markup_bps);
    }
    assert!(by_name.is_empty(), "events of calls that never reached the provider: {by_name:?}");
    tally
}

/// The name of the call, which its script put into the answer's id.
fn name(served: &Served) -> &str {
    let script = served.script.as_deref().unwrap_or_else(|| panic!("no script: {served:?}"));
    let first = script.split(';').next().unwrap_or_default();
    first.strip_prefix("id=").unwrap_or_else(|| panic!("no name: {served:?}"))
}

/// The provider's own id of the request stands in the event, wherever Weir got a head to read it from.
fn same_id(served: &Served, event: &Event) {
    let got = event.provider_request_id.as_deref();
    let told = served.upstream_request_id.as_str();
    // A reset can overtake the head, and an end before the first byte takes it along.
    let may_miss = served.status == 0 || served.end == End::Reset || served.bytes_sent == 0;
    assert!(
        got == Some(told) || (may_miss && got.is_none()),
        "another id than the provider's: {served:?} {event:?}"
    );
}

fn one(
    served: &Served,
    event: &Event,
    tally: &mut Tally,
    prices: &impl Fn(&str) -> PriceSheet,
    markup_bps: &impl Fn(i64) -> i64,
) {
    assert_eq!(event.model, served.model);
    assert_eq!(event.anomaly, None, "the simulator's counts can be believed: {event:?}");
    assert_eq!(event.other, 0);
    assert!(event.charge_nanos <= event.hold_nanos, "above its hold: {event:?} {served:?}");
    let sheet = prices(&event.model);
    let cost = sheet.cost_nanos(&[
        event.input,
        event.cached_input,
        event.cache_write_short,
        event.cache_write_long,
        event.output,
        event.reasoning,
    ]);
    assert_eq!(event.cost_nanos, cost, "the price of its tokens: {event:?}");
    let charge = raised(cost, markup_bps(event.tenant_id));
    assert_eq!(event.charge_nanos, charge, "the cost with the markup: {event:?}");
    match event.usage_source.as_str() {
        "provider" if is_in_doubt(served) => {
            let output = i64::try_from(served.tokens.output).unwrap_or(i64::MAX);
            assert!(event.output + event.reasoning <= output, "{served:?} {event:?}");
            tally.in_doubt += 1;
        }
        "provider" => {
            equal_tokens(served, event);
            tally.told += 1;
            tally.told_tokens += event.tokens();
            tally.told_charge_nanos += event.charge_nanos;
        }
        "estimated" => {
            assert!(!surely_told(served), "told and not believed: {served:?} {event:?}");
            assert!(event.charge_nanos > 0, "an estimate is never free: {event:?}");
            tally.estimated += 1;
        }
        "none" => {
            let failed = matches!(event.outcome.as_str(), "provider_error" | "provider_timeout");
            assert!(failed && event.tokens() == 0, "free without a reason: {event:?} {served:?}");
            tally.free += 1;
        }
        other => panic!("no such source: {other}"),
    }
}

/// The provider told its figures, and nothing can have swallowed them on the way.
fn surely_told(served: &Served) -> bool {
    // Anthropic begins with a provisional figure, which only its last frames make good.
    let provisional = served.dialect == Dialect::Anthropic && served.end != End::Complete;
    served.usage_stated && !provisional && !is_in_doubt(served)
}

fn is_in_doubt(served: &Served) -> bool {
    let script = served.script.as_deref().unwrap_or_default();
    served.end == End::Reset || script.contains("garbage_after")
}

fn equal_tokens(served: &Served, event: &Event) {
    let journal = &served.tokens;
    let count = |tokens: u64| i64::try_from(tokens).unwrap_or(i64::MAX);
    let found = (
        event.input,
        event.cached_input,
        event.cache_write_short,
        event.cache_write_long,
        event.output + event.reasoning,
    );
    let wanted = (
        count(journal.fresh() + journal.tool_use),
        count(journal.cached),
        count(journal.cache_write_short),
        count(journal.cache_write_long),
        count(journal.output),
    );
    assert_eq!(found, wanted, "other tokens than the provider's: {served:?} {event:?}");
}

/// `nanos` with so many basis points on top, rounded half up.
fn raised(nanos: i64, bps: i64) -> i64 {
    let raised = i128::from(nanos) * i128::from(10_000 + bps);
    i64::try_from((raised + 5_000) / 10_000).unwrap_or(i64::MAX)
}
