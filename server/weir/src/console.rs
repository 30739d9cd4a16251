//! The pages' questions, answered from the books, the configuration and the counters.
//!
//! Every answer is bounded in time, so that a slow panel fails alone, and is a copy of its own:
//! the pages know no database.

mod calls;
mod days;
mod keys;
mod mix;
pub(crate) mod months;
mod spend;
mod tenant;
mod tenants;

use std::sync::Arc;
use std::time::Duration;

use ::tenants::TenantsError;
use ::tenants::directory::Snapshot;
use ::tenants::tenant::Tenant;
use app::console::{Console, ConsoleError, Role, Viewer};
use app::rights::Right;
use app::views::{
    CallsPanel, DaysPanel, EngineMode, Instance, KeyPage, KeysPanel, MixPanel, Month, NewKey,
    SpendOrder, SpendPanel, TenantFilter, TenantPage, TenantsPage, TrafficRange,
};
use async_trait::async_trait;
use domain::id::{KeyId, RequestId, UserId};
use domain::window::UnixMs;
use ledger::LedgerError;
use limiter::LimiterError;

use crate::cli;
use crate::weir::Weir;
use crate::{once, setup};

/// How long a page waits for one answer: longer, and the reader has gone.
const ANSWER_WAIT: Duration = Duration::from_secs(5);
/// The zone of pages that are not one tenant's.
const HOUSE_ZONE: &str = "UTC";

/// The console of one request.
pub(crate) struct WeirConsole {
    weir: Weir,
    request_id: RequestId,
}

