//! Money that moves without a call: paid in, given for a time, corrected, given back, undone.
//!
//! Each movement is lines of the ledger that add up to nothing, the balance's snapshot with them, and a row of what
//! else is known of it, in the caller's transaction. Movements of one tenant wait for each other; usage waits for none
//! of them longer than for the row of the balance.

mod expiry;
mod post;
mod refund;
mod reversal;

use domain::id::{RequestId, TenantId};
use domain::money::Nanos;
use domain::window::UnixMs;
use sqlx::PgConnection;

pub use self::expiry::expire_grants;
use self::post::{Posting, Row};
use crate::error::LedgerError;
use crate::give_back;
use crate::instant::{instant, to_ms};

/// The longest reason and the longest actor, in characters: a sentence or two.
const WORDS_CHARS_MAX: usize = 500;
/// The longest reference, in characters: an invoice's number or a random id is shorter.
const REFERENCE_CHARS_MAX: usize = 200;
/// The longest that a grant may live: what lives for ten years is paid in.
const GRANT_MS_MAX: i64 = 3_660 * 24 * 60 * 60 * 1_000;

/// What moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The tenant paid.
    TopUp {
        /// How much; above zero.
        amount: Nanos,
    },
    /// The house gives, for a time.
    Grant {
        /// How much; above zero.
        amount: Nanos,
        /// From when on what is not used up is taken back.
        expires_at: UnixMs,
    },
    /// A correction in the tenant's favour (above zero) or against it (below).
    Adjustment {
        /// How much; not zero.
        amount: Nanos,
        /// An instant in the month whose budget gets the amount back, when the correction is one of usage.
        usage_at: Option<UnixMs>,
    },
    /// What was charged is given back, with the budget that it used.
    Refund {
        /// What is given back for.
        of: RefundOf,
        /// How much; above zero, and no more than was charged and not given back yet.
        amount: Nanos,
    },
    /// One earlier movement is undone, with its effect on budgets.
    Reversal {
        /// The movement's transaction.
        transaction_id: i64,
    },
}

/// What a refund is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefundOf {
    /// One call.
    Call(RequestId),
    /// All calls of one transaction of usage: the newest call gets its part first.
    Transaction(i64),
}

impl Kind {
    /// The word in the ledger.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::TopUp { .. } => "top_up",
            Self::Grant { .. } => "grant",
            Self::Adjustment { .. } => "adjustment",
            Self::Refund { .. } => "refund",
            Self::Reversal { .. } => "reversal",
        }
    }

    /// How much was asked for; a reversal does not say.
    const fn amount(&self) -> Option<Nanos> {
        match self {
            Self::TopUp { amount }
            | Self::Grant { amount, .. }
            | Self::Adjustment { amount, .. }
            | Self::Refund { amount, .. } => Some(*amount),
            Self::Reversal { .. } => None,
        }
    }
}

/// A movement that somebody wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// Whose balance.
    pub tenant_id: TenantId,
    /// What moves.
    pub kind: Kind,
    /// Who wants it: a user's address, a token's or a job's name.
    pub actor: String,
    /// Why, for the record.
    pub reason: String,
    /// The caller's name for it. Under one name money moves once.
    pub reference: Option<String>,
}

/// Money that was moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moved {
    /// The transaction of the ledger.
    pub transaction_id: i64,
    /// What the balance moved by.
    pub amount: Nanos,
    /// The balance after it; of a repeated order the balance now.
    pub balance: Nanos,
    /// Whether the same order was carried out before: then nothing has moved now.
    pub repeated: bool,
}

