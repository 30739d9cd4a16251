//! Random histories of one tenant, put to the engine and to the model: they must say the same at every step.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicI64, Ordering};

use domain::admission::{Decision, Estimate};
use domain::id::{RequestId, TenantId};
use domain::money::Nanos;
use domain::plan::{LimitRule, Metric};
use domain::window::{RollingWindow, UnixMs, Zone};
use ledger::balance::{Movement, adjustment};
use limiter::{Actual, Admission, Ask, Hold, Verdict};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::fixture::{House, Kind, NOON, bucket, event, fresh_id, month, of_tenant};
use crate::model::{Model, ModelHold};

/// How many histories each engine walks; `WEIR_TEST_HISTORIES` says another number, as the slow suite does.
const HISTORIES: u32 = 170;
/// How long an expired hold is remembered by Redis: nobody settles later than that.
const REMEMBERED_MS: i64 = 31 * 24 * 3_600_000;
/// How many steps a history has at most.
const STEPS: usize = 40;

#[derive(Debug, Clone)]
enum Step {
    Ask { tokens: i64, charge: i64 },
    AskAgain { which: usize },
    Finish { which: usize, tokens: i64, charge: i64 },
    FinishTwice { which: usize },
    Write { which: usize, tokens: i64, charge: i64 },
    Release { which: usize },
    Renew { which: usize },
    Wait { ms: i64 },
    Reap,
    PayIn { amount: i64 },
    ChangePlan { plan: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let wait = prop_oneof![
        4 => 0_i64..3_000,
        3 => 0_i64..600_000,
        2 => 0_i64..7_200_000,
        1 => 0_i64..30 * 24 * 3_600_000,
        // The clock of another server can be behind.
        1 => -5_000_i64..0,
    ];
    prop_oneof![
        8 => (0_i64..600, 0_i64..400).prop_map(|(tokens, charge)| Step::Ask { tokens, charge }),
        1 => (0_usize..99).prop_map(|which| Step::AskAgain { which }),
        4 => (0_usize..99, 0_i64..900, 0_i64..500)
            .prop_map(|(which, tokens, charge)| Step::Finish { which, tokens, charge }),
        1 => (0_usize..99).prop_map(|which| Step::FinishTwice { which }),
        2 => (0_usize..99, 0_i64..900, 0_i64..500)
            .prop_map(|(which, tokens, charge)| Step::Write { which, tokens, charge }),
        2 => (0_usize..99).prop_map(|which| Step::Release { which }),
        1 => (0_usize..99).prop_map(|which| Step::Renew { which }),
        5 => wait.prop_map(|ms| Step::Wait { ms }),
        1 => Just(Step::Reap),
        2 => (1_i64..2_000).prop_map(|amount| Step::PayIn { amount }),
        1 => (0_usize..3).prop_map(|plan| Step::ChangePlan { plan }),
    ]
}

/// Plans that a tenant may change between: the same counters, other limits.
fn plan(number: usize) -> Vec<LimitRule> {
    let f = [1, 2, 4][number];
    let window = |metric, window, limit| LimitRule::Window { metric, window, limit };
    let all = vec![
        bucket(Metric::Requests, 500 * f, 4 * f),
        bucket(Metric::Tokens, 20_000 * f, 1_500 / f),
        bucket(Metric::Cost, 700 / f, 900 * f),
        window(Metric::Cost, RollingWindow::FiveHours, 1_500 * f),
        window(Metric::Tokens, RollingWindow::Day, 4_000 * f),
        window(Metric::Requests, RollingWindow::Week, 12 * f),
        month(2_500 * f, 500),
        LimitRule::Month {
            metric: Metric::Tokens,
            limit: 5_000 * f,
            overage_bps: 0,
            anchor_day: 31,
        },
        LimitRule::Balance,
        LimitRule::Lease { limit: 3 * f },
    ];
    // The largest plan has no tight rates, so that windows and money bind too.
    if number == 2 { all.into_iter().skip(3).collect() } else { all }
}

/// One history: a tenant of its own in the engine, and a model.
struct Walk<'a> {
    house: &'a House,
    kind: Kind,
    model: Model,
    tenant: TenantId,
    now: UnixMs,
    plan: usize,
    /// Every hold that was ever given.
    holds: Vec<Hold>,
    asks: Vec<Ask>,
    /// What the events say that are in the books.
    written: HashMap<RequestId, (i64, i64)>,
    released: HashSet<RequestId>,
}

