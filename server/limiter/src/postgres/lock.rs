//! The locks under which counters change, and the clock that is read under them.

use std::collections::BTreeSet;

use domain::admission::{Scope, Take};
use domain::id::TenantId;
use domain::window::UnixMs;
use sqlx::{PgConnection, PgExecutor};

use crate::admission::LimiterError;

/// Advisory locks with two keys are told apart by the first. These two are Weir's for counters, and nobody else's.
const TENANT_CLASS: i32 = 7_101;
/// Counters of a provider are shared by all tenants. It is the larger class, and is locked after the tenant's.
const PROVIDER_CLASS: i32 = 7_102;
/// The second key has 31 bits: tenants further apart than this share a lock, which only makes them wait.
const KEYS: i64 = 1 << 31;

/// The locks of one tenant and of the providers whose own counters are concerned, in the order they are taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Locks(BTreeSet<(i32, i32)>);

impl Locks {
    /// The tenant's lock, and one for each provider among these scopes.
    pub(crate) fn of(tenant_id: TenantId, scopes: impl IntoIterator<Item = (Scope, i64)>) -> Self {
        let providers = scopes.into_iter().filter(|(scope, _)| *scope == Scope::Provider);
        let mut locks: BTreeSet<_> =
            providers.map(|(_, provider)| (PROVIDER_CLASS, folded(provider))).collect();
        locks.insert((TENANT_CLASS, folded(tenant_id.0)));
        Self(locks)
    }

    /// The lock of a provider's own counters alone.
    pub(crate) fn of_provider(provider: i64) -> Self {
        Self(BTreeSet::from([(PROVIDER_CLASS, folded(provider))]))
    }

    /// Whether they cover what a hold took.
    pub(super) fn cover(&self, takes: &[Take]) -> bool {
        let mut providers = takes.iter().filter(|take| take.scope == Scope::Provider);
        providers.all(|take| self.0.contains(&(PROVIDER_CLASS, folded(take.scope_id))))
    }

    /// The first keys, in the order they are taken.
    pub(super) fn classes(&self) -> Vec<i32> {
        self.0.iter().map(|(class, _)| *class).collect()
    }

    /// The second keys, in the order they are taken.
    pub(super) fn keys(&self) -> Vec<i32> {
        self.0.iter().map(|(_, key)| *key).collect()
    }

    /// Takes the locks until the transaction ends, and then reads the clock: an instant before the wait could
    /// lie before one that is already written down.
    pub(crate) async fn take(
        &self,
        connection: &mut PgConnection,
        now: Option<UnixMs>,
    ) -> Result<UnixMs, LimiterError> {
        let now_ms = sqlx::query_scalar!(
            r#"with locked as materialized (
                   select pg_advisory_xact_lock(l.class, l.key)
                   from unnest($1::int[], $2::int[]) as l (class, key))
               select coalesce($3, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as "now_ms!"
               from (select count(*) from locked) as all_locked"#,
            &self.classes()[..],
            &self.keys()[..],
            now.map(|now| now.0),
        )
        .fetch_one(connection)
        .await?;
        Ok(UnixMs(now_ms))
    }
}

fn folded(id: i64) -> i32 {
    i32::try_from(id.rem_euclid(KEYS)).unwrap_or(i32::MAX)
}

/// The store's clock, or the instant that stands for it.
pub(super) async fn clock(
    executor: impl PgExecutor<'_>,
    now: Option<UnixMs>,
) -> Result<UnixMs, LimiterError> {
    if let Some(now) = now {
        return Ok(now);
    }
    let now_ms = sqlx::query_scalar!(
        r#"select floor(extract(epoch from clock_timestamp()) * 1000)::bigint as "now_ms!""#
    )
    .fetch_one(executor)
    .await?;
    Ok(UnixMs(now_ms))
}