/// Why money did not move. Nothing of it is in the books then, once the caller's transaction is given up.
#[derive(Debug, Clone, thiserror::Error)]
pub enum MovementError {
    /// The tenant has no such thing.
    #[error("the tenant has no such {0}")]
    NotFound(&'static str),
    /// It was done before, or its reference belongs to another order.
    #[error("{0}")]
    Conflict(String),
    /// The order itself does not do.
    #[error("{0}")]
    Rejected(String),
    /// The books did not take it.
    #[error(transparent)]
    Books(#[from] LedgerError),
}

impl From<sqlx::Error> for MovementError {
    fn from(error: sqlx::Error) -> Self {
        Self::Books(error.into())
    }
}

fn rejected(why: &str) -> MovementError {
    MovementError::Rejected(why.to_owned())
}

/// Carries out an order in the caller's transaction. After an error the transaction must be given up.
///
/// # Errors
/// As the variants of [`MovementError`] say.
pub async fn record(
    connection: &mut PgConnection,
    order: &Order,
    now: UnixMs,
) -> Result<Moved, MovementError> {
    check(order)?;
    post::lock(connection, order.tenant_id).await?;
    if let Some(moved) = repeated(connection, order).await? {
        return Ok(moved);
    }
    if let Kind::Grant { expires_at, .. } = order.kind
        && !(1..=GRANT_MS_MAX).contains(&expires_at.0.saturating_sub(now.0))
    {
        return Err(rejected("a grant expires in the future, within ten years"));
    }
    let transaction_id = post::next_transaction(connection).await?;
    let mut row = Row::of(order, transaction_id)?;
    let posting = Posting::of(order, transaction_id);
    let (amount, balance) = match order.kind {
        Kind::TopUp { amount } | Kind::Grant { amount, .. } => {
            (amount, posting.post(connection, "credit", amount).await?)
        }
        Kind::Adjustment { amount, usage_at } => {
            if let Some(at) = usage_at {
                give_back::of_month(connection, order.tenant_id, transaction_id, at, amount)
                    .await?;
            }
            (amount, posting.post(connection, "adjustment", amount).await?)
        }
        Kind::Refund { of, amount } => {
            row.of_transaction = refund::spread(connection, &posting, of, amount).await?;
            (amount, posting.post(connection, "usage", amount).await?)
        }
        Kind::Reversal { transaction_id } => {
            reversal::undo(connection, &posting, transaction_id).await?
        }
    };
    row.amount = amount.0;
    row.insert(connection, balance).await?;
    Ok(Moved { transaction_id, amount, balance, repeated: false })
}

/// What can be said of an order without looking into the books.
fn check(order: &Order) -> Result<(), MovementError> {
    let fits = |text: &str, most: usize| {
        !text.trim().is_empty() && text.chars().count() <= most && !text.contains('\0')
    };
    if !fits(&order.actor, WORDS_CHARS_MAX) || !fits(&order.reason, WORDS_CHARS_MAX) {
        return Err(rejected("money moves with an actor and a reason, of 1 to 500 characters"));
    }
    if order.reference.as_ref().is_some_and(|text| !fits(text, REFERENCE_CHARS_MAX)) {
        return Err(rejected("a reference has 1 to 200 characters"));
    }
    let above_zero = order.kind.amount().is_none_or(|amount| amount > Nanos::ZERO);
    match order.kind {
        Kind::Adjustment { amount: Nanos::ZERO, .. } => Err(rejected("an adjustment of nothing")),
        Kind::Adjustment { usage_at: Some(_), .. } if !above_zero => {
            Err(rejected("only an adjustment in the tenant's favour gives budget back"))
        }
        Kind::Adjustment { .. } => Ok(()),
        Kind::TopUp { .. } | Kind::Grant { .. } | Kind::Refund { .. } | Kind::Reversal { .. } => {
            let why = [order.kind.code(), " is above zero"].concat();
            above_zero.then_some(()).ok_or(MovementError::Rejected(why))
        }
    }
}

/// What the same order moved before; an error when its reference belongs to another one.
async fn repeated(
    connection: &mut PgConnection,
    order: &Order,
) -> Result<Option<Moved>, MovementError> {
    let Some(reference) = &order.reference else { return Ok(None) };
    let before = sqlx::query!(
        r#"select transaction_id, kind, amount_nanos, expires_at, request_id, of_transaction, usage_at,
                  (select balance_nanos from balances b where b.tenant_id = $1) as balance
           from movements where tenant_id = $1 and reference = $2"#,
        order.tenant_id.0,
        reference,
    )
    .fetch_optional(connection)
    .await?;
    let Some(before) = before else { return Ok(None) };
    let same_target = match order.kind {
        Kind::TopUp { .. } => true,
        Kind::Grant { expires_at, .. } => before.expires_at.map(to_ms) == Some(expires_at),
        Kind::Adjustment { usage_at, .. } => before.usage_at.map(to_ms) == usage_at,
        Kind::Refund { of: RefundOf::Call(id), .. } => before.request_id == Some(id.to_string()),
        Kind::Refund { of: RefundOf::Transaction(id), .. } => {
            before.request_id.is_none() && before.of_transaction == Some(id)
        }
        Kind::Reversal { transaction_id } => before.of_transaction == Some(transaction_id),
    };
    let same_amount = order.kind.amount().is_none_or(|amount| amount.0 == before.amount_nanos);
    if before.kind != order.kind.code() || !same_target || !same_amount {
        let id = before.transaction_id;
        let why = format!("the reference belongs to another movement, transaction {id}");
        return Err(MovementError::Conflict(why));
    }
    Ok(Some(Moved {
        transaction_id: before.transaction_id,
        amount: Nanos(before.amount_nanos),
        balance: Nanos(before.balance.unwrap_or(0)),
        repeated: true,
    }))
}

impl Row<'_> {
    /// What an order says of its own row.
    fn of(order: &Order, transaction_id: i64) -> Result<Row<'_>, LedgerError> {
        let mut row = Row {
            transaction_id,
            tenant_id: order.tenant_id,
            kind: order.kind.code(),
            amount: 0,
            reference: order.reference.as_deref(),
            expires_at: None,
            request_id: None,
            of_transaction: None,
            usage_at: None,
        };
        match order.kind {
            Kind::TopUp { .. } => {}
            Kind::Grant { expires_at, .. } => row.expires_at = Some(instant(expires_at)?),
            Kind::Adjustment { usage_at, .. } => {
                row.usage_at = usage_at.map(instant).transpose()?
            }
            Kind::Refund { of: RefundOf::Call(id), .. } => row.request_id = Some(id.to_string()),
            Kind::Refund { of: RefundOf::Transaction(id), .. }
            | Kind::Reversal { transaction_id: id } => row.of_transaction = Some(id),
        }
        Ok(row)
    }
}
