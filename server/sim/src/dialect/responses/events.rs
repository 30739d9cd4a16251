//! The event stream of a response.

use bytes::Bytes;
use serde::Serialize;

use super::{Item, Names, Response, ResponsesForm, TextPart, status};
use crate::dialect::{Frame, Frames, event_frame};
use crate::plan::Plan;
use crate::refusal::Refusal;

/// Where the stream stands, in the order of the wire.
#[derive(Clone, Copy, Debug)]
enum Step {
    Created,
    InProgress,
    ReasoningAdded,
    ReasoningDone,
    ItemAdded,
    PartAdded,
    Delta(u64),
    TextDone,
    PartDone,
    ItemDone,
    Finished,
    End,
}

pub(super) struct Events {
    form: ResponsesForm,
    names: Names,
    plan: Plan,
    step: Step,
    sequence: u64,
    visible: u64,
}

/// One event: its type comes first and its number second, the rest follows.
#[derive(Serialize)]
struct Event<T: Serialize> {
    r#type: &'static str,
    sequence_number: u64,
    #[serde(flatten)]
    rest: T,
}

/// What an event is about.
#[derive(Serialize)]
#[serde(untagged)]
enum About<'a> {
    Response {
        response: Box<Response<'a>>,
    },
    Item {
        output_index: u64,
        item: Item<'a>,
    },
    Part {
        item_id: &'a str,
        output_index: u64,
        content_index: u64,
        part: TextPart,
    },
    Delta {
        item_id: &'a str,
        output_index: u64,
        content_index: u64,
        delta: String,
        logprobs: [(); 0],
    },
    Text {
        item_id: &'a str,
        output_index: u64,
        content_index: u64,
        text: String,
        logprobs: [(); 0],
    },
}

impl Events {
    pub(super) const fn new(form: ResponsesForm, names: Names, plan: Plan) -> Self {
        Self { form, names, plan, step: Step::Created, sequence: 0, visible: 0 }
    }

    fn after(&self, step: Step) -> Step {
        let thinks = self.plan.tokens.reasoning > 0;
        match step {
            Step::Created => Step::InProgress,
            Step::InProgress if thinks => Step::ReasoningAdded,
            Step::InProgress => Step::ItemAdded,
            Step::ReasoningAdded => Step::ReasoningDone,
            Step::ReasoningDone if self.plan.tokens.visible() == 0 => Step::Finished,
            Step::ReasoningDone => Step::ItemAdded,
            Step::ItemAdded => Step::PartAdded,
            Step::PartAdded if self.plan.frames > 0 => Step::Delta(0),
            Step::Delta(frame) if frame + 1 < self.plan.frames => Step::Delta(frame + 1),
            Step::PartAdded | Step::Delta(_) => Step::TextDone,
            Step::TextDone => Step::PartDone,
            Step::PartDone => Step::ItemDone,
            Step::ItemDone => Step::Finished,
            Step::Finished | Step::End => Step::End,
        }
    }

    fn about(&self, step: Step) -> Option<(&'static str, About<'_>)> {
        let (plan, names) = (&self.plan, &self.names);
        let item_id = names.message.as_str();
        // Thinking, when there is any, comes before the message.
        let output_index = u64::from(plan.tokens.reasoning > 0);
        let started =
            || About::Response { response: Box::new(self.form.response(names, "in_progress")) };
        let finished = || About::Response { response: Box::new(self.form.finished(names, plan)) };
        let thinking = || About::Item { output_index: 0, item: Item::reasoning(names) };
        let message =
            |status, text| About::Item { output_index, item: Item::message(names, status, text) };
        let part = |text| About::Part {
            item_id,
            output_index,
            content_index: 0,
            part: TextPart::new(text),
        };
        Some(match step {
            Step::Created => ("response.created", started()),
            Step::InProgress => ("response.in_progress", started()),
            Step::ReasoningAdded => ("response.output_item.added", thinking()),
            Step::ReasoningDone => ("response.output_item.done", thinking()),
            Step::ItemAdded => ("response.output_item.added", message("in_progress", None)),
            Step::PartAdded => ("response.content_part.added", part(String::new())),
            Step::Delta(frame) => {
                let delta = plan.frame_text(0, frame);
                let about =
                    About::Delta { item_id, output_index, content_index: 0, delta, logprobs: [] };
                ("response.output_text.delta", about)
            }
            Step::TextDone => {
                let text = plan.text(0);
                let about =
                    About::Text { item_id, output_index, content_index: 0, text, logprobs: [] };
                ("response.output_text.done", about)
            }
            Step::PartDone => ("response.content_part.done", part(plan.text(0))),
            Step::ItemDone => {
                ("response.output_item.done", message(status(plan), Some(plan.text(0))))
            }
            Step::Finished if plan.capped => ("response.incomplete", finished()),
            Step::Finished => ("response.completed", finished()),
            Step::End => return None,
        })
    }
}

impl Frames for Events {
    fn next_frame(&mut self) -> Option<Frame> {
        let step = self.step;
        let (name, rest) = self.about(step)?;
        let bytes =
            event_frame(name, &Event { r#type: name, sequence_number: self.sequence, rest });
        self.sequence += 1;
        self.step = self.after(step);
        if let Step::Delta(frame) = step {
            self.visible += self.plan.frame_tokens(0, frame);
        }
        let thought = !matches!(step, Step::Created | Step::InProgress | Step::ReasoningAdded);
        Some(Frame {
            bytes,
            reasoning: if thought { self.plan.tokens.reasoning } else { 0 },
            visible: self.visible,
            states_usage: matches!(step, Step::Finished) && !self.plan.silent,
        })
    }

    fn error_frame(&mut self, refusal: &Refusal, _request_id: &str) -> Bytes {
        #[derive(Serialize)]
        struct Failure<'a> {
            code: &'a str,
            message: &'a str,
            param: Option<()>,
        }
        let said = refusal.openai();
        let code = said.code.unwrap_or("server_error");
        let rest = Failure { code, message: said.message, param: None };
        event_frame("error", &Event { r#type: "error", sequence_number: self.sequence, rest })
    }
}
