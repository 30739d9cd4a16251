//! The configuration in memory: every call asks it, no call asks the database.

mod read;
mod shards;
mod snapshot;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use domain::id::{KeyId, PlanId, TeamId, TenantId};
use sqlx::PgPool;
use sqlx::postgres::PgListener;
use tokio::sync::{Mutex, Notify};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use self::snapshot::Table;
pub use self::snapshot::{ApiKey, Credential, Model, Snapshot, Upstream};
use crate::TenantsError;
use crate::provider_key::Sealer;

/// Where the triggers of the tables say what changed.
const CHANNEL: &str = "weir_config";
/// A notification that was lost lives no longer than this.
const COMPARE_EVERY: Duration = Duration::from_secs(60);
/// How soon a failed connection or comparison is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// At most so many changes are taken together: the rows of one statement stay few.
const MAX_BATCH: usize = 1_000;

/// A part of the configuration that changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    /// A version of a plan.
    Plan(PlanId),
    /// A tenant.
    Tenant(TenantId),
    /// A team.
    Team(TeamId),
    /// A key.
    ApiKey(KeyId),
    /// The overrides of a tenant's limits.
    Overrides(TenantId),
    /// Something among providers, models, routes and prices.
    Catalog,
}

impl Changed {
    /// Reads what a trigger said, `table:id`.
    fn parse(payload: &str) -> Option<Self> {
        let (table, id) = payload.split_once(':')?;
        let id = id.parse().ok()?;
        match table {
            "plans" => Some(Self::Plan(PlanId(id))),
            "tenants" => Some(Self::Tenant(TenantId(id))),
            "teams" => Some(Self::Team(TeamId(id))),
            "api_keys" => Some(Self::ApiKey(KeyId(id))),
            "limit_overrides" => Some(Self::Overrides(TenantId(id))),
            "providers" | "models" | "model_routes" | "prices" => Some(Self::Catalog),
            _ => None,
        }
    }

    /// The row it is, if it is one of a table that is refreshed row by row.
    fn row(self) -> Option<(Table, i64)> {
        match self {
            Self::Plan(id) => Some((Table::Plans, id.0)),
            Self::Tenant(id) => Some((Table::Tenants, id.0)),
            Self::Team(id) => Some((Table::Teams, id.0)),
            Self::ApiKey(id) => Some((Table::Keys, id.0)),
            Self::Overrides(id) => Some((Table::Overrides, id.0)),
            Self::Catalog => None,
        }
    }
}

/// Holds the newest [`Snapshot`] and keeps it new.
///
/// Who reads never waits. Who writes reads the database and publishes what it read under one lock: otherwise a row
/// read before a revocation could be published after it, and the key would be back.
#[derive(Debug)]
pub struct Directory {
    current: ArcSwap<Snapshot>,
    sealer: Arc<Sealer>,
    writer: Mutex<()>,
    compare_wanted: Notify,
    compared_at: ArcSwap<Instant>,
}

