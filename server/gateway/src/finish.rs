//! The end of a call: every way in which it can end comes through here, and leaves one event and no hold.

mod stream;
mod whole;

use std::time::Duration;

use domain::usage::Outcome;
use domain::window::UnixMs;
use ledger::{AlertRule, Attempt, Booking, UsageEvent};
use limiter::{Actual, Hold};
use tenants::catalog::OnDisconnect;
use tokio::time::Instant;

use crate::Gateway;
use crate::bill::{self, Bill, Facts};
use crate::call::{Answer, Offer};
use crate::dialect::Tally;
use crate::error::{CallError, FailureKind, UpstreamFailure};
use crate::reply::provider_request_id;
use crate::upstream::{self, millis};

/// The marks of a month's budget that are worth an alert, in percent.
const ALERT_PERCENT: [i64; 2] = [80, 100];

/// A call that has been admitted. It holds the tenant's money, and is used up by one of its ends.
pub(crate) struct Finish {
    gateway: Gateway,
    offer: Offer,
    hold: Hold,
    /// When the request went upstream.
    started: Instant,
    first_byte: Option<Duration>,
    provider_request_id: Option<String>,
    upstream_status: Option<u16>,
}

/// How a call ended.
struct End {
    outcome: Outcome,
    /// What the client got; nothing when it had left.
    http_status: Option<u16>,
    error: Option<String>,
}

impl Finish {
    pub(crate) fn new(gateway: Gateway, offer: Offer, hold: Hold) -> Self {
        Self {
            gateway,
            offer,
            hold,
            started: Instant::now(),
            first_byte: None,
            provider_request_id: None,
            upstream_status: None,
        }
    }

