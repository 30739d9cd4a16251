//! One call as it is made: by which key, to which model, how large.

use domain::admission::Estimate;
use domain::money::{MoneyError, Nanos};
use domain::rate_card::RateCard;
use domain::usage::Usage;

use super::cast::Work;
use super::demand::Call;
use super::dice::Dice;
use super::history::HistoryError;
use super::stage::{Offer, Stage, StagedKey, StagedTenant};

/// What the size of a tenant's calls is given in: a thousandth of what its work makes by itself.
pub(crate) const PLAIN: i64 = 1_000;
/// A byte-level tokenizer makes no more tokens than bytes, and English prose has four of them to a token: the
/// bound on money is that far above what is used.
const BYTES_PER_TOKEN: i64 = 4;
/// What roles and separators of a few messages take.
const MESSAGE_TOKENS: i64 = 32;
/// The smallest call.
const LEAST: Usage = Usage {
    input: 12,
    output: 2,
    cached_input: 0,
    cache_write_short: 0,
    cache_write_long: 0,
    input_audio: 0,
    reasoning: 0,
    output_audio: 0,
    output_image: 0,
};

/// One call, before anybody has decided on it.
#[derive(Debug)]
pub(crate) struct Ask<'a> {
    pub(crate) call: Call,
    /// Which of the tenant's keys.
    pub(crate) key_at: usize,
    pub(crate) key: &'a StagedKey,
    pub(crate) offer: &'a Offer,
    pub(crate) card: &'a RateCard,
    pub(crate) stream: bool,
    /// What it uses when nothing goes wrong.
    pub(crate) usage: Usage,
    pub(crate) estimate: Estimate,
    /// What else there is to be drawn.
    pub(crate) dice: Dice,
}

/// The ranges that a kind of work draws from.
struct Range {
    input: (i64, i64),
    output: (i64, i64),
    /// Of a thousand input tokens, how many the provider has cached.
    cached: (i64, i64),
    /// Of a thousand calls, how many are streams.
    streams: u64,
}

const fn range(work: Work) -> Range {
    match work {
        Work::Chat => {
            Range { input: (300, 2_600), output: (60, 620), cached: (0, 320), streams: 820 }
        }
        Work::Retrieval => {
            Range { input: (3_000, 13_000), output: (150, 950), cached: (150, 420), streams: 700 }
        }
        Work::Agent => {
            Range { input: (6_000, 42_000), output: (180, 2_200), cached: (450, 820), streams: 880 }
        }
        Work::Extraction => {
            Range { input: (500, 4_200), output: (30, 240), cached: (0, 60), streams: 60 }
        }
    }
}

impl<'a> Ask<'a> {
    /// The call in full. `size` is in thousandths of what the tenant's work makes by itself.
    pub(crate) fn of(
        stage: &'a Stage,
        tenant: &'a StagedTenant,
        call: Call,
        size: i64,
    ) -> Result<Self, HistoryError> {
        let mut dice = Dice::of(&[call.seed]);
        let keys: Vec<(usize, u64)> =
            tenant.cast.keys.iter().enumerate().map(|(at, key)| (at, key.weight)).collect();
        let key_at = dice.pick(&keys).copied().unwrap_or(0);
        let key = tenant.keys.get(key_at);
        let offer = dice.pick(tenant.cast.models).and_then(|model| stage.offer(model));
        let (key, offer) = key.zip(offer).ok_or(HistoryError::Cast)?;
        let card = offer.card(call.at).ok_or(HistoryError::Cast)?;
        let range = range(tenant.cast.work);
        let stream = dice.chance(range.streams);
        let most_out = offer.model.max_output_tokens.min(tenant.plan.max_output_tokens);
        let usage = usage(&range, offer, card, size, most_out, &mut dice);
        let output_bound = output_bound(usage.output_tokens(), tenant, most_out);
        let input_bound = usage.input_tokens() * BYTES_PER_TOKEN + MESSAGE_TOKENS;
        let charge =
            card.ceiling(input_bound, output_bound)?.raised_by_bps_ceil(tenant.plan.markup_bps)?;
        let tokens = usage.input_tokens().saturating_add(output_bound);
        let estimate = Estimate { tokens, charge };
        Ok(Self { call, key_at, key, offer, card, stream, usage, estimate, dice })
    }

