//! The only code that becomes wasm: small improvements on pages that work without them.

pub mod chart_tip;
pub mod copy;
#[cfg(feature = "hydrate")]
mod dom;

pub use chart_tip::ChartTip;
pub use copy::CopyButtons;
