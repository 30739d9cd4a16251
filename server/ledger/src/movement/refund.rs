//! A refund, spread over the calls it is for: each call and each budget gets back no more than it gave.

use std::collections::BTreeMap;

use domain::admission::Scope;
use domain::money::Nanos;
use domain::window::UnixMs;
use sqlx::PgConnection;
use time::{Duration, OffsetDateTime};

use super::post::Posting;
use super::{MovementError, RefundOf, rejected};
use crate::booked;
use crate::error::LedgerError;
use crate::give_back::{self, Shares, Slice};
use crate::instant::to_ms;

/// How long before its posting a call may have been admitted: its own time, and the longest that a spool keeps it.
const ADMITTED_BEFORE: Duration = Duration::days(35);

/// A call that something may be given back for.
struct Call {
    request_id: String,
    admitted_at: OffsetDateTime,
    bookings: Option<String>,
    ledger_transaction: Option<i64>,
    /// What it was charged and did not get back yet.
    left: i64,
}

/// Spreads a refund over its calls, newest first, and gives the budgets back what they used for it. Says which
/// transaction of usage it is for.
pub(super) async fn spread(
    connection: &mut PgConnection,
    posting: &Posting<'_>,
    of: RefundOf,
    amount: Nanos,
) -> Result<Option<i64>, MovementError> {
    let calls = match of {
        RefundOf::Call(id) => one(connection, posting, &id.to_string()).await?,
        RefundOf::Transaction(id) => of_transaction(connection, posting, id).await?,
    };
    let most = calls.iter().fold(0_i64, |sum, call| sum.saturating_add(call.left));
    if amount.0 > most {
        let why = format!("of this at most {most} nano-USD can still be given back");
        return Err(MovementError::Rejected(why));
    }
    let (mut rest, mut parts, mut shares) = (amount.0, Vec::new(), BTreeMap::new());
    for call in calls.iter().filter(|call| call.left > 0) {
        let part = call.left.min(rest);
        rest -= part;
        if part > 0 {
            parts.push((call.request_id.clone(), part));
            share(connection, posting, call, part, &mut shares).await?;
        }
    }
    give_back::lower(connection, posting.tenant_id, posting.transaction_id, &shares).await?;
    insert_parts(connection, posting.transaction_id, &parts).await?;
    Ok(match of {
        RefundOf::Call(_) => calls.first().and_then(|call| call.ledger_transaction),
        RefundOf::Transaction(id) => Some(id),
    })
}

async fn one(
    connection: &mut PgConnection,
    posting: &Posting<'_>,
    request_id: &str,
) -> Result<Vec<Call>, MovementError> {
    let calls = sqlx::query_as!(
        Call,
        r#"select e.request_id, e.admitted_at, e.bookings, e.ledger_transaction,
                  (e.charge_nanos - coalesce(sum(r.amount_nanos), 0))::bigint as "left!"
           from usage_events e
           left join refunded_calls r on r.request_id = e.request_id
                and not exists (select from movements u
                                where u.of_transaction = r.transaction_id and u.kind = 'reversal')
           where e.request_id = $1 and e.tenant_id = $2
           group by e.request_id, e.admitted_at, e.bookings, e.ledger_transaction, e.charge_nanos"#,
        request_id,
        posting.tenant_id.0,
    )
    .fetch_all(connection)
    .await?;
    if calls.is_empty() { Err(MovementError::NotFound("call")) } else { Ok(calls) }
}

async fn of_transaction(
    connection: &mut PgConnection,
    posting: &Posting<'_>,
    transaction_id: i64,
) -> Result<Vec<Call>, MovementError> {
    let posted_at = sqlx::query_scalar!(
        r#"select at from balance_ledger
           where transaction_id = $1 and tenant_id = $2 and account = 'usage' and kind = 'usage'"#,
        transaction_id,
        posting.tenant_id.0,
    )
    .fetch_optional(&mut *connection)
    .await?
    .ok_or(MovementError::NotFound("transaction of usage"))?;
    let calls = sqlx::query_as!(
        Call,
        r#"select e.request_id, e.admitted_at, e.bookings, e.ledger_transaction,
                  (e.charge_nanos - coalesce(sum(r.amount_nanos), 0))::bigint as "left!"
           from usage_events e
           left join refunded_calls r on r.request_id = e.request_id
                and not exists (select from movements u
                                where u.of_transaction = r.transaction_id and u.kind = 'reversal')
           where e.ledger_transaction = $1 and e.tenant_id = $2 and e.admitted_at between $3 and $4
           group by e.request_id, e.admitted_at, e.bookings, e.ledger_transaction, e.charge_nanos
           order by e.admitted_at desc, e.request_id desc"#,
        transaction_id,
        posting.tenant_id.0,
        posted_at - ADMITTED_BEFORE,
        // Clocks of servers differ by less.
        posted_at + Duration::DAY,
    )
    .fetch_all(connection)
    .await?;
    Ok(calls)
}

/// Adds what the call's budgets get back: every limit on money that it was booked on, but a provider's, which really
/// was used, and the balance, which the posting itself moves.
async fn share(
    connection: &mut PgConnection,
    posting: &Posting<'_>,
    call: &Call,
    part: i64,
    shares: &mut Shares,
) -> Result<(), MovementError> {
    let slices: Vec<Slice> = match &call.bookings {
        Some(text) => {
            let bookings =
                booked::read(text).ok_or_else(|| LedgerError::unreadable("usage_events"))?;
            let of_money = bookings.into_iter().filter(|booking| {
                booking.scope != Scope::Provider && booking.meter.ends_with("_cost")
            });
            of_money.map(Slice::from).collect()
        }
        // From before bookings were kept: the month is known from the instant.
        None => {
            let at: UnixMs = to_ms(call.admitted_at);
            give_back::month_slice(connection, posting.tenant_id, at).await?.into_iter().collect()
        }
    };
    for slice in slices {
        let sum = shares.entry(slice).or_insert(0_i64);
        *sum = sum.checked_add(part).ok_or_else(|| rejected("the refund does not fit"))?;
    }
    Ok(())
}

async fn insert_parts(
    connection: &mut PgConnection,
    transaction_id: i64,
    parts: &[(String, i64)],
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        r#"insert into refunded_calls (request_id, transaction_id, amount_nanos)
           select p.request_id, $1, p.amount from unnest($2::text[], $3::bigint[]) as p (request_id, amount)"#,
        transaction_id,
        &parts.iter().map(|(id, _)| id.clone()).collect::<Vec<_>>()[..],
        &parts.iter().map(|(_, part)| *part).collect::<Vec<_>>()[..],
    )
    .execute(connection)
    .await
    .map(drop)
}
