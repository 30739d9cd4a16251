#![doc = include_str!("../README.md")]

pub mod alert;
pub mod balance;
mod batch;
pub mod booked;
pub mod books;
pub mod drift;
mod entry;
mod error;
mod give_back;
mod grant;
mod instant;
mod lane;
pub mod movement;
pub mod partition;
mod posting;
pub mod reconcile;
pub mod refusal;
pub mod report;
pub mod retention;
mod rollup;
pub mod slice;
pub mod spool;
pub mod usage_event;
pub mod writer;

pub use error::LedgerError;
pub use refusal::RefusedCall;
pub use usage_event::{AlertRule, Attempt, Booking, DriftNote, UsageEvent};
pub use writer::{Appended, Ledger, WriterConfig};
