#![doc = include_str!("../README.md")]

mod answer;
mod control;
mod dialect;
mod entry;
mod journal;
mod listen;
mod plan;
mod prompt;
mod refusal;
mod reply;
mod route;
mod script;
mod simulator;
mod text;

pub use dialect::Dialect;
pub use journal::{Credential, End, MAX_ENTRIES_IN_MEMORY, Served};
pub use plan::Tokens;
pub use script::SCRIPT_HEADER;
pub use simulator::{Pace, Sim, SimConfig, SimError, Stats, serve};
