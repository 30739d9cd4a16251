//! What a call that has ended costs: whose count is believed, and what becomes of it.

use domain::id::PriceId;
use domain::money::{MoneyError, Nanos};
use domain::rate_card::RateCard;
use domain::usage::{Outcome, Usage, UsageSource};
use ledger::DriftNote;
use ledger::drift::{PROVIDER_COUNT, TOKENS_ESTIMATE, far_apart};

use crate::dialect::{Reported, Tally};
use crate::estimate::{PromptSize, charge, tokens_in, unreported};

/// The largest context that any provider offers, in tokens, with room: more input than this is no count.
const MAX_CONTEXT_TOKENS: i64 = 10_000_000;

/// The facts that a bill follows from.
pub(crate) struct Facts<'a> {
    pub(crate) size: &'a PromptSize,
    pub(crate) context_tokens: Option<i64>,
    pub(crate) output_bound: i64,
    pub(crate) card: &'a RateCard,
    pub(crate) markup_bps: i64,
    /// What was held: the bill when no other amount can be expressed.
    pub(crate) hold: Nanos,
}

/// The bill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bill {
    pub(crate) usage: Usage,
    pub(crate) source: UsageSource,
    pub(crate) price_id: PriceId,
    pub(crate) cost: Nanos,
    pub(crate) charge: Nanos,
    pub(crate) anomaly: Option<String>,
    pub(crate) drift: Vec<DriftNote>,
}

impl Bill {
    /// The same with nothing for the tenant to pay.
    pub(crate) fn at_the_houses_cost(self) -> Self {
        Self { charge: Nanos::ZERO, ..self }
    }
}

/// Makes out the bill of a call that ended like `outcome`.
pub(crate) fn make_out(facts: &Facts<'_>, tally: &Tally, outcome: Outcome) -> Bill {
    let mut anomaly = None;
    let mut drift = Vec::new();
    let (usage, source) = match tally.reported() {
        Some(reported) => match doubt(facts, &reported) {
            None => {
                drift.extend(notes(&reported));
                drift.extend(counts_apart(facts, tally, &reported));
                if reported.usage.total() == 0 && tally.prose_bytes() > 0 {
                    anomaly = Some("zero_usage_with_content".to_owned());
                }
                if reported.output_is_open {
                    (with_output(reported.usage, tally.prose_bytes()), UsageSource::Estimated)
                } else {
                    (reported.usage, UsageSource::Provider)
                }
            }
            Some(why) => {
                anomaly = Some(format!("{why}: {:?}", reported.usage));
                (unreported(facts.size, tally.prose_bytes()), UsageSource::Estimated)
            }
        },
        None => uncounted(facts, tally, outcome),
    };
    let (cost, charge) = match price(facts, &usage) {
        Ok(amounts) => amounts,
        Err(MoneyError::OutOfRange | MoneyError::NotAnAmount(_)) => {
            anomaly = Some("cost_out_of_range".to_owned());
            (facts.hold, facts.hold)
        }
    };
    Bill { usage, source, price_id: facts.card.price_id, cost, charge, anomaly, drift }
}

/// Notes where the provider's counts are far from what was estimated before, and from what was read here.
fn counts_apart(facts: &Facts<'_>, tally: &Tally, reported: &Reported) -> Vec<DriftNote> {
    let (read, told) = (tokens_in(tally.prose_bytes()), reported.usage.output);
    let output = far_apart(PROVIDER_COUNT, read, told, "visible output: read here, and told");
    // What is not text is estimated by an allowance, which is meant to be far off.
    let input = facts.size.plain_text_bytes().and_then(|_| {
        let (estimated, told) = (facts.size.input_estimate(), reported.usage.input_tokens());
        far_apart(TOKENS_ESTIMATE, estimated, told, "input: estimated before, and told")
    });
    output.into_iter().chain(input).collect()
}

/// The usage of a call of which the provider told none: a failure before any word is free, all else is estimated.
fn uncounted(facts: &Facts<'_>, tally: &Tally, outcome: Outcome) -> (Usage, UsageSource) {
    let nothing_came = tally.prose_bytes() == 0;
    match outcome {
        Outcome::ProviderError | Outcome::ProviderTimeout if nothing_came => {
            (Usage::default(), UsageSource::None)
        }
        Outcome::Ok
        | Outcome::Blocked
        | Outcome::ProviderError
        | Outcome::ProviderTimeout
        | Outcome::ClientDisconnected
        | Outcome::Interrupted
        | Outcome::Orphaned => {
            (unreported(facts.size, tally.prose_bytes()), UsageSource::Estimated)
        }
    }
}

/// The provider's input with an estimate of the output that it had not told before it broke off.
fn with_output(reported: Usage, prose_bytes: i64) -> Usage {
    Usage { output: tokens_in(prose_bytes).max(reported.output), ..reported }
}

