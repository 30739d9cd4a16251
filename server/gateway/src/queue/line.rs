//! One line of waiting calls: whose turn it is.
//!
//! Calls of one tenant are served in the order in which they came. Between tenants the line is start-time fair
//! queueing: each tenant has a tag, the place where its next call begins on a common scale of service; the lowest
//! tag has the turn, and what a call takes moves its tenant's tag on by its share of the limit, divided by the
//! tenant's weight. Who comes anew begins at the present of the scale, so that idleness saves nothing up.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use domain::admission::{Estimate, Refusal};
use domain::id::TenantId;
use tokio::sync::Notify;

/// The whole of a limit on the scale of service: fine enough for the smallest share that an integer can tell.
const WHOLE: u128 = 1 << 40;

/// Names a waiting call; a later one has a higher number.
pub(super) type Ticket = u64;

/// Calls that wait for the same limit. It lives while one of them does.
#[derive(Debug)]
pub(super) struct Line {
    tenants: HashMap<TenantId, Flow>,
    /// Where the call began that was served last.
    present: u128,
    /// Whose turn it is: that call alone asks the engine.
    turn: Option<Ticket>,
    /// The newest refusal that somebody in the line was told.
    refusal: Refusal,
}

/// The calls of one tenant.
#[derive(Debug)]
struct Flow {
    waiting: VecDeque<(Ticket, Arc<Notify>)>,
    weight: u128,
    /// Where the next call begins, unless the present is beyond it.
    tag: u128,
}

impl Line {
    /// A line of nobody, behind a limit that refused like this.
    pub(super) fn behind(refusal: Refusal) -> Self {
        Self { tenants: HashMap::new(), present: 0, turn: None, refusal }
    }

    /// Takes a call in at the end of its tenant's. It is notified when its turn has come.
    pub(super) fn join(&mut self, tenant: TenantId, weight: i64, ticket: Ticket) -> Arc<Notify> {
        let wake = Arc::new(Notify::new());
        let flow = self.tenants.entry(tenant).or_insert_with(|| Flow {
            waiting: VecDeque::new(),
            weight: 1,
            tag: 0,
        });
        // A plan's weight is at least 1; it may have changed while older calls wait.
        flow.weight = u128::from(weight.unsigned_abs().max(1));
        flow.waiting.push_back((ticket, Arc::clone(&wake)));
        self.give_turn();
        wake
    }

    /// Lets a call go. If it had the turn, the next one has it; what it took there, if it did, is its tenant's.
    pub(super) fn leave(&mut self, tenant: TenantId, ticket: Ticket, took: Option<&Estimate>) {
        let share = took.map(|estimate| self.share(estimate));
        let present = self.present;
        if let Some(flow) = self.tenants.get_mut(&tenant) {
            flow.waiting.retain(|(waiting, _)| *waiting != ticket);
            if let Some(share) = share {
                let began = flow.tag.max(present);
                flow.tag = began.saturating_add((share / flow.weight).max(1));
                self.present = began;
            }
        }
        let present = self.present;
        self.tenants.retain(|_, flow| !flow.waiting.is_empty() || flow.tag > present);
        if self.turn == Some(ticket) {
            self.turn = None;
            self.give_turn();
        }
    }

    /// What part of the limit a call takes, on the scale of service.
    fn share(&self, estimate: &Estimate) -> u128 {
        let wanted = estimate.amount(self.refusal.metric).max(0).unsigned_abs();
        let limit = self.refusal.limit.max(1).unsigned_abs();
        (u128::from(wanted) * WHOLE / u128::from(limit)).clamp(1, WHOLE)
    }

    fn give_turn(&mut self) {
        if self.turn.is_some() {
            return;
        }
        let present = self.present;
        let heads = self.tenants.values().filter_map(|flow| {
            let (ticket, wake) = flow.waiting.front()?;
            Some((flow.tag.max(present), *ticket, wake))
        });
        if let Some((_, ticket, wake)) = heads.min_by_key(|(tag, ticket, _)| (*tag, *ticket)) {
            wake.notify_one();
            self.turn = Some(ticket);
        }
    }

    pub(super) fn has_turn(&self, ticket: Ticket) -> bool {
        self.turn == Some(ticket)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tenants.values().all(|flow| flow.waiting.is_empty())
    }

    /// Keeps the newest refusal, which is told to calls that never had their turn.
    pub(super) fn note(&mut self, refusal: &Refusal) {
        self.refusal.clone_from(refusal);
    }

    /// What a call is told that the line does not help.
    pub(super) fn refusal(&self, estimate: &Estimate) -> Refusal {
        let wanted = estimate.amount(self.refusal.metric);
        Refusal { wanted, ..self.refusal.clone() }
    }
}
