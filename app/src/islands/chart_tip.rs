//! The tooltip of a chart: follows pointer and focus over the chart's hit layer.

use leptos::html::Div;
use leptos::prelude::*;

/// One tooltip for the `<figure>` it stands in. Without scripts the marks' own `<title>` serves.
#[island]
pub fn ChartTip() -> impl IntoView {
    let tip = NodeRef::<Div>::new();
    #[cfg(feature = "hydrate")]
    tip.on_load(|element| super::dom::follow_marks(&element));
    view! { <div class="tip" aria-hidden="true" hidden node_ref=tip></div> }
}
