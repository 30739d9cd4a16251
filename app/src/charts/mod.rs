//! Rows in, SVG text out: free of Leptos and of database types.
//!
//! The charts carry no colour, no size and no inline style: marks have class names that the style
//! sheet paints (light and dark), and a chart is drawn in two sizes of which a container query
//! shows one. Everything that stands in a chart also stands in a table beside it.
//! Arithmetic is on integers; plotters maps them to pixels.

mod backend;
mod days;
mod hbar;
mod scale;
mod series;

pub use days::{Bucket, BucketState, ChartSvg, StackedBars, Unit, stacked_bars};
pub use hbar::{BudgetBar, Part, Tone, budget_bar, share_bar};
pub use series::{Folded, OTHER, fold};

/// Most series that are told apart by colour; the rest are summed up as [`OTHER`].
pub const SERIES_MAX: usize = 5;
/// Most bars in one chart: 400 bars are two pixels each, more could not be seen.
pub const BUCKETS_MAX: usize = 400;
/// Most bars that are reached by Tab; beyond it the table is the way by keyboard.
pub const TAB_STOPS_MAX: usize = 31;