/// Why a question was not answered, before it is told to a page.
#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error(transparent)]
    Console(#[from] ConsoleError),
    #[error(transparent)]
    Tenants(#[from] TenantsError),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error(transparent)]
    Limiter(#[from] LimiterError),
    #[error(transparent)]
    Calendar(#[from] domain::window::CalendarError),
}

impl WeirConsole {
    /// The console of the request with this id.
    pub(crate) const fn new(weir: Weir, request_id: RequestId) -> Self {
        Self { weir, request_id }
    }

    fn now(&self) -> UnixMs {
        self.weir.clock.now()
    }

    /// Waits for an answer as long as a page does, and puts what went wrong into the page's words.
    async fn answer<T>(
        &self,
        question: &'static str,
        answer: impl Future<Output = Result<T, Fault>> + Send,
    ) -> Result<T, ConsoleError> {
        let request_id = || self.request_id.to_string();
        let Ok(answer) = tokio::time::timeout(ANSWER_WAIT, answer).await else {
            tracing::warn!(question, request_id = %self.request_id, "too slow for the page");
            return Err(ConsoleError::TooSlow { request_id: request_id() });
        };
        answer.map_err(|fault| match fault {
            Fault::Console(error) => error,
            Fault::Tenants(TenantsError::NotFound { .. }) => ConsoleError::NotFound,
            fault => {
                tracing::error!(question, request_id = %self.request_id, error = %fault, "unanswered");
                ConsoleError::Unavailable { request_id: request_id() }
            }
        })
    }

    /// The tenant of this slug, if the viewer may know of it and has one of the two rights: the
    /// operators' or the members'.
    fn tenant_for(
        &self,
        viewer: &Viewer,
        slug: &str,
        operators: Right,
        members: Right,
    ) -> Result<(Arc<Snapshot>, Arc<Tenant>), ConsoleError> {
        match &viewer.role {
            // Another tenant is told like one that does not exist.
            Role::TenantMember { slug: own, .. } if own != slug => {
                return Err(ConsoleError::NotFound);
            }
            Role::TenantMember { .. } => viewer.must(members)?,
            Role::Owner | Role::Admin | Role::Finance | Role::Support | Role::Viewer => {
                viewer.must(operators)?;
            }
        }
        let snapshot = self.weir.directory.snapshot();
        let tenant = snapshot.tenants().find(|tenant| tenant.slug == slug).cloned();
        let tenant = tenant.ok_or(ConsoleError::NotFound)?;
        Ok((snapshot, tenant))
    }
}

/// Which engine admits, as it is told on every page.
fn engine_mode(weir: &Weir) -> EngineMode {
    match weir.limiter.standing() {
        Some(standing) if standing.degraded => EngineMode::PostgresFallback,
        Some(standing) if standing.mode == limiter::Mode::Redis => EngineMode::Redis,
        Some(_) | None => EngineMode::Postgres,
    }
}

#[async_trait]
impl Console for WeirConsole {
    async fn instance(&self) -> Result<Instance, ConsoleError> {
        let read = async {
            let instance = ::tenants::instance::find(&self.weir.pool).await?;
            let owned = ::tenants::member::owner_exists(&self.weir.pool).await?;
            Ok(Instance {
                name: instance.name,
                demo: instance.demo,
                engine: engine_mode(&self.weir),
                setup_needed: !owned,
                gateway_url: self.weir.public_url.origin().to_owned(),
                version: cli::version().to_owned(),
                now_ms: self.now().0,
            })
        };
        self.answer("instance", read).await
    }

    async fn setup_open(&self, token: &str) -> Result<bool, ConsoleError> {
        self.answer("setup_open", async { Ok(setup::is_open(&self.weir, token).await?) }).await
    }

    async fn spend(
        &self,
        viewer: &Viewer,
        month: Option<Month>,
        order: SpendOrder,
    ) -> Result<SpendPanel, ConsoleError> {
        viewer.must(Right::SeeOverview)?;
        self.answer("spend", spend::panel(&self.weir, month, order)).await
    }

    async fn model_mix(
        &self,
        viewer: &Viewer,
        range: TrafficRange,
    ) -> Result<MixPanel, ConsoleError> {
        viewer.must(Right::SeeOverview)?;
        self.answer("model_mix", mix::panel(&self.weir, range)).await
    }

    async fn spend_by_day(
        &self,
        viewer: &Viewer,
        tenant_slug: Option<&str>,
        month: Option<Month>,
    ) -> Result<DaysPanel, ConsoleError> {
        let tenant = match tenant_slug {
            Some(slug) => {
                let (see, portal) = (Right::SeeTenants, Right::SeePortal);
                Some(self.tenant_for(viewer, slug, see, portal)?)
            }
            None => {
                viewer.must(Right::SeeOverview)?;
                None
            }
        };
        self.answer("spend_by_day", days::panel(&self.weir, tenant, month)).await
    }

    async fn tenants(
        &self,
        viewer: &Viewer,
        filter: &TenantFilter,
    ) -> Result<TenantsPage, ConsoleError> {
        viewer.must(Right::SeeTenants)?;
        self.answer("tenants", tenants::page(&self.weir, filter)).await
    }

    async fn tenant(
        &self,
        viewer: &Viewer,
        slug: &str,
        month: Option<Month>,
    ) -> Result<TenantPage, ConsoleError> {
        let (snapshot, tenant) =
            self.tenant_for(viewer, slug, Right::SeeTenants, Right::SeePortal)?;
        self.answer("tenant", tenant::page(&self.weir, &snapshot, &tenant, month)).await
    }

    async fn keys(&self, viewer: &Viewer, slug: &str) -> Result<KeysPanel, ConsoleError> {
        let (snapshot, tenant) =
            self.tenant_for(viewer, slug, Right::SeeTenants, Right::SeePortalKeys)?;
        self.answer("keys", keys::panel(&self.weir, &snapshot, &tenant)).await
    }

    async fn recent_calls(&self, viewer: &Viewer, slug: &str) -> Result<CallsPanel, ConsoleError> {
        let (snapshot, tenant) =
            self.tenant_for(viewer, slug, Right::SeeRequests, Right::SeePortalKeys)?;
        self.answer("recent_calls", calls::panel(&self.weir, &snapshot, &tenant)).await
    }

    async fn key(&self, viewer: &Viewer, slug: &str, key_id: i64) -> Result<KeyPage, ConsoleError> {
        // Members' own pages have no page for one key yet: their rights name none for it.
        viewer.must(Right::SeeTenants)?;
        let (snapshot, tenant) =
            self.tenant_for(viewer, slug, Right::SeeTenants, Right::SeePortalKeys)?;
        self.answer("key", keys::page(&self.weir, &snapshot, &tenant, KeyId(key_id))).await
    }

    async fn take_new_key(
        &self,
        viewer: &Viewer,
        slug: &str,
        key_id: i64,
    ) -> Result<Option<NewKey>, ConsoleError> {
        viewer.must(Right::CreateKeys)?;
        let (snapshot, tenant) =
            self.tenant_for(viewer, slug, Right::CreateKeys, Right::CreateKeys)?;
        let key = KeyId(key_id);
        let known = snapshot.key(key).is_some_and(|known| known.tenant == tenant.id);
        if !known {
            return Err(ConsoleError::NotFound);
        }
        let taken = async {
            let secret = once::take(&self.weir, UserId(viewer.user_id), key).await?;
            let models = keys::sample_models(&snapshot, &tenant, self.now());
            Ok(secret.map(|secret| NewKey { secret, models }))
        };
        self.answer("take_new_key", taken).await
    }
}