    /// Sends the request upstream. Nothing when the client left, or Weir was stopped, before the answer began,
    /// and the time for reading on is over.
    pub(crate) async fn forward(
        &self,
        answer: &mut Answer,
    ) -> Option<Result<reqwest::Response, UpstreamFailure>> {
        let offer = &self.offer;
        let sending = self.gateway.upstream.send(
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
                () = self.gateway.cut.cancelled() => return None,
                () = answer.closed(), if patience.is_none() => {
                    patience = Some(Instant::now() + self.drain_time());
                }
            }
        }
    }

    /// How long the provider is read on for a client that has left.
    fn drain_time(&self) -> Duration {
        match self.offer.provider.on_disconnect {
            OnDisconnect::Drain => millis(self.offer.provider.timeouts.drain_ms),
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
        if self.offer.asked.stream && (self.is_array_stream() || !is_json_object) {
            self.relay_stream(response, answer).await;
        } else {
            self.relay_whole(response, answer).await;
        }
    }

    fn is_array_stream(&self) -> bool {
        matches!(self.offer.request.route, crate::Route::GeminiStream { sse: false, .. })
    }

    /// Remembers what the head of the provider's answer says.
    fn note_head(&mut self, response: &reqwest::Response) {
        self.first_byte = Some(self.started.elapsed());
        self.upstream_status = Some(response.status().as_u16());
        self.provider_request_id = provider_request_id(response.headers());
    }

    /// Ends a call whose provider answered with an error.
    pub(crate) async fn rejected(mut self, response: reqwest::Response, answer: Answer) {
        self.note_head(&response);
        let failure = upstream::failure(response, &self.offer.provider).await;
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
        let tally = Tally::new(self.offer.request.route.dialect());
        self.close(&tally, end).await;
        // The client may have left meanwhile: the event is written all the same.
        let _ = answer.send(Err(CallError::Upstream(failure)));
    }

    /// Ends a call that nobody waited for until its answer began.
    pub(crate) async fn abandoned(self) {
        let outcome = self.unfinished();
        let tally = Tally::new(self.offer.request.route.dialect());
        self.close(&tally, End { outcome, http_status: None, error: None }).await;
    }

    /// Why a call ends that neither the provider nor an error has ended.
    fn unfinished(&self) -> Outcome {
        if self.gateway.cut.is_cancelled() {
            Outcome::Interrupted
        } else {
            Outcome::ClientDisconnected
        }
    }

    /// Truth first: the event is appended, then the hold is settled. Returns the bill.
    async fn close(&self, tally: &Tally, end: End) -> Bill {
        let bill = self.bill(tally, end.outcome);
        let event = self.event(&bill, tally, end);
        let actual = Actual { tokens: bill.usage.total(), charge: bill.charge };
        count(&event);
        let request_id = self.offer.request.id;
        if let Err(error) = self.gateway.ledger.append(event).await {
            // The hold stays: it covers what could not be written until it expires.
            tracing::error!(%request_id, %error, "the event is not written");
            return bill;
        }
        let now = self.gateway.clock.for_engine();
        if let Err(error) = self.gateway.limiter.settle(&self.hold, &actual, now).await {
            tracing::warn!(%request_id, %error, "the hold is not settled and will expire");
        }
        bill
    }

    fn bill(&self, tally: &Tally, outcome: Outcome) -> Bill {
        let offer = &self.offer;
        let snapshot = self.gateway.directory.snapshot();
        let at = self.hold.admitted_at;
        // The model that ran prices the call when it has prices of its own; else the one that was asked for, at
        // the price in force when the call was admitted.
        let served = tally.served_model().filter(|name| *name != offer.upstream_model);
        let card = served
            .and_then(|name| snapshot.model(name)?.rate_card(at))
            .or_else(|| offer.model.rate_card(at))
            .unwrap_or(&offer.card);
        let facts = Facts {
            size: &offer.size,
            context_tokens: offer.model.context_tokens,
            output_bound: offer.output_bound,
            card,
            markup_bps: offer.tenant.plan.markup_bps,
            hold: self.hold.charge,
        };
        bill::make_out(&facts, tally, outcome)
    }

    fn event(&self, bill: &Bill, tally: &Tally, end: End) -> UsageEvent {
        let offer = &self.offer;
        let ended_at = self.gateway.clock.now().max(self.hold.admitted_at);
        UsageEvent {
            request_id: offer.request.id,
            tenant_id: offer.tenant.tenant.id,
            team_id: offer.tenant.team.as_ref().map(|team| team.id),
            key_id: offer.tenant.key.id,
            plan_id: offer.tenant.plan.id,
            provider_id: offer.provider.id,
            dialect: offer.request.route.dialect(),
            route: offer.request.route.code().to_owned(),
            model: offer.asked.model.clone(),
            served_model: tally.served_model().map(ToOwned::to_owned),
            price_id: bill.price_id,
            stream: offer.asked.stream,
            admitted_at: self.hold.admitted_at,
            ended_at,
            first_byte_ms: self.first_byte.map(whole_ms),
            duration_ms: whole_ms(self.started.elapsed()),
            outcome: end.outcome,
            http_status: end.http_status,
            usage_source: bill.source,
            anomaly: bill.anomaly.clone(),
            usage: bill.usage,
            cost: bill.cost,
            charge: bill.charge,
            hold: self.hold.charge,
            client_request_id: offer.request.client_request_id.clone(),
            provider_request_id: self.provider_request_id.clone(),
            attempts: vec![self.attempt(end.error, ended_at)],
            bookings: self.bookings(bill),
            drift: bill.drift.clone(),
        }
    }

    fn attempt(&self, error: Option<String>, ended_at: UnixMs) -> Attempt {
        let duration_ms = whole_ms(self.started.elapsed());
        Attempt {
            attempt: 1,
            provider_id: self.offer.provider.id,
            model: self.offer.upstream_model.clone(),
            status: self.upstream_status,
            duration_ms,
            error,
            started_at: ended_at.plus_ms(-i64::from(duration_ms)),
        }
    }

    /// What the event adds to the meters; the month's budget with its alert marks.
    fn bookings(&self, bill: &Bill) -> Vec<Booking> {
        let mut bookings = self.hold.bookings(bill.usage.total(), bill.charge);
        if let Some((limit, _)) = self.offer.tenant.plan.month_cap() {
            for booking in &mut bookings {
                if booking.meter == "month_cost" && booking.alert.is_none() {
                    let thresholds_percent = ALERT_PERCENT.to_vec();
                    booking.alert = Some(AlertRule { limit: limit.0, thresholds_percent });
                }
            }
        }
        bookings
    }
}

fn whole_ms(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap_or(i32::MAX)
}

fn count(event: &UsageEvent) {
    let labels = [("dialect", event.dialect.code()), ("outcome", event.outcome.code())];
    metrics::counter!("weir_calls_total", &labels).increment(1);
}
