//! Which models are used, for what.

use app::views::{MixPanel, MixRow, TrafficRange};
use domain::window::{ROLLUP_MS, UnixMs, rollup_start};
use ledger::report::model_mix;

use super::{Fault, HOUSE_ZONE};
use crate::weir::Weir;

/// The window of so many hours that ends with the running quarter of an hour.
pub(super) const fn last_hours(now: UnixMs, hours: i64) -> (UnixMs, UnixMs) {
    let to = rollup_start(now).plus_ms(ROLLUP_MS);
    (to.plus_ms(-hours * 60 * 60 * 1_000), to)
}

pub(super) async fn panel(weir: &Weir, range: TrafficRange) -> Result<MixPanel, Fault> {
    let now = weir.clock.now();
    let (from, to) = last_hours(now, range.hours());
    let rows = model_mix(&weir.pool, None, from, to).await?.into_iter().map(|row| MixRow {
        model: row.model,
        input_tokens: row.input.saturating_add(row.cache_write),
        cached_input_tokens: row.cached_input,
        output_tokens: row.output,
        reasoning_tokens: row.reasoning,
        requests: row.requests,
        charge_nanos: row.charge.0,
    });
    Ok(MixPanel {
        from_ms: from.0,
        to_ms: to.0,
        zone: HOUSE_ZONE.to_owned(),
        as_of_ms: now.0,
        rows: rows.collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_ends_with_the_running_quarter_of_an_hour() {
        let now = UnixMs(1_795_900_123_456);
        let (from, to) = last_hours(now, 24);
        assert_eq!(to.since_ms(from), 24 * 60 * 60 * 1_000);
        assert!(to > now && to.since_ms(now) <= ROLLUP_MS);
        assert_eq!((from.0 % ROLLUP_MS, to.0 % ROLLUP_MS), (0, 0));
    }
}
