//! The configuration as it was at one instant, in memory.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use domain::admission::{Meter, Scope};
use domain::id::{KeyId, ModelId, PlanId, ProviderId, TeamId, TenantId};
use domain::plan::{LimitRule, Plan};
use domain::rate_card::RateCard;
use domain::usage::Dialect;
use domain::window::UnixMs;
use secrecy::SecretString;

use super::shards::Shards;
use crate::api_key::{KeyHash, KeyStatus};
use crate::catalog::{OnDisconnect, Route, Timeouts};
use crate::limit_override::{Overrides, effective};
use crate::team::Team;
use crate::tenant::Tenant;

/// What a call needs to know of the key it presents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    /// The row.
    pub id: KeyId,
    /// Whose key.
    pub tenant: TenantId,
    /// The team whose limits it is under, if any.
    pub team: Option<TeamId>,
    /// What people call it.
    pub name: Box<str>,
    /// Its own limits.
    pub rules: Box<[LimitRule]>,
    /// Whether it may be used.
    pub status: KeyStatus,
    /// The first instant at which it no longer works.
    pub expires_at: Option<UnixMs>,
    pub(crate) hash: KeyHash,
    pub(crate) old: Option<Box<OldSecret>>,
}

/// The secret before a rotation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OldSecret {
    pub(crate) hash: KeyHash,
    /// The first instant at which it no longer works.
    pub(crate) until: UnixMs,
}

/// What a provider is called with.
#[derive(Clone)]
pub enum Credential {
    /// It needs none.
    None,
    /// This.
    Open(Arc<SecretString>),
    /// There is one, and it does not open with the key-encryption keys that are known: calls cannot go there.
    Shut,
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Open(_) => "[redacted]",
            Self::Shut => "shut",
        })
    }
}

/// Where calls go, ready to be called.
#[derive(Debug, Clone)]
pub struct Upstream {
    /// The row.
    pub id: ProviderId,
    /// Its name for people.
    pub name: String,
    /// The wire it speaks.
    pub dialect: Dialect,
    /// What a request's path is put behind.
    pub base_url: String,
    /// What it is called with.
    pub credential: Credential,
    /// How long it may take.
    pub timeouts: Timeouts,
    /// What happens when the client leaves.
    pub on_disconnect: OnDisconnect,
    /// Whether calls may go there.
    pub enabled: bool,
    /// The operator's own quota there, which all tenants share.
    pub quota: Box<[LimitRule]>,
}

impl Upstream {
    /// The quota as limits of a call that goes there.
    pub fn meters(&self) -> impl Iterator<Item = Meter> {
        let (scope, scope_id) = (Scope::Provider, self.id.0);
        self.quota.iter().map(move |rule| Meter { scope, scope_id, rule: rule.clone() })
    }
}

/// A model that clients may name, with its routes and prices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    /// The row.
    pub id: ModelId,
    /// The name that clients use.
    pub name: String,
    /// What plans allow by.
    pub class: String,
    /// How many tokens it can take in and put out together, where known.
    pub context_tokens: Option<i64>,
    /// How many tokens it can put out, where known.
    pub max_output_tokens: Option<i64>,
    /// Where calls to it can go, in order of preference.
    pub routes: Vec<Route>,
    /// Its prices, oldest first, each with the first instant at which it is in force.
    pub rate_cards: Vec<(UnixMs, RateCard)>,
}

impl Model {
    /// The prices in force at an instant. Without any, calls to the model are refused.
    #[must_use]
    pub fn rate_card(&self, at: UnixMs) -> Option<&RateCard> {
        let begun = self.rate_cards.partition_point(|(from, _)| *from <= at);
        self.rate_cards.get(begun.checked_sub(1)?).map(|(_, card)| card)
    }
}

