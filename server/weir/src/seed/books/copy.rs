//! Rows in PostgreSQL's binary form of `copy`: a tenth of the work of an insert, on both sides.

use domain::window::UnixMs;
use sqlx::PgConnection;

use crate::seed::SeedError;

/// What such a stream begins with: its mark, no flags, no extension.
const HEAD: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
/// What it ends with, in the place of a number of columns.
const END: i16 = -1;
/// The length of a value that is null.
const NULL: i32 = -1;
/// PostgreSQL counts microseconds from 2000-01-01, here in milliseconds since 1970.
const EPOCH_MS: i64 = 946_684_800_000;
/// A row has about so many bytes.
const ROW_BYTES: usize = 400;

/// Rows of a table, column by column in the order of the `copy` statement.
#[derive(Debug)]
pub(super) struct Rows {
    bytes: Vec<u8>,
    columns: i16,
}

impl Rows {
    /// Rows of so many columns.
    pub(super) fn of(columns: i16, expected: usize) -> Self {
        let mut bytes = Vec::with_capacity(HEAD.len() + expected.saturating_mul(ROW_BYTES));
        bytes.extend_from_slice(HEAD);
        Self { bytes, columns }
    }

    /// Begins a row.
    pub(super) fn row(&mut self) -> &mut Self {
        self.bytes.extend_from_slice(&self.columns.to_be_bytes());
        self
    }

    fn value(&mut self, bytes: &[u8]) -> &mut Self {
        // A text of the history is a few dozen bytes.
        let length = i32::try_from(bytes.len()).unwrap_or(i32::MAX);
        self.bytes.extend_from_slice(&length.to_be_bytes());
        self.bytes.extend_from_slice(bytes);
        self
    }

    fn null(&mut self) -> &mut Self {
        self.bytes.extend_from_slice(&NULL.to_be_bytes());
        self
    }

    /// A `text`.
    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        self.value(text.as_bytes())
    }

    /// A `text` that may be null.
    pub(super) fn text_or_null(&mut self, text: Option<&str>) -> &mut Self {
        match text {
            Some(text) => self.text(text),
            None => self.null(),
        }
    }

    /// A `bigint`.
    pub(super) fn big(&mut self, number: i64) -> &mut Self {
        self.value(&number.to_be_bytes())
    }

    /// A `bigint` that may be null.
    pub(super) fn big_or_null(&mut self, number: Option<i64>) -> &mut Self {
        match number {
            Some(number) => self.big(number),
            None => self.null(),
        }
    }

    /// An `int`.
    pub(super) fn int(&mut self, number: i32) -> &mut Self {
        self.value(&number.to_be_bytes())
    }

    /// An `int` that may be null.
    pub(super) fn int_or_null(&mut self, number: Option<i32>) -> &mut Self {
        match number {
            Some(number) => self.int(number),
            None => self.null(),
        }
    }

    /// A `boolean`.
    pub(super) fn yes(&mut self, yes: bool) -> &mut Self {
        self.value(&[u8::from(yes)])
    }

    /// A `timestamptz`.
    pub(super) fn instant(&mut self, at: UnixMs) -> &mut Self {
        self.big(at.0.saturating_sub(EPOCH_MS).saturating_mul(1_000))
    }

    /// Writes the rows. `statement` is a `copy … from stdin (format binary)`.
    pub(super) async fn copy(
        mut self,
        db: &mut PgConnection,
        statement: &'static str,
    ) -> Result<(), SeedError> {
        self.bytes.extend_from_slice(&END.to_be_bytes());
        let mut copy = db.copy_in_raw(statement).await?;
        copy.send(self.bytes).await?;
        copy.finish().await?;
        Ok(())
    }
}
