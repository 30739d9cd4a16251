//! An answer that comes frame by frame.

use std::time::Duration;

use bytes::Bytes;
use domain::usage::{Dialect, Outcome};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::{End, Finish};
use crate::call::Answer;
use crate::error::{FailureKind, UpstreamFailure};
use crate::fail_point::FailPoint;
use crate::meter::Meter;
use crate::reply::{Broken, FRAMES_AHEAD, Reply, ReplyBody, passed_on};
use crate::upstream::millis;

/// How long a client may leave a frame unread before it counts as gone: it holds a place and memory meanwhile.
const CLIENT_STALL: Duration = Duration::from_secs(60);
/// How often the hold of a running stream is made to live on: three times in its life.
const RENEW_EVERY: Duration = Duration::from_millis((limiter::HOLD_TTL_MS / 3).unsigned_abs());

/// The most that is held back until a first frame is whole, in bytes: a picture may be larger, and begins to go out
/// before it is known to be one.
const HELD_BACK_BYTES_MAX: usize = 1024 * 1024;

type Frames = mpsc::Sender<Result<Bytes, Broken>>;

/// Where the client is.
enum Client {
    /// It has nothing yet: the head of the answer goes out with the first frame. Until then a failure can be told
    /// as an answer of its own.
    Waiting { answer: Answer, reply: Reply, frames: Frames },
    /// It reads.
    Reading(Frames),
    /// It has left.
    Gone,
}

impl Client {
    /// Comes back when the client has left; never when it has left before.
    async fn left(&mut self) {
        match self {
            Self::Waiting { answer, .. } => answer.closed().await,
            Self::Reading(frames) => frames.closed().await,
            Self::Gone => std::future::pending().await,
        }
    }
}

/// What happens next to a stream.
enum Step {
    Bytes(Bytes),
    ProviderEnded,
    ProviderBroke,
    ProviderSilent,
    DeadlinePassed,
    ClientLeft,
    Stopping,
    RenewDue,
}

/// A stream on its way.
struct Passage {
    meter: Meter,
    client: Client,
    /// What came before the first frame was whole.
    held_back: Vec<Bytes>,
    deadline: Instant,
    idle: Duration,
    /// How long the provider is read on when the client has left.
    drain: Duration,
    renew_at: Instant,
    /// Set when something other than the frames themselves ended the stream.
    ended_as: Option<Outcome>,
}

impl Finish {
    /// Passes the frames on as they come, and ends the call when the provider, or the time, has ended it.
    pub(super) async fn relay_stream(self, mut response: reqwest::Response, answer: Answer) {
        let status = response.status().as_u16();
        let mut passage = self.passage(&response, answer);
        let mut is_begun = false;
        loop {
            let is_last = self.advance(&mut passage, &mut response).await;
            if !is_begun && matches!(passage.client, Client::Reading(_)) {
                is_begun = true;
                self.reached(FailPoint::AfterFirstFrame);
            }
            if is_last {
                break;
            }
        }
        // The provider's connection is not needed any more, and must not be kept open by what follows.
        drop(response);
        if let Client::Waiting { answer, .. } = passage.client {
            return self.without_a_frame(&passage.meter, passage.ended_as, answer).await;
        }
        let end = self.end_of(&mut passage, status).await;
        self.close(&passage.meter.tally, end).await;
        // Only now does the client's stream end: what it has read is on record.
        drop(passage.client);
    }

    fn passage(&self, response: &reqwest::Response, answer: Answer) -> Passage {
        let (frames, body) = mpsc::channel(FRAMES_AHEAD);
        let reply = Reply {
            status: response.status().as_u16(),
            headers: passed_on(response.headers()),
            charge: None,
            body: ReplyBody::Stream(body),
        };
        let route = &self.call.offer.request.route;
        let hide_usage = route.dialect() == Dialect::Openai && !self.call.offer.asked.wants_usage;
        let timeouts = &self.call.offer.provider.timeouts;
        Passage {
            meter: Meter::new(route.dialect(), !self.is_array_stream(), hide_usage),
            client: Client::Waiting { answer, reply, frames },
            held_back: Vec::new(),
            deadline: self.call.started + millis(timeouts.total_ms),
            idle: millis(timeouts.idle_ms),
            drain: self.drain_time(),
            renew_at: Instant::now() + RENEW_EVERY,
            ended_as: None,
        }
    }

    /// Does the next step; says whether it was the last.
    async fn advance(&self, passage: &mut Passage, response: &mut reqwest::Response) -> bool {
        let step = next_step(passage, response, &self.call.gateway.cut).await;
        match step {
            Step::Bytes(bytes) => {
                let mut out = Vec::new();
                passage.meter.push(bytes, &mut out);
                passage.send(out).await;
                false
            }
            Step::ClientLeft => {
                passage.client_left();
                false
            }
            Step::RenewDue => {
                passage.renew_at = Instant::now() + RENEW_EVERY;
                let gateway = &self.call.gateway;
                let now = gateway.clock.for_engine();
                if let Err(error) = gateway.limiter.renew(&self.call.hold, now).await {
                    let request_id = self.call.offer.request.id;
                    tracing::warn!(%request_id, %error, "a hold is not renewed");
                }
                false
            }
            Step::ProviderBroke if !passage.meter.terminal => {
                passage.fail("the provider's stream broke off", None)
            }
            // Behind the regular end of a stream it makes no difference how its connection ends.
            Step::ProviderEnded | Step::ProviderBroke => {
                let mut out = Vec::new();
                passage.meter.finish(&mut out);
                passage.send(out).await;
                true
            }
            Step::ProviderSilent | Step::DeadlinePassed => {
                let outcome = Some(Outcome::ProviderTimeout);
                passage.fail("the provider did not finish its answer in time", outcome)
            }
            Step::Stopping => passage.fail("the gateway is stopping", Some(Outcome::Interrupted)),
        }
    }

