//! All that a page may ask, and who is asking.
//!
//! The pages own this trait; `weir` implements it over the books and puts it into each page's
//! context: `provide_context::<Arc<dyn Console>>(…)`. A middleware of `weir` puts a [`Viewer`]
//! (when somebody is signed in) and a [`Csrf`] into the request's extensions.

use std::sync::Arc;

use async_trait::async_trait;
use http::request::Parts;
use leptos::prelude::use_context;

use crate::rights::{self, Right, TenantRole};
use crate::views::{
    CallsPanel, DaysPanel, Instance, KeyPage, KeysPanel, MixPanel, Month, NewKey, SpendOrder,
    SpendPanel, TenantFilter, TenantPage, TenantsPage, TrafficRange,
};

/// The questions of the pages. Every answer is an owned copy, shaped for showing.
///
/// Rules that every implementation keeps:
/// - it checks the viewer's right itself ([`Viewer::may`]) and answers
///   [`ConsoleError::Forbidden`]; a tenant's member who asks for another tenant gets
///   [`ConsoleError::NotFound`], the same as for a slug that does not exist;
/// - it bounds its own time and answers [`ConsoleError::TooSlow`], so that a slow panel fails
///   alone;
/// - it reads rollups for anything over more than a page of rows.
#[async_trait]
pub trait Console: Send + Sync + 'static {
    /// Facts about this installation that every page frame shows. Asked without a viewer.
    async fn instance(&self) -> Result<Instance, ConsoleError>;

    /// Whether `token` opens the set-up page: no owner exists and it is the one-time token.
    /// Compared in constant time; asked without a viewer.
    async fn setup_open(&self, token: &str) -> Result<bool, ConsoleError>;

    /// Spend per tenant in `month` (the running one when `None`), the largest ten in `order`.
    /// Right: [`Right::SeeOverview`].
    async fn spend(
        &self,
        viewer: &Viewer,
        month: Option<Month>,
        order: SpendOrder,
    ) -> Result<SpendPanel, ConsoleError>;

    /// Tokens, requests and charges per model over `range`, every model, largest charge first.
    /// Right: [`Right::SeeOverview`].
    async fn model_mix(
        &self,
        viewer: &Viewer,
        range: TrafficRange,
    ) -> Result<MixPanel, ConsoleError>;

    /// Charges per day and model in `month` (the running one when `None`): of one tenant, or of
    /// all when `tenant_slug` is `None`.
    /// Right: [`Right::SeeOverview`] for all; for one tenant [`Right::SeeTenants`] or
    /// [`Right::SeePortal`].
    async fn spend_by_day(
        &self,
        viewer: &Viewer,
        tenant_slug: Option<&str>,
        month: Option<Month>,
    ) -> Result<DaysPanel, ConsoleError>;

    /// One page of the tenants that pass `filter`. Right: [`Right::SeeTenants`].
    async fn tenants(
        &self,
        viewer: &Viewer,
        filter: &TenantFilter,
    ) -> Result<TenantsPage, ConsoleError>;

    /// One tenant's facts and budget in `month` (the running one when `None`).
    /// Right: [`Right::SeeTenants`] or [`Right::SeePortal`].
    async fn tenant(
        &self,
        viewer: &Viewer,
        slug: &str,
        month: Option<Month>,
    ) -> Result<TenantPage, ConsoleError>;

    /// A tenant's keys, living ones first, newest first.
    /// Right: [`Right::SeeTenants`] or [`Right::SeePortalKeys`].
    async fn keys(&self, viewer: &Viewer, slug: &str) -> Result<KeysPanel, ConsoleError>;

    /// A tenant's newest 20 calls.
    /// Right: [`Right::SeeRequests`] (operators) or [`Right::SeePortalKeys`] (members).
    async fn recent_calls(&self, viewer: &Viewer, slug: &str) -> Result<CallsPanel, ConsoleError>;

    /// One key with what revoking it would touch. Right: [`Right::SeeTenants`].
    async fn key(&self, viewer: &Viewer, slug: &str, key_id: i64) -> Result<KeyPage, ConsoleError>;

    /// Hands out the secret of a key this viewer has just made, and forgets it: the second call
    /// answers `None`, and so does any other viewer's. Right: [`Right::CreateKeys`].
    async fn take_new_key(
        &self,
        viewer: &Viewer,
        slug: &str,
        key_id: i64,
    ) -> Result<Option<NewKey>, ConsoleError>;
}

