//! What can go wrong with the books.

use std::sync::Arc;

/// Why the books did not do as asked. The variants are what a caller can do about it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LedgerError {
    /// The database did not answer, or not in time. Whether anything was written is not known: asking again is safe.
    #[error("the books cannot be reached")]
    Unavailable(#[source] Arc<sqlx::Error>),
    /// The database was reached and refused what it was given. Asking again will not help.
    #[error("the books refuse this: {0}")]
    Rejected(String),
    /// The writer has stopped: the process is on its way out.
    #[error("the writer has stopped")]
    Stopped,
}

impl From<sqlx::Error> for LedgerError {
    fn from(error: sqlx::Error) -> Self {
        match &error {
            sqlx::Error::Database(refused) if blames_the_data(refused.code().as_deref()) => {
                Self::Rejected(refused.message().to_owned())
            }
            sqlx::Error::Encode(_) => Self::Rejected(error.to_string()),
            _ => Self::Unavailable(Arc::new(error)),
        }
    }
}

/// Whether an SQLSTATE says that the data itself is at fault: bad data (22), a broken constraint (23), or a value
/// too large for the server (54). Everything else may pass, or is the schema's fault and no event's.
fn blames_the_data(code: Option<&str>) -> bool {
    let class = code.and_then(|code| code.get(..2));
    matches!(class, Some("22" | "23" | "54"))
}

impl LedgerError {
    /// A row that was written by something else than this package.
    pub(crate) fn unreadable(table: &'static str) -> Self {
        Self::Rejected(["a row of ", table, " holds a word that is not known here"].concat())
    }
}
