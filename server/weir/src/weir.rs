//! The running process: its parts, built once, shared by all.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use domain::id::TenantId;
use gateway::Gateway;
use ledger::Ledger;
use limiter::Limiter;
use sqlx::PgPool;
use tenants::directory::Directory;
use tenants::password::Passwords;
use tenants::provider_key::Sealer;

use crate::clock::Clock;
use crate::config::{Config, PublicUrl};
use crate::deeds::Desk;
use crate::http::health::Probe;
use crate::http::site::Site;
use crate::last_used::LastUsed;
use crate::throttle::Throttle;

/// The parts of the process. A clone is one pointer.
#[derive(Clone)]
pub struct Weir(Arc<Parts>);

/// What the process is made of.
pub struct Parts {
    /// How it is set up.
    pub config: Config,
    /// What people and clients use to reach it.
    pub public_url: PublicUrl,
    /// The one clock.
    pub clock: Clock,
    /// The database.
    pub pool: PgPool,
    /// Who may call what, in memory.
    pub directory: Arc<Directory>,
    /// Seals credentials, and what is told only once.
    pub sealer: Arc<Sealer>,
    /// Hashes passwords, a few at a time.
    pub passwords: Passwords,
    /// The engine of admission.
    pub limiter: Limiter,
    /// The books.
    pub ledger: Ledger,
    /// Metered calls.
    pub gateway: Gateway,
    /// When keys were last presented.
    pub last_used: LastUsed,
    /// Failed sign-ins.
    pub throttle: Throttle,
    /// Style sheet, script, wasm, icon.
    pub site: Site,
    /// Where changes are made.
    pub desk: Desk,
    /// Whether the process is stopping.
    pub draining: AtomicBool,
    /// What the database said last, for probes.
    pub probe: Probe,
}

impl Weir {
    /// Shares the parts.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        Self(Arc::new(parts))
    }

    /// Tells the engine of admission that a tenant's money or budget moved without a call.
    ///
    /// What cannot be told now is found by the reconciliation.
    pub async fn credit_changed(&self, tenant_id: TenantId) {
        if let Err(error) = self.limiter.credit_changed(tenant_id).await {
            tracing::warn!(tenant_id = tenant_id.0, %error, "the counters do not know yet that money moved");
        }
    }

    /// Whether the process is stopping.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }
}

impl Deref for Weir {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl std::fmt::Debug for Weir {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Weir").field("public_url", &self.public_url).finish_non_exhaustive()
    }
}
