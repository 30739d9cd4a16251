#![doc = include_str!("../README.md")]

pub mod admission;
pub mod id;
pub mod money;
pub mod plan;
pub mod rate_card;
pub mod usage;
pub mod window;
