//! The end of a call: every way in which it can end comes through here, and leaves one event and no hold.

mod admitted;
mod stream;
mod whole;

use std::time::Duration;

use domain::usage::Outcome;
use ledger::UsageEvent;
use ledger::spool::{SpoolError, Ticket};
use limiter::Hold;
use serde_json::value::RawValue;
use tenants::catalog::OnDisconnect;
use tokio::time::{Instant, timeout};

use self::admitted::Admitted;
use crate::Gateway;
use crate::bill::Bill;
use crate::booking::Ended;
use crate::call::{Answer, Offer};
use crate::dialect::Tally;
use crate::error::{CallError, FailureKind, UpstreamFailure};
use crate::fail_point::FailPoint;
use crate::reply::provider_request_id;
use crate::upstream::{self, millis};

/// How long a client whose call could not be put on record at its end waits for the books instead.
const BOOKS_WAIT: Duration = Duration::from_secs(30);

/// An admitted call that is on record. It holds the tenant's money, and is used up by one of its ends.
pub(crate) struct Finish {
    call: Admitted,
    /// Without it nothing is forwarded.
    ticket: Ticket,
    /// The hold as it is on record.
    hold: Box<RawValue>,
}

/// How a call ended.
struct End {
    outcome: Outcome,
    /// What the client got; nothing when it had left.
    http_status: Option<u16>,
    error: Option<String>,
}

impl Finish {
    /// Puts an admitted call on record: the only way to a call that can be forwarded. What is held for one that
    /// cannot be put there is given back.
    pub(crate) fn open(gateway: Gateway, offer: Offer, hold: Hold) -> Result<Self, CallError> {
        let call = Admitted::new(gateway, offer, hold);
        match put_on_record(&call) {
            Ok((ticket, hold)) => {
                call.gateway.opened();
                Ok(Self { call, ticket, hold })
            }
            Err(error) => {
                let refused = call.gateway.shut(&error);
                call.gateway.give_back(call.hold);
                Err(refused)
            }
        }
    }

    /// Tells tests where the call is.
    pub(crate) fn reached(&self, point: FailPoint) {
        self.call.gateway.fail_points.reached(point);
    }