/// Providers, models, routes and prices: a few hundred rows that change together.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    pub(crate) providers: HashMap<ProviderId, Arc<Upstream>>,
    pub(crate) models: HashMap<ModelId, Arc<Model>>,
    pub(crate) by_name: HashMap<String, Arc<Model>>,
}

/// One row of the tables that are refreshed row by row.
#[derive(Debug)]
pub(crate) enum Row {
    Plan(Arc<Plan>),
    Tenant(Arc<Tenant>),
    Team(Arc<Team>),
    Key(Arc<ApiKey>),
    Overrides(Arc<Overrides>),
}

/// A table that is refreshed row by row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Table {
    Plans,
    Tenants,
    Teams,
    Keys,
    /// Its rows are those of one tenant together, and have the tenant's id.
    Overrides,
}

impl Table {
    /// What a row needs comes before it: a plan and overrides before their tenants, a tenant before its teams and keys.
    pub(crate) const ALL: [Self; 5] =
        [Self::Plans, Self::Overrides, Self::Tenants, Self::Teams, Self::Keys];
}

/// The configuration at one instant: who may call, within which limits, and where calls go at what price.
///
/// It never changes; the [`Directory`](super::Directory) replaces it. A copy shares everything with the original.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    by_hash: Shards<KeyHash, ApiKey>,
    keys: Shards<KeyId, ApiKey>,
    tenants: Shards<TenantId, Tenant>,
    teams: Shards<TeamId, Team>,
    plans: Shards<PlanId, Plan>,
    /// Of the tenants that have any.
    overrides: Shards<TenantId, Overrides>,
    catalog: Arc<Catalog>,
}

impl Snapshot {
    /// The key with this secret, be it the newest one or the one before it.
    #[must_use]
    pub fn key_by_hash(&self, hash: &KeyHash) -> Option<&Arc<ApiKey>> {
        self.by_hash.get(hash)
    }

    /// A key by its row.
    #[must_use]
    pub fn key(&self, key: KeyId) -> Option<&Arc<ApiKey>> {
        self.keys.get(&key)
    }

    /// How many keys there are, whatever their status.
    #[must_use]
    pub fn key_count(&self) -> usize {
        self.keys.len()
    }

    /// A tenant.
    #[must_use]
    pub fn tenant(&self, tenant: TenantId) -> Option<&Arc<Tenant>> {
        self.tenants.get(&tenant)
    }

    /// All tenants, in no order.
    pub fn tenants(&self) -> impl Iterator<Item = &Arc<Tenant>> {
        self.tenants.values()
    }

    /// A team.
    #[must_use]
    pub fn team(&self, team: TeamId) -> Option<&Arc<Team>> {
        self.teams.get(&team)
    }

    /// A version of a plan.
    #[must_use]
    pub fn plan(&self, plan: PlanId) -> Option<&Arc<Plan>> {
        self.plans.get(&plan)
    }

    /// The overrides of a tenant's limits, if it has any.
    #[must_use]
    pub fn overrides(&self, tenant: TenantId) -> Option<&Arc<Overrides>> {
        self.overrides.get(&tenant)
    }

    /// The limits of a tenant itself at an instant; nothing when it, its plan or an override cannot be read.
    #[must_use]
    pub fn tenant_rules(&self, tenant: TenantId, at: UnixMs) -> Option<Vec<&LimitRule>> {
        let plan = self.plan(self.tenant(tenant)?.plan)?;
        let overrides = self.overrides(tenant).map(AsRef::as_ref);
        let is_known = overrides.is_none_or(|overrides| overrides.list.is_some());
        is_known.then(|| effective(plan, overrides, at))
    }

    /// The model of this name.
    #[must_use]
    pub fn model(&self, name: &str) -> Option<&Arc<Model>> {
        self.catalog.by_name.get(name)
    }

    /// All models, in no order.
    pub fn models(&self) -> impl Iterator<Item = &Arc<Model>> {
        self.catalog.models.values()
    }

