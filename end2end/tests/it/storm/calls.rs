//! The calls of the storm: drawn from its seed, all of them before the first is made.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

/// Of a hundred calls, so many end because the client leaves.
const LEAVING_PERCENT: u32 = 10;
/// Of a hundred calls, so many meet a provider that fails or misbehaves.
const FAULTY_PERCENT: u32 = 20;
/// Of a hundred calls, so many have a prompt that the provider has partly cached.
const LONG_PERCENT: u32 = 8;
/// A client that leaves has read less than this: about the size of an answer, so that all its parts are met.
const LEFT_BYTES_MAX: usize = 6_000;
/// Enough words for 1,024 tokens, from which on the simulator caches.
const LONG_WORDS: usize = 900;

/// Which route, and in which of its forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Chat,
    ChatStream,
    ChatStreamWithUsage,
    Messages,
    MessagesStream,
    Generate,
    GenerateEvents,
    GenerateArray,
}

const FORMS: [Form; 8] = [
    Form::Chat,
    Form::ChatStream,
    Form::ChatStreamWithUsage,
    Form::Messages,
    Form::MessagesStream,
    Form::Generate,
    Form::GenerateEvents,
    Form::GenerateArray,
];

/// What the provider does instead of answering well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing: it answers well, perhaps slowly or in small pieces.
    None(&'static str),
    /// It answers well and says no usage.
    NoUsage,
    /// It answers with an error status.
    Status(u16),
    /// It breaks: the script says how.
    Breaks(String),
}

/// When the client leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leaves {
    Never,
    /// After so many bytes of its request.
    InRequest(usize),
    /// After so many bytes of the answer; with a reset instead of a close.
    InAnswer {
        bytes: usize,
        reset: bool,
    },
}

/// One call.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    /// Its name in Weir's books (the client's own request id) and in the simulator's journal.
    pub(crate) name: String,
    pub(crate) form: Form,
    /// Which of the storm's tenants makes it.
    pub(crate) tenant: usize,
    pub(crate) fault: Fault,
    pub(crate) leaves: Leaves,
    pub(crate) path: String,
    pub(crate) body: String,
}

impl Form {
    fn dialect(self) -> &'static str {
        match self {
            Self::Chat | Self::ChatStream | Self::ChatStreamWithUsage => "openai",
            Self::Messages | Self::MessagesStream => "anthropic",
            Self::Generate | Self::GenerateEvents | Self::GenerateArray => "gemini",
        }
    }

    pub(crate) fn streams(self) -> bool {
        !matches!(self, Self::Chat | Self::Messages | Self::Generate)
    }

    fn path(self, model: &str) -> String {
        match self {
            Self::Chat | Self::ChatStream | Self::ChatStreamWithUsage => {
                "/v1/chat/completions".to_owned()
            }
            Self::Messages | Self::MessagesStream => "/v1/messages".to_owned(),
            Self::Generate => format!("/v1beta/models/{model}:generateContent"),
            Self::GenerateEvents => format!("/v1beta/models/{model}:streamGenerateContent?alt=sse"),
            Self::GenerateArray => format!("/v1beta/models/{model}:streamGenerateContent"),
        }
    }

    fn body(self, model: &str, prompt: &str, cap: Option<u32>, cached: bool) -> Value {
        let mut body = match self {
            Self::Chat | Self::ChatStream | Self::ChatStreamWithUsage => json!({
                "model": model,
                "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": prompt}],
            }),
            Self::Messages | Self::MessagesStream => json!({
                "model": model,
                "max_tokens": cap.unwrap_or(512),
                "messages": [{"role": "user", "content": [{"type": "text", "text": prompt}]}],
            }),
            Self::Generate | Self::GenerateEvents | Self::GenerateArray => json!({
                "contents": [{"role": "user", "parts": [{"text": prompt}]}],
            }),
        };
        match self {
            Self::ChatStream | Self::MessagesStream => body["stream"] = true.into(),
            Self::ChatStreamWithUsage => {
                body["stream"] = true.into();
                body["stream_options"] = json!({"include_usage": true});
            }
            Self::Chat
            | Self::Messages
            | Self::Generate
            | Self::GenerateEvents
            | Self::GenerateArray => {}
        }
        match (self.dialect(), cap) {
            ("openai", Some(cap)) => body["max_completion_tokens"] = cap.into(),
            ("gemini", Some(cap)) => body["generationConfig"] = json!({"maxOutputTokens": cap}),
            ("anthropic", _) if cached => {
                body["messages"][0]["content"][0]["cache_control"] = json!({"type": "ephemeral"});
            }
            _ => {}
        }
        body
    }
}

impl Call {
    /// What the simulator is told: the name of its answer, and the fault.
    pub(crate) fn script(&self) -> String {
        let more = match &self.fault {
            Fault::None(more) => (*more).to_owned(),
            Fault::NoUsage => "no_usage".to_owned(),
            Fault::Status(status) => format!("status={status}"),
            Fault::Breaks(script) => script.clone(),
        };
        format!("id={};{more}", self.name)
    }

    /// The headers, with the key where this dialect's clients put it.
    pub(crate) fn headers(&self, key: &str) -> Vec<(&'static str, String)> {
        let mut headers = vec![
            ("content-type", "application/json".to_owned()),
            ("x-request-id", self.name.clone()),
            ("x-sim-script", self.script()),
        ];
        match self.form.dialect() {
            "openai" => headers.push(("authorization", format!("Bearer {key}"))),
            "anthropic" => {
                headers.push(("x-api-key", key.to_owned()));
                headers.push(("anthropic-version", "2023-06-01".to_owned()));
            }
            _ => headers.push(("x-goog-api-key", key.to_owned())),
        }
        headers
    }

