//! Light, dark or as the system says: known to the server, so that the first paint is right and no
//! script is needed.

use http::HeaderMap;
use http::header::COOKIE;

use crate::routes::THEME_COOKIE;

/// The chosen theme.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Theme {
    /// What the operating system says, by media query.
    #[default]
    System,
    /// Light.
    Light,
    /// Dark.
    Dark,
}

impl Theme {
    /// Every theme, in the order of the switch.
    pub const ALL: [Self; 3] = [Self::System, Self::Light, Self::Dark];

    /// The theme as it stands in the cookie, the form and `data-theme`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }

    /// Reads the cookie's or the form's value.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|theme| theme.as_str() == text)
    }

    /// The theme of a request; the system's when no cookie says otherwise.
    #[must_use]
    pub fn of(headers: &HeaderMap) -> Self {
        headers
            .get_all(COOKIE)
            .iter()
            .filter_map(|cookies| cookies.to_str().ok())
            .flat_map(|cookies| cookies.split(';'))
            .filter_map(|cookie| cookie.trim().split_once('='))
            .find(|(name, _)| *name == THEME_COOKIE)
            .and_then(|(_, value)| Self::parse(value))
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cookie_decides_and_nonsense_is_the_system() {
        let theme = |cookies: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(COOKIE, http::HeaderValue::from_static(cookies));
            Theme::of(&headers)
        };
        assert_eq!(theme("a=b; weir_theme=dark"), Theme::Dark);
        assert_eq!(theme("weir_theme=light"), Theme::Light);
        assert_eq!(theme("weir_theme=\"><script>"), Theme::System);
        assert_eq!(theme("other_weir_theme=dark"), Theme::System);
        assert_eq!(Theme::of(&HeaderMap::new()), Theme::System);
    }
}
