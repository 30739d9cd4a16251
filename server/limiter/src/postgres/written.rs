//! Holds whose call is in the books already, and which nobody has ended yet.
//!
//! Between the commit of an event and the settlement of its hold a call counts twice: as used and as held. That errs on
//! the safe side, but a call must not be refused for money that is there. So before a refusal in which live holds have a
//! part, those of them are settled whose event is written.

use domain::admission::{Decision, Reason, Take};
use domain::id::TenantId;
use domain::money::Nanos;
use domain::window::UnixMs;
use sqlx::PgConnection;
use sqlx::types::Json;

use super::give_back::{Ended, Ending, give_back};
use super::lock::Locks;
use crate::admission::LimiterError;
use crate::hold::Actual;

/// How many of the tenant's holds are looked at before a refusal, those that expire first: twice the most calls that
/// a plan of Weir's runs at the same time.
const AT_REFUSAL: i64 = 256;

/// Whether the decision is a refusal that fewer holds might turn.
pub(super) fn may_stand_in_the_way(decision: &Decision) -> bool {
    match decision {
        Decision::Admit(_) => false,
        Decision::Refuse(refusal) => match refusal.reason {
            Reason::ConcurrencyExhausted => true,
            Reason::ExceedsCapacity => false,
            Reason::RateLimited
            | Reason::TokenRateLimited
            | Reason::WindowExhausted
            | Reason::BudgetExhausted
            | Reason::BalanceExhausted => refusal.held > 0,
        },
    }
}

/// Settles the tenant's holds whose event is written, and says how many. The caller's transaction has the locks.
pub(super) async fn settle(
    connection: &mut PgConnection,
    tenant_id: TenantId,
    locks: &Locks,
    now: UnixMs,
) -> Result<usize, LimiterError> {
    let rows = sqlx::query!(
        r#"select h.request_id, h.takes as "takes: Json<Vec<Take>>", e.charge_nanos,
                  e.input + e.cached_input + e.cache_write_short + e.cache_write_long + e.input_audio
                  + e.output + e.reasoning + e.output_audio + e.output_image as "tokens!"
           from (select request_id, takes, timestamptz 'epoch' + admitted_ms * interval '1 millisecond' as admitted_at
                 from holds where tenant_id = $1 order by expires_ms limit $2) h
           -- By the key, whose instant says which partition it is. Either index serves, so that no plan that was made
           -- while a partition was empty reads all of it later.
           cross join lateral (
               select * from usage_events u
               where u.request_id = h.request_id and u.admitted_at = h.admitted_at and u.tenant_id = $1
               offset 0) e"#,
        tenant_id.0,
        AT_REFUSAL,
    )
    .fetch_all(&mut *connection)
    .await?;
    let mut ended = Vec::with_capacity(rows.len());
    // A hold on a provider whose lock is not taken here is left to its own call.
    for row in rows.iter().filter(|row| locks.cover(&row.takes)) {
        let unreadable = |_| LimiterError::Unreadable(row.request_id.clone());
        let actual = Actual { tokens: row.tokens, charge: Nanos(row.charge_nanos) };
        ended.push(Ended {
            request_id: row.request_id.parse().map_err(unreadable)?,
            takes: &row.takes,
            ending: Ending::Settled(actual),
        });
    }
    if ended.is_empty() {
        return Ok(0);
    }
    let gone = give_back(connection, tenant_id, locks, &ended, false, Some(now)).await?;
    Ok(gone.len())
}
