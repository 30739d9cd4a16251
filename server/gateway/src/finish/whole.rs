//! An answer that comes in one piece.

use bytes::{Bytes, BytesMut};
use domain::usage::Outcome;
use tokio::time::Instant;

use super::{End, Finish};
use crate::call::Answer;
use crate::dialect::Tally;
use crate::error::{FailureKind, UpstreamFailure};
use crate::reply::{Reply, ReplyBody, passed_on};
use crate::upstream::millis;

/// The largest answer in one piece, in bytes: several pictures in base 64 fit in.
const MAX_ANSWER_BYTES: usize = 64 * 1024 * 1024;

impl Finish {
    /// Reads the answer whole, puts its end on record, and passes it on.
    pub(super) async fn relay_whole(self, mut response: reqwest::Response, mut answer: Answer) {
        let status = response.status().as_u16();
        let headers = passed_on(response.headers());
        let body = match self.read_whole(&mut response, &mut answer).await {
            Ok(Some(body)) => body,
            Ok(None) => return self.abandoned(answer).await,
            Err(failure) => return self.failed(failure, answer).await,
        };
        let mut tally = Tally::new(self.call.offer.request.route.dialect());
        let told = match tally.take(&body) {
            Ok(told) => told,
            Err(_) => {
                let message = "the provider's answer is not JSON";
                let failure = UpstreamFailure::new(FailureKind::BadAnswer, message);
                return self.failed(failure, answer).await;
            }
        };
        if told.failed.is_some() {
            // An error in a 200 costs nothing: there is no answer.
            let message = "the provider answered with an error";
            let failure = UpstreamFailure::new(FailureKind::BadAnswer, message);
            return self.failed(failure, answer).await;
        }
        let outcome = if answer.is_closed() {
            Outcome::ClientDisconnected
        } else if told.blocked {
            Outcome::Blocked
        } else {
            Outcome::Ok
        };
        let http_status = (!answer.is_closed()).then_some(status);
        let bill = self.close(&tally, End { outcome, http_status, error: None }).await;
        let body = ReplyBody::Whole(body);
        // The client may have left meanwhile; it pays for what the provider made.
        let _ = answer.send(Ok(Reply { status, headers, charge: Some(bill.charge), body }));
    }

    /// The body; nothing when the client has left and the time for reading on is over.
    async fn read_whole(
        &self,
        response: &mut reqwest::Response,
        answer: &mut Answer,
    ) -> Result<Option<Bytes>, UpstreamFailure> {
        let provider = &self.call.offer.provider;
        let mut deadline = self.call.started + millis(provider.timeouts.total_ms);
        let mut left = false;
        let mut body = BytesMut::new();
        loop {
            tokio::select! {
                chunk = tokio::time::timeout(millis(provider.timeouts.idle_ms), response.chunk()) => match chunk {
                    Ok(Ok(Some(chunk))) if body.len() + chunk.len() <= MAX_ANSWER_BYTES => {
                        body.extend_from_slice(&chunk);
                    }
                    Ok(Ok(Some(_))) => {
                        let message = "the provider's answer is too large";
                        return Err(UpstreamFailure::new(FailureKind::BadAnswer, message));
                    }
                    Ok(Ok(None)) => return Ok(Some(body.freeze())),
                    Ok(Err(_)) => {
                        let message = "the provider's answer broke off";
                        return Err(UpstreamFailure::new(FailureKind::Unreachable, message));
                    }
                    Err(_) => return Err(too_slow()),
                },
                () = tokio::time::sleep_until(deadline) => {
                    return if left { Ok(None) } else { Err(too_slow()) };
                }
                () = self.call.gateway.cut.cancelled() => return Ok(None),
                () = answer.closed(), if !left => {
                    left = true;
                    deadline = deadline.min(Instant::now() + self.drain_time());
                }
            }
        }
    }
}

fn too_slow() -> UpstreamFailure {
    UpstreamFailure::new(FailureKind::TimedOut, "the provider did not finish its answer in time")
}
