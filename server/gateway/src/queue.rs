//! Calls that wait for a limit instead of being refused.
//!
//! Two kinds of calls wait. A plan with deny mode `wait` lets its calls wait for the tenant's, the team's or the key's
//! own limits, up to the plan's time. And every call waits a moment when the refusal is of the operator's quota at a
//! provider: that is nobody's fault, and without order the loudest tenant would have it all.
//!
//! For each limit's owner there is a line. One call of a line has the turn and asks the engine again when the refusal
//! said it may; the others wait for the turn, and calls that come later stand behind them. The order is that of
//! [`line`]. Nothing waits for money that is spent, and for nothing that would outlast its patience. The lines are
//! those of one process: between processes the engine decides, who asks first.

mod line;

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::admission::{Estimate, Reason, Refusal, Scope};
use domain::id::TenantId;
use domain::plan::{DenyMode, MAX_WAIT_MS, Plan};
use limiter::{Hold, Verdict};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use self::line::{Line, Ticket};

/// The most calls of one tenant that wait: a second of a brisk rate, and what comes beyond has no hope in time.
const MAX_WAITING_PER_TENANT: usize = 64;
/// The most calls that wait in all.
const MAX_WAITING: usize = 1_024;
/// The most bytes of request bodies that wait in all: bodies may have 20 MiB, and waiting must not fill the memory.
const MAX_WAITING_BYTES: usize = 256 * 1024 * 1024;
/// How long a call of a plan that does not wait still does so for a provider's quota: long enough for an order to
/// matter, short enough to be no more than a slow answer.
const PROVIDER_PATIENCE: Duration = Duration::from_millis(1_000);
/// How often a place among running calls is asked for: nobody knows when one ends.
const LEASE_PAUSE: Duration = Duration::from_millis(50);
/// The shortest pause between two asks of one line: the grain of the timer.
const MIN_PAUSE: Duration = Duration::from_millis(1);

/// Whose limit a line waits for.
type Owner = (Scope, i64);

/// A call on its way to admission.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) tenant: TenantId,
    /// Everybody whose limits apply to it: its key, team, tenant and provider.
    pub(crate) owners: [Owner; 4],
    pub(crate) estimate: Estimate,
    /// Its share beside other tenants.
    pub(crate) weight: i64,
    /// How long it waits for limits of its own.
    pub(crate) own_patience: Duration,
    /// What it keeps in memory while it waits.
    pub(crate) bytes: usize,
}

impl Caller {
    /// How long a plan lets its calls wait for limits of their own.
    pub(crate) fn patience_of(plan: &Plan) -> Duration {
        match plan.deny_mode {
            DenyMode::Reject | DenyMode::RejectBare => Duration::ZERO,
            DenyMode::Wait => {
                let ms = plan.terms.max_wait_ms.clamp(0, MAX_WAIT_MS);
                Duration::from_millis(ms.unsigned_abs())
            }
        }
    }

    fn patience(&self, scope: Scope) -> Duration {
        match scope {
            Scope::Tenant | Scope::Team | Scope::Key => self.own_patience,
            Scope::Provider if self.own_patience.is_zero() => PROVIDER_PATIENCE,
            Scope::Provider => self.own_patience,
        }
    }
}

/// What became of a call.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It may pass.
    Admitted(Hold),
    /// It may not, whether it waited or not.
    Refused(Refusal),
    /// It left before there was a verdict.
    Gone,
}

/// The lines of this process.
#[derive(Debug, Default)]
pub(crate) struct Queue(Mutex<Lines>);

#[derive(Debug, Default)]
struct Lines {
    lines: HashMap<Owner, Line>,
    by_tenant: HashMap<TenantId, usize>,
    waiting: usize,
    bytes: usize,
    next: Ticket,
}

impl Lines {
    fn has_room_for(&self, caller: &Caller) -> bool {
        let of_tenant = self.by_tenant.get(&caller.tenant).copied().unwrap_or(0);
        of_tenant < MAX_WAITING_PER_TENANT
            && self.waiting < MAX_WAITING
            && self.bytes.saturating_add(caller.bytes) <= MAX_WAITING_BYTES
    }
}

