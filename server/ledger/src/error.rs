//! What can go wrong with the books.

/// Why the books did not do as asked. The variants are what a caller can do about it.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// The database did not answer, or not in time. Nothing is known to be written: asking again is safe.
    #[error("the books cannot be reached")]
    Unavailable(#[source] sqlx::Error),
    /// The database was reached and refused what it was given. Asking again will not help.
    #[error("the books refuse this: {0}")]
    Rejected(String),
    /// The writer has stopped: the process is on its way out.
    #[error("the writer has stopped")]
    Stopped,
}