impl Walk<'_> {
    fn ask(&self, id: RequestId, tokens: i64, charge: i64) -> Ask {
        Ask {
            request_id: id,
            tenant_id: self.tenant,
            zone: Zone::named("America/Los_Angeles").unwrap(),
            meters: plan(self.plan).into_iter().map(|r| of_tenant(self.tenant.0, r)).collect(),
            estimate: Estimate { tokens, charge: Nanos(charge) },
            now: Some(self.now),
        }
    }

    fn picked(&self, which: usize) -> Option<Hold> {
        (!self.holds.is_empty()).then(|| self.holds[which % self.holds.len()].clone())
    }

    async fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match step {
            Step::Ask { tokens, charge } => {
                self.put(self.ask(fresh_id(), *tokens, *charge)).await?;
            }
            Step::AskAgain { which } if !self.asks.is_empty() => {
                let ask = self.asks[which % self.asks.len()].clone();
                if self.written.contains_key(&ask.request_id) {
                    // A call that is in the books is over: nobody asks for it again.
                    return Ok(());
                }
                self.put(self.ask(ask.request_id, ask.estimate.tokens, ask.estimate.charge.0))
                    .await?;
            }
            Step::Finish { which, tokens, charge } => self.finish(*which, *tokens, *charge).await?,
            Step::FinishTwice { which } => {
                self.finish(*which, 77, 33).await?;
                self.finish(*which, 77, 33).await?;
            }
            // Redis learns of the use when the hold is settled: what happens in between is no step that both can take
            // alike, and has scenarios of its own.
            Step::Write { .. } if self.kind != Kind::Postgres => {}
            Step::Write { which, tokens, charge } => {
                if let Some(hold) =
                    self.picked(*which).filter(|h| !self.released.contains(&h.request_id))
                {
                    self.write(&hold, *tokens, *charge).await;
                }
            }
            Step::Release { which } => {
                // What is in the books is settled, never released.
                let hold = self.picked(*which);
                if let Some(hold) = hold.filter(|h| !self.written.contains_key(&h.request_id)) {
                    self.house.engine.release(&hold, Some(self.now)).await.unwrap();
                    self.model.end(hold.request_id, None, self.now);
                    self.released.insert(hold.request_id);
                }
            }
            Step::Renew { which } => {
                if let Some(hold) = self.picked(*which) {
                    let until = self.house.engine.renew(&hold, Some(self.now)).await.unwrap();
                    prop_assert_eq!(until, self.model.renew(hold.request_id, self.now));
                }
            }
            Step::Wait { ms } => self.now = self.now.plus_ms(*ms),
            Step::Reap => {
                self.house.engine.reap(Some(self.now)).await.unwrap();
                self.model.expire(None, usize::MAX, self.now);
            }
            Step::PayIn { amount } => {
                let paid = Movement {
                    tenant_id: self.tenant,
                    amount: Nanos(*amount),
                    actor: "walk",
                    reason: "walk",
                };
                adjustment(&self.house.db.pool, paid).await.unwrap();
                self.house.engine.credit_changed(self.tenant).await;
                self.model.balance += amount;
            }
            Step::ChangePlan { plan } => self.plan = *plan,
            Step::AskAgain { .. } => {}
        }
        self.compare().await
    }

    async fn put(&mut self, ask: Ask) -> Result<(), TestCaseError> {
        let verdict = self.house.engine.admit(&ask).await.unwrap();
        let decision = self.model.admit(&ask, self.now);
        match (&verdict, &decision) {
            (Verdict::Admit(hold), Decision::Admit(takes)) => {
                let own = &self.model.holds[&ask.request_id];
                let known = ModelHold {
                    takes: hold.takes.clone(),
                    admitted_at: hold.admitted_at,
                    expires_at: hold.expires_at,
                };
                prop_assert_eq!(&known, own);
                prop_assert_eq!(&hold.takes, takes);
                self.released.remove(&hold.request_id);
                self.holds.retain(|old| old.request_id != hold.request_id);
                self.holds.push(hold.clone());
            }
            (Verdict::Refuse(found), Decision::Refuse(expected)) => {
                prop_assert_eq!(found, expected);
            }
            _ => prop_assert!(false, "the engine: {verdict:?}, the model: {decision:?}"),
        }
        self.asks.push(ask);
        Ok(())
    }

    /// Writes the event of a call; what was written before stays as it is.
    async fn write(&mut self, hold: &Hold, tokens: i64, charge: i64) {
        let appended = self.house.ledger.append(event(hold, tokens, charge)).await.unwrap();
        if appended == ledger::Appended::Fresh {
            let (takes, admitted_at) = (hold.takes.clone(), hold.admitted_at);
            let known = ModelHold { takes, admitted_at, expires_at: hold.expires_at };
            self.model.book(hold.request_id, &known, tokens, charge);
            self.written.insert(hold.request_id, (tokens, charge));
        }
    }

    async fn finish(
        &mut self,
        which: usize,
        tokens: i64,
        charge: i64,
    ) -> Result<(), TestCaseError> {
        let Some(hold) = self.picked(which) else { return Ok(()) };
        if self.released.contains(&hold.request_id) {
            // Nothing was used: there is no event and nothing to settle.
            return Ok(());
        }
        if self.now.since_ms(hold.expires_at) >= REMEMBERED_MS {
            return Ok(());
        }
        self.write(&hold, tokens, charge).await;
        // A call is settled with what its event says.
        let (tokens, charge) = self.written[&hold.request_id];
        let actual = Actual { tokens, charge: Nanos(charge) };
        self.house.engine.settle(&hold, &actual, Some(self.now)).await.unwrap();
        self.model.end(hold.request_id, Some((tokens, charge)), self.now);
        Ok(())
    }

    async fn compare(&self) -> Result<(), TestCaseError> {
        let ask = self.ask(fresh_id(), 1, 1);
        let found = self.house.readings(&ask, self.now).await;
        let expected = self.model.readings(&ask, self.now);
        for (found, expected) in found.iter().zip(&expected) {
            prop_assert_eq!(found, expected);
        }
        prop_assert_eq!(found.len(), expected.len());
        Ok(())
    }
}

