//! The root: sends everybody where they start.

use leptos::prelude::*;

use super::request::redirect;
use crate::console::viewer;
use crate::routes;

/// Redirects; shows nothing.
pub(crate) fn home_page() -> AnyView {
    let to = viewer().map_or_else(|| routes::LOGIN.to_owned(), |viewer| viewer.home());
    redirect(&to);
    ().into_any()
}
