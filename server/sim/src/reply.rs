//! The body of an answer: plays frames at their pace and breaks them where a script says so.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame as BodyFrame, SizeHint};
use tokio::sync::Notify;
use tokio::time::{Sleep, sleep};

use crate::dialect::{Answer, Frame, Frames};
use crate::entry::Entry;
use crate::journal::End;
use crate::plan::Plan;
use crate::refusal::Refusal;
use crate::script::Script;

/// The longest silence of a script that hangs: longer than any time-out of the gateway.
pub(crate) const MAX_SILENCE: Duration = Duration::from_secs(3_600);
/// A frame that is neither JSON nor UTF-8.
const GARBAGE: &[u8] = b"data: {\"choices\":[{\"del\xFF\xFE\x00}}]\n\n";

/// Asks the task of a connection to reset it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Abort(Arc<(AtomicBool, Notify)>);

impl Abort {
    fn ask(&self) {
        self.0.0.store(true, Ordering::Release);
        self.0.1.notify_one();
    }

    /// True once a reset was asked for.
    pub(crate) fn is_asked(&self) -> bool {
        self.0.0.load(Ordering::Acquire)
    }

    /// Waits until a reset is asked for.
    pub(crate) async fn asked(&self) {
        self.0.1.notified().await;
    }
}

/// The body of a response.
pub(crate) enum Reply {
    /// Known bytes.
    Whole(Option<Bytes>),
    /// Frames that are spelt while they are sent.
    Played(Box<Player>),
}

impl Reply {
    /// A body of known bytes.
    pub(crate) fn whole(text: impl Into<Bytes>) -> Self {
        Self::Whole(Some(text.into()))
    }
}

/// What comes at the border after a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Frame,
    Garbage,
    Error,
    Silence,
    Over(End),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// At a border: the pause, then the next frame.
    Border,
    /// Within a frame that counts.
    Frame {
        states_usage: bool,
    },
    /// Within a frame that does not count.
    Extra,
    /// Within the error frame.
    Error,
    Silence,
    Reset,
    Over,
}

/// How an answer is to be played.
pub(crate) struct Cue {
    pub(crate) plan: Plan,
    pub(crate) script: Script,
    pub(crate) abort: Abort,
    pub(crate) request_id: String,
    /// Status of an error frame when the script names none.
    pub(crate) usual_error: u16,
    /// Pause between frames when the script names none.
    pub(crate) gap: Duration,
}

/// Plays one answer.
pub(crate) struct Player {
    frames: Box<dyn Frames>,
    /// One frame ahead, so that the last one is known to be the last before it goes out.
    ahead: Option<Frame>,
    entry: Entry,
    cue: Cue,
    length: Option<u64>,
    split: Option<usize>,
    gap: Duration,
    sleep: Option<Pin<Box<Sleep>>>,
    sent: u64,
    rest: Bytes,
    phase: Phase,
    garbage_sent: bool,
    /// Give the connection a turn to flush before the next piece.
    flush: bool,
}

impl Player {
    /// Sets an answer up to be played.
    pub(crate) fn new(answer: Answer, cue: Cue, entry: Entry) -> Self {
        let mut frames = answer.frames;
        let ahead = frames.next_frame();
        Self {
            frames,
            ahead,
            split: cue.script.split.or(answer.split),
            gap: cue.script.frame_gap.unwrap_or(cue.gap),
            // Garbage comes on top of what was to be sent.
            length: answer.length.filter(|_| cue.script.garbage_after.is_none()),
            entry,
            cue,
            sleep: None,
            sent: 0,
            rest: Bytes::new(),
            phase: Phase::Border,
            garbage_sent: false,
            flush: false,
        }
    }

    fn next(&self) -> Next {
        let here = Some(self.sent);
        let script = &self.cue.script;
        if script.reset_after == here || script.reset_at_byte == Some(self.entry.bytes_sent()) {
            Next::Over(End::Reset)
        } else if script.cut_after == here {
            Next::Over(End::Cut)
        } else if script.hang_after == here {
            Next::Silence
        } else if script.error_after == here {
            Next::Error
        } else if script.garbage_after == here && !self.garbage_sent {
            Next::Garbage
        } else if self.ahead.is_none() {
            Next::Over(End::Complete)
        } else {
            Next::Frame
        }
    }

