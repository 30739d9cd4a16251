#![doc = include_str!("../README.md")]

#[cfg(feature = "ssr")]
pub mod charts;
#[cfg(feature = "ssr")]
pub mod console;
pub mod islands;
#[cfg(feature = "ssr")]
pub mod rights;
#[cfg(feature = "ssr")]
pub mod routes;
#[cfg(feature = "ssr")]
pub mod views;
#[cfg(feature = "ssr")]
pub mod words;

/// Wakes the islands of a page. Called by the page's own script, once.
#[cfg(feature = "hydrate")]
#[wasm_bindgen::prelude::wasm_bindgen]
pub fn hydrate() {
    leptos::mount::hydrate_islands();
}
