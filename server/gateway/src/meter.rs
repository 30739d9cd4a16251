//! Reads usage off a stream while it passes, and says which bytes the client gets.

use bytes::Bytes;
use domain::id::RequestId;
use domain::usage::Dialect;
use serde_json::json;

use crate::dialect::{NotJson, Tally, Told};
use crate::json_array::Elements;
use crate::sse::{Frame, Splitter};

/// How the stream is cut into frames.
#[derive(Debug)]
enum Feed {
    Sse(Splitter),
    Array {
        elements: Elements,
        any: bool,
    },
    /// Frames could not be told any more: the bytes pass, and the call is billed by estimate.
    Lost,
}

/// The meter on one stream.
#[derive(Debug)]
pub(crate) struct Meter {
    dialect: Dialect,
    feed: Feed,
    pub(crate) tally: Tally,
    /// Whether the usage that only Weir asked for is kept from the client.
    hide_usage: bool,
    /// Whether a frame has been passed on.
    passed: bool,
    pub(crate) terminal: bool,
    pub(crate) blocked: bool,
    /// Why the stream is a failure, if it is one.
    pub(crate) failed: Option<String>,
    /// Whether the client has been told of the failure, by the provider's own frame.
    told: bool,
}

impl Meter {
    pub(crate) fn new(dialect: Dialect, sse: bool, hide_usage: bool) -> Self {
        let feed = if sse {
            Feed::Sse(Splitter::default())
        } else {
            Feed::Array { elements: Elements::default(), any: false }
        };
        Self {
            dialect,
            feed,
            tally: Tally::new(dialect),
            hide_usage,
            passed: false,
            terminal: false,
            blocked: false,
            failed: None,
            told: false,
        }
    }

    /// Takes bytes of the provider and adds to `out` what goes to the client.
    pub(crate) fn push(&mut self, bytes: Bytes, out: &mut Vec<Bytes>) {
        match std::mem::replace(&mut self.feed, Feed::Lost) {
            Feed::Sse(splitter) => self.feed = self.push_sse(splitter, &bytes, out),
            Feed::Array { mut elements, mut any } => {
                elements.push(&bytes, |element| {
                    any = true;
                    let told = self.tally.take(element);
                    self.note(told);
                });
                if elements.is_garbled() {
                    self.note(Err(NotJson));
                }
                self.feed = Feed::Array { elements, any };
                out.push(bytes);
            }
            Feed::Lost => out.push(bytes),
        }
    }

    fn push_sse(&mut self, mut splitter: Splitter, bytes: &Bytes, out: &mut Vec<Bytes>) -> Feed {
        splitter.push(bytes);
        loop {
            match splitter.next_frame() {
                Ok(Some(frame)) => self.pass(frame, out),
                Ok(None) => return Feed::Sse(splitter),
                Err(_) => {
                    out.push(splitter.into_rest());
                    return Feed::Lost;
                }
            }
        }
    }

    /// Whether what came so far is a beginning of an answer: a frame, an element, or bytes that are neither.
    pub(crate) const fn has_begun(&self) -> bool {
        match &self.feed {
            Feed::Sse(_) => self.passed,
            Feed::Array { any, .. } => *any,
            Feed::Lost => true,
        }
    }

    /// Takes the end of the provider's bytes. A last frame that lacks only its blank line still counts.
    pub(crate) fn finish(&mut self, out: &mut Vec<Bytes>) {
        if let Feed::Sse(splitter) = &mut self.feed
            && let Some(frame) = splitter.finish()
        {
            self.pass_last(frame, out);
        }
        if let Feed::Array { elements, .. } = &self.feed
            && self.terminal
            && !elements.is_closed()
        {
            // The answer is whole and lacks only its bracket, or the array ends inside an element.
            if elements.between_elements() {
                out.push(Bytes::from_static(b"]"));
            } else {
                self.failed = Some("the provider ended the stream inside an element".to_owned());
            }
        }
        if !self.terminal && self.failed.is_none() {
            self.failed = Some("the provider ended the stream before its end".to_owned());
        }
    }

    /// What tells the client that the stream is broken, unless the provider has told it already.
    /// Nothing when the bytes so far leave no place for it: then the connection has to break.
    pub(crate) fn epitaph(&self, request_id: RequestId) -> Option<Bytes> {
        if self.told {
            return Some(Bytes::new());
        }
        let message = self.failed.as_deref().unwrap_or("the stream broke off");
        let id = request_id.to_string();
        let text = match (self.dialect, &self.feed) {
            (Dialect::Openai, Feed::Sse(_)) => {
                let error = json!({"error": {"message": message, "type": "server_error", "param": null,
                    "code": "provider_error", "request_id": id, "source": "provider"}});
                format!("data: {error}\n\n")
            }
            (Dialect::Anthropic, Feed::Sse(_)) => {
                let error = json!({"type": "error", "error": {"type": "api_error", "message": message},
                    "request_id": id, "source": "provider"});
                format!("event: error\ndata: {error}\n\n")
            }
            (Dialect::Gemini, Feed::Sse(_)) => {
                format!("data: {}\r\n\r\n", gemini_error(message, &id))
            }
            (_, Feed::Array { elements, any }) if elements.between_elements() => {
                let comma = if *any { ",\n" } else { "" };
                format!("{comma}{}]", gemini_error(message, &id))
            }
            (_, Feed::Array { .. } | Feed::Lost) => return None,
        };
        Some(Bytes::from(text))
    }

    fn pass(&mut self, frame: Frame, out: &mut Vec<Bytes>) {
        let told = self.read(&frame);
        self.forward(frame, told, out);
    }

    /// A last frame that was cut off inside its data is left out: the epitaph takes its place.
    fn pass_last(&mut self, frame: Frame, out: &mut Vec<Bytes>) {
        let told = self.read(&frame);
        if told.is_ok() {
            self.forward(frame, told, out);
        }
    }

    fn read(&mut self, frame: &Frame) -> Result<Told, NotJson> {
        if frame.data.is_empty() { Ok(Told::default()) } else { self.tally.take(&frame.data) }
    }

    fn forward(&mut self, frame: Frame, told: Result<Told, NotJson>, out: &mut Vec<Bytes>) {
        let hidden = self.hide_usage && matches!(&told, Ok(told) if told.usage_only);
        self.note(told);
        if !hidden {
            self.passed = true;
            out.push(frame.raw);
        }
    }

    fn note(&mut self, told: Result<Told, NotJson>) {
        match told {
            Ok(told) => {
                self.terminal |= told.terminal;
                self.blocked |= told.blocked;
                if told.failed.is_some() {
                    self.failed = told.failed;
                    self.told = true;
                }
            }
            // The client's SDK stumbles over it too: the call counts as failed.
            Err(NotJson) => {
                self.failed = Some("the provider sent a frame that is not JSON".to_owned());
                self.told = true;
            }
        }
    }
}

fn gemini_error(message: &str, request_id: &str) -> serde_json::Value {
    json!({"error": {"code": 502, "message": message, "status": "UNAVAILABLE",
        "details": [{"@type": "type.googleapis.com/google.rpc.RequestInfo", "requestId": request_id}]}})
}

#[cfg(test)]
mod tests;