#[test]
fn postgres_says_what_the_model_says_at_every_step_of_every_history() {
    walk_on(Kind::Postgres);
}

#[test]
fn redis_says_what_the_model_says_at_every_step_of_every_history() {
    walk_on(Kind::Redis);
}

#[test]
fn a_cluster_says_what_the_model_says_at_every_step_of_every_history() {
    walk_on(Kind::Cluster);
}

#[expect(clippy::disallowed_methods, reason = "tests have no configuration but their environment")]
fn histories() -> u32 {
    std::env::var("WEIR_TEST_HISTORIES").ok().and_then(|n| n.parse().ok()).unwrap_or(HISTORIES)
}

fn walk_on(kind: Kind) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let house = runtime.block_on(House::on(kind));
    let tenants = AtomicI64::new(1);
    let tally = [const { AtomicI64::new(0) }; 4];
    let config = Config { cases: histories(), failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new(config);
    let histories = (proptest::collection::vec(step(), 1..STEPS), 0_usize..3);
    let outcome = runner.run(&histories, |(steps, plan)| {
        runtime.block_on(async {
            let tenant = TenantId(tenants.fetch_add(1, Ordering::Relaxed));
            let model = Model::default();
            let (holds, asks) = (Vec::new(), Vec::new());
            let (written, released) = (HashMap::new(), HashSet::new());
            let mut walk = Walk {
                house: &house,
                kind,
                model,
                tenant,
                now: NOON,
                plan,
                holds,
                asks,
                written,
                released,
            };
            for step in &steps {
                walk.step(step).await?;
            }
            let refused = walk.asks.len().saturating_sub(walk.holds.len());
            let model = (walk.model.expired, walk.model.settled_before_refusal);
            for (sum, count) in tally.iter().zip([walk.asks.len(), refused, model.0, model.1]) {
                sum.fetch_add(i64::try_from(count).unwrap(), Ordering::Relaxed);
            }
            Ok(())
        })
    });
    if let Err(failure) = outcome {
        panic!("{failure}\n{runner}");
    }
    // A walk that admits all, refuses all or never lets a hold expire compares nothing.
    let [verdicts, refusals, expired, written] = tally.map(AtomicI64::into_inner);
    let counts =
        format!("{verdicts} verdicts, {refusals} refusals, {expired} expired, {written} written");
    assert_eq!(written > 0, kind == Kind::Postgres, "{counts}");
    assert!(verdicts > refusals * 5 / 4 && refusals > 50 && expired > 10, "{counts}");
}
