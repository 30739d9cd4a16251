//! Tests on the real program: `weir` as a process, a simulated provider, real clients.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails, and says where")]

mod admin;
mod browser;
mod budget;
mod environment;
mod faults;
#[expect(dead_code, reason = "shared with the program of all faults, which uses the rest of it")]
mod fleet;
mod folder;
mod http;
mod processes;
mod program;
mod say;
mod sdk;
mod storm;
mod wait;
mod weir_process;
mod world;
