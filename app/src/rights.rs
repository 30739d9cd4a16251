//! Who may do what: one table that drives navigation, checks and the words of a 403.
//!
//! The server checks with [`Viewer::may`](crate::console::Viewer::may) before it acts; a page uses
//! the same call to leave out or to explain what would be refused.

use crate::console::Role;

/// One thing a person may be allowed to do in the console.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// See the operators' overview and usage.
    SeeOverview,
    /// See the list of tenants and each tenant's page.
    SeeTenants,
    /// See single requests (metadata only; prompts are never stored).
    SeeRequests,
    /// Create API keys for a tenant.
    CreateKeys,
    /// Revoke API keys of a tenant.
    RevokeKeys,
    /// See the tenant's own overview.
    SeePortal,
    /// See the tenant's keys in its own portal.
    SeePortalKeys,
}

impl Right {
    /// Every right, in the order of the table.
    pub const ALL: [Self; 7] = [
        Self::SeeOverview,
        Self::SeeTenants,
        Self::SeeRequests,
        Self::CreateKeys,
        Self::RevokeKeys,
        Self::SeePortal,
        Self::SeePortalKeys,
    ];

    /// The right in words, to be put after "you may not".
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::SeeOverview => "see the operators' overview",
            Self::SeeTenants => "see tenants",
            Self::SeeRequests => "see single requests",
            Self::CreateKeys => "create API keys",
            Self::RevokeKeys => "revoke API keys",
            Self::SeePortal => "see this tenant's overview",
            Self::SeePortalKeys => "see this tenant's keys",
        }
    }

    /// Who holds the right and can help, in words.
    #[must_use]
    pub const fn holders(self) -> &'static str {
        match self {
            Self::SeeOverview | Self::SeeTenants => "any operator of this instance",
            Self::SeeRequests => "an owner, admin or support operator",
            Self::CreateKeys | Self::RevokeKeys => "an owner or admin operator",
            Self::SeePortal => "an owner or admin of the tenant",
            Self::SeePortalKeys => "an owner, admin or developer of the tenant",
        }
    }
}

/// A person's part inside one tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TenantRole {
    /// Owns the tenant.
    Owner,
    /// Runs the tenant.
    Admin,
    /// Pays for the tenant.
    Billing,
    /// Builds on the tenant's keys.
    Dev,
    /// Looks on.
    Viewer,
}

/// Whether `role` includes `right`.
#[must_use]
pub const fn holds(role: &Role, right: Right) -> bool {
    match right {
        Right::SeeOverview | Right::SeeTenants => role.is_operator(),
        Right::SeeRequests => matches!(role, Role::Owner | Role::Admin | Role::Support),
        Right::CreateKeys | Right::RevokeKeys => matches!(role, Role::Owner | Role::Admin),
        Right::SeePortal => !role.is_operator(),
        Right::SeePortalKeys => matches!(
            role,
            Role::TenantMember {
                role: TenantRole::Owner | TenantRole::Admin | TenantRole::Dev,
                ..
            }
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(role: TenantRole) -> Role {
        Role::TenantMember { slug: "acme".into(), name: "Acme".into(), role }
    }

    #[test]
    fn the_table_is_as_written_on_the_roles_page() {
        use Right::{
            CreateKeys, RevokeKeys, SeeOverview, SeePortal, SeePortalKeys, SeeRequests, SeeTenants,
        };
        let rows: [(Role, &[Right]); 10] = [
            (Role::Owner, &[SeeOverview, SeeTenants, SeeRequests, CreateKeys, RevokeKeys]),
            (Role::Admin, &[SeeOverview, SeeTenants, SeeRequests, CreateKeys, RevokeKeys]),
            (Role::Finance, &[SeeOverview, SeeTenants]),
            (Role::Support, &[SeeOverview, SeeTenants, SeeRequests]),
            (Role::Viewer, &[SeeOverview, SeeTenants]),
            (member(TenantRole::Owner), &[SeePortal, SeePortalKeys]),
            (member(TenantRole::Admin), &[SeePortal, SeePortalKeys]),
            (member(TenantRole::Billing), &[SeePortal]),
            (member(TenantRole::Dev), &[SeePortal, SeePortalKeys]),
            (member(TenantRole::Viewer), &[SeePortal]),
        ];
        for (role, rights) in rows {
            let held: Vec<_> =
                Right::ALL.into_iter().filter(|right| holds(&role, *right)).collect();
            assert_eq!(held, rights, "{role:?}");
        }
    }
}
