//! Changes that people and scripts ask for: each with its line in the audit log, in one
//! transaction, on a task that the client cannot break off.

pub mod money;

use std::sync::Arc;

use domain::id::{KeyId, TenantId};
use serde_json::{Value, json};
use sqlx::{PgConnection, PgPool};
use tenants::api_key::{self, ApiKeySecret, NewKey};
use tenants::audit::{self, NewEntry};
use tenants::directory::{Changed, Directory};
use tenants::member::{self, Member, NewMember};
use tenants::password::Passwords;
use tenants::tenant::{self, NewTenant};
use tenants::{MAX_PAGE, TenantsError};
use tokio_util::task::TaskTracker;

use crate::clock::Clock;

/// Where changes are made.
#[derive(Debug, Clone)]
pub struct Desk {
    /// The database.
    pub pool: PgPool,
    /// The one clock.
    pub clock: Clock,
    /// The directory of this process, which shows a change at once; other processes hear of it.
    /// Nothing on the command line.
    pub directory: Option<Arc<Directory>>,
    /// Deeds under way.
    pub tasks: TaskTracker,
}

/// Who asks for a change.
#[derive(Debug, Clone)]
pub struct Actor {
    /// A person's address, or a token's name.
    pub name: String,
    /// The request that asks for it; nothing on the command line.
    pub request_id: Option<String>,
}

impl Actor {
    /// Somebody at the machine itself.
    #[must_use]
    pub fn command_line() -> Self {
        Self { name: "command line".to_owned(), request_id: None }
    }
}

impl Desk {
    /// A desk for the command line.
    #[must_use]
    pub fn on(pool: PgPool) -> Self {
        Self { pool, clock: Clock::default(), directory: None, tasks: TaskTracker::new() }
    }

    /// Runs a deed to its end, even if who asked for it goes away.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        deed: impl Future<Output = Result<T, TenantsError>> + Send + 'static,
    ) -> Result<T, TenantsError> {
        self.tasks.spawn(deed).await.map_err(|_| TenantsError::Busy)?
    }

    pub(crate) async fn show(&self, changed: Changed) {
        let Some(directory) = &self.directory else { return };
        if let Err(error) = directory.refresh(&self.pool, &[changed]).await {
            // The change is made; the directory will hear of it from the database.
            tracing::warn!(%error, "a change shows a moment later");
        }
    }

    /// Writes a line about a change of the house's own, in the transaction of the change.
    pub(crate) async fn note(
        &self,
        change: &mut PgConnection,
        actor: Actor,
        action: &str,
        target: String,
        detail: Value,
    ) -> Result<(), TenantsError> {
        audit::append(change, &self.entry(actor, action, target, None, detail)).await
    }

    pub(crate) fn entry(
        &self,
        actor: Actor,
        action: &str,
        target: String,
        tenant: Option<TenantId>,
        detail: Value,
    ) -> NewEntry {
        let (at, action) = (self.clock.now(), action.to_owned());
        let Actor { name: actor, request_id } = actor;
        NewEntry { at, actor, action, target, tenant, detail, request_id }
    }
}

/// Makes a key. It works when this returns, in this process at least.
///
/// # Errors
/// [`TenantsError::Conflict`] when a living key of the tenant has this name; and as
/// [`api_key::create`].
pub async fn create_key(
    desk: &Desk,
    actor: Actor,
    new: NewKey,
) -> Result<(KeyId, ApiKeySecret), TenantsError> {
    let at = desk.clone();
    let deed = async move {
        if is_taken(&at.pool, new.tenant, &new.name).await? {
            return Err(TenantsError::Conflict { what: "key name" });
        }
        let secret = ApiKeySecret::generate();
        let mut change = at.pool.begin().await?;
        let id = api_key::create(&mut *change, &new, &secret).await?;
        let detail = json!({ "name": new.name, "masked": secret.masked() });
        let target = format!("key/{id}");
        let entry = at.entry(actor, "key.create", target, Some(new.tenant), detail);
        audit::append(&mut *change, &entry).await?;
        change.commit().await?;
        at.show(Changed::ApiKey(id)).await;
        Ok((id, secret))
    };
    desk.run(deed).await
}

/// Whether a key that still lives has this name.
async fn is_taken(pool: &PgPool, tenant: TenantId, name: &str) -> Result<bool, TenantsError> {
    let mut before = None;
    loop {
        let page = api_key::list(pool, Some(tenant), before, MAX_PAGE).await?;
        let living = |status| status != api_key::KeyStatus::Revoked;
        if page.iter().any(|key| key.name == name && living(key.status)) {
            return Ok(true);
        }
        match page.last() {
            Some(last) if page.len() == usize::try_from(MAX_PAGE).unwrap_or(usize::MAX) => {
                before = Some(last.id);
            }
            _ => return Ok(false),
        }
    }
}

/// Ends a key for good. It is refused when this returns, in this process at least.
///
/// # Errors
/// When the tenant has no such key, or the database fails.
pub async fn revoke_key(
    desk: &Desk,
    actor: Actor,
    tenant: TenantId,
    key: KeyId,
) -> Result<(), TenantsError> {
    let at = desk.clone();
    let deed = async move {
        let mut change = at.pool.begin().await?;
        api_key::revoke(&mut *change, tenant, key, at.clock.now()).await?;
        let entry = at.entry(actor, "key.revoke", format!("key/{key}"), Some(tenant), json!({}));
        audit::append(&mut *change, &entry).await?;
        change.commit().await?;
        at.show(Changed::ApiKey(key)).await;
        Ok(())
    };
    desk.run(deed).await
}

/// Makes a tenant.
///
/// # Errors
/// As [`tenant::create`].
pub async fn create_tenant(
    desk: &Desk,
    actor: Actor,
    new: NewTenant,
) -> Result<TenantId, TenantsError> {
    let at = desk.clone();
    let deed = async move {
        let mut change = at.pool.begin().await?;
        let id = tenant::create(&mut *change, &new).await?;
        let detail = json!({ "slug": new.slug, "plan_id": new.plan.0 });
        let entry = at.entry(actor, "tenant.create", format!("tenant/{id}"), Some(id), detail);
        audit::append(&mut *change, &entry).await?;
        change.commit().await?;
        at.show(Changed::Tenant(id)).await;
        Ok(id)
    };
    desk.run(deed).await
}

/// Lets a person in.
///
/// # Errors
/// As [`member::create`].
pub async fn create_member(
    desk: &Desk,
    actor: Actor,
    passwords: &Passwords,
    new: NewMember,
) -> Result<Member, TenantsError> {
    let (at, passwords) = (desk.clone(), passwords.clone());
    let deed = async move {
        let mut change = at.pool.begin().await?;
        let tenant = new.tenant;
        let id = member::create(&mut *change, &passwords, new).await?;
        let made = member::find(&mut *change, id).await?;
        let detail = json!({ "email": made.email, "role": made.role.code() });
        let entry = at.entry(actor, "user.create", format!("user/{id}"), tenant, detail);
        audit::append(&mut *change, &entry).await?;
        change.commit().await?;
        Ok(made)
    };
    desk.run(deed).await
}