    /// What the provider charges for `usage`, and what the tenant is charged.
    pub(crate) fn price(
        &self,
        usage: &Usage,
        tenant: &StagedTenant,
    ) -> Result<(Nanos, Nanos), MoneyError> {
        let cost = self.card.cost(usage)?;
        Ok((cost, cost.raised_by_bps(tenant.plan.markup_bps)?))
    }
}

/// A size: mostly ordinary, one in ten three times as large.
fn drawn((low, high): (i64, i64), size: i64, dice: &mut Dice) -> i64 {
    let tail = if dice.chance(100) { 3 } else { 1 };
    dice.between(low, high).saturating_mul(tail).saturating_mul(size) / PLAIN
}

fn usage(
    range: &Range,
    offer: &Offer,
    card: &RateCard,
    size: i64,
    most_out: i64,
    dice: &mut Dice,
) -> Usage {
    let read = drawn(range.input, size, dice).clamp(LEAST.input, offer.model.context_tokens / 2);
    let written = drawn(range.output, size, dice);
    let thinks = offer.model.class == "pro" && dice.chance(700);
    let thought = if thinks { written * dice.between(300, 1_800) / 1_000 } else { 0 };
    let reasoning = thought.min(most_out / 2);
    let output = written.clamp(LEAST.output, most_out - reasoning);
    let share = dice.between(range.cached.0, range.cached.1);
    let cached_input = card.prices.cached_input.map_or(0, |_| read * share / 1_000);
    let saved = if dice.chance(120) { (read - cached_input) / 3 } else { 0 };
    let cache_write_short = card.prices.cache_write_short.map_or(0, |_| saved);
    Usage {
        input: read - cached_input - cache_write_short,
        cached_input,
        cache_write_short,
        output,
        reasoning,
        ..Usage::default()
    }
}

/// The bound that the client, or the plan for it, has put on the output.
fn output_bound(output: i64, tenant: &StagedTenant, most_out: i64) -> i64 {
    let usual = tenant.plan.default_max_output_tokens.min(most_out);
    if output <= usual {
        return usual;
    }
    // People write round numbers.
    let mut bound = usual;
    while bound < output {
        bound = bound.saturating_mul(2);
    }
    bound.min(most_out)
}

#[cfg(test)]
mod tests {
    use domain::window::UnixMs;

    use super::super::stage::rehearsal;
    use super::*;

    const AT: UnixMs = UnixMs(1_795_996_800_000);

    #[test]
    fn every_call_fits_its_plan_its_model_and_its_hold() {
        let stage = rehearsal::stage(AT);
        for tenant in &stage.tenants {
            for size in [1, 300, 1_000, 9_000, 900_000] {
                for seed in 0..200 {
                    let ask = Ask::of(&stage, tenant, Call { at: AT, seed }, size).unwrap();
                    let model = &ask.offer.model;
                    assert!(tenant.plan.models.allows(&model.name, &model.class));
                    assert!(ask.usage.checked().is_ok());
                    assert!(ask.usage.input_tokens() <= model.context_tokens);
                    assert!(ask.usage.output_tokens() <= tenant.plan.max_output_tokens);
                    assert!(ask.usage.output_tokens() <= model.max_output_tokens);
                    let (cost, charge) = ask.price(&ask.usage, tenant).unwrap();
                    assert!(cost > Nanos::ZERO && charge >= cost);
                    assert!(charge <= ask.estimate.charge, "{:?}", ask.usage);
                }
            }
        }
    }

    #[test]
    fn a_call_is_always_the_same_and_its_size_is_a_thing_of_its_own() {
        let stage = rehearsal::stage(AT);
        let tenant = &stage.tenants[0];
        let ask = |size| Ask::of(&stage, tenant, Call { at: AT, seed: 5 }, size).unwrap();
        assert_eq!(ask(1_000).usage, ask(1_000).usage);
        assert_eq!(ask(1_000).key.id, ask(3_000).key.id);
        assert!(ask(3_000).usage.total() > 2 * ask(1_000).usage.total());
    }
}
