//! Counters beside the books: a difference is written down before it is put right.
//!
//! Only what nothing moves can be compared. Every ending moves a shard's cut; so both sides count when the cut is the
//! same before and after the books are read, and no live hold has an event already. Then a difference is real: it is
//! written to `drift`, and repaired if the cut is still the same. Books are never repaired here.

use std::collections::BTreeMap;

use domain::admission::Scope;
use domain::window::UnixMs;
use ledger::DriftNote;
use ledger::drift::{self, Found};
use ledger::slice::owner;

use super::reply::Answer;
use super::shard::Shard;
use super::{RedisEngine, scripts, wire};
use crate::admission::LimiterError;

/// The kind of drift that a counter is which differs from the books.
const COUNTER_MISMATCH: &str = "counter_mismatch";
/// How often a shard is read again because something moved: a busy one has to be caught between two calls.
const TRIES: usize = 10;

/// What a shard counts.
#[derive(Debug)]
struct Audit {
    cut: i64,
    holds: Vec<String>,
    fields: BTreeMap<String, i64>,
}

/// A counter and what it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Difference {
    field: String,
    found: i64,
    expected: i64,
}

impl RedisEngine {
    /// Compares counters with the books: of all owners, or of those in which something ended since the last time.
    /// Says how many counters differed and were put right.
    ///
    /// # Errors
    /// When Redis or the books cannot be reached, or the epoch is over.
    pub async fn reconcile(&self, epoch: i64, all: bool) -> Result<u64, LimiterError> {
        let mut repaired = 0_u64;
        for shard in self.warm_shards(epoch).await? {
            repaired = repaired.saturating_add(self.reconcile_shard(&shard, epoch, all).await?);
        }
        Ok(repaired)
    }

    async fn reconcile_shard(
        &self,
        shard: &Shard,
        epoch: i64,
        all: bool,
    ) -> Result<u64, LimiterError> {
        for _ in 0..TRIES {
            let Some(audit) = self.audit(shard, epoch).await? else { return Ok(0) };
            if !all && self.is_compared(shard, audit.cut) {
                return Ok(0);
            }
            let Some(differences) = self.compare(shard, &audit, epoch).await? else { continue };
            if differences.is_empty() {
                self.compared(shard, audit.cut);
                return Ok(0);
            }
            self.note(shard, &differences).await?;
            if self.repair(shard, audit.cut, &differences, epoch).await? {
                return Ok(differences.len() as u64);
            }
        }
        // It is never still: the next minute, or the night, will do.
        Ok(0)
    }

    async fn audit(&self, shard: &Shard, epoch: i64) -> Result<Option<Audit>, LimiterError> {
        let command = vec![epoch.to_string().into_bytes()];
        let mut reply = self.store.eval(&scripts::AUDIT, shard, &command).await?;
        match reply.answer()? {
            Answer::Audit => {}
            Answer::Cold => return Ok(None),
            Answer::Stale => return Err(LimiterError::Superseded),
            _ => return Err(reply.unexpected()),
        }
        let (cut, count) = (reply.number()?, reply.number()?);
        let holds = (0..count).map(|_| reply.text()).collect::<Result<Vec<_>, _>>()?;
        Ok(Some(Audit { cut, holds, fields: reply.pairs()?.into_iter().collect() }))
    }

    /// The counters that differ; nothing when something moved meanwhile, so that they cannot be compared.
    async fn compare(
        &self,
        shard: &Shard,
        audit: &Audit,
        epoch: i64,
    ) -> Result<Option<Vec<Difference>>, LimiterError> {
        let books = self.books_of(shard, audit).await?;
        let Some(after) = self.audit(shard, epoch).await? else { return Ok(None) };
        // Asked last: an event that was written before the books were read is found here.
        let is_moving = after.cut != audit.cut || !self.written(&after.holds).await?.is_empty();
        if is_moving || !self.written(&audit.holds).await?.is_empty() {
            return Ok(None);
        }
        let mut differences = held_differences(&audit.fields);
        for (field, expected) in &books {
            let found = audit.fields.get(field).copied().unwrap_or(0);
            if found != *expected {
                differences.push(Difference { field: field.clone(), found, expected: *expected });
            }
        }
        differences.extend(sum_differences(&audit.fields, &books));
        Ok(Some(differences))
    }

