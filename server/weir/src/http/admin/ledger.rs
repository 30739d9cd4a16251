//! A tenant's ledger: what its balance moved by, and money that is moved by hand.

use axum::Json;
use domain::admission::MAX_COUNT;
use domain::id::TenantId;
use domain::money::Nanos;
use domain::window::UnixMs;
use http::{HeaderMap, StatusCode};
use ledger::movement::{Kind, Moved, MovementError, Order, RefundOf};
use ledger::report::{LedgerCursor, ledger_lines};
use serde::{Deserialize, Serialize};
use tenants::tenant;
use utoipa::{IntoParams, ToSchema};

use super::ask::{Ask, At, Page, Params, Problem, Said, instant, rfc3339};
use crate::deeds::money::{MoneyError, move_money};
use crate::http::error::Code;

/// The most rows of a page.
const PAGE_ROWS_MAX: i64 = 500;
/// How many rows a page has when nobody says.
const PAGE_ROWS: i64 = 100;
/// Where a client may put the reference instead of the body.
const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// The words of a line.
const KINDS: [&str; 7] = ["usage", "top_up", "grant", "adjustment", "refund", "reversal", "expiry"];

/// Which lines.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct LineFilter {
    /// `usage`, `top_up`, `grant`, `adjustment`, `refund`, `reversal` or `expiry`.
    kind: Option<String>,
    /// How many rows, at most 500; 100 when nothing is said.
    limit: Option<i64>,
    /// `next_cursor` of the page before.
    cursor: Option<String>,
}

/// One movement of the balance, or the usage of one batch of calls.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct LedgerLine {
    transaction_id: i64,
    /// `usage`, `top_up`, `grant`, `adjustment`, `refund`, `reversal` or `expiry`.
    kind: String,
    /// What the balance moved by.
    amount_nanos: i64,
    /// The same in USD.
    amount_usd: String,
    reason: String,
    actor: String,
    at: String,
    reference: Option<String>,
    /// Of a grant: from when it may be taken back.
    expires_at: Option<String>,
    /// Of a refund of one call: which.
    request_id: Option<String>,
    /// Of a refund the usage, of a reversal the movement, of an expiry the grant.
    of_transaction: Option<i64>,
    /// Which transaction undid it, or ended it if it is a grant.
    ended_by: Option<i64>,
}

/// Money to be moved.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct MovementToMake {
    /// `top_up`, `grant`, `adjustment`, `refund` or `reversal`.
    kind: String,
    /// How much. Above zero, but for an adjustment against the tenant; not said for a reversal.
    amount_nanos: Option<i64>,
    reason: String,
    /// Your name for it: under one reference money moves once. It may also be sent as `Idempotency-Key`.
    reference: Option<String>,
    /// Of a grant: from when on what is not used up is taken back.
    expires_at: Option<String>,
    /// Of an adjustment in the tenant's favour: an instant in the month whose budget gets it back.
    usage_at: Option<String>,
    /// Of a refund: the call it is for.
    request_id: Option<String>,
    /// Of a refund: the transaction of usage it is for; of a reversal: the movement it undoes.
    transaction_id: Option<i64>,
}

/// Money that was moved.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct Movement {
    transaction_id: i64,
    /// What the balance moved by.
    amount_nanos: i64,
    /// The balance after it; of a repeated order the balance now.
    balance_nanos: i64,
    /// Whether the same was done before under this reference: then nothing has moved now.
    repeated: bool,
}

impl From<Moved> for Movement {
    fn from(moved: Moved) -> Self {
        Self {
            transaction_id: moved.transaction_id,
            amount_nanos: moved.amount.0,
            balance_nanos: moved.balance.0,
            repeated: moved.repeated,
        }
    }
}