    /// A provider, ready to be called.
    #[must_use]
    pub fn upstream(&self, provider: ProviderId) -> Option<&Arc<Upstream>> {
        self.catalog.providers.get(&provider)
    }

    /// All providers, in no order.
    pub fn upstreams(&self) -> impl Iterator<Item = &Arc<Upstream>> {
        self.catalog.providers.values()
    }

    /// The prices of a model in force at an instant.
    #[must_use]
    pub fn rate_card(&self, model: ModelId, at: UnixMs) -> Option<&RateCard> {
        self.catalog.models.get(&model)?.rate_card(at)
    }

    pub(crate) fn set_catalog(&mut self, catalog: Catalog) {
        self.catalog = Arc::new(catalog);
    }

    /// Puts a row in. Says whether that changed anything.
    pub(crate) fn put(&mut self, row: Row) -> bool {
        match row {
            Row::Plan(plan) => put(&mut self.plans, plan.id, plan),
            Row::Tenant(tenant) => put(&mut self.tenants, tenant.id, tenant),
            Row::Team(team) => put(&mut self.teams, team.id, team),
            Row::Overrides(overrides) => put(&mut self.overrides, overrides.tenant, overrides),
            Row::Key(key) => {
                if self.keys.get(&key.id) == Some(&key) {
                    return false;
                }
                self.forget_key(key.id);
                self.by_hash.insert(key.hash, Arc::clone(&key));
                if let Some(old) = &key.old {
                    self.by_hash.insert(old.hash, Arc::clone(&key));
                }
                self.keys.insert(key.id, key);
                true
            }
        }
    }

    /// Takes a row out. Says whether it was there.
    pub(crate) fn remove(&mut self, table: Table, id: i64) -> bool {
        match table {
            Table::Plans => remove(&mut self.plans, PlanId(id)),
            Table::Tenants => remove(&mut self.tenants, TenantId(id)),
            Table::Teams => remove(&mut self.teams, TeamId(id)),
            Table::Keys => self.forget_key(KeyId(id)),
            Table::Overrides => remove(&mut self.overrides, TenantId(id)),
        }
    }

    fn forget_key(&mut self, key: KeyId) -> bool {
        let Some(known) = self.keys.get(&key).map(Arc::clone) else { return false };
        self.by_hash.remove(&known.hash);
        if let Some(old) = &known.old {
            self.by_hash.remove(&old.hash);
        }
        self.keys.remove(&key);
        true
    }

    /// The rows of a table, in no order.
    pub(crate) fn ids(&self, table: Table) -> Vec<i64> {
        match table {
            Table::Plans => self.plans.values().map(|plan| plan.id.0).collect(),
            Table::Tenants => self.tenants.values().map(|tenant| tenant.id.0).collect(),
            Table::Teams => self.teams.values().map(|team| team.id.0).collect(),
            Table::Keys => self.keys.values().map(|key| key.id.0).collect(),
            Table::Overrides => self.overrides.values().map(|all| all.tenant.0).collect(),
        }
    }
}

fn put<K: super::shards::Place, V: PartialEq>(
    map: &mut Shards<K, V>,
    key: K,
    value: Arc<V>,
) -> bool {
    if map.get(&key) == Some(&value) {
        return false;
    }
    map.insert(key, value);
    true
}

fn remove<K: super::shards::Place, V>(map: &mut Shards<K, V>, key: K) -> bool {
    let there = map.get(&key).is_some();
    map.remove(&key);
    there
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_without_limits_of_its_own_stays_small() {
        // Per key: this and its two counters in one allocation, its name in another, an entry by
        // hash (the hash and a pointer) and one by id (the id and a pointer).
        let entries = size_of::<(KeyHash, Arc<ApiKey>)>() + size_of::<(KeyId, Arc<ApiKey>)>();
        let counters = 2 * size_of::<usize>();
        assert!(size_of::<ApiKey>() + counters + entries <= 208, "{}", size_of::<ApiKey>());
    }
}
