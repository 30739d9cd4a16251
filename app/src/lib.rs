#![doc = include_str!("../README.md")]

// The view is type-erased (`--cfg erase_components`), so deep pages do not make deep types.

#[cfg(feature = "ssr")]
pub mod app;
#[cfg(feature = "ssr")]
pub mod charts;
#[cfg(feature = "ssr")]
mod components;
#[cfg(feature = "ssr")]
pub mod console;
pub mod islands;
#[cfg(feature = "ssr")]
mod markup;
#[cfg(feature = "ssr")]
mod pages;
#[cfg(feature = "ssr")]
pub mod policy;
#[cfg(feature = "ssr")]
pub mod rights;
#[cfg(feature = "ssr")]
pub mod routes;
#[cfg(feature = "ssr")]
mod shell;
#[cfg(feature = "ssr")]
pub mod theme;
#[cfg(feature = "ssr")]
pub mod views;
#[cfg(feature = "ssr")]
pub mod words;

#[cfg(feature = "ssr")]
pub use app::App;
#[cfg(feature = "ssr")]
pub use shell::shell;

/// Wakes the islands of a page. Called by the page's own script, once.
#[cfg(feature = "hydrate")]
#[wasm_bindgen::prelude::wasm_bindgen]
pub fn hydrate() {
    leptos::mount::hydrate_islands();
}
