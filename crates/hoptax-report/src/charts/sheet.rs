//! The drawing surface. In every format, sizes are in pixels of the finished chart.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::sync::Once;

/// The reason why a chart could not be drawn.
#[derive(Debug, thiserror::Error)]
#[error("cannot draw a chart: {0}")]
pub struct ChartError(String);

impl ChartError {
    pub(super) fn new(error: impl std::fmt::Display) -> Self {
        Self(error.to_string())
    }
}

/// The font DejaVu Sans, reduced by `scripts/chart-font.sh`. With it, letters in a PNG look the same on every
/// machine.
const FONT: &[u8] = include_bytes!("../../assets/vendor/dejavu-sans.ttf");

/// Name under which plotters knows the font. An SVG names only this generic family, so the reader's own font
/// is used.
const FAMILY: &str = "sans-serif";

/// Line height ÷ font size. plotters expects the line height, and CSS expects the font size.
const EM: f64 = 1.24;

/// Colours of everything except contenders.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ink {
    /// Background colour. `None` means a transparent background.
    pub(super) paper: Option<RGBColor>,
    pub(super) text: RGBColor,
    pub(super) quiet: RGBColor,
    pub(super) grid: RGBColor,
}

/// A drawing area, its colours, and its number of dots per pixel.
pub(super) struct Sheet<DB: DrawingBackend> {
    pub(super) area: DrawingArea<DB, Shift>,
    pub(super) ink: Ink,
    dots: i32,
}

impl<DB: DrawingBackend> Sheet<DB> {
    pub(super) fn new(backend: DB, ink: Ink, dots: i32) -> Result<Self, ChartError> {
        static REGISTERED: Once = Once::new();
        REGISTERED.call_once(|| {
            // If the font cannot be read, drawing the first text returns an error, so the result can be
            // ignored here.
            let _ = plotters::style::register_font(FAMILY, FontStyle::Normal, FONT);
        });
        let area = backend.into_drawing_area();
        if let Some(paper) = &ink.paper {
            area.fill(paper).map_err(ChartError::new)?;
        }
        Ok(Self { area, ink, dots })
    }

    pub(super) fn px(&self, pixels: i32) -> i32 {
        pixels * self.dots
    }

    pub(super) fn present(&self) -> Result<(), ChartError> {
        self.area.present().map_err(ChartError::new)
    }

    /// Draws a line through points. The line is `wide` pixels wide.
    pub(super) fn line(
        &self,
        points: &[(i32, i32)],
        colour: &impl Color,
        wide: i32,
    ) -> Result<(), ChartError> {
        let points: Vec<_> = points.iter().map(|point| self.place(*point)).collect();
        let style = colour.stroke_width(self.px(wide) as u32);
        self.area.draw(&PathElement::new(points, style)).map_err(ChartError::new)
    }

    pub(super) fn rectangle(&self, corners: [(i32, i32); 2], colour: &impl Color) -> Result<(), ChartError> {
        let corners = corners.map(|corner| self.place(corner));
        self.area.draw(&Rectangle::new(corners, colour.filled())).map_err(ChartError::new)
    }

    /// Draws a dot, or a ring if `hollow` is true.
    pub(super) fn dot(
        &self,
        at: (i32, i32),
        size: i32,
        colour: RGBColor,
        hollow: bool,
    ) -> Result<(), ChartError> {
        let style = if hollow { colour.stroke_width(self.px(2) as u32) } else { colour.filled() };
        self.area.draw(&Circle::new(self.place(at), self.px(size), style)).map_err(ChartError::new)
    }

    /// Draws a text, vertically centred at `at`.
    pub(super) fn text(
        &self,
        text: &str,
        at: (i32, i32),
        size: u32,
        across: HPos,
        colour: &RGBColor,
    ) -> Result<(), ChartError> {
        let style = self.style(size, across, colour);
        self.area.draw(&Text::new(text, self.place(at), style)).map_err(ChartError::new)
    }

    pub(super) fn style(&self, size: u32, across: HPos, colour: &RGBColor) -> TextStyle<'static> {
        let font = (FAMILY, f64::from(self.px(size as i32)) * EM).into_font();
        let colour = colour.to_backend_color();
        TextStyle { font, color: colour, pos: Pos::new(across, VPos::Center) }
    }

    pub(super) fn width(&self, text: &str, size: u32) -> i32 {
        let style = self.style(size, HPos::Left, &self.ink.text);
        let dots = self.area.estimate_text_size(text, &style).map_or(0, |(across, _)| across as i32);
        dots / self.dots
    }

    fn place(&self, (x, y): (i32, i32)) -> (i32, i32) {
        (self.px(x), self.px(y))
    }
}

/// Shortens a name in the middle, because names with different features differ only at the end.
pub(super) fn shortened(name: &str, most: usize) -> String {
    let letters: Vec<char> = name.chars().collect();
    if letters.len() <= most {
        return name.to_string();
    }
    let begin = (most - 1) / 3;
    let end = letters.len() - (most - 1 - begin);
    letters[..begin].iter().chain(&['…']).chain(&letters[end..]).collect()
}

/// About `count` values from `low` to `high`, in steps of 1, 2 or 5 times a power of ten.
pub(super) fn steps(low: f64, high: f64, count: u32) -> Vec<f64> {
    let rough = ((high - low) / f64::from(count.max(1))).max(f64::MIN_POSITIVE);
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    let step = step.into_iter().find(|step| *step >= rough * 0.999).unwrap_or(10.0 * power);
    let (first, last) = ((low / step).floor() as i64, (high / step).ceil() as i64);
    (first..=last).map(|index| index as f64 * step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round_and_span_the_range() {
        assert_eq!(steps(0.0, 97.0, 5), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(steps(-3.0, 12.0, 3), [-5.0, 0.0, 5.0, 10.0, 15.0]);
        assert!(steps(0.0, 0.0, 4).len() < 10);
    }

    #[test]
    fn shortened_names_keep_their_differing_ends() {
        assert_eq!(shortened("nginx.tls", 12), "nginx.tls");
        assert_eq!(shortened("nginx.key-auth.tls", 12), "ngi…auth.tls");
        assert_ne!(shortened("nginx.key-auth.tls", 12), shortened("nginx.key-auth.cors", 12));
        assert_eq!(shortened("nginx.key-auth.header-rewrite", 12).chars().count(), 12);
    }
}