/// Why the provider's count is not believed, if it is not.
fn doubt(facts: &Facts<'_>, reported: &Reported) -> Option<&'static str> {
    if reported.unreadable {
        return Some("unreadable_count");
    }
    if reported.usage.checked().is_err() {
        return Some("negative_count");
    }
    let context = facts.context_tokens.unwrap_or(MAX_CONTEXT_TOKENS);
    if reported.usage.total() > context.saturating_add(facts.output_bound) {
        return Some("count_above_bound");
    }
    None
}

fn notes(reported: &Reported) -> impl Iterator<Item = DriftNote> + '_ {
    reported.clamps.iter().map(|clamp| DriftNote {
        kind: "usage_clamped".to_owned(),
        meter: None,
        expected: clamp.expected,
        found: clamp.found,
        cause: clamp.what.to_owned(),
    })
}

fn price(facts: &Facts<'_>, usage: &Usage) -> Result<(Nanos, Nanos), MoneyError> {
    let cost = facts.card.cost(usage)?;
    Ok((cost, charge(cost, facts.markup_bps)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::rate_card::Prices;
    use domain::usage::Dialect;

    fn bill(frames: &[&str], outcome: Outcome) -> Bill {
        let size = PromptSize::measure(br#"{"messages":["12345678"]}"#).unwrap();
        let card = RateCard {
            price_id: PriceId(3),
            prices: Prices::flat("0.10".parse().unwrap(), "0.40".parse().unwrap()),
            long_context: None,
        };
        let facts = Facts {
            size: &size,
            context_tokens: Some(10_000),
            output_bound: 5_000,
            card: &card,
            markup_bps: 1_000,
            hold: Nanos(77),
        };
        let mut tally = Tally::new(Dialect::Openai);
        for frame in frames {
            tally.take(frame.as_bytes()).unwrap();
        }
        make_out(&facts, &tally, outcome)
    }

    const TEXT: &str = r#"{"choices":[{"delta":{"content":"12345"}}]}"#;

    #[test]
    fn the_providers_count_is_charged_with_the_markup() {
        let bill = bill(
            &[
                r#"{"usage":{"prompt_tokens":1000,"completion_tokens":3200,"completion_tokens_details":{"reasoning_tokens":3000}}}"#,
            ],
            Outcome::Ok,
        );
        assert_eq!((bill.cost, bill.charge), (Nanos(1_380_000), Nanos(1_518_000)));
        assert_eq!((bill.source, bill.anomaly), (UsageSource::Provider, None));
    }

    #[test]
    fn a_finished_call_without_a_count_is_estimated_and_never_free() {
        let bill = bill(&[TEXT], Outcome::Ok);
        assert_eq!((bill.source, bill.usage.output), (UsageSource::Estimated, 2));
        assert!(bill.usage.input > 0 && bill.charge > Nanos::ZERO);
    }

    #[test]
    fn a_client_that_leaves_pays_and_a_provider_that_fails_at_once_costs_nothing() {
        assert!(bill(&[], Outcome::ClientDisconnected).charge > Nanos::ZERO);
        let failed = bill(&[], Outcome::ProviderError);
        assert_eq!((failed.charge, failed.source), (Nanos::ZERO, UsageSource::None));
        assert!(bill(&[TEXT], Outcome::ProviderError).charge > Nanos::ZERO);
    }

    #[test]
    fn a_count_that_cannot_be_is_kept_and_not_believed() {
        for counts in [
            r#"{"usage":{"prompt_tokens":-5,"completion_tokens":1}}"#,
            r#"{"usage":{"prompt_tokens":1e308,"completion_tokens":1}}"#,
            r#"{"usage":{"prompt_tokens":9223372036854775807,"completion_tokens":9223372036854775807}}"#,
            r#"{"usage":{"prompt_tokens":10000,"completion_tokens":5001}}"#,
        ] {
            let bill = bill(&[TEXT, counts], Outcome::Ok);
            assert_eq!(bill.source, UsageSource::Estimated, "{counts}");
            assert!(bill.anomaly.is_some() && bill.charge > Nanos::ZERO, "{counts}");
        }
    }

    #[test]
    fn a_stream_that_broke_before_its_output_was_told_is_billed_for_the_words_that_came() {
        let facts_of = |frames: &[&str]| {
            let mut tally = Tally::new(Dialect::Anthropic);
            for frame in frames {
                tally.take(frame.as_bytes()).unwrap();
            }
            tally
        };
        let start = r#"{"type":"message_start","message":{"usage":{"input_tokens":900,"output_tokens":1}}}"#;
        let words = r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"0123456789abcdef"}}"#;
        let tally = facts_of(&[start, words]);
        let usage = with_output(tally.reported().unwrap().usage, tally.prose_bytes());
        assert_eq!((usage.input, usage.output), (900, 4));
    }

    #[test]
    fn an_explicit_zero_is_a_count_and_is_flagged_when_words_came() {
        let bill =
            bill(&[TEXT, r#"{"usage":{"prompt_tokens":0,"completion_tokens":0}}"#], Outcome::Ok);
        assert_eq!((bill.charge, bill.source), (Nanos::ZERO, UsageSource::Provider));
        assert_eq!(bill.anomaly.as_deref(), Some("zero_usage_with_content"));
    }
}
