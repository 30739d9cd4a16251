#![doc = include_str!("../README.md")]

#[cfg(feature = "ssr")]
pub mod console;
#[cfg(feature = "ssr")]
pub mod rights;
#[cfg(feature = "ssr")]
pub mod routes;
#[cfg(feature = "ssr")]
pub mod views;
