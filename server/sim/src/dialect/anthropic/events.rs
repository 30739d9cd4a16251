//! The event stream of a message.

use bytes::Bytes;
use serde::Serialize;

use super::{Message, MessagesForm, Part, SIGNATURE, Usage, stop_reason};
use crate::dialect::{Dialect, Frame, Frames, event_frame};
use crate::plan::Plan;
use crate::refusal::Refusal;
use crate::text::draw;

/// `message_start` states a small provisional output count, `1..=8`.
const PROVISIONAL: u64 = 8;

/// Where the stream stands, in the order of the wire.
#[derive(Clone, Copy, Debug)]
enum Step {
    Start,
    ThinkingStart,
    Thinking,
    Signature,
    ThinkingStop,
    TextStart,
    Ping,
    Text(u64),
    TextStop,
    Delta,
    Stop,
    End,
}

pub(super) struct Events {
    form: MessagesForm,
    id: String,
    plan: Plan,
    step: Step,
    visible: u64,
}

#[derive(Serialize)]
struct Start<'a> {
    r#type: &'static str,
    message: Message<'a>,
}

#[derive(Serialize)]
struct BlockStart<'a> {
    r#type: &'static str,
    index: u64,
    content_block: Part<'a>,
}

#[derive(Serialize)]
struct BlockDelta<'a> {
    r#type: &'static str,
    index: u64,
    delta: Part<'a>,
}

#[derive(Serialize)]
struct BlockStop {
    r#type: &'static str,
    index: u64,
}

#[derive(Serialize)]
struct MessageDelta {
    r#type: &'static str,
    delta: Ending,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Usage<'static>>,
}

#[derive(Serialize)]
struct Ending {
    stop_reason: Option<&'static str>,
    stop_sequence: Option<()>,
}

impl Events {
    pub(super) const fn new(form: MessagesForm, id: String, plan: Plan) -> Self {
        Self { form, id, plan, step: Step::Start, visible: 0 }
    }

    fn after(&self, step: Step) -> Step {
        let text = if self.plan.tokens.visible() > 0 { Step::TextStart } else { Step::Delta };
        match step {
            Step::Start if self.form.thinks_aloud(&self.plan) => Step::ThinkingStart,
            Step::Start | Step::ThinkingStop => text,
            Step::ThinkingStart => Step::Thinking,
            Step::Thinking => Step::Signature,
            Step::Signature => Step::ThinkingStop,
            Step::TextStart => Step::Ping,
            Step::Ping => Step::Text(0),
            Step::Text(frame) if frame + 1 < self.plan.frames => Step::Text(frame + 1),
            Step::Text(_) => Step::TextStop,
            Step::TextStop => Step::Delta,
            Step::Delta => Step::Stop,
            Step::Stop | Step::End => Step::End,
        }
    }

    /// The counts `message_start` states: all of the input, a little output.
    fn provisional(&self) -> (u64, u64) {
        let few = 1 + draw(self.plan.key, 3, PROVISIONAL);
        let reasoning = self.plan.tokens.reasoning.min(few);
        (reasoning, self.plan.tokens.visible().min(few - reasoning))
    }

    fn start(&self) -> Bytes {
        let (reasoning, visible) = self.provisional();
        let tokens = self.plan.so_far(reasoning, visible);
        let mut usage = self.form.usage(&self.plan, &tokens);
        if let Some(usage) = &mut usage {
            usage.output_tokens_details = None;
        }
        let message = self.form.message(&self.id, usage);
        event_frame("message_start", &Start { r#type: "message_start", message })
    }

    fn block_start(index: u64, content_block: Part<'_>) -> Bytes {
        let r#type = "content_block_start";
        event_frame(r#type, &BlockStart { r#type, index, content_block })
    }

    fn block_delta(index: u64, delta: Part<'_>) -> Bytes {
        let r#type = "content_block_delta";
        event_frame(r#type, &BlockDelta { r#type, index, delta })
    }

    fn block_stop(index: u64) -> Bytes {
        let r#type = "content_block_stop";
        event_frame(r#type, &BlockStop { r#type, index })
    }

    fn delta(&self) -> Bytes {
        let usage = (!self.plan.silent).then(|| Usage::of(&self.plan.tokens, false, None));
        let delta = Ending { stop_reason: stop_reason(&self.plan), stop_sequence: None };
        event_frame("message_delta", &MessageDelta { r#type: "message_delta", delta, usage })
    }
}

impl Frames for Events {
    fn next_frame(&mut self) -> Option<Frame> {
        let step = self.step;
        self.step = self.after(step);
        let text_index = u64::from(self.form.thinks_aloud(&self.plan));
        let (first_reasoning, first_visible) = self.provisional();
        let mut reasoning = self.plan.tokens.reasoning;
        let bytes = match step {
            Step::Start => {
                reasoning = first_reasoning;
                self.start()
            }
            Step::ThinkingStart => {
                reasoning = first_reasoning;
                Self::block_start(0, Part::thinking("thinking", "").signed(""))
            }
            Step::Thinking => {
                let text = self.plan.thoughts();
                Self::block_delta(0, Part::thinking("thinking_delta", &text))
            }
            Step::Signature => {
                let empty = Part { r#type: "signature_delta", ..Part::default() };
                Self::block_delta(0, empty.signed(SIGNATURE))
            }
            Step::ThinkingStop => Self::block_stop(0),
            Step::TextStart => Self::block_start(text_index, Part::text("text", "")),
            Step::Ping => Bytes::from_static(b"event: ping\ndata: {\"type\": \"ping\"}\n\n"),
            Step::Text(frame) => {
                self.visible += self.plan.frame_tokens(0, frame);
                let text = self.plan.frame_text(0, frame);
                Self::block_delta(text_index, Part::text("text_delta", &text))
            }
            Step::TextStop => Self::block_stop(text_index),
            Step::Delta => self.delta(),
            Step::Stop => {
                Bytes::from_static(b"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n")
            }
            Step::End => return None,
        };
        let states_usage = matches!(step, Step::Start | Step::Delta) && !self.plan.silent;
        let visible = self.visible.max(first_visible);
        Some(Frame { bytes, reasoning, visible, states_usage })
    }

    fn error_frame(&mut self, refusal: &Refusal, request_id: &str) -> Bytes {
        let body = refusal.body(Dialect::Anthropic, request_id);
        Bytes::from(format!("event: error\ndata: {body}\n\n"))
    }
}