/// What a tenant's balance moved by, newest first.
#[utoipa::path(
    get,
    path = "/admin/api/v1/tenants/{id}/ledger",
    tag = "tenants",
    params(("id" = i64, Path), LineFilter),
    responses((status = 200, body = Page<LedgerLine>), (status = 404, description = "no such tenant"))
)]
pub(in crate::http) async fn list(
    ask: Ask,
    At(id): At<i64>,
    Params(filter): Params<LineFilter>,
) -> Result<Json<Page<LedgerLine>>, Problem> {
    let (pool, tenant_id) = (&ask.weir.pool, TenantId(id));
    tenant::find(pool, tenant_id).await.map_err(|e| ask.of_tenants(e))?;
    let kind = filter.kind.as_deref();
    if kind.is_some_and(|kind| !KINDS.contains(&kind)) {
        return Err(ask.invalid("kind", format!("is none of {}", KINDS.join(", "))));
    }
    let wrong = || ask.invalid("cursor", "send `next_cursor` of the page before");
    let cursor = filter.cursor.as_deref().map(|text| cursor(text).ok_or_else(wrong)).transpose()?;
    let rows = filter.limit.unwrap_or(PAGE_ROWS).clamp(1, PAGE_ROWS_MAX);
    let lines = ledger_lines(pool, tenant_id, kind, cursor, rows).await;
    let lines = lines.map_err(|e| ask.of_ledger(e))?;
    let full = i64::try_from(lines.len()).unwrap_or(i64::MAX) >= rows;
    let next = lines.last().filter(|_| full).map(|last| last.cursor);
    let next_cursor = next.map(|next| format!("{}.{}", next.at_micros, next.transaction_id));
    let data = lines.into_iter().map(|line| LedgerLine {
        transaction_id: line.transaction_id,
        kind: line.kind,
        amount_nanos: line.amount.0,
        amount_usd: line.amount.to_string(),
        reason: line.reason,
        actor: line.actor,
        at: rfc3339(line.at),
        reference: line.reference,
        expires_at: line.expires_at.map(rfc3339),
        request_id: line.request_id.map(|id| id.to_string()),
        of_transaction: line.of_transaction,
        ended_by: line.ended_by,
    });
    Ok(Json(Page { data: data.collect(), next_cursor }))
}

fn cursor(text: &str) -> Option<LedgerCursor> {
    let (at, transaction) = text.split_once('.')?;
    Some(LedgerCursor { at_micros: at.parse().ok()?, transaction_id: transaction.parse().ok()? })
}

/// Moves money: a payment, a grant for a time, a correction, a refund of calls, the reversal of a movement.
#[utoipa::path(
    post,
    path = "/admin/api/v1/tenants/{id}/ledger",
    tag = "tenants",
    params(("id" = i64, Path), ("Idempotency-Key" = Option<String>, Header, description = "the reference, when the body has none")),
    request_body = MovementToMake,
    responses(
        (status = 201, body = Movement),
        (status = 200, body = Movement, description = "done before under this reference"),
        (status = 404, description = "the tenant has no such call or movement"),
        (status = 409, description = "undone before, or the reference belongs to another movement"),
    )
)]
pub(in crate::http) async fn create(
    ask: Ask,
    At(id): At<i64>,
    headers: HeaderMap,
    Said(said): Said<MovementToMake>,
) -> Result<(StatusCode, Json<Movement>), Problem> {
    let in_header = headers.get(IDEMPOTENCY_KEY).and_then(|value| value.to_str().ok());
    let reference = said.reference.clone().or_else(|| in_header.map(ToOwned::to_owned));
    if reference.is_none() {
        let why = "say a name of your own for it, so that it moves once however often it is sent";
        return Err(ask.invalid("reference", why));
    }
    let kind = said.kind(&ask)?;
    let actor = ask.actor();
    let order = Order {
        tenant_id: TenantId(id),
        kind,
        actor: actor.name.clone(),
        reason: said.reason,
        reference,
    };
    let moved = move_money(&ask.weir, actor, order).await.map_err(|error| of_money(&ask, error))?;
    let status = if moved.repeated { StatusCode::OK } else { StatusCode::CREATED };
    Ok((status, Json(Movement::from(moved))))
}

