//! Which of the providers' routes a request is for.

use http::{HeaderMap, Method};
use serde_json::Value;

use crate::dialect::gemini::{self, Framing};
use crate::dialect::{Dialect, Read, UsageOf, anthropic, chat, embeddings, responses};
use crate::prompt::Prompt;

/// A route of a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    Chat,
    Completions,
    Embeddings,
    Responses,
    Messages,
    CountMessages,
    Generate(String, Framing),
    CountContents(String),
    Embed(String),
    EmbedBatch(String),
    Models(Dialect),
    Model(Dialect, String),
    Nowhere(Dialect),
}

/// Reads a route off the request line and the headers that tell the providers apart.
pub(crate) fn find(method: &Method, path: &str, query: &str, headers: &HeaderMap) -> Route {
    let dialect = dialect_of(path, query, headers);
    let nowhere = Route::Nowhere(dialect);
    match (method, path) {
        (&Method::POST, "/v1/chat/completions") => Route::Chat,
        (&Method::POST, "/v1/completions") => Route::Completions,
        (&Method::POST, "/v1/embeddings") => Route::Embeddings,
        (&Method::POST, "/v1/responses") => Route::Responses,
        (&Method::POST, "/v1/messages") => Route::Messages,
        (&Method::POST, "/v1/messages/count_tokens") => Route::CountMessages,
        (&Method::GET, "/v1/models") => Route::Models(dialect),
        (&Method::GET, "/v1beta/models") => Route::Models(Dialect::Gemini),
        (&Method::GET, path) => match model_path(path) {
            Some(id) if !id.is_empty() => Route::Model(dialect, percent_decoded(id)),
            _ => nowhere,
        },
        (&Method::POST, path) => match model_path(path).and_then(|rest| rest.rsplit_once(':')) {
            Some((model, verb)) if !model.is_empty() => {
                gemini_route(percent_decoded(model), verb, query).unwrap_or(nowhere)
            }
            _ => nowhere,
        },
        _ => nowhere,
    }
}

fn gemini_route(model: String, verb: &str, query: &str) -> Option<Route> {
    Some(match verb {
        "generateContent" => Route::Generate(model, Framing::Plain),
        "streamGenerateContent" => {
            let sse = query_value(query, "alt").is_some_and(|alt| alt == "sse");
            Route::Generate(model, if sse { Framing::Sse } else { Framing::Array })
        }
        "countTokens" => Route::CountContents(model),
        "embedContent" => Route::Embed(model),
        "batchEmbedContents" => Route::EmbedBatch(model),
        _ => return None,
    })
}

/// What follows the collection in `/v1/models/…`, `/v1beta/models/…`, `/v1beta/tunedModels/…`.
fn model_path(path: &str) -> Option<&str> {
    let rest = path.strip_prefix("/v1beta/").or_else(|| path.strip_prefix("/v1/"))?;
    rest.strip_prefix("models/").or_else(|| rest.strip_prefix("tunedModels/"))
}

/// In whose words to answer: the path tells, then the version header, then where the key is.
fn dialect_of(path: &str, query: &str, headers: &HeaderMap) -> Dialect {
    let verb = model_path(path).is_some_and(|rest| rest.contains(':'));
    if path.starts_with("/v1beta/") || verb {
        Dialect::Gemini
    } else if path.starts_with("/v1/messages") || headers.contains_key("anthropic-version") {
        Dialect::Anthropic
    } else if headers.contains_key("x-goog-api-key") || query_value(query, "key").is_some() {
        Dialect::Gemini
    } else {
        Dialect::Openai
    }
}

/// The value of `name` in a query string, not decoded.
pub(crate) fn query_value<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    query.split('&').find_map(|pair| match pair.split_once('=') {
        Some((key, value)) if key == name => Some(value),
        _ => None,
    })
}

