//! Embeddings of `OpenAI` and Gemini: many numbers, input tokens only.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::{Value, json};

use super::gemini::{free, pretty};
use super::{Answer, Form, Ids, Read, json_text, list_of, number_of, text_of};
use crate::plan::{Plan, Tokens};
use crate::prompt::Prompt;
use crate::refusal::Refusal;
use crate::text::{mix, vector};

/// Numbers per embedding when the request does not say.
const OPENAI_DIMENSIONS: u64 = 1_536;
const GEMINI_DIMENSIONS: u64 = 768;
/// Most numbers per embedding.
const MAX_DIMENSIONS: u64 = 3_072;
/// Most inputs of one request.
const MAX_INPUTS: usize = 2_048;

fn dimensions(body: &Value, name: &'static str, usual: u64) -> Result<usize, Refusal> {
    let asked = number_of(body, name, 1)?.unwrap_or(usual);
    match usize::try_from(asked) {
        Ok(asked) if asked as u64 <= MAX_DIMENSIONS => Ok(asked),
        _ => Err(Refusal::invalid(name, format!("`{name}` must be at most {MAX_DIMENSIONS}."))),
    }
}

struct OpenaiForm {
    model: String,
    inputs: u64,
    dimensions: usize,
    base64: bool,
}

/// Reads a body of `/v1/embeddings`.
pub(crate) fn read_openai(body: &Value, prompt: &mut Prompt) -> Read {
    let model = text_of(body, "model")?;
    let mut inputs = 1;
    match body.get("input") {
        Some(Value::String(text)) => prompt.user_text(text),
        Some(Value::Array(list)) if list.len() > MAX_INPUTS => {
            return Err(Refusal::invalid("input", format!("at most {MAX_INPUTS} inputs.")));
        }
        Some(Value::Array(list)) if !list.is_empty() => {
            // A list of numbers is one input, given as token ids.
            if !list.iter().all(Value::is_number) {
                inputs = list.len() as u64;
            }
            for one in list {
                match one {
                    Value::String(text) => prompt.user_text(text),
                    tokens => prompt.json(tokens),
                }
            }
        }
        _ => return Err(Refusal::invalid("input", "`input` must be a string or an array.")),
    }
    let form = OpenaiForm {
        model: model.clone(),
        inputs,
        dimensions: dimensions(body, "dimensions", OPENAI_DIMENSIONS)?,
        base64: body.get("encoding_format").and_then(Value::as_str) == Some("base64"),
    };
    Ok((free(&model), Box::new(form)))
}

#[derive(Serialize)]
struct OpenaiList<'a> {
    object: &'static str,
    data: Vec<OpenaiEmbedding>,
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<OpenaiUsage>,
}

#[derive(Serialize)]
struct OpenaiEmbedding {
    object: &'static str,
    index: u64,
    embedding: Numbers,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Numbers {
    Plain(Vec<f32>),
    Base64(String),
}

#[derive(Serialize)]
struct OpenaiUsage {
    prompt_tokens: u64,
    total_tokens: u64,
}

/// The usage object of `/v1/embeddings`.
pub(crate) fn openai_usage_of(tokens: &Tokens) -> Value {
    json!({"prompt_tokens": tokens.input, "total_tokens": tokens.input})
}

/// The usage object of the Gemini embedding routes.
pub(crate) fn gemini_usage_of(tokens: &Tokens) -> Value {
    json!({"promptTokenCount": tokens.input,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": tokens.input}]})
}

impl Form for OpenaiForm {
    fn answer(&self, plan: Plan, _ids: &Ids, broken: bool) -> Answer {
        let embedding = |index| {
            let numbers = vector(mix(plan.key ^ index), self.dimensions);
            let embedding = if self.base64 {
                let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
                Numbers::Base64(STANDARD.encode(bytes))
            } else {
                Numbers::Plain(numbers)
            };
            OpenaiEmbedding { object: "embedding", index, embedding }
        };
        let input = plan.tokens.input;
        let body = json_text(&OpenaiList {
            object: "list",
            data: (0..self.inputs).map(embedding).collect(),
            model: &self.model,
            usage: (!plan.silent)
                .then_some(OpenaiUsage { prompt_tokens: input, total_tokens: input }),
        });
        Answer::json("", body, &plan, broken)
    }
}

struct GeminiForm {
    /// Numbers of each embedding.
    dimensions: Vec<usize>,
    batch: bool,
}

/// Reads a body of `embedContent`.
pub(crate) fn read_gemini(model: &str, body: &Value, prompt: &mut Prompt) -> Read {
    let dimensions = vec![read_content(body, prompt)?];
    Ok((free(model), Box::new(GeminiForm { dimensions, batch: false })))
}

/// Reads a body of `batchEmbedContents`.
pub(crate) fn read_gemini_batch(model: &str, body: &Value, prompt: &mut Prompt) -> Read {
    let requests = list_of(body, "requests")?;
    if requests.len() > MAX_INPUTS {
        return Err(Refusal::invalid("requests", format!("at most {MAX_INPUTS} requests.")));
    }
    let dimensions: Result<Vec<usize>, Refusal> =
        requests.iter().map(|request| read_content(request, prompt)).collect();
    Ok((free(model), Box::new(GeminiForm { dimensions: dimensions?, batch: true })))
}

fn read_content(body: &Value, prompt: &mut Prompt) -> Result<usize, Refusal> {
    let content = body
        .get("content")
        .ok_or_else(|| Refusal::invalid("content", "content is not specified"))?;
    prompt.content(content, true);
    dimensions(body, "outputDimensionality", GEMINI_DIMENSIONS)
}

#[derive(Serialize)]
struct Values {
    values: Vec<f32>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GeminiList {
    #[serde(skip_serializing_if = "Option::is_none")]
    embedding: Option<Values>,
    #[serde(skip_serializing_if = "Option::is_none")]
    embeddings: Option<Vec<Values>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage_metadata: Option<Value>,
}

impl Form for GeminiForm {
    fn answer(&self, plan: Plan, _ids: &Ids, broken: bool) -> Answer {
        let mut all: Vec<Values> = (0_u64..)
            .zip(&self.dimensions)
            .map(|(index, count)| Values { values: vector(mix(plan.key ^ index), *count) })
            .collect();
        let usage_metadata = (!plan.silent).then(|| gemini_usage_of(&plan.tokens));
        let body = pretty(&if self.batch {
            GeminiList { embedding: None, embeddings: Some(all), usage_metadata }
        } else {
            GeminiList { embedding: all.pop(), embeddings: None, usage_metadata }
        });
        Answer::json("", body, &plan, broken)
    }
}
