//! Holds whose call is in the books already, and which nobody has ended yet.
//!
//! Between the commit of an event and the settlement of its hold a call counts twice: as used and as held. That errs on
//! the safe side, but a call must not be refused for money that is there. So before a refusal in which live holds have a
//! part, those of them are settled whose event is written.

use domain::admission::{Decision, Reason, Take};
use domain::id::{RequestId, TenantId};
use domain::window::UnixMs;
use ledger::usage_event::{Written, written};
use sqlx::PgConnection;
use sqlx::types::Json;

use super::give_back::{Ended, Ending, give_back};
use super::lock::Locks;
use crate::admission::LimiterError;
use crate::hold::Actual;

/// How many of the tenant's oldest holds are looked at before a refusal: twice the most calls that a plan of Weir's runs
/// at the same time.
const AT_REFUSAL: i64 = 256;

/// Whether the decision is a refusal that fewer holds might turn.
pub(super) const fn may_stand_in_the_way(decision: &Decision) -> bool {
    match decision {
        Decision::Admit(_) => false,
        Decision::Refuse(refusal) => {
            refusal.held > 0 || matches!(refusal.reason, Reason::ConcurrencyExhausted)
        }
    }
}

/// Settles the tenant's holds whose event is written, and says how many. The caller's transaction has the locks.
pub(super) async fn end(
    connection: &mut PgConnection,
    tenant_id: TenantId,
    locks: &Locks,
    now: UnixMs,
) -> Result<usize, LimiterError> {
    let rows = sqlx::query!(
        r#"select request_id, admitted_ms, takes as "takes: Json<Vec<Take>>"
           from holds where tenant_id = $1 order by admitted_ms, request_id limit $2"#,
        tenant_id.0,
        AT_REFUSAL,
    )
    .fetch_all(&mut *connection)
    .await?;
    let mut holds = Vec::with_capacity(rows.len());
    for row in rows.into_iter().filter(|row| locks.cover(&row.takes)) {
        let request_id: RequestId =
            row.request_id.parse().map_err(|_| LimiterError::Unreadable(row.request_id.clone()))?;
        holds.push((request_id, UnixMs(row.admitted_ms), row.takes.0));
    }
    let asked: Vec<_> = holds.iter().map(|(id, admitted_at, _)| (*id, *admitted_at)).collect();
    let events = written(&mut *connection, &asked).await?;
    let ended: Vec<Ended<'_>> = events
        .iter()
        .filter_map(|event| ended(event, holds.iter().find(|(id, ..)| *id == event.request_id)?))
        .collect();
    if ended.is_empty() {
        return Ok(0);
    }
    let gone = give_back(connection, tenant_id, locks, &ended, false, Some(now)).await?;
    Ok(gone.len())
}

fn ended<'a>(
    event: &Written,
    (request_id, _, takes): &'a (RequestId, UnixMs, Vec<Take>),
) -> Option<Ended<'a>> {
    let actual = Actual { tokens: event.tokens, charge: event.charge };
    Some(Ended { request_id: *request_id, takes, ending: Ending::Settled(actual) })
}