/// `text` with its `%xx` turned into bytes; what is not UTF-8 is replaced.
fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let decoded = tail
            .get(..2)
            .filter(|_| *first == b'%')
            .and_then(|hex| std::str::from_utf8(hex).ok())
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(decoded.unwrap_or(*first));
        rest = if decoded.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Route {
    pub(crate) const fn dialect(&self) -> Dialect {
        match self {
            Self::Chat | Self::Completions | Self::Embeddings | Self::Responses => Dialect::Openai,
            Self::Messages | Self::CountMessages => Dialect::Anthropic,
            Self::Generate(..) | Self::CountContents(_) | Self::Embed(_) | Self::EmbedBatch(_) => {
                Dialect::Gemini
            }
            Self::Models(dialect) | Self::Model(dialect, _) | Self::Nowhere(dialect) => *dialect,
        }
    }

    /// The name in the journal.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Chat => "chat.completions",
            Self::Completions => "completions",
            Self::Embeddings => "embeddings",
            Self::Responses => "responses",
            Self::Messages => "messages",
            Self::CountMessages => "messages.count_tokens",
            Self::Generate(_, Framing::Plain) => "generateContent",
            Self::Generate(_, Framing::Sse | Framing::Array) => "streamGenerateContent",
            Self::CountContents(_) => "countTokens",
            Self::Embed(_) => "embedContent",
            Self::EmbedBatch(_) => "batchEmbedContents",
            Self::Models(_) => "models.list",
            Self::Model(..) => "models.get",
            Self::Nowhere(_) => "unknown",
        }
    }

    /// True when the answer is made from a JSON body.
    pub(crate) const fn has_body(&self) -> bool {
        !matches!(self, Self::Models(_) | Self::Model(..) | Self::Nowhere(_))
    }

    /// Reads the JSON body of a route that has one.
    pub(crate) fn read(&self, body: &Value, prompt: &mut Prompt) -> Option<Read> {
        Some(match self {
            Self::Chat => chat::read_chat(body, prompt),
            Self::Completions => chat::read_completions(body, prompt),
            Self::Embeddings => embeddings::read_openai(body, prompt),
            Self::Responses => responses::read(body, prompt),
            Self::Messages => anthropic::read_messages(body, prompt),
            Self::CountMessages => anthropic::read_count(body, prompt),
            Self::Generate(model, framing) => gemini::read_generate(model, *framing, body, prompt),
            Self::CountContents(model) => gemini::read_count(model, body, prompt),
            Self::Embed(model) => embeddings::read_gemini(model, body, prompt),
            Self::EmbedBatch(model) => embeddings::read_gemini_batch(model, body, prompt),
            Self::Models(_) | Self::Model(..) | Self::Nowhere(_) => return None,
        })
    }

    /// How the route states usage; `None` where nothing is billed.
    pub(crate) fn usage_of(&self) -> Option<UsageOf> {
        match self {
            Self::Chat | Self::Completions => Some(chat::usage_of),
            Self::Embeddings => Some(embeddings::openai_usage_of),
            Self::Responses => Some(responses::usage_of),
            Self::Messages => Some(anthropic::usage_of),
            Self::Generate(..) => Some(gemini::usage_of),
            Self::Embed(_) | Self::EmbedBatch(_) => Some(embeddings::gemini_usage_of),
            Self::CountMessages
            | Self::CountContents(_)
            | Self::Models(_)
            | Self::Model(..)
            | Self::Nowhere(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn found(method: Method, target: &str, header: Option<&'static str>) -> Route {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut headers = HeaderMap::new();
        if let Some(name) = header {
            headers.insert(name, HeaderValue::from_static("x"));
        }
        find(&method, path, query, &headers)
    }

    #[test]
    fn gemini_models_stand_in_the_path_and_may_be_encoded() {
        let model = |name: &str, framing| Route::Generate(name.into(), framing);
        assert_eq!(
            found(Method::POST, "/v1/models/gemini-2.5-pro:generateContent", None),
            model("gemini-2.5-pro", Framing::Plain)
        );
        assert_eq!(
            found(Method::POST, "/v1beta/models/a%2Fb:streamGenerateContent?alt=sse", None),
            model("a/b", Framing::Sse)
        );
        assert_eq!(
            found(Method::POST, "/v1beta/tunedModels/t:streamGenerateContent?alt=json", None),
            model("t", Framing::Array)
        );
    }

    #[test]
    fn the_shared_models_route_is_told_apart_by_headers() {
        let list = |header| found(Method::GET, "/v1/models", header);
        assert_eq!(list(None), Route::Models(Dialect::Openai));
        assert_eq!(list(Some("anthropic-version")), Route::Models(Dialect::Anthropic));
        assert_eq!(list(Some("x-goog-api-key")), Route::Models(Dialect::Gemini));
        assert_eq!(found(Method::GET, "/v1/models?key=k", None), Route::Models(Dialect::Gemini));
        assert_eq!(
            found(Method::GET, "/v1beta/models/g", None),
            Route::Model(Dialect::Gemini, "g".into())
        );
    }

    #[test]
    fn anything_else_leads_nowhere_in_the_right_dialect() {
        let nowhere = |method, target| match found(method, target, None) {
            Route::Nowhere(dialect) => dialect,
            other => panic!("{other:?}"),
        };
        assert_eq!(nowhere(Method::GET, "/v1/chat/completions"), Dialect::Openai);
        assert_eq!(nowhere(Method::DELETE, "/v1/messages"), Dialect::Anthropic);
        assert_eq!(nowhere(Method::POST, "/v1beta/models/g:dance"), Dialect::Gemini);
        assert_eq!(nowhere(Method::POST, "/v1beta/models/:generateContent"), Dialect::Gemini);
        assert_eq!(nowhere(Method::GET, "/"), Dialect::Openai);
    }
}