/// What a call finds that has not asked yet.
enum Found<'q> {
    /// Nobody waits for a limit of its.
    Free,
    /// Others do: it stands behind them.
    Behind(Place<'q>),
    /// Others do, and there is no room behind them.
    Full(Refusal),
}

/// What ended a wait for the turn.
enum Waited {
    Turn,
    TooLong,
    Gone,
}

impl Queue {
    /// Asks for admission, and again while that may help. `gone` ends the wait without a verdict.
    pub(crate) async fn admit<F, E>(
        &self,
        caller: &Caller,
        mut ask: impl FnMut() -> F,
        gone: impl Future<Output = ()>,
    ) -> Result<Outcome, E>
    where
        F: Future<Output = Result<Verdict, E>>,
    {
        let mut gone = std::pin::pin!(gone);
        let began = Instant::now();
        let mut place = match self.look(caller) {
            Found::Free => None,
            Found::Behind(place) => Some(place),
            Found::Full(refusal) => return Ok(waited("full", refusal)),
        };
        loop {
            if let Some(place) = &place {
                let until = began + caller.patience(place.owner.0);
                match place.wait_for_turn(until, gone.as_mut()).await {
                    Waited::Turn => {}
                    Waited::TooLong => return Ok(waited("too_long", place.refusal())),
                    Waited::Gone => return Ok(Outcome::Gone),
                }
            }
            let refusal = match ask().await? {
                Verdict::Admit(hold) => {
                    if let Some(place) = place {
                        count("passed");
                        drop(place.used());
                    }
                    return Ok(Outcome::Admitted(hold));
                }
                Verdict::Refuse(refusal) => refusal,
            };
            let until = match again(&refusal, began, caller.patience(refusal.scope)) {
                Again::At(until) => until,
                Again::TooLate => return Ok(ended(place, "too_late", refusal)),
                // A turn that could lead to nothing is used up: else a tenant that cannot pass would keep it.
                Again::Never => {
                    return Ok(ended(place.map(Place::used), "in_vain", refusal));
                }
            };
            place = match self.stand(caller, &refusal, place) {
                Some(place) => Some(place),
                None => return Ok(waited("full", refusal)),
            };
            if place.as_ref().is_some_and(Place::has_turn) {
                tokio::select! {
                    biased;
                    () = gone.as_mut() => return Ok(Outcome::Gone),
                    () = sleep_until(until) => {}
                }
            }
        }
    }

    /// Whether calls wait already for a limit that applies to this one: nobody overtakes them.
    fn look(&self, caller: &Caller) -> Found<'_> {
        let mut lines = self.lock();
        let taken = caller.owners.iter().find_map(|owner| {
            let line = lines.lines.get(owner).filter(|_| !caller.patience(owner.0).is_zero())?;
            Some((*owner, line.refusal(&caller.estimate)))
        });
        match taken {
            None => Found::Free,
            Some((owner, refusal)) if lines.has_room_for(caller) => {
                Found::Behind(self.join(&mut lines, caller, owner, &refusal))
            }
            Some((_, refusal)) => Found::Full(refusal),
        }
    }

    /// Puts a refused call into the line of the limit that refused it, if it is not there already and there is room.
    fn stand<'q>(
        &'q self,
        caller: &Caller,
        refusal: &Refusal,
        place: Option<Place<'q>>,
    ) -> Option<Place<'q>> {
        let owner = (refusal.scope, refusal.scope_id);
        if let Some(place) = place {
            if place.owner == owner {
                if let Some(line) = self.lock().lines.get_mut(&owner) {
                    line.note(refusal);
                }
                return Some(place);
            }
            // Another limit stood in the way than the one that this line waits for: its turn here is used up.
            drop(place.used());
        }
        let mut lines = self.lock();
        lines.has_room_for(caller).then(|| self.join(&mut lines, caller, owner, refusal))
    }

    fn join(
        &self,
        lines: &mut Lines,
        caller: &Caller,
        owner: Owner,
        refusal: &Refusal,
    ) -> Place<'_> {
        let ticket = lines.next;
        lines.next = ticket.wrapping_add(1);
        lines.waiting += 1;
        lines.bytes = lines.bytes.saturating_add(caller.bytes);
        *lines.by_tenant.entry(caller.tenant).or_insert(0) += 1;
        metrics::gauge!("weir_waiting_calls").increment(1);
        let line = lines.lines.entry(owner).or_insert_with(|| Line::behind(refusal.clone()));
        line.note(refusal);
        Place {
            wake: line.join(caller.tenant, caller.weight, ticket),
            queue: self,
            owner,
            tenant: caller.tenant,
            ticket,
            estimate: caller.estimate,
            bytes: caller.bytes,
            told: refusal.clone(),
            is_used: false,
        }
    }

    /// The map is whole after every statement, so a panic elsewhere cannot have broken it.
    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether to ask again after a refusal.
