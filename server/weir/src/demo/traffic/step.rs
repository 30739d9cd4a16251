//! Which call comes next: drawn, without a clock or a network.

use std::time::Duration;

use domain::usage::Dialect;
use domain::window::UnixMs;
use secrecy::SecretString;
use serde_json::{Value, json};

use crate::seed::DemoSecrets;
use crate::seed::cast::{Aim, CAST, CastTenant, Habit};
use crate::seed::dice::Dice;
use crate::seed::price_list;

/// The pause before the next call, in milliseconds: three calls a second and some.
const PAUSE_MS: (i64, i64) = (120, 560);
/// Of a thousand draws, how many are many calls at once.
const BURSTS: u64 = 14;
const BURST_CALLS: (i64, i64) = (5, 12);
/// Of a thousand streams, how many clients leave in the middle.
const LEAVERS: u64 = 60;
/// Of a thousand calls, how many the simulated provider spoils.
const SPOILT: u64 = 30;
/// Of a thousand calls, how many name a model without a price.
const UNPRICED: u64 = 6;
const UNPRICED_MODEL: &str = "claude-fable-5-2";
/// What a tenant over its budget asks for: more than can be left of it.
const LARGE_OUTPUT: i64 = 60_000;

/// How the simulator is told to spoil an answer. It reads this in the prompt.
const SPOILS: [(&str, u64); 5] = [
    ("[[sim: status=529]]", 4),
    ("[[sim: status=500]]", 3),
    ("[[sim: status=429;retry_after=2]]", 3),
    ("[[sim: cut_after=3]]", 2),
    ("[[sim: delay_ms=6000]]", 3),
];

/// What people ask.
const PROMPTS: [&str; 6] = [
    "Summarise the last three messages for the shift that takes over.",
    "Where is parcel 4471, and when will it be there?",
    "Write a friendly answer to a guest who asks for a late check-out.",
    "List the clauses of the contract that speak about liability, each with its number.",
    "Which of these two notes is about the patient's medication?",
    "Turn this into three short sentences for a poster.",
];
/// What is put before the question, again and again, where there is much to read.
const CONTEXT: &str =
    "The delivery note names the sender, the receiver, the weight and the day of arrival. ";

/// One tenant's way in.
#[derive(Debug)]
pub struct Caller {
    key: SecretString,
    /// How often it calls.
    weight: u64,
    models: &'static [(&'static str, u64)],
    /// Whether it asks for very large answers.
    large: bool,
    /// Whether it sometimes calls many times at once.
    bursts: bool,
}

/// One for each key of the cast.
#[must_use]
pub fn callers(secrets: &DemoSecrets) -> Vec<Caller> {
    let of = |tenant: &'static CastTenant| {
        let calls = u64::try_from(tenant.calls_per_day).unwrap_or(0);
        tenant.keys.iter().filter_map(move |key| {
            let secret = secrets.key(tenant.slug, key.name)?;
            Some(Caller {
                key: secret.expose().into(),
                // A key with a limit of its own has mostly used it up, and refusals teach little.
                weight: calls * key.weight / if key.day_requests.is_some() { 6 } else { 1 },
                models: tenant.models,
                large: tenant.aim == Aim::Over,
                bursts: tenant.habit != Habit::Steady,
            })
        })
    };
    CAST.iter().flat_map(of).collect()
}

/// Draws calls.
#[derive(Debug)]
pub(super) struct Mix {
    callers: Vec<Caller>,
    dialects: Vec<(String, Dialect)>,
    seed: u64,
}

/// One call.
#[derive(Debug, Clone)]
pub(super) struct Step {
    key: SecretString,
    dialect: Dialect,
    model: String,
    stream: bool,
    prompt: String,
    max_tokens: i64,
    leaves_after: Option<usize>,
    name: String,
}

impl Mix {
    /// Draws calls of these callers.
    pub(super) fn new(callers: Vec<Caller>, seed: u64) -> Self {
        // The list is compiled in, and its reading is a test; without it there are no calls.
        let models = price_list::models(UnixMs(0)).unwrap_or_default();
        let dialects = models.into_iter().map(|model| (model.name, model.dialect)).collect();
        Self { callers, dialects, seed }
    }

    /// The draw of this number: a pause, and the calls after it. Nothing when there is nobody to call.
    pub(super) fn draw(&self, number: u64) -> Option<(Duration, Vec<Step>)> {
        let mut dice = Dice::of(&[self.seed, number]);
        let pause = u64::try_from(dice.between(PAUSE_MS.0, PAUSE_MS.1)).unwrap_or(0);
        let burst = dice.chance(BURSTS);
        let who: Vec<(&Caller, u64)> = self
            .callers
            .iter()
            .filter(|caller| caller.bursts || !burst)
            .map(|caller| (caller, if burst { 1 } else { caller.weight }))
            .collect();
        let caller = *dice.pick(&who)?;
        let count = if burst { dice.between(BURST_CALLS.0, BURST_CALLS.1) } else { 1 };
        let steps = (0..count).filter_map(|nth| self.step(caller, number, nth, &mut dice));
        Some((Duration::from_millis(pause), steps.collect()))
    }

