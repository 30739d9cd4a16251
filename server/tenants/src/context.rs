//! From a presented key to who asks, within which limits.

use std::sync::Arc;

use domain::admission::{Meter, Scope};
use domain::id::{KeyId, TeamId, TenantId};
use domain::plan::{LimitRule, Plan};
use domain::window::UnixMs;

use crate::api_key::{KeyHash, KeyStatus};
use crate::directory::{ApiKey, Snapshot};
use crate::limit_override::{Overrides, effective};
use crate::team::Team;
use crate::tenant::{Tenant, TenantStatus};

/// Who asks: everything that a call is metered by. A clone copies five pointers.
#[derive(Debug, Clone)]
pub struct TenantContext {
    /// Who pays.
    pub tenant: Arc<Tenant>,
    /// The team whose limits the key is under, if any.
    pub team: Option<Arc<Team>>,
    /// The key that was presented.
    pub key: Arc<ApiKey>,
    /// What the tenant bought.
    pub plan: Arc<Plan>,
    /// What is another for the tenant than its plan says, if anything is.
    pub(crate) overrides: Option<Arc<Overrides>>,
    /// The instant of the context: overrides that end before it have ended.
    pub(crate) at: UnixMs,
}

impl TenantContext {
    /// The limits of the tenant itself: its plan's, with the overrides that are in force in their place.
    #[must_use]
    pub fn tenant_rules(&self) -> Vec<&LimitRule> {
        effective(&self.plan, self.overrides.as_deref(), self.at)
    }

    /// Every limit that applies to a call: the key's, the team's, then the tenant's.
    #[must_use]
    pub fn meters(&self) -> Vec<Meter> {
        let tenant_rules = self.tenant_rules();
        let (team_id, team_rules) =
            self.team.as_ref().map_or((0, &[][..]), |team| (team.id.0, team.rules.as_slice()));
        let mut meters =
            Vec::with_capacity(self.key.rules.len() + team_rules.len() + tenant_rules.len());
        let mut add = |scope, scope_id, rule: &LimitRule| {
            meters.push(Meter { scope, scope_id, rule: rule.clone() });
        };
        self.key.rules.iter().for_each(|rule| add(Scope::Key, self.key.id.0, rule));
        team_rules.iter().for_each(|rule| add(Scope::Team, team_id, rule));
        tenant_rules.into_iter().for_each(|rule| add(Scope::Tenant, self.tenant.id.0, rule));
        meters
    }
}

/// What is known of a call that is refused for its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// Whose key.
    pub tenant: TenantId,
    /// The team whose limits it is under, if any.
    pub team: Option<TeamId>,
    /// Which key.
    pub key: KeyId,
}

/// Why a presented key does not let a call in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denied {
    /// It is no key, or none of ours: nothing is known.
    InvalidKey,
    /// Its time is over.
    KeyExpired(Known),
    /// It was revoked, or is the secret before a rotation whose overlap is over.
    KeyRevoked(Known),
    /// It is disabled.
    KeyDisabled(Known),
    /// Its tenant is suspended or archived.
    TenantSuspended(Known),
    /// Its tenant, team, plan or an override cannot be read, so that the limits are not known: nothing passes unmetered.
    LimitsUnknown(Known),
}

impl Denied {
    /// The word used in rows, answers and metrics.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::InvalidKey => "invalid_key",
            Self::KeyExpired(_) => "key_expired",
            Self::KeyRevoked(_) => "key_revoked",
            Self::KeyDisabled(_) => "key_disabled",
            Self::TenantSuspended(_) => "tenant_suspended",
            Self::LimitsUnknown(_) => "admission_unavailable",
        }
    }

    /// Whose key it is, if it is one.
    #[must_use]
    pub const fn known(&self) -> Option<Known> {
        match self {
            Self::InvalidKey => None,
            Self::KeyExpired(known)
            | Self::KeyRevoked(known)
            | Self::KeyDisabled(known)
            | Self::TenantSuspended(known)
            | Self::LimitsUnknown(known) => Some(*known),
        }
    }
}

/// Finds out who asks. Nothing but memory is touched, and not even that for a text that cannot be a key.
///
/// # Errors
/// When the key does not let the call in.
pub fn identify(
    snapshot: &Snapshot,
    presented: &str,
    now: UnixMs,
) -> Result<TenantContext, Denied> {
    let hash = KeyHash::of_presented(presented).map_err(|_| Denied::InvalidKey)?;
    let key = snapshot.key_by_hash(&hash).ok_or(Denied::InvalidKey)?;
    let known = Known { tenant: key.tenant, team: key.team, key: key.id };

    let old_is_over = key.old.as_ref().is_some_and(|old| old.hash == hash && old.until <= now);
    if key.status == KeyStatus::Revoked || old_is_over {
        return Err(Denied::KeyRevoked(known));
    }
    if key.expires_at.is_some_and(|end| end <= now) {
        return Err(Denied::KeyExpired(known));
    }
    if key.status == KeyStatus::Disabled {
        return Err(Denied::KeyDisabled(known));
    }

    let unknown = Denied::LimitsUnknown(known);
    let tenant = snapshot.tenant(key.tenant).ok_or(unknown)?;
    if tenant.status != TenantStatus::Active {
        return Err(Denied::TenantSuspended(known));
    }
    let plan = snapshot.plan(tenant.plan).ok_or(unknown)?;
    let overrides = snapshot.overrides(tenant.id);
    if overrides.is_some_and(|overrides| overrides.list.is_none()) {
        return Err(unknown);
    }
    let team = match key.team {
        // A team of another tenant would book on that tenant's counters.
        Some(id) => Some(snapshot.team(id).filter(|team| team.tenant == tenant.id).ok_or(unknown)?),
        None => None,
    };
    Ok(TenantContext {
        tenant: Arc::clone(tenant),
        team: team.map(Arc::clone),
        key: Arc::clone(key),
        plan: Arc::clone(plan),
        overrides: overrides.map(Arc::clone),
        at: now,
    })
}