enum Again {
    At(Instant),
    /// It would help, but not in the time that is left.
    TooLate,
    /// It would not help, or not in all the time that the call would wait.
    Never,
}

fn again(refusal: &Refusal, began: Instant, patience: Duration) -> Again {
    let pause = match refusal.reason {
        Reason::RateLimited | Reason::TokenRateLimited | Reason::WindowExhausted => {
            refusal.retry_after_ms.map(|ms| Duration::from_millis(ms.unsigned_abs()))
        }
        Reason::ConcurrencyExhausted => Some(LEASE_PAUSE),
        Reason::BudgetExhausted | Reason::BalanceExhausted | Reason::ExceedsCapacity => None,
    };
    match pause.map(|pause| pause.max(MIN_PAUSE)).filter(|pause| *pause <= patience) {
        None => Again::Never,
        Some(pause) => {
            let at = Instant::now() + pause;
            if at <= began + patience { Again::At(at) } else { Again::TooLate }
        }
    }
}

/// A refusal of a call that may have waited.
fn ended(place: Option<Place<'_>>, how: &'static str, refusal: Refusal) -> Outcome {
    if place.is_some() { waited(how, refusal) } else { Outcome::Refused(refusal) }
}

fn waited(how: &'static str, refusal: Refusal) -> Outcome {
    count(how);
    Outcome::Refused(refusal)
}

/// Counts the ends of waits.
fn count(how: &'static str) {
    metrics::counter!("weir_waits_total", "end" => how).increment(1);
}

/// A place in a line, given up when it is dropped.
#[derive(Debug)]
struct Place<'q> {
    queue: &'q Queue,
    owner: Owner,
    tenant: TenantId,
    ticket: Ticket,
    estimate: Estimate,
    bytes: usize,
    wake: Arc<Notify>,
    /// What it was told when it joined.
    told: Refusal,
    /// Whether its turn was used: then it counts as its tenant's service.
    is_used: bool,
}

impl Place<'_> {
    async fn wait_for_turn(
        &self,
        until: Instant,
        gone: Pin<&mut impl Future<Output = ()>>,
    ) -> Waited {
        if self.has_turn() {
            return Waited::Turn;
        }
        tokio::select! {
            biased;
            () = gone => Waited::Gone,
            () = self.wake.notified() => Waited::Turn,
            () = sleep_until(until) => Waited::TooLong,
        }
    }

    fn has_turn(&self) -> bool {
        let lines = self.queue.lock();
        lines.lines.get(&self.owner).is_some_and(|line| line.has_turn(self.ticket))
    }

    /// What the line's limit said last, for this call.
    fn refusal(&self) -> Refusal {
        let lines = self.queue.lock();
        let line = lines.lines.get(&self.owner);
        line.map_or_else(|| self.told.clone(), |line| line.refusal(&self.estimate))
    }

    /// The same place, whose turn has been used.
    fn used(mut self) -> Self {
        self.is_used = true;
        self
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut lines = self.queue.lock();
        lines.waiting = lines.waiting.saturating_sub(1);
        lines.bytes = lines.bytes.saturating_sub(self.bytes);
        metrics::gauge!("weir_waiting_calls").decrement(1);
        if let Some(count) = lines.by_tenant.get_mut(&self.tenant) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                lines.by_tenant.remove(&self.tenant);
            }
        }
        if let Some(line) = lines.lines.get_mut(&self.owner) {
            line.leave(self.tenant, self.ticket, self.is_used.then_some(&self.estimate));
            if line.is_empty() {
                lines.lines.remove(&self.owner);
            }
        }
    }
}

#[cfg(test)]
mod tests;
