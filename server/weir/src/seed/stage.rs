//! The rows that the history refers to, as they are after they were made.

use domain::admission::Meter;
use domain::id::{KeyId, ProviderId, TeamId, TenantId};
use domain::plan::Plan;
use domain::rate_card::RateCard;
use domain::window::{UnixMs, Zone};

use super::cast::CastTenant;
use super::price_list::ListedModel;

/// All of them.
#[derive(Debug)]
pub(crate) struct Stage {
    /// The models that can be called.
    pub(crate) offers: Vec<Offer>,
    /// The tenants, in the order of the cast.
    pub(crate) tenants: Vec<StagedTenant>,
}

/// A model, who serves it, and what it costs.
#[derive(Debug)]
pub(crate) struct Offer {
    pub(crate) provider: ProviderId,
    pub(crate) model: ListedModel,
    /// Its prices and from when each holds, oldest first.
    pub(crate) cards: Vec<(UnixMs, RateCard)>,
}

/// A tenant.
#[derive(Debug)]
pub(crate) struct StagedTenant {
    pub(crate) id: TenantId,
    /// Which of the cast it is.
    pub(crate) number: u64,
    pub(crate) cast: &'static CastTenant,
    pub(crate) plan: Plan,
    pub(crate) zone: Zone,
    pub(crate) keys: Vec<StagedKey>,
}

/// A key.
#[derive(Debug)]
pub(crate) struct StagedKey {
    pub(crate) id: KeyId,
    pub(crate) team: Option<TeamId>,
    /// Every limit that applies to its calls: its own, the team's, the tenant's.
    pub(crate) meters: Vec<Meter>,
}

impl Stage {
    /// The offer of a model.
    pub(crate) fn offer(&self, model: &str) -> Option<&Offer> {
        self.offers.iter().find(|offer| offer.model.name == model)
    }
}

impl Offer {
    /// The prices in force at `at`.
    pub(crate) fn card(&self, at: UnixMs) -> Option<&RateCard> {
        let in_force = self.cards.iter().rev().find(|(from, _)| *from <= at);
        in_force.map(|(_, card)| card)
    }
}

#[cfg(test)]
pub(crate) mod rehearsal {
    //! A stage without a database.

    use domain::admission::Scope;
    use domain::id::{PlanId, PriceId};
    use domain::plan::LimitRule;

    use super::super::cast::{CAST, scale_plan};
    use super::super::price_list;
    use super::*;

    /// Rows as a database would have made them, for a history that begins at `start`.
    pub(crate) fn stage(start: UnixMs) -> Stage {
        let mut price_id = 0;
        let offers = price_list::models(start).unwrap().into_iter().map(|model| {
            let cards = model.prices.iter().map(|price| {
                price_id += 1;
                let card = RateCard {
                    price_id: PriceId(price_id),
                    prices: price.prices.clone(),
                    long_context: price.long_context.clone(),
                };
                (price.effective_from, card)
            });
            Offer { provider: ProviderId(1), cards: cards.collect(), model }
        });
        let offers = offers.collect();
        let tenants = CAST.iter().enumerate().map(|(at, cast)| tenant(at, cast)).collect();
        Stage { offers, tenants }
    }

    fn plan(name: &str) -> Plan {
        let plans = tenants::plan::defaults().unwrap().into_iter().chain([scale_plan()]);
        let (at, new) = plans.enumerate().find(|(_, plan)| plan.name == name).unwrap();
        Plan {
            id: PlanId(i64::try_from(at).unwrap()),
            name: new.name,
            version: 1,
            rules: new.rules,
            models: new.models,
            markup_bps: new.markup_bps,
            default_max_output_tokens: new.default_max_output_tokens,
            max_output_tokens: new.max_output_tokens,
            deny_mode: new.deny_mode,
            request_fee: new.request_fee,
            terms: new.terms,
        }
    }

    fn tenant(at: usize, cast: &'static CastTenant) -> StagedTenant {
        let id = i64::try_from(at).unwrap() + 1;
        let plan = plan(cast.plan);
        let meters = |scope, scope_id, rules: Vec<LimitRule>| {
            rules.into_iter().map(move |rule| Meter { scope, scope_id, rule })
        };
        let keys = cast.keys.iter().enumerate().map(|(nth, key)| {
            let key_id = id * 10 + i64::try_from(nth).unwrap();
            let team = key.team.map(|team| id * 10 + i64::try_from(team).unwrap());
            let team_rules = key.team.map(|team| cast.teams[team].rules()).unwrap_or_default();
            let all = meters(Scope::Key, key_id, key.rules())
                .chain(meters(Scope::Team, team.unwrap_or(0), team_rules))
                .chain(meters(Scope::Tenant, id, plan.rules.clone()));
            StagedKey { id: KeyId(key_id), team: team.map(TeamId), meters: all.collect() }
        });
        StagedTenant {
            id: TenantId(id),
            number: u64::try_from(at).unwrap(),
            cast,
            keys: keys.collect(),
            plan,
            zone: Zone::named(cast.zone).unwrap(),
        }
    }
}