    /// Ends a stream of which the client has got nothing: it is told as an answer of its own.
    async fn without_a_frame(self, meter: &Meter, ended_as: Option<Outcome>, answer: Answer) {
        if ended_as == Some(Outcome::Interrupted) {
            return self.abandoned(answer).await;
        }
        let kind = match ended_as {
            Some(Outcome::ProviderTimeout) => FailureKind::TimedOut,
            _ => FailureKind::BadAnswer,
        };
        let message = meter.failed.as_deref().unwrap_or("the provider's stream was empty");
        self.failed(UpstreamFailure::new(kind, message), answer).await;
    }

    /// Says how the stream ended, and tells the client when it ended badly.
    async fn end_of(&self, passage: &mut Passage, status: u16) -> End {
        let meter = &passage.meter;
        let outcome = match passage.ended_as {
            Some(outcome) => outcome,
            None if meter.failed.is_some() => Outcome::ProviderError,
            None if meter.blocked => Outcome::Blocked,
            None => Outcome::Ok,
        };
        let error = meter.failed.clone();
        if error.is_some() && matches!(passage.client, Client::Reading(_)) {
            match meter.epitaph(self.call.offer.request.id) {
                Some(epitaph) if epitaph.is_empty() => {}
                Some(epitaph) => passage.send(vec![epitaph]).await,
                None => passage.break_off().await,
            }
        }
        let http_status = (outcome != Outcome::ClientDisconnected).then_some(status);
        End { outcome, http_status, error }
    }
}

async fn next_step(
    passage: &mut Passage,
    response: &mut reqwest::Response,
    cut: &tokio_util::sync::CancellationToken,
) -> Step {
    tokio::select! {
        biased;
        () = passage.client.left() => Step::ClientLeft,
        () = cut.cancelled() => Step::Stopping,
        () = tokio::time::sleep_until(passage.deadline) => Step::DeadlinePassed,
        chunk = tokio::time::timeout(passage.idle, response.chunk()) => match chunk {
            Ok(Ok(Some(bytes))) => Step::Bytes(bytes),
            Ok(Ok(None)) => Step::ProviderEnded,
            Ok(Err(_)) => Step::ProviderBroke,
            Err(_) => Step::ProviderSilent,
        },
        () = tokio::time::sleep_until(passage.renew_at) => Step::RenewDue,
    }
}

impl Passage {
    /// The client is gone. One that has read the last frame before it left has got its whole answer.
    fn client_left(&mut self) {
        self.client = Client::Gone;
        self.held_back.clear();
        if !self.meter.terminal && self.ended_as.is_none() {
            self.ended_as = Some(Outcome::ClientDisconnected);
        }
        self.deadline = self.deadline.min(Instant::now() + self.drain);
    }

    /// Gives frames to the client; one that does not read for too long counts as gone.
    async fn send(&mut self, frames: Vec<Bytes>) {
        self.held_back.extend(frames);
        if matches!(self.client, Client::Waiting { .. }) {
            let held_back: usize = self.held_back.iter().map(Bytes::len).sum();
            if self.meter.has_begun() || held_back > HELD_BACK_BYTES_MAX {
                self.begin();
            }
        }
        let Client::Reading(client) = &self.client else {
            if matches!(self.client, Client::Gone) {
                self.held_back.clear();
            }
            return;
        };
        for frame in std::mem::take(&mut self.held_back) {
            match tokio::time::timeout(CLIENT_STALL, client.send(Ok(frame))).await {
                Ok(Ok(())) => {}
                // Left or stuck: the same look that finds a closed channel does the rest.
                Ok(Err(_)) => return,
                Err(_) => {
                    self.client_left();
                    return;
                }
            }
        }
    }

    /// Lets the head of the answer go out.
    fn begin(&mut self) {
        match std::mem::replace(&mut self.client, Client::Gone) {
            Client::Waiting { answer, reply, frames } => {
                // A client that has left meanwhile dropped the body as well, and the next look finds that.
                let _ = answer.send(Ok(reply));
                self.client = Client::Reading(frames);
            }
            other => self.client = other,
        }
    }

    /// Breaks the client's connection.
    async fn break_off(&mut self) {
        if let Client::Reading(client) = &self.client {
            // Whether it is told or has left already comes to the same.
            let _ = tokio::time::timeout(CLIENT_STALL, client.send(Err(Broken))).await;
        }
    }

    /// Ends the stream as failed, unless it had come to its regular end already: then nothing is missing.
    fn fail(&mut self, why: &str, outcome: Option<Outcome>) -> bool {
        if self.meter.terminal {
            return true;
        }
        // What ended the client's part first stays the reason.
        if self.ended_as.is_none() {
            self.ended_as = outcome;
        }
        if self.meter.failed.is_none() {
            self.meter.failed = Some(why.to_owned());
        }
        true
    }
}
