#![doc = include_str!("../README.md")]

mod account;
mod binaries;
mod cluster;
mod error;
mod folder;
mod initdb;
mod leftover;
mod log;
mod owner;
mod run;
mod settings;

pub use binaries::{Binaries, LEAST_MAJOR};
pub use cluster::{Cluster, Durability, Options};
pub use error::EmbeddedError;
pub use initdb::{DATABASE, SUPERUSER};
