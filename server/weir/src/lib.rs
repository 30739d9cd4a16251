#![doc = include_str!("../README.md")]

pub mod clock;
pub mod config;
pub mod http;
pub mod listen;
