//! Counters that one script reaches: those of a tenant, or those of a provider, which all tenants share.

use std::collections::BTreeSet;

use domain::admission::{Meter, Scope, Take};
use domain::id::TenantId;

/// Whose counters. A cluster keeps each shard on one node, and no script reaches two. A tenant's are asked first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Shard {
    Tenant(TenantId),
    Provider(i64),
    /// Nobody's: what the probe asks for.
    Probe,
}

impl Shard {
    /// The shards of these meters; the tenant's is always one of them.
    pub(super) fn of(tenant_id: TenantId, meters: &[Meter]) -> BTreeSet<Self> {
        let providers = meters.iter().map(|meter| Self::at(tenant_id, meter.scope, meter.scope_id));
        std::iter::once(Self::Tenant(tenant_id)).chain(providers).collect()
    }

    pub(super) fn of_takes(tenant_id: TenantId, takes: &[Take]) -> BTreeSet<Self> {
        let providers = takes.iter().map(|take| Self::at(tenant_id, take.scope, take.scope_id));
        std::iter::once(Self::Tenant(tenant_id)).chain(providers).collect()
    }

    const fn at(tenant_id: TenantId, scope: Scope, scope_id: i64) -> Self {
        match scope {
            Scope::Provider => Self::Provider(scope_id),
            Scope::Tenant | Scope::Team | Scope::Key => Self::Tenant(tenant_id),
        }
    }

    /// Those of the meters that are here, in their order.
    pub(super) fn meters(&self, meters: &[Meter]) -> Vec<Meter> {
        let here = |meter: &&Meter| match self {
            Self::Provider(id) => meter.scope == Scope::Provider && meter.scope_id == *id,
            Self::Tenant(_) => meter.scope != Scope::Provider,
            Self::Probe => false,
        };
        meters.iter().filter(here).cloned().collect()
    }

    /// Whether a take is from here.
    pub(super) fn has(&self, take: &Take) -> bool {
        match self {
            Self::Provider(id) => take.scope == Scope::Provider && take.scope_id == *id,
            Self::Tenant(_) => take.scope != Scope::Provider,
            Self::Probe => false,
        }
    }

    pub(super) const fn tenant(&self) -> Option<TenantId> {
        match self {
            Self::Tenant(id) => Some(*id),
            Self::Provider(_) | Self::Probe => None,
        }
    }

    /// What the keys are named by.
    pub(super) fn tag(&self) -> String {
        match self {
            Self::Tenant(id) => id.0.to_string(),
            Self::Provider(id) => format!("p{id}"),
            Self::Probe => "probe".to_owned(),
        }
    }

    /// The number in the table of warm counters: a provider's is below zero.
    pub(super) const fn owner_id(&self) -> i64 {
        match self {
            Self::Tenant(id) => id.0,
            Self::Provider(id) => id.wrapping_neg(),
            Self::Probe => 0,
        }
    }

    pub(super) const fn of_owner(owner_id: i64) -> Self {
        if owner_id < 0 {
            Self::Provider(owner_id.wrapping_neg())
        } else {
            Self::Tenant(TenantId(owner_id))
        }
    }
}
