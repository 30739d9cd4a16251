//! An answer that comes frame by frame.

use std::time::Duration;

use bytes::Bytes;
use domain::usage::{Dialect, Outcome};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::{End, Finish};
use crate::call::Answer;
use crate::meter::Meter;
use crate::reply::{Broken, FRAMES_AHEAD, Reply, ReplyBody, passed_on};
use crate::upstream::millis;

/// How long a client may leave a frame unread before it counts as gone: it holds a place and memory meanwhile.
const CLIENT_STALL: Duration = Duration::from_secs(60);
/// How often the hold of a running stream is made to live on: three times in its life.
const RENEW_EVERY: Duration = Duration::from_millis((limiter::HOLD_TTL_MS / 3).unsigned_abs());

type Client = mpsc::Sender<Result<Bytes, Broken>>;

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
    /// Nothing when the client has left.
    client: Option<Client>,
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
        let (client, frames) = mpsc::channel(FRAMES_AHEAD);
        let headers = passed_on(response.headers());
        let reply = Reply { status, headers, charge: None, body: ReplyBody::Stream(frames) };
        // A client that has left meanwhile dropped its receiver; the first look at it below finds that.
        let _ = answer.send(Ok(reply));
        let route = &self.offer.request.route;
        let hide_usage = route.dialect() == Dialect::Openai && !self.offer.asked.wants_usage;
        let mut passage = Passage {
            meter: Meter::new(route.dialect(), !self.is_array_stream(), hide_usage),
            client: Some(client),
            deadline: self.started + millis(self.offer.provider.timeouts.total_ms),
            idle: millis(self.offer.provider.timeouts.idle_ms),
            drain: self.drain_time(),
            renew_at: Instant::now() + RENEW_EVERY,
            ended_as: None,
        };
        while !self.advance(&mut passage, &mut response).await {}
        // The provider's connection is not needed any more, and must not be kept open by what follows.
        drop(response);
        let end = self.end_of(&mut passage, status).await;
        self.close(&passage.meter.tally, end).await;
        // Only now does the client's stream end: what it has read is in the books.
        drop(passage.client);
    }

    /// Does the next step; says whether it was the last.
    async fn advance(&self, passage: &mut Passage, response: &mut reqwest::Response) -> bool {
        let step = next_step(passage, response, &self.gateway.cut).await;
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
                let now = self.gateway.clock.for_engine();
                if let Err(error) = self.gateway.limiter.renew(&self.hold, now).await {
                    tracing::warn!(request_id = %self.offer.request.id, %error, "a hold is not renewed");
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
        if error.is_some() && passage.client.is_some() {
            match meter.epitaph(self.offer.request.id) {
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
    passage: &Passage,
    response: &mut reqwest::Response,
    cut: &tokio_util::sync::CancellationToken,
) -> Step {
    let left = async {
        match &passage.client {
            Some(client) => client.closed().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        () = left => Step::ClientLeft,
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
        self.client = None;
        if !self.meter.terminal && self.ended_as.is_none() {
            self.ended_as = Some(Outcome::ClientDisconnected);
        }
        self.deadline = self.deadline.min(Instant::now() + self.drain);
    }

    /// Gives frames to the client; one that does not read for too long counts as gone.
    async fn send(&mut self, frames: Vec<Bytes>) {
        for frame in frames {
            let Some(client) = &self.client else { return };
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

    /// Breaks the client's connection.
    async fn break_off(&mut self) {
        if let Some(client) = &self.client {
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
