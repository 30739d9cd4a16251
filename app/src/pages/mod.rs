//! One page, one file: what it asks, what it shows, what it accepts.

pub(crate) mod account;
pub(crate) mod admin;
pub(crate) mod error;
pub(crate) mod home;
pub(crate) mod request;
pub(crate) mod sheet;
pub(crate) mod tenant;