    /// What the books say of every slice, period and balance that the shard counts.
    async fn books_of(
        &self,
        shard: &Shard,
        audit: &Audit,
    ) -> Result<BTreeMap<String, i64>, LimiterError> {
        let mut asked = Vec::new();
        for field in audit.fields.keys() {
            if let Some(place) = Place::of(field) {
                asked.push(place);
            }
        }
        let tenant = shard.tenant().unwrap_or(domain::id::TenantId(0));
        let rows = sqlx::query!(
            r#"select m.ord as "ord!", coalesce(l.used, 0) as "used!",
                      coalesce((select balance_nanos from balances where tenant_id = $6), 0) as "balance!"
               from unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[], $5::bigint[])
                    with ordinality as m (owner, scope, scope_id, meter, slice, ord)
               left join meter_slices l on l.tenant_id = m.owner and l.scope = m.scope
                    and l.scope_id = m.scope_id and l.meter = m.meter and l.slice_start_ms = m.slice
               order by m.ord"#,
            &asked.iter().map(|p| owner(tenant, p.scope).0).collect::<Vec<_>>()[..],
            &asked.iter().map(|p| p.scope.code().to_owned()).collect::<Vec<_>>()[..],
            &asked.iter().map(|p| p.scope_id).collect::<Vec<_>>()[..],
            &asked.iter().map(|p| p.meter.clone()).collect::<Vec<_>>()[..],
            &asked.iter().map(|p| p.slice).collect::<Vec<_>>()[..],
            tenant.0,
        )
        .fetch_all(&self.pool)
        .await?;
        let mut books = BTreeMap::new();
        for (place, row) in asked.iter().zip(rows) {
            let value =
                if place.is_credit { row.balance.saturating_add(row.used) } else { row.used };
            books.insert(place.field.clone(), value);
        }
        Ok(books)
    }

    async fn note(&self, shard: &Shard, differences: &[Difference]) -> Result<(), LimiterError> {
        let tenant_id = shard.tenant().unwrap_or(domain::id::TenantId(0));
        let notes: Vec<DriftNote> = differences
            .iter()
            .map(|difference| DriftNote {
                kind: COUNTER_MISMATCH.to_owned(),
                meter: Some(difference.field.clone()),
                expected: difference.expected,
                found: difference.found,
                cause: "a counter in Redis differed from the books".to_owned(),
            })
            .collect();
        let found: Vec<Found<'_>> =
            notes.iter().map(|note| Found { tenant_id, request_id: None, note }).collect();
        let mut connection = self.pool.acquire().await?;
        drift::record(&mut connection, &found).await?;
        metrics::counter!("weir_drift_total", "kind" => COUNTER_MISMATCH)
            .increment(found.len() as u64);
        tracing::warn!(
            shard = shard.tag(),
            differences = found.len(),
            "counters differ from the books"
        );
        Ok(())
    }

    async fn repair(
        &self,
        shard: &Shard,
        cut: i64,
        differences: &[Difference],
        epoch: i64,
    ) -> Result<bool, LimiterError> {
        let mut command = vec![epoch.to_string().into_bytes(), cut.to_string().into_bytes()];
        for difference in differences {
            command.push(difference.field.clone().into_bytes());
            command.push(difference.found.to_string().into_bytes());
            command.push(difference.expected.to_string().into_bytes());
        }
        let mut reply = self.store.eval(&scripts::REPAIR, shard, &command).await?;
        match reply.answer()? {
            Answer::Done => Ok(true),
            Answer::Kept | Answer::Cold => Ok(false),
            Answer::Stale => Err(LimiterError::Superseded),
            _ => Err(reply.unexpected()),
        }
    }
}

/// A counter of the books.
#[derive(Debug)]
struct Place {
    field: String,
    scope: Scope,
    scope_id: i64,
    meter: String,
    slice: i64,
    /// Whether it is what was paid in: the balance and what was used.
    is_credit: bool,
}

impl Place {
    /// The slice, period or balance that a field counts; nothing for sums and held amounts.
    fn of(field: &str) -> Option<Self> {
        let mut parts = field.split('/');
        let scope = Scope::parse(parts.next()?)?;
        let scope_id = parts.next()?.parse().ok()?;
        let meter = parts.next()?.to_owned();
        let last = parts.next()?;
        if parts.next().is_some() {
            return None;
        }
        let (slice, is_credit) = match last {
            "credited" => (0, true),
            "used" if meter == wire::BALANCE => (0, false),
            _ => (last.parse().ok()?, false),
        };
        Some(Self { field: field.to_owned(), scope, scope_id, meter, slice, is_credit })
    }
}

/// Held amounts that are not the sum of the holds: the script names them twice.
fn held_differences(fields: &BTreeMap<String, i64>) -> Vec<Difference> {
    let wrong = fields.iter().filter_map(|(field, found)| {
        let expected = *fields.get(&format!("{field}!"))?;
        Some(Difference { field: field.clone(), found: *found, expected })
    });
    wrong.collect()
}

/// Sums of rolling windows that are not the sum of what the books say of their slices.
fn sum_differences(
    fields: &BTreeMap<String, i64>,
    books: &BTreeMap<String, i64>,
) -> Vec<Difference> {
    let mut wrong = Vec::new();
    for (field, oldest) in fields.iter().filter(|(field, _)| field.ends_with("/oldest")) {
        let Some(meter) = field.strip_suffix("/oldest") else { continue };
        let sum_field = format!("{meter}/used");
        let live = books.iter().filter_map(|(slice, used)| {
            let start: i64 = slice.strip_prefix(meter)?.strip_prefix('/')?.parse().ok()?;
            (UnixMs(start) >= UnixMs(*oldest)).then_some(*used)
        });
        let expected = live.fold(0_i64, i64::saturating_add);
        if let Some(found) = fields.get(&sum_field)
            && *found != expected
        {
            wrong.push(Difference { field: sum_field, found: *found, expected });
        }
    }
    wrong
}
