//! Errors in each dialect's own shape.

use serde::Serialize;
use serde_json::{Value, json};

use crate::dialect::{Dialect, json_text};
use crate::script::Script;

/// An error answer, before it is spelt in a dialect.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) message: String,
    pub(crate) param: Option<&'static str>,
    /// Code in place of the one usual for the status.
    pub(crate) code: Option<String>,
    pub(crate) retry_after: Option<String>,
    pub(crate) location: Option<String>,
}

impl Refusal {
    /// An error with the usual code of `status`.
    pub(crate) fn new(status: u16, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
            param: None,
            code: None,
            retry_after: None,
            location: None,
        }
    }

    /// 400: the field `param` is wrong.
    pub(crate) fn invalid(param: &'static str, message: impl Into<String>) -> Self {
        Self { param: Some(param), ..Self::new(400, message) }
    }

    /// The error a script asks for, with `usual` as status when it names none.
    pub(crate) fn scripted(script: &Script, usual: u16) -> Self {
        let status = script.status.unwrap_or(usual);
        Self {
            code: script.code.clone(),
            retry_after: script.retry_after.clone(),
            location: script.location.clone(),
            ..Self::new(status, said(status))
        }
    }

    /// The JSON body in `dialect`.
    pub(crate) fn body(&self, dialect: Dialect, request_id: &str) -> String {
        match dialect {
            Dialect::Openai => json_text(&OpenaiError { error: self.openai() }),
            Dialect::Anthropic => json_text(&AnthropicError {
                r#type: "error",
                error: AnthropicInner {
                    r#type: self.anthropic_type(),
                    message: &self.message,
                    details: self.code.as_deref().map(|error_code| Details { error_code }),
                },
                request_id,
            }),
            Dialect::Gemini => json_text(&GeminiError { error: self.gemini() }),
        }
    }

    /// The parts of an OpenAI error, also used flat by the Responses stream.
    pub(crate) fn openai(&self) -> OpenaiInner<'_> {
        let (usual_type, usual_code) = match self.status {
            401 => ("invalid_request_error", Some("invalid_api_key")),
            402 => ("insufficient_quota", Some("billing_not_active")),
            404 if self.param == Some("model") => {
                ("invalid_request_error", Some("model_not_found"))
            }
            429 => ("requests", Some("rate_limit_exceeded")),
            503 => ("service_unavailable_error", Some("server_is_overloaded")),
            500..=599 => ("server_error", None),
            _ => ("invalid_request_error", None),
        };
        let code = self.code.as_deref().or(usual_code);
        let r#type = match code {
            Some("slow_down") => "rate_limit_error",
            Some(code) if self.status == 429 && is_about_money(code) => "insufficient_quota",
            _ => usual_type,
        };
        OpenaiInner { message: &self.message, r#type, param: self.param, code }
    }

    fn anthropic_type(&self) -> &'static str {
        match self.status {
            401 => "authentication_error",
            402 => "billing_error",
            403 => "permission_error",
            404 => "not_found_error",
            409 => "conflict_error",
            413 => "request_too_large",
            429 => "rate_limit_error",
            504 => "timeout_error",
            529 => "overloaded_error",
            500..=599 => "api_error",
            _ => "invalid_request_error",
        }
    }

    fn gemini(&self) -> GeminiInner<'_> {
        let status = match self.status {
            401 => "UNAUTHENTICATED",
            402 | 429 => "RESOURCE_EXHAUSTED",
            403 => "PERMISSION_DENIED",
            404 => "NOT_FOUND",
            409 => "ABORTED",
            499 => "CANCELLED",
            503 => "UNAVAILABLE",
            504 => "DEADLINE_EXCEEDED",
            500..=599 => "INTERNAL",
            _ => "INVALID_ARGUMENT",
        };
        let mut details = Vec::new();
        if let Some(reason) = &self.code {
            details.push(json!({"@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "reason": reason, "domain": "googleapis.com"}));
        }
        if self.status == 429 {
            details.push(json!({"@type": "type.googleapis.com/google.rpc.QuotaFailure",
                "violations": [{
                    "quotaMetric": "generativelanguage.googleapis.com/generate_content_requests",
                    "quotaId": "GenerateRequestsPerMinutePerProjectPerModel",
                    "quotaDimensions": {"location": "global"}, "quotaValue": "20"}]}));
        }
        // This dialect has no Retry-After header: the delay stands in the body.
        if let Some(delay) = &self.retry_after {
            let delay = match delay.parse::<u64>() {
                Ok(seconds) => format!("{seconds}s"),
                Err(_) => delay.clone(),
            };
            details.push(json!({"@type": "type.googleapis.com/google.rpc.RetryInfo",
                "retryDelay": delay}));
        }
        GeminiInner { code: self.status, message: &self.message, status, details }
    }
}

fn is_about_money(code: &str) -> bool {
    code == "insufficient_quota"
        || code.ends_with("_exhausted")
        || code.ends_with("_exceeded") && code != "rate_limit_exceeded"
}

const fn said(status: u16) -> &'static str {
    match status {
        401 => "Incorrect API key provided.",
        402 => "The account has no credit left.",
        403 => "This key may not use this model.",
        404 => "The model does not exist.",
        408 | 504 => "The request timed out.",
        413 => "The request is too large.",
        429 => "Rate limit reached. Please retry later.",
        503 | 529 => "The service is overloaded. Please retry later.",
        500..=599 => "The server had an error while processing the request.",
        _ => "The request is not valid.",
    }
}

/// `error` of the OpenAI dialect.
#[derive(Serialize)]
pub(crate) struct OpenaiInner<'a> {
    pub(crate) message: &'a str,
    pub(crate) r#type: &'static str,
    pub(crate) param: Option<&'static str>,
    pub(crate) code: Option<&'a str>,
}

#[derive(Serialize)]
struct OpenaiError<'a> {
    error: OpenaiInner<'a>,
}

#[derive(Serialize)]
struct AnthropicError<'a> {
    r#type: &'static str,
    error: AnthropicInner<'a>,
    request_id: &'a str,
}

#[derive(Serialize)]
struct AnthropicInner<'a> {
    r#type: &'static str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Details<'a>>,
}

#[derive(Serialize)]
struct Details<'a> {
    error_code: &'a str,
}

#[derive(Serialize)]
struct GeminiError<'a> {
    error: GeminiInner<'a>,
}

#[derive(Serialize)]
struct GeminiInner<'a> {
    code: u16,
    message: &'a str,
    status: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    details: Vec<Value>,
}
