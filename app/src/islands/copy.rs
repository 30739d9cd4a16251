//! The buttons that copy the text of an element.

use leptos::html::Span;
use leptos::prelude::*;

/// Wakes every button of the page that names an element in `data-copy`: it shows itself, copies
/// `data-before` and the element's text, and says how it went. Where the browser denies the
/// clipboard, the text is selected instead. Without scripts the buttons stay hidden: the text
/// stands there to be selected by hand.
///
/// Without properties on purpose: reading them would bring a JSON parser into the browser.
#[island]
pub fn CopyButtons() -> impl IntoView {
    let here = NodeRef::<Span>::new();
    #[cfg(feature = "hydrate")]
    here.on_load(|_| super::dom::wake_copy_buttons());
    view! { <span hidden node_ref=here></span> }
}
