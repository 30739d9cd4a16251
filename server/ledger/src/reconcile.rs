//! The books compared with themselves: differences are written down first, and then the sums are repaired.
//!
//! Events and the ledger are the truth and are never repaired. Slices and rollups are sums of the events, kept for
//! speed: where one is wrong it is set right, if it still is what the comparison saw. All of one tenant is compared in
//! one snapshot of the database, in which a batch of the writer is whole or not there, so that nothing looks wrong
//! only because calls are going on.

mod rollups;
mod rounds;
mod slices;
mod sums;

use domain::id::TenantId;
use domain::window::{UnixMs, rollup_start};
use sqlx::{PgConnection, PgPool};
use time::OffsetDateTime;

pub use self::rounds::{Audit, portion};
use crate::drift::{self, Found};
use crate::error::LedgerError;
use crate::usage_event::DriftNote;

/// One snapshot for all that is compared. The statements are few and their plans hang on the tenant's size.
const COMPARE: &str = "begin isolation level repeatable read, read only; \
                       set local statement_timeout = '15min'; set local jit = off; \
                       set local plan_cache_mode = force_custom_plan";
/// The owner of the meters that all tenants share.
pub const HOUSE: TenantId = TenantId(0);
/// How many differences of one kind are looked at in one go: a table that is wholly wrong is mended in portions.
const DIFFERENCES_AT_ONCE: i64 = 500;
/// The grain of every slice of a rolling window divides it.
const HOUR_MS: i64 = 60 * 60 * 1_000;

/// How much of a tenant's books is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// What calls have moved that were admitted at or after this instant: rollups, and slices that they are in, the
    /// month's where it is not too long.
    Since(UnixMs),
    /// Everything, the ledger included. It reads every event.
    Whole,
}

/// Two sums that should be equal and are not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Whose.
    pub tenant_id: TenantId,
    /// What differs: `expected` is what the truth says, `found` what was kept.
    pub note: DriftNote,
    /// How it is set right; nothing for what is only reported.
    mend: Option<Mend>,
}

impl Difference {
    /// Whether it is a sum that may be set right.
    #[must_use]
    pub const fn can_be_repaired(&self) -> bool {
        self.mend.is_some()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Mend {
    Slice(slices::Mend),
    Rollup(Box<rollups::Mend>),
}

/// What a comparison saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compared {
    /// What differed, at most 500 of each kind.
    pub differences: Vec<Difference>,
    /// Slices that could not be compared, since events in them do not tell what they booked.
    pub unproven: i64,
    /// When it was seen, by the database's clock.
    cut: OffsetDateTime,
}

/// What became of the differences.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// How many tenants were compared.
    pub tenants: u64,
    /// How many differences there were.
    pub found: u64,
    /// How many of them were set right.
    pub repaired: u64,
    /// How many are only reported: a person must look.
    pub reported: u64,
    /// Slices that could not be compared.
    pub unproven: i64,
    /// Whose slices were repaired: an engine that keeps counters of its own must read them again.
    pub mended: Vec<TenantId>,
}

impl Outcome {
    /// Adds what became of another tenant's.
    pub fn add(&mut self, other: Self) {
        self.tenants = self.tenants.saturating_add(other.tenants);
        self.found = self.found.saturating_add(other.found);
        self.repaired = self.repaired.saturating_add(other.repaired);
        self.reported = self.reported.saturating_add(other.reported);
        self.unproven = self.unproven.saturating_add(other.unproven);
        self.mended.extend(other.mended);
    }
}

/// Compares, writes down, repairs: one tenant's books, or [`HOUSE`] for what all tenants share.
///
/// It may be broken off at any step and run by several processes at once: what is not done is found again.
///
/// # Errors
/// When the database cannot be reached.
pub async fn tenant(
    pool: &PgPool,
    tenant_id: TenantId,
    extent: Extent,
    now: UnixMs,
) -> Result<Outcome, LedgerError> {
    let compared = compare(pool, tenant_id, extent, now).await?;
    record(pool, &compared).await?;
    let mut outcome = Outcome { tenants: 1, unproven: compared.unproven, ..Outcome::default() };
    for difference in &compared.differences {
        outcome.found += 1;
        if !difference.can_be_repaired() {
            outcome.reported += 1;
        } else if repair(pool, difference).await? {
            outcome.repaired += 1;
            let of_slice = matches!(difference.mend, Some(Mend::Slice(_)));
            if of_slice && !outcome.mended.contains(&tenant_id) {
                outcome.mended.push(tenant_id);
            }
        }
    }
    Ok(outcome)
}

