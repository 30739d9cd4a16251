#![doc = include_str!("../README.md")]

pub mod alert;
pub mod balance;
pub mod books;
pub mod drift;
mod error;
mod instant;
pub mod partition;
pub mod refusal;
pub mod report;
pub mod retention;
pub mod usage_event;
pub mod writer;

pub use error::LedgerError;
pub use refusal::RefusedCall;
pub use usage_event::{AlertRule, Attempt, Booking, DriftNote, UsageEvent};
pub use writer::{Appended, Ledger, WriterConfig};
