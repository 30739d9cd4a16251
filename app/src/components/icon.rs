//! Icons: inline SVG in the colour of the text, never alone without a word.

use leptos::prelude::*;

/// The picture of an icon on a 16 by 16 grid.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Icon {
    Overview,
    Tenants,
    Check,
    Warning,
    Stop,
    Chevron,
    Search,
}

impl Icon {
    const fn path(self) -> &'static str {
        match self {
            Self::Overview => "M2 13.5h12M4 11V7M8 11V3M12 11V5.5",
            Self::Tenants => "M2.5 13.5v-9l5-2v11M7.5 6h6v7.5h-11M10 8.5h1.5M10 11h1.5M4.7 6.5v.1",
            Self::Check => "M3 8.5 6.5 12 13 4.5",
            Self::Warning => "M8 2.5 14.5 13.5h-13ZM8 6.5v3M8 11.6v.1",
            Self::Stop => "M5.5 2h5L14 5.5v5L10.5 14h-5L2 10.5v-5ZM8 5v3.5M8 11v.1",
            Self::Chevron => "M6 3.5 10.5 8 6 12.5",
            Self::Search => "M7 12a5 5 0 1 0 0-10 5 5 0 0 0 0 10ZM10.7 10.7 14 14",
        }
    }
}

/// The icon.
pub(crate) fn icon(icon: Icon) -> AnyView {
    view! {
        <svg class="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
            <path d=icon.path()></path>
        </svg>
    }
    .into_any()
}
