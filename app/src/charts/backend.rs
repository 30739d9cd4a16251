//! A plotters backend whose colours are roles. plotters' own SVG backend writes literal colours,
//! fonts and sizes as attributes, which neither a dark theme nor a style sheet can change.

use std::convert::Infallible;
use std::fmt::Write;

use plotters::style::RGBColor;
use plotters_backend::text_anchor::{HPos, VPos};
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind,
};

use crate::markup::escape;

/// Height of a line of ticks, in units of the view box.
const LINE_HEIGHT: u32 = 14;
/// Width reserved for one character: digits of the system fonts are narrower at this size.
const CHARACTER_WIDTH: u32 = 7;

/// What a mark means. plotters only knows colours, so each role has a colour that stands for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ink {
    /// A part of series n.
    Series(u8),
    /// A part of series n in a bucket that is not over yet.
    SoFar(u8),
    /// The base line.
    Axis,
    /// A line across the plot.
    Grid,
    /// The text of a tick.
    Label,
}

impl Ink {
    /// The colour that stands for the role on its way through plotters.
    pub(super) const fn colour(self) -> RGBColor {
        match self {
            Self::Series(number) => RGBColor(1, number, 0),
            Self::SoFar(number) => RGBColor(1, number, 1),
            Self::Axis => RGBColor(2, 0, 0),
            Self::Grid => RGBColor(2, 1, 0),
            Self::Label => RGBColor(2, 2, 0),
        }
    }

    const fn read(colour: BackendColor) -> Option<Self> {
        match colour.rgb {
            (1, number, 0) => Some(Self::Series(number)),
            (1, number, 1) => Some(Self::SoFar(number)),
            (2, 0, 0) => Some(Self::Axis),
            (2, 1, 0) => Some(Self::Grid),
            (2, 2, 0) => Some(Self::Label),
            _ => None,
        }
    }

    /// The class that the style sheet paints.
    fn class(self) -> String {
        match self {
            Self::Series(number) => format!("mark s{number}"),
            Self::SoFar(number) => format!("mark s{number} so-far"),
            Self::Axis => "axis".to_owned(),
            Self::Grid => "grid".to_owned(),
            Self::Label => "tick".to_owned(),
        }
    }
}

type Drawn = Result<(), DrawingErrorKind<Infallible>>;

/// Collects SVG elements.
pub(super) struct TokenBackend<'a> {
    marks: &'a mut String,
    size: (u32, u32),
}

impl<'a> TokenBackend<'a> {
    pub(super) const fn new(marks: &'a mut String, size: (u32, u32)) -> Self {
        Self { marks, size }
    }

    /// The class of a colour. A colour that stands for no role is a mistake of ours: tests fail on
    /// it, and in production the mark is left to the sheet's default paint.
    fn class(colour: BackendColor) -> String {
        let ink = Ink::read(colour);
        debug_assert!(ink.is_some(), "a colour without a role: {:?}", colour.rgb);
        ink.map(Ink::class).unwrap_or_default()
    }

    fn push(&mut self, element: std::fmt::Arguments<'_>) -> Drawn {
        // Writing into a string cannot fail.
        let _ = self.marks.write_fmt(element);
        Ok(())
    }

    fn points(points: impl IntoIterator<Item = BackendCoord>) -> String {
        let mut text = String::new();
        for (x, y) in points {
            if !text.is_empty() {
                text.push(' ');
            }
            let _ = write!(text, "{x},{y}");
        }
        text
    }
}

impl DrawingBackend for TokenBackend<'_> {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        self.size
    }

    fn ensure_prepared(&mut self) -> Drawn {
        Ok(())
    }

    fn present(&mut self) -> Drawn {
        Ok(())
    }

    fn draw_pixel(&mut self, (x, y): BackendCoord, colour: BackendColor) -> Drawn {
        let class = Self::class(colour);
        self.push(format_args!(
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"1\" height=\"1\"/>"
        ))
    }

    fn draw_line<S: BackendStyle>(
        &mut self,
        from: BackendCoord,
        to: BackendCoord,
        style: &S,
    ) -> Drawn {
        let class = Self::class(style.color());
        self.push(format_args!(
            "<line class=\"{class}\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>",
            from.0, from.1, to.0, to.1
        ))
    }

    fn draw_rect<S: BackendStyle>(
        &mut self,
        upper_left: BackendCoord,
        bottom_right: BackendCoord,
        style: &S,
        _fill: bool,
    ) -> Drawn {
        let class = Self::class(style.color());
        let (x, y) = upper_left;
        let width = bottom_right.0.saturating_sub(x).max(0);
        let height = bottom_right.1.saturating_sub(y).max(0);
        self.push(format_args!(
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"/>"
        ))
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        path: I,
        style: &S,
    ) -> Drawn {
        let class = Self::class(style.color());
        let points = Self::points(path);
        self.push(format_args!("<polyline class=\"{class}\" points=\"{points}\"/>"))
    }

    fn draw_circle<S: BackendStyle>(
        &mut self,
        (x, y): BackendCoord,
        radius: u32,
        style: &S,
        _fill: bool,
    ) -> Drawn {
        let class = Self::class(style.color());
        self.push(format_args!("<circle class=\"{class}\" cx=\"{x}\" cy=\"{y}\" r=\"{radius}\"/>"))
    }

    fn fill_polygon<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        vertices: I,
        style: &S,
    ) -> Drawn {
        let class = Self::class(style.color());
        let points = Self::points(vertices);
        self.push(format_args!("<polygon class=\"{class}\" points=\"{points}\"/>"))
    }

    fn draw_text<T: BackendTextStyle>(
        &mut self,
        text: &str,
        style: &T,
        (x, y): BackendCoord,
    ) -> Drawn {
        let class = Self::class(style.color());
        let anchor = match style.anchor().h_pos {
            HPos::Left => "start",
            HPos::Center => "middle",
            HPos::Right => "end",
        };
        // The vertical anchor as a shift of the base line: `dominant-baseline` differs by browser.
        let shift = match style.anchor().v_pos {
            VPos::Top => "0.8em",
            VPos::Center => "0.35em",
            VPos::Bottom => "-0.2em",
        };
        let text = escape(text);
        self.push(format_args!(
            "<text class=\"{class}\" x=\"{x}\" y=\"{y}\" dy=\"{shift}\" \
             text-anchor=\"{anchor}\">{text}</text>"
        ))
    }

    fn estimate_text_size<T: BackendTextStyle>(
        &self,
        text: &str,
        _style: &T,
    ) -> Result<(u32, u32), DrawingErrorKind<Infallible>> {
        let characters = u32::try_from(text.chars().count()).unwrap_or(u32::MAX);
        Ok((characters.saturating_mul(CHARACTER_WIDTH), LINE_HEIGHT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_role_survives_its_colour() {
        let roles = [Ink::Series(0), Ink::Series(5), Ink::SoFar(3), Ink::Axis, Ink::Grid];
        for role in roles.into_iter().chain([Ink::Label]) {
            let RGBColor(red, green, blue) = role.colour();
            let colour = BackendColor { alpha: 1.0, rgb: (red, green, blue) };
            assert_eq!(Ink::read(colour), Some(role));
        }
    }

    #[test]
    #[should_panic(expected = "a colour without a role")]
    fn a_colour_without_a_role_fails_the_test_run() {
        TokenBackend::class(BackendColor { alpha: 1.0, rgb: (200, 30, 30) });
    }
}