impl Directory {
    /// Reads everything. Call [`run`](Self::run) to keep it new.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn load(pool: &PgPool, sealer: Arc<Sealer>) -> Result<Self, TenantsError> {
        let directory = Self {
            current: ArcSwap::default(),
            sealer,
            writer: Mutex::new(()),
            compare_wanted: Notify::new(),
            compared_at: ArcSwap::from_pointee(Instant::now()),
        };
        directory.compare(pool).await?;
        Ok(directory)
    }

    /// The newest state. Take it once for a call, so that all of the call sees the same.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }

    /// How long ago all of it was last compared with the database: at most a minute or so while that can be reached.
    #[must_use]
    pub fn age(&self) -> Duration {
        self.compared_at.load().elapsed()
    }

    /// Takes changes over at once, for whoever made them and wants to see them; other processes hear of them anyway.
    ///
    /// # Errors
    /// When the database fails: then everything is compared as soon as it can be.
    pub async fn refresh(&self, pool: &PgPool, changed: &[Changed]) -> Result<(), TenantsError> {
        let done = self.take_over(pool, changed).await;
        if done.is_err() {
            self.compare_wanted.notify_one();
        }
        done
    }

    /// Keeps the directory new until it is cancelled. It holds one connection of the pool to listen on.
    pub async fn run(&self, pool: PgPool, cancel: CancellationToken) {
        let work = Box::pin(async {
            tokio::join!(self.keep_listening(&pool), self.keep_comparing(&pool))
        });
        // Nothing here is half done when it is dropped: a snapshot is published whole or not at all.
        cancel.run_until_cancelled(work).await;
    }

    async fn keep_listening(&self, pool: &PgPool) {
        loop {
            if let Err(error) = self.listen(pool).await {
                tracing::warn!(%error, "the directory does not hear of changes; it tries again");
            }
            sleep(RETRY_AFTER).await;
        }
    }

    async fn listen(&self, pool: &PgPool) -> Result<(), TenantsError> {
        let mut listener = PgListener::connect_with(pool).await?;
        listener.listen(CHANNEL).await?;
        loop {
            // Here after connecting, and after each connection that was lost and made anew: what was said in
            // between was not heard.
            self.compare_wanted.notify_one();
            while let Some(first) = listener.try_recv().await? {
                let mut changed = Vec::new();
                let mut heard = Some(first);
                while let Some(notification) = heard {
                    match Changed::parse(notification.payload()) {
                        Some(change) if !changed.contains(&change) => changed.push(change),
                        Some(_) => {}
                        None => tracing::warn!(payload = notification.payload(), "not a change"),
                    }
                    heard = (changed.len() < MAX_BATCH).then(|| listener.next_buffered()).flatten();
                }
                if let Err(error) = self.refresh(pool, &changed).await {
                    tracing::warn!(%error, "changes were not taken over; all will be compared");
                }
            }
        }
    }

    async fn keep_comparing(&self, pool: &PgPool) {
        loop {
            // It makes no difference whether somebody asked or the time has come.
            let _ = timeout(COMPARE_EVERY, self.compare_wanted.notified()).await;
            if let Err(error) = self.compare(pool).await {
                tracing::warn!(%error, "the directory could not be compared; it tries again");
                sleep(RETRY_AFTER).await;
                self.compare_wanted.notify_one();
            }
        }
    }

    async fn take_over(&self, pool: &PgPool, changed: &[Changed]) -> Result<(), TenantsError> {
        for table in Table::ALL {
            let rows = changed.iter().filter_map(|change| change.row());
            let ids: Vec<i64> = rows.filter(|(t, _)| *t == table).map(|(_, id)| id).collect();
            self.refresh_rows(pool, table, &ids).await?;
        }
        if changed.contains(&Changed::Catalog) {
            self.refresh_catalog(pool).await?;
        }
        Ok(())
    }

    /// Takes these rows over. Those that are gone, or cannot be read, are taken out.
    async fn refresh_rows(
        &self,
        pool: &PgPool,
        table: Table,
        ids: &[i64],
    ) -> Result<(), TenantsError> {
        for some in ids.chunks(MAX_BATCH) {
            let _writing = self.writer.lock().await;
            let read = read::these(pool, table, some).await?;
            self.publish(|snapshot| {
                let mut changed = false;
                for id in some {
                    if !read.iter().any(|(found, row)| found == id && row.is_some()) {
                        changed |= snapshot.remove(table, *id);
                    }
                }
                for row in read.into_iter().filter_map(|(_, row)| row) {
                    changed |= snapshot.put(row);
                }
                changed
            });
        }
        Ok(())
    }

    async fn refresh_catalog(&self, pool: &PgPool) -> Result<(), TenantsError> {
        let _writing = self.writer.lock().await;
        let catalog = read::catalog(pool, &self.sealer).await?;
        self.publish(|snapshot| {
            snapshot.set_catalog(catalog);
            true
        });
        Ok(())
    }

    /// Reads everything and takes over what is different. The lock is let go between pages, so that a
    /// revocation does not wait for a million keys.
    async fn compare(&self, pool: &PgPool) -> Result<(), TenantsError> {
        let began = Instant::now();
        for table in Table::ALL {
            self.compare_table(pool, table).await?;
        }
        self.refresh_catalog(pool).await?;
        self.compared_at.store(Arc::new(began));
        Ok(())
    }

    async fn compare_table(&self, pool: &PgPool, table: Table) -> Result<(), TenantsError> {
        let mut seen: Vec<i64> = Vec::new();
        loop {
            let after = seen.last().copied().unwrap_or(i64::MIN);
            let writing = self.writer.lock().await;
            let page = read::page(pool, table, after).await?;
            let full = page.len() == read::PAGE;
            seen.extend(page.iter().map(|(id, _)| *id));
            self.publish(|snapshot| {
                let mut changed = false;
                for (id, row) in page {
                    changed |= match row {
                        Some(row) => snapshot.put(row),
                        None => snapshot.remove(table, id),
                    };
                }
                changed
            });
            drop(writing);
            if !full {
                break;
            }
        }
        // What is known and was not seen is gone, or came while pages were read: each is looked up.
        let mut unseen = self.snapshot().ids(table);
        unseen.retain(|id| seen.binary_search(id).is_err());
        self.refresh_rows(pool, table, &unseen).await
    }

    /// Replaces the snapshot by a changed copy, if it did change. Only under the writer's lock.
    fn publish(&self, change: impl FnOnce(&mut Snapshot) -> bool) {
        let mut next = Snapshot::clone(&self.current.load());
        if change(&mut next) {
            self.current.store(Arc::new(next));
        }
    }
}