/// Why a question was not answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConsoleError {
    /// Nobody is signed in; the page sends the browser to the sign-in page.
    #[error("nobody is signed in")]
    SignedOut,
    /// There is no such thing, or it is not this viewer's to know of.
    #[error("not found")]
    NotFound,
    /// The viewer's role lacks this right.
    #[error("the viewer may not {}", right.words())]
    Forbidden {
        /// The right that is missing.
        right: Right,
    },
    /// The answer took longer than the page waits for it.
    #[error("too slow (request {request_id})")]
    TooSlow {
        /// Under which the log tells more.
        request_id: String,
    },
    /// A store did not answer or answered with a fault.
    #[error("unavailable (request {request_id})")]
    Unavailable {
        /// Under which the log tells more.
        request_id: String,
    },
}

/// The person who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Viewer {
    /// The user's id.
    pub user_id: i64,
    /// The user's e-mail address, shown in the account menu.
    pub email: String,
    /// What the user may do.
    pub role: Role,
}

impl Viewer {
    /// Whether this person's role includes `right`.
    #[must_use]
    pub const fn may(&self, right: Right) -> bool {
        rights::holds(&self.role, right)
    }

    /// The refusal for a person whose role does not include `right`.
    ///
    /// # Errors
    /// [`ConsoleError::Forbidden`] naming the right.
    pub const fn must(&self, right: Right) -> Result<(), ConsoleError> {
        if self.may(right) { Ok(()) } else { Err(ConsoleError::Forbidden { right }) }
    }

    /// Where this person starts.
    #[must_use]
    pub fn home(&self) -> String {
        match &self.role {
            Role::TenantMember { slug, .. } => crate::routes::portal(slug),
            Role::Owner | Role::Admin | Role::Finance | Role::Support | Role::Viewer => {
                crate::routes::ADMIN.to_owned()
            }
        }
    }
}

/// A person's part: one of the operators', or a member of one tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// May do everything.
    Owner,
    /// May do everything but touch owners.
    Admin,
    /// Looks after money.
    Finance,
    /// Answers tenants' questions.
    Support,
    /// Looks on.
    Viewer,
    /// Belongs to one tenant and sees only that one.
    TenantMember {
        /// The tenant's slug.
        slug: String,
        /// The tenant's name.
        name: String,
        /// The person's part inside the tenant.
        role: TenantRole,
    },
}

impl Role {
    /// Whether this is an operator of the instance.
    #[must_use]
    pub const fn is_operator(&self) -> bool {
        !matches!(self, Self::TenantMember { .. })
    }
}

/// The token that every form carries in its hidden `csrf` field.
#[derive(Clone, PartialEq, Eq)]
pub struct Csrf(pub String);

impl std::fmt::Debug for Csrf {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Csrf([redacted])")
    }
}

/// The console, from the page's context.
///
/// # Errors
/// [`ConsoleError::Unavailable`] when the server provided none: a fault of the wiring.
pub fn console() -> Result<Arc<dyn Console>, ConsoleError> {
    use_context::<Arc<dyn Console>>()
        .ok_or_else(|| ConsoleError::Unavailable { request_id: "no-console".to_owned() })
}

/// The console and the person who asks it.
///
/// # Errors
/// [`ConsoleError::SignedOut`] when nobody is signed in.
pub fn desk() -> Result<(Arc<dyn Console>, Viewer), ConsoleError> {
    let viewer = viewer().ok_or(ConsoleError::SignedOut)?;
    Ok((console()?, viewer))
}

/// The signed-in person, if any.
#[must_use]
pub fn viewer() -> Option<Viewer> {
    use_context::<Parts>().and_then(|parts| parts.extensions.get::<Viewer>().cloned())
}

/// The form token of this request; empty when the server provided none, which every form handler
/// refuses.
#[must_use]
pub fn csrf() -> Csrf {
    use_context::<Parts>()
        .and_then(|parts| parts.extensions.get::<Csrf>().cloned())
        .or_else(use_context::<Csrf>)
        .unwrap_or_else(|| Csrf(String::new()))
}