/// The first step: looks at everything in one snapshot, and changes nothing.
///
/// # Errors
/// When the database cannot be reached.
pub async fn compare(
    pool: &PgPool,
    tenant_id: TenantId,
    extent: Extent,
    now: UnixMs,
) -> Result<Compared, LedgerError> {
    let mut snapshot = pool.begin_with(COMPARE).await?;
    let cut = sqlx::query_scalar!(r#"select clock_timestamp() as "cut!""#)
        .fetch_one(&mut *snapshot)
        .await?;
    let mut compared = Compared { differences: Vec::new(), unproven: 0, cut };
    if tenant_id == HOUSE {
        slices::compare(&mut snapshot, tenant_id, slices::from_for_house(now), now, &mut compared)
            .await?;
        sums::compare_house(&mut snapshot, &mut compared).await?;
    } else {
        let (rollups_from, slices_from) = bounds(&mut snapshot, tenant_id, extent).await?;
        rollups::compare(&mut snapshot, tenant_id, rollups_from, &mut compared).await?;
        slices::compare(&mut snapshot, tenant_id, slices_from, now, &mut compared).await?;
        if extent == Extent::Whole {
            sums::compare(&mut snapshot, tenant_id, &mut compared).await?;
        }
    }
    // Nothing was written.
    snapshot.rollback().await?;
    Ok(compared)
}

/// From where on rollups and slices are compared.
async fn bounds(
    snapshot: &mut PgConnection,
    tenant_id: TenantId,
    extent: Extent,
) -> Result<(UnixMs, UnixMs), LedgerError> {
    let Extent::Since(since) = extent else { return Ok((UnixMs(0), UnixMs(0))) };
    let hour = UnixMs(since.0 - since.0.rem_euclid(HOUR_MS));
    let month = slices::month_in_reach(snapshot, tenant_id, hour).await?;
    Ok((rollup_start(since), month.map_or(hour, |month| month.min(hour))))
}

/// The second step: writes the differences down, before anything is repaired. What another process has written down
/// since this comparison is not written twice.
///
/// # Errors
/// When the database cannot be reached.
pub async fn record(pool: &PgPool, compared: &Compared) -> Result<(), LedgerError> {
    let Some(first) = compared.differences.first() else { return Ok(()) };
    let mut change = pool.begin().await?;
    sqlx::query!(
        "select pg_advisory_xact_lock(hashtextextended('weir.reconcile', $1))",
        first.tenant_id.0
    )
    .fetch_one(&mut *change)
    .await?;
    let known = sqlx::query!(
        "select kind, meter, expected, found, cause from drift where seen_at >= $1 and tenant_id = $2",
        compared.cut,
        first.tenant_id.0,
    )
    .fetch_all(&mut *change)
    .await?;
    let is_known = |note: &DriftNote| {
        known.iter().any(|row| {
            (&row.kind, &row.meter, row.expected, row.found, &row.cause)
                == (&note.kind, &note.meter, note.expected, note.found, &note.cause)
        })
    };
    let fresh: Vec<Found<'_>> = compared
        .differences
        .iter()
        .filter(|difference| !is_known(&difference.note))
        .map(|difference| Found {
            tenant_id: difference.tenant_id,
            request_id: None,
            note: &difference.note,
        })
        .collect();
    drift::record(&mut change, &fresh).await?;
    change.commit().await?;
    Ok(())
}

/// The third step: sets a sum right, if it still is what the comparison saw, and says whether. A sum that has moved
/// is left alone: the next comparison sees it as it is then.
///
/// # Errors
/// When the database cannot be reached.
pub async fn repair(pool: &PgPool, difference: &Difference) -> Result<bool, LedgerError> {
    let repaired = match &difference.mend {
        None => false,
        Some(Mend::Slice(mend)) => mend.apply(pool, difference.tenant_id).await?,
        Some(Mend::Rollup(mend)) => mend.apply(pool, difference.tenant_id).await?,
    };
    if repaired {
        let kind = difference.note.kind.clone();
        metrics::counter!("weir_repairs_total", "kind" => kind).increment(1);
        tracing::warn!(
            tenant_id = difference.tenant_id.0,
            kind = difference.note.kind,
            expected = difference.note.expected,
            found = difference.note.found,
            cause = difference.note.cause,
            "a sum of the books was set right"
        );
    }
    Ok(repaired)
}
