#![doc = include_str!("../README.md")]

pub mod api_key;
pub mod audit;
pub mod calibration;
pub mod catalog;
pub mod context;
pub mod directory;
mod error;
pub mod instance;
mod instant;
pub mod limit_override;
pub mod member;
pub mod password;
pub mod plan;
pub mod price;
pub mod provider_key;
mod rules;
pub mod session;
pub mod team;
pub mod tenant;

pub use crate::error::TenantsError;

/// No list is longer than this: a page of a console or of the admin API shows fewer.
pub const MAX_PAGE: i64 = 500;

/// A wish for a page, brought within bounds.
fn page_size(wanted: i64) -> i64 {
    wanted.clamp(1, MAX_PAGE)
}