    /// The whole request as bytes, for a client that leaves in the middle of something.
    pub(crate) fn bytes(&self, key: &str, host: &str) -> Vec<u8> {
        let mut text = format!("POST {} HTTP/1.1\r\nhost: {host}\r\n", self.path);
        text.push_str(&format!("content-length: {}\r\nconnection: close\r\n", self.body.len()));
        for (name, value) in self.headers(key) {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str("\r\n");
        text.push_str(&self.body);
        text.into_bytes()
    }

    /// Whether the provider may break this answer off.
    pub(crate) fn streams_badly(&self) -> bool {
        matches!(self.fault, Fault::Breaks(_))
    }

    /// Whether an answer is there to its last word.
    pub(crate) fn is_whole(&self, body: &[u8]) -> bool {
        let text = String::from_utf8_lossy(body);
        let json = || serde_json::from_slice::<Value>(body).unwrap_or_default();
        match self.form {
            Form::Chat => json()["choices"][0]["finish_reason"].is_string(),
            Form::ChatStream | Form::ChatStreamWithUsage => {
                text.trim_end().ends_with("data: [DONE]")
            }
            Form::Messages => json()["stop_reason"].is_string(),
            Form::MessagesStream => text.contains("event: message_stop"),
            Form::Generate => json()["candidates"][0]["finishReason"].is_string(),
            Form::GenerateEvents => text.contains("\"finishReason\""),
            Form::GenerateArray => {
                let last = json().as_array().and_then(|all| all.last().cloned());
                last.unwrap_or_default()["candidates"][0]["finishReason"].is_string()
            }
        }
    }
}

/// Draws `number` calls of tenants with these shares.
pub(crate) fn draw(seed: u64, number: usize, shares: &[u32]) -> Vec<Call> {
    let mut dice = StdRng::seed_from_u64(seed);
    (0..number).map(|at| one(&mut dice, seed, at, shares)).collect()
}

fn one(dice: &mut StdRng, seed: u64, at: usize, shares: &[u32]) -> Call {
    let form = FORMS[dice.random_range(0..FORMS.len())];
    let kind = if dice.random_ratio(1, 4) { "think" } else { "flash" };
    let model = format!("{}-{kind}", form.dialect());
    let long = dice.random_range(0..100) < LONG_PERCENT;
    let words = if long { LONG_WORDS } else { dice.random_range(1..40) };
    let prompt = prompt(dice, at, words);
    let cap = dice.random_bool(0.7).then(|| dice.random_range(1..400));
    let body = form.body(&model, &prompt, cap, long).to_string();
    let fault = fault(dice);
    let leaves = leaves(dice, body.len());
    Call {
        name: format!("storm-{seed:x}-{at}"),
        form,
        tenant: share(dice, shares),
        fault,
        leaves,
        path: form.path(&model),
        body,
    }
}

fn prompt(dice: &mut StdRng, at: usize, words: usize) -> String {
    const WORDS: [&str; 8] =
        ["river", "weir", "gauge", "écluse", "flood", "水位", "\"quoted\"", "line\nbreak"];
    let mut text = format!("Call {at}:");
    for _ in 0..words {
        text.push(' ');
        text.push_str(WORDS[dice.random_range(0..WORDS.len())]);
    }
    text
}

fn fault(dice: &mut StdRng) -> Fault {
    if dice.random_range(0..100) >= FAULTY_PERCENT {
        return Fault::None(match dice.random_range(0..10) {
            0 => "frame_ms=15",
            1 => "split=7",
            2 => "delay_ms=150",
            3 => "split=1000;frame_ms=4",
            _ => "",
        });
    }
    let frames = dice.random_range(0..12);
    match dice.random_range(0..9) {
        0 => Fault::NoUsage,
        1 => Fault::Breaks(format!("cut_after={frames}")),
        2 => Fault::Breaks(format!("reset_after={frames}")),
        3 => Fault::Breaks(format!("reset_at_byte={}", dice.random_range(0..3_000))),
        4 => Fault::Breaks(format!("error_after={frames}")),
        5 => Fault::Breaks(format!("garbage_after={frames}")),
        _ => {
            const STATUSES: [u16; 9] = [400, 401, 403, 404, 413, 429, 500, 503, 529];
            Fault::Status(STATUSES[dice.random_range(0..STATUSES.len())])
        }
    }
}

fn leaves(dice: &mut StdRng, body_bytes: usize) -> Leaves {
    if dice.random_range(0..100) >= LEAVING_PERCENT {
        Leaves::Never
    } else if dice.random_ratio(1, 6) {
        Leaves::InRequest(dice.random_range(0..body_bytes + 300))
    } else {
        let bytes = dice.random_range(0..LEFT_BYTES_MAX);
        Leaves::InAnswer { bytes, reset: dice.random() }
    }
}

fn share(dice: &mut StdRng, shares: &[u32]) -> usize {
    let mut ticket = dice.random_range(0..shares.iter().sum());
    for (at, share) in shares.iter().enumerate() {
        match ticket.checked_sub(*share) {
            Some(rest) => ticket = rest,
            None => return at,
        }
    }
    0
}