    /// Starts what comes at this border.
    fn begin(&mut self) {
        match self.next() {
            Next::Over(end) => self.over(end),
            Next::Silence => {
                self.entry.silent();
                self.sleep = Some(Box::pin(sleep(MAX_SILENCE)));
                self.phase = Phase::Silence;
            }
            Next::Error => {
                let refusal = Refusal::scripted(&self.cue.script, self.cue.usual_error);
                self.rest = self.frames.error_frame(&refusal, &self.cue.request_id);
                self.phase = Phase::Error;
            }
            Next::Garbage => {
                self.garbage_sent = true;
                self.rest = Bytes::from_static(GARBAGE);
                self.phase = Phase::Extra;
            }
            Next::Frame => {
                let ahead = self.frames.next_frame();
                if let Some(frame) = std::mem::replace(&mut self.ahead, ahead) {
                    self.entry.generated(&self.cue.plan, frame.reasoning, frame.visible);
                    self.rest = frame.bytes;
                    self.phase = Phase::Frame { states_usage: frame.states_usage };
                }
            }
        }
    }

    fn over(&mut self, end: End) {
        self.entry.finish(end);
        self.phase = if end == End::Reset { Phase::Reset } else { Phase::Over };
    }

    /// The next piece of the frame at hand. The journal learns of an end before the last piece
    /// goes out: whoever has read an answer to its end finds its line.
    fn piece(&mut self) -> Bytes {
        let mut size = self.split.unwrap_or(usize::MAX).min(self.rest.len());
        if let Some(stop) = self.cue.script.reset_at_byte {
            let left = stop.saturating_sub(self.entry.bytes_sent());
            size = size.min(usize::try_from(left).unwrap_or(usize::MAX));
        }
        let piece = self.rest.split_to(size);
        self.entry.sent_bytes(size);
        self.flush = self.split.is_some();
        if self.cue.script.reset_at_byte == Some(self.entry.bytes_sent()) {
            self.over(End::Reset);
        } else if self.rest.is_empty() {
            self.frame_is_out();
        }
        piece
    }

    fn frame_is_out(&mut self) {
        let phase = std::mem::replace(&mut self.phase, Phase::Border);
        match phase {
            Phase::Frame { states_usage } => {
                self.sent += 1;
                self.entry.sent_frame(states_usage);
            }
            Phase::Error => return self.over(End::ErrorFrame),
            Phase::Border | Phase::Extra | Phase::Silence | Phase::Reset | Phase::Over => {}
        }
        if let Next::Over(end) = self.next() {
            self.over(end);
        }
    }

    /// The pause before every frame but the first; `Pending` while it lasts.
    fn pause(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.flush {
            self.flush = false;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        if self.phase != Phase::Border || self.sent == 0 || self.gap.is_zero() {
            return Poll::Ready(());
        }
        let gap = self.gap;
        let timer = self.sleep.get_or_insert_with(|| Box::pin(sleep(gap)));
        match timer.as_mut().poll(context) {
            Poll::Ready(()) => {
                self.sleep = None;
                Poll::Ready(())
            }
            Poll::Pending => Poll::Pending,
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            match self.phase {
                Phase::Over => return Poll::Ready(None),
                Phase::Reset => {
                    // The connection writes what it has when this returns, then the task drops it.
                    self.cue.abort.ask();
                    return Poll::Pending;
                }
                Phase::Silence => {
                    let timer = self.sleep.get_or_insert_with(|| Box::pin(sleep(MAX_SILENCE)));
                    if timer.as_mut().poll(context).is_pending() {
                        return Poll::Pending;
                    }
                    self.over(End::Hang);
                }
                Phase::Border => {
                    if self.pause(context).is_pending() {
                        return Poll::Pending;
                    }
                    self.begin();
                }
                Phase::Frame { .. } | Phase::Extra | Phase::Error => {
                    if self.rest.is_empty() {
                        self.frame_is_out();
                        continue;
                    }
                    if self.pause(context).is_pending() {
                        return Poll::Pending;
                    }
                    return Poll::Ready(Some(self.piece()));
                }
            }
        }
    }
}

impl Body for Reply {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<BodyFrame<Bytes>, Infallible>>> {
        let data = match self.get_mut() {
            Self::Whole(bytes) => bytes.take(),
            Self::Played(player) => match player.poll(context) {
                Poll::Ready(data) => data,
                Poll::Pending => return Poll::Pending,
            },
        };
        Poll::Ready(data.map(|bytes| Ok(BodyFrame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_none(),
            Self::Played(player) => player.phase == Phase::Over,
        }
    }

    fn size_hint(&self) -> SizeHint {
        let length = match self {
            Self::Whole(bytes) => Some(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Self::Played(player) => player.length,
        };
        length.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
