//! An admitted call: what it holds, how far it has come, and the event that it makes.

use std::time::Duration;

use domain::usage::{Outcome, UsageSource};
use domain::window::UnixMs;
use ledger::{AlertRule, Attempt, Booking, DriftNote, UsageEvent};
use limiter::Hold;
use tokio::time::Instant;

use super::End;
use crate::Gateway;
use crate::bill::{self, Bill, Facts};
use crate::call::Offer;
use crate::dialect::Tally;
use crate::reply::MAX_FOREIGN_ID_CHARS;

/// The marks of a month's budget that are worth an alert, in percent.
const ALERT_PERCENT: [i64; 2] = [80, 100];

/// A call that has been admitted.
pub(crate) struct Admitted {
    pub(super) gateway: Gateway,
    pub(super) offer: Offer,
    pub(super) hold: Hold,
    /// When the request went upstream.
    pub(super) started: Instant,
    pub(super) first_byte: Option<Duration>,
    pub(super) provider_request_id: Option<String>,
    pub(super) upstream_status: Option<u16>,
}

impl Admitted {
    pub(super) fn new(gateway: Gateway, offer: Offer, hold: Hold) -> Self {
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

    /// The event to write if nothing more is heard of the call: its prompt is charged by estimate, never more than is
    /// held, and a note asks a person to look at it.
    pub(super) fn orphan(&self) -> UsageEvent {
        let tally = Tally::new(self.offer.request.route.dialect());
        let mut bill = self.bill(&tally, Outcome::Orphaned);
        bill.charge = bill.charge.min(self.hold.charge);
        bill.drift.push(DriftNote {
            kind: "orphaned".to_owned(),
            meter: None,
            expected: self.hold.charge.0,
            found: bill.charge.0,
            cause: "the process died before the call ended: expected is what was held".to_owned(),
        });
        let error = Some("the gateway died".to_owned());
        self.event(&bill, &tally, End { outcome: Outcome::Orphaned, http_status: None, error })
    }

    pub(super) fn bill(&self, tally: &Tally, outcome: Outcome) -> Bill {
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
        let bill = bill::make_out(&facts, tally, outcome);
        self.learn(&bill);
        bill
    }

    /// Learns how the model makes text into tokens, from a count that is the provider's and is believed.
    fn learn(&self, bill: &Bill) {
        if let (UsageSource::Provider, Some(text_bytes)) =
            (bill.source, self.offer.size.plain_text_bytes())
        {
            let input_tokens = bill.usage.input_tokens();
            self.gateway.calibration.learn(self.offer.model.id, text_bytes, input_tokens);
        }
    }

    pub(super) fn event(&self, bill: &Bill, tally: &Tally, end: End) -> UsageEvent {
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
            served_model: tally.served_model().map(shortened),
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
            client_request_id: offer.request.client_request_id.as_deref().map(shortened),
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

/// Somebody else's name for something, as much of it as is kept: a record has to stay small.
fn shortened(name: &str) -> String {
    name.chars().take(MAX_FOREIGN_ID_CHARS).collect()
}