fn of_money(ask: &Ask, error: MoneyError) -> Problem {
    match error {
        MoneyError::Tenants(error) => ask.of_tenants(error),
        MoneyError::Movement(MovementError::Books(error)) => ask.of_ledger(error),
        MoneyError::Movement(MovementError::NotFound(what)) => {
            ask.problem(Code::NotFound, format!("The tenant has no such {what}."))
        }
        MoneyError::Movement(MovementError::Conflict(why)) => ask.problem(Code::Conflict, why),
        MoneyError::Movement(MovementError::Rejected(why)) => {
            ask.problem(Code::InvalidRequest, why)
        }
    }
}

impl MovementToMake {
    /// What is to move. A member that the kind has no use for is told, not ignored.
    fn kind(&self, ask: &Ask) -> Result<Kind, Problem> {
        let members = match &*self.kind {
            "top_up" => &["amount_nanos"][..],
            "grant" => &["amount_nanos", "expires_at"],
            "adjustment" => &["amount_nanos", "usage_at"],
            "refund" => &["amount_nanos", "request_id", "transaction_id"],
            "reversal" => &["transaction_id"],
            _ => {
                let why = "is none of top_up, grant, adjustment, refund and reversal";
                return Err(ask.invalid("kind", why));
            }
        };
        let said = [
            ("amount_nanos", self.amount_nanos.is_some()),
            ("expires_at", self.expires_at.is_some()),
            ("usage_at", self.usage_at.is_some()),
            ("request_id", self.request_id.is_some()),
            ("transaction_id", self.transaction_id.is_some()),
        ];
        for (member, is_said) in said {
            if is_said && !members.contains(&member) {
                return Err(ask.invalid(member, format!("a {} has none", self.kind)));
            }
        }
        match &*self.kind {
            "top_up" => Ok(Kind::TopUp { amount: self.amount(ask)? }),
            "grant" => {
                let amount = self.amount(ask)?;
                let expires_at = self.at(ask, "expires_at", self.expires_at.as_deref())?;
                let missing = || ask.invalid("expires_at", "say until when the grant can be used");
                Ok(Kind::Grant { amount, expires_at: expires_at.ok_or_else(missing)? })
            }
            "adjustment" => {
                let usage_at = self.at(ask, "usage_at", self.usage_at.as_deref())?;
                Ok(Kind::Adjustment { amount: self.amount(ask)?, usage_at })
            }
            "refund" => Ok(Kind::Refund { of: self.refund_of(ask)?, amount: self.amount(ask)? }),
            _ => {
                let missing = || ask.invalid("transaction_id", "say which movement is undone");
                Ok(Kind::Reversal { transaction_id: self.transaction_id.ok_or_else(missing)? })
            }
        }
    }

    fn amount(&self, ask: &Ask) -> Result<Nanos, Problem> {
        let amount = self.amount_nanos.filter(|amount| (-MAX_COUNT..=MAX_COUNT).contains(amount));
        let wrong = || ask.invalid("amount_nanos", format!("say an amount of at most {MAX_COUNT}"));
        amount.map(Nanos).ok_or_else(wrong)
    }

    fn at(
        &self,
        ask: &Ask,
        member: &'static str,
        text: Option<&str>,
    ) -> Result<Option<UnixMs>, Problem> {
        text.map(|text| instant(ask, member, text)).transpose()
    }

    fn refund_of(&self, ask: &Ask) -> Result<RefundOf, Problem> {
        match (&self.request_id, self.transaction_id) {
            (Some(id), None) => {
                let wrong = |_| ask.invalid("request_id", "is no request id");
                id.parse().map(RefundOf::Call).map_err(wrong)
            }
            (None, Some(id)) => Ok(RefundOf::Transaction(id)),
            _ => Err(ask.invalid("request_id", "say either request_id or transaction_id")),
        }
    }
}
