//! A button that copies the text of an element.
#![expect(missing_docs, reason = "the island macro makes a struct without a comment of its own")]

use leptos::prelude::*;

/// Copies `before` and the text of the element with id `target`. Where the browser denies the
/// clipboard, the text is selected and the button says so. Without scripts the button is hidden:
/// the text stands there to be selected by hand.
#[island]
pub fn CopyButton(
    /// The id of the element whose text is copied.
    target: String,
    /// Text put in front of it.
    before: String,
    /// What the button says.
    label: String,
    /// The button's `data-testid`.
    testid: String,
) -> impl IntoView {
    let said = RwSignal::new(label.clone());
    let ready = RwSignal::new(false);
    Effect::new(move |_| ready.set(true));
    #[cfg(feature = "hydrate")]
    let copy = move |_| super::dom::copy_text(&target, &before, said);
    #[cfg(not(feature = "hydrate"))]
    let copy = {
        let _ = (target, before);
        move |_| {}
    };
    view! {
        <button
            type="button"
            class="button small copy"
            data-testid=testid
            hidden=move || !ready.get()
            on:click=copy
        >
            <span aria-live="polite">{move || said.get()}</span>
        </button>
    }
}
