#![doc = include_str!("../README.md")]

pub mod boot;
mod calibration;
pub mod cli;
pub mod clock;
mod commands;
pub mod config;
mod console;
pub mod database;
pub mod deeds;
pub mod demo;
pub mod failure;
pub mod http;
mod jobs;
pub mod key_file;
pub mod last_used;
mod limits;
pub mod listen;
pub mod logging;
mod metrics_listener;
mod once;
pub mod seed;
pub mod setup;
pub mod shutdown;
mod spool;
pub mod store;
pub mod throttle;
pub mod weir;