    fn step(&self, caller: &Caller, number: u64, nth: i64, dice: &mut Dice) -> Option<Step> {
        let usual = *dice.pick(caller.models)?;
        let model = if dice.chance(UNPRICED) { UNPRICED_MODEL } else { usual };
        let (_, dialect) = self.dialects.iter().find(|(name, _)| name == model)?;
        let stream = dice.chance(700);
        let leaves = stream && dice.chance(LEAVERS);
        let leaves_after = usize::try_from(dice.between(1, 6)).ok().filter(|_| leaves);
        Some(Step {
            key: caller.key.clone(),
            dialect: *dialect,
            model: model.to_owned(),
            stream,
            prompt: prompt(dice),
            max_tokens: if caller.large { LARGE_OUTPUT } else { dice.between(120, 900) },
            leaves_after,
            name: format!("demo-{number}-{nth}"),
        })
    }
}

fn prompt(dice: &mut Dice) -> String {
    let at = usize::try_from(dice.below(PROMPTS.len() as u64)).unwrap_or(0);
    let question = PROMPTS.get(at).copied().unwrap_or_default();
    let pages = if dice.chance(150) { dice.between(20, 160) } else { dice.between(0, 6) };
    let context = CONTEXT.repeat(usize::try_from(pages).unwrap_or(0));
    let spoil = dice.chance(SPOILT).then(|| dice.pick(&SPOILS).copied()).flatten();
    format!("{context}{question}{}", spoil.unwrap_or_default())
}

impl Step {
    pub(super) const fn key(&self) -> &SecretString {
        &self.key
    }

    pub(super) const fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// The client's own name of the call.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// After how many pieces of the answer the client leaves, if it does.
    pub(super) const fn leaves_after(&self) -> Option<usize> {
        self.leaves_after
    }

    /// Path and query.
    pub(super) fn path(&self) -> String {
        let model = &self.model;
        match (self.dialect, self.stream) {
            (Dialect::Openai, _) => "/v1/chat/completions".to_owned(),
            (Dialect::Anthropic, _) => "/v1/messages".to_owned(),
            (Dialect::Gemini, false) => format!("/v1beta/models/{model}:generateContent"),
            (Dialect::Gemini, true) => {
                format!("/v1beta/models/{model}:streamGenerateContent?alt=sse")
            }
        }
    }

    /// The body, in the dialect's own form.
    pub(super) fn body(&self) -> String {
        let (model, prompt, cap) = (&self.model, &self.prompt, self.max_tokens);
        let messages = json!([{ "role": "user", "content": prompt }]);
        let body: Value = match self.dialect {
            Dialect::Openai => json!({ "model": model, "messages": messages,
                "max_completion_tokens": cap, "stream": self.stream }),
            Dialect::Anthropic => json!({ "model": model, "messages": messages,
                "max_tokens": cap, "stream": self.stream }),
            Dialect::Gemini => {
                json!({ "contents": [{ "role": "user", "parts": [{ "text": prompt }] }],
                "generationConfig": { "maxOutputTokens": cap } })
            }
        };
        body.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(seed: u64, draws: u64) -> Vec<(Duration, Vec<Step>)> {
        let mix = Mix::new(callers(&DemoSecrets::generate()), seed);
        (0..draws).map(|number| mix.draw(number).unwrap()).collect()
    }

    #[test]
    fn there_are_two_to_five_calls_a_second_of_every_kind() {
        let draws = drawn(1, 5_000);
        let time: Duration = draws.iter().map(|(pause, _)| *pause).sum();
        let steps: Vec<&Step> = draws.iter().flat_map(|(_, steps)| steps).collect();
        let per_second = u64::try_from(steps.len()).unwrap() / time.as_secs();
        assert!((2..5).contains(&per_second), "{per_second}");
        for dialect in [Dialect::Openai, Dialect::Anthropic, Dialect::Gemini] {
            for stream in [false, true] {
                let fits = |s: &&&Step| s.dialect == dialect && s.stream == stream;
                assert!(steps.iter().filter(fits).count() > 200, "{dialect:?} {stream}");
            }
        }
        assert!(steps.iter().filter(|s| s.leaves_after.is_some()).count() > 50);
        assert!(steps.iter().filter(|s| s.prompt.contains("[[sim:")).count() > 50);
        assert!(steps.iter().any(|s| s.model == UNPRICED_MODEL));
    }

    #[test]
    fn the_same_seed_draws_the_same_calls() {
        let calls = |seed| -> Vec<(Duration, Vec<String>)> {
            let of = |(pause, steps): (Duration, Vec<Step>)| {
                (pause, steps.iter().map(|s| s.path() + &s.body()).collect())
            };
            drawn(seed, 200).into_iter().map(of).collect()
        };
        assert_eq!(calls(7), calls(7));
        assert_ne!(calls(7), calls(8));
    }

    #[test]
    fn without_a_caller_nothing_is_drawn() {
        assert!(Mix::new(Vec::new(), 1).draw(0).is_none());
    }
}