    /// Sends the request upstream. Nothing when the client left, or Weir was stopped, before the answer began,
    /// and the time for reading on is over.
    pub(crate) async fn forward(
        &self,
        answer: &mut Answer,
    ) -> Option<Result<reqwest::Response, UpstreamFailure>> {
        let offer = &self.call.offer;
        let sending = self.call.gateway.upstream.send(
            &offer.provider,
            &offer.request.route,
            &offer.upstream_model,
            &offer.request.headers,
            offer.body.clone(),
        );
        tokio::pin!(sending);
        let mut patience = None;
        loop {
            let out_of_patience = async {
                match patience {
                    Some(until) => tokio::time::sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                result = &mut sending => return Some(result),
                () = out_of_patience => return None,
                () = self.call.gateway.cut.cancelled() => return None,
                () = answer.closed(), if patience.is_none() => {
                    patience = Some(Instant::now() + self.drain_time());
                }
            }
        }
    }

    /// How long the provider is read on for a client that has left.
    fn drain_time(&self) -> Duration {
        match self.call.offer.provider.on_disconnect {
            OnDisconnect::Drain => millis(self.call.offer.provider.timeouts.drain_ms),
            OnDisconnect::Abort => Duration::ZERO,
        }
    }

    /// Passes the provider's answer on, and ends the call.
    pub(crate) async fn relay(mut self, response: reqwest::Response, answer: Answer) {
        self.note_head(&response);
        if response.headers().contains_key(http::header::CONTENT_ENCODING) {
            let message = "the provider compressed its answer, which was not asked for";
            return self
                .failed(UpstreamFailure::new(FailureKind::BadAnswer, message), answer)
                .await;
        }
        let is_json_object = response
            .headers()
            .get(http::header::CONTENT_TYPE)
            .is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
        if self.call.offer.asked.stream && (self.is_array_stream() || !is_json_object) {
            self.relay_stream(response, answer).await;
        } else {
            self.relay_whole(response, answer).await;
        }
    }

    fn is_array_stream(&self) -> bool {
        matches!(self.call.offer.request.route, crate::Route::GeminiStream { sse: false, .. })
    }

    /// Remembers what the head of the provider's answer says.
    fn note_head(&mut self, response: &reqwest::Response) {
        self.call.first_byte = Some(self.call.started.elapsed());
        self.call.upstream_status = Some(response.status().as_u16());
        self.call.provider_request_id = provider_request_id(response.headers());
        self.reached(FailPoint::AfterConnect);
    }

    /// Ends a call whose provider answered with an error.
    pub(crate) async fn rejected(mut self, response: reqwest::Response, answer: Answer) {
        self.note_head(&response);
        let failure = upstream::failure(response, &self.call.offer.provider).await;
        self.failed(failure, answer).await;
    }

    /// Ends a call whose provider failed before its answer began.
    pub(crate) async fn failed(self, failure: UpstreamFailure, answer: Answer) {
        let outcome = match failure.kind {
            FailureKind::TimedOut => Outcome::ProviderTimeout,
            FailureKind::Unreachable
            | FailureKind::Credential
            | FailureKind::RateLimited
            | FailureKind::Rejected(_)
            | FailureKind::Failed(_)
            | FailureKind::BadAnswer => Outcome::ProviderError,
        };
        let client_status = (!answer.is_closed()).then(|| failure.kind.client_status());
        let end = End { outcome, http_status: client_status, error: Some(failure.message.clone()) };
        let tally = Tally::new(self.call.offer.request.route.dialect());
        self.close(&tally, end).await;
        // The client may have left meanwhile: the event is written all the same.
        let _ = answer.send(Err(CallError::Upstream(failure)));
    }

    /// Ends a call whose answer did not begin. A client that left pays what its call probably cost. When Weir stops
    /// before that, the tenant got nothing through no doing of its own, and is charged nothing; what it cost is the
    /// house's.
    pub(crate) async fn abandoned(self, answer: Answer) {
        let tally = Tally::new(self.call.offer.request.route.dialect());
        let end = |outcome| End { outcome, http_status: None, error: None };
        if answer.is_closed() {
            self.close(&tally, end(Outcome::ClientDisconnected)).await;
            return;
        }
        let bill = self.call.bill(&tally, Outcome::Interrupted).at_the_houses_cost();
        self.end(bill, &tally, end(Outcome::Interrupted)).await;
        // Dropped without a word, it says that Weir stops.
        drop(answer);
    }

    /// Makes out the bill and ends the call.
    async fn close(self, tally: &Tally, end: End) -> Bill {
        let bill = self.call.bill(tally, end.outcome);
        self.end(bill, tally, end).await
    }

    /// Puts the end of the call on record, so that the client can be let go, and sends its event on its way into the
    /// books. Where the disk does not take the record, the client waits for the books instead.
    async fn end(mut self, bill: Bill, tally: &Tally, end: End) -> Bill {
        let event = self.call.event(&bill, tally, end);
        count(&event);
        let recorded = self.ticket.done(&event, &self.hold, std::time::Instant::now());
        let Admitted { gateway, hold, .. } = self.call;
        let request_id = event.request_id;
        let ended = Ended { event, hold: Some(hold), ticket: Some(self.ticket) };
        let booked = gateway.hand_over(ended);
        if let Err(error) = recorded {
            tracing::error!(%request_id, %error, "the end of a call is not on record");
            if timeout(BOOKS_WAIT, booked).await.is_err() {
                tracing::error!(%request_id, "the event of a call is neither on record nor in the books yet");
            }
        }
        bill
    }
}

fn put_on_record(call: &Admitted) -> Result<(Ticket, Box<RawValue>), SpoolError> {
    let hold = serde_json::value::to_raw_value(&call.hold).map_err(std::io::Error::from)?;
    let ticket = call.gateway.spool.open(&call.orphan(), &hold, std::time::Instant::now())?;
    Ok((ticket, hold))
}

fn count(event: &UsageEvent) {
    let labels = [("dialect", event.dialect.code()), ("outcome", event.outcome.code())];
    metrics::counter!("weir_calls_total", &labels).increment(1);
}
