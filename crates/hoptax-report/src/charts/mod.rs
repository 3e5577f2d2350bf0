//! Charts that are drawn without a browser: chart files, and the chart of the tax on pages without scripts.
//! This module also defines the colours of contenders for all charts.
//!
//! [`catalogue`] selects the data of each chart. [`ranked`] and [`lines`] draw it on a [`sheet`].
//! [`standalone`] adds a title and a key for a file.

mod catalogue;
mod colour;
mod life;
mod lines;
mod over_time;
mod precision;
mod ranked;
mod sheet;
mod standalone;
mod starts;
mod unit;

pub use catalogue::Chart;
pub(super) use colour::{colour, css};
pub(super) use life::ABOUT as ABOUT_LIFE;
pub use sheet::ChartError;
pub use standalone::Theme;

use super::model::Model;
use super::words::measure::Measure;
use super::words::text::capital;
use hoptax_analysis::{Load, headline};
use plotters::prelude::{BLACK, RGBColor, SVGBackend};
use ranked::Room;
use sheet::{Ink, Sheet};

/// Draws a chart at a load point as SVG. `None` if the report has no data for this chart.
///
/// # Errors
/// Only if hoptax has a bug.
pub fn svg(chart: Chart, model: &Model, load: &Load, theme: Theme) -> Result<Option<String>, ChartError> {
    chart.of(model, load).map(|drawing| standalone::svg(&drawing, theme)).transpose()
}

/// Draws a chart like [`svg`], and returns the bytes of the file.
///
/// # Errors
/// Only if hoptax has a bug.
pub fn svg_file(
    chart: Chart,
    model: &Model,
    load: &Load,
    theme: Theme,
) -> Result<Option<Vec<u8>>, ChartError> {
    Ok(svg(chart, model, load, theme)?.map(String::into_bytes))
}

/// Draws a chart at a load point as PNG, with two dots per pixel. `None` if the report has no data for this
/// chart.
///
/// # Errors
/// Only if hoptax has a bug.
pub fn png(chart: Chart, model: &Model, load: &Load, theme: Theme) -> Result<Option<Vec<u8>>, ChartError> {
    chart.of(model, load).map(|drawing| standalone::png(&drawing, theme)).transpose()
}

/// True if the report has data for the chart at this load point.
pub fn has(chart: Chart, model: &Model, load: &Load) -> bool {
    chart.of(model, load).is_some()
}

/// The load point that a report shows first. `None` if the run has only searches.
pub fn shown_first(model: &Model) -> Option<&Load> {
    let of_starts =
        model.noise_floor.by_load.first().filter(|_| model.measured_starts()).map(|floor| &floor.load);
    headline::for_latency(&mut model.loads()).or(of_starts)
}

/// Placeholder colours. The page replaces them with its own colours, for light and dark themes.
const OF_PAGE: Ink = Ink { paper: None, text: BLACK, quiet: BLACK, grid: RGBColor(0xcc, 0xcc, 0xcc) };

/// Width of the chart for pages without scripts: for laptops or for phones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    Wide,
    Narrow,
}

impl Width {
    fn pixels(self) -> i32 {
        match self {
            Self::Wide => 860,
            Self::Narrow => 358,
        }
    }
}

/// A chart of the added time at the median for a page, with intervals and the noise floor. The smallest added
/// time comes first. `None` if there is no such tax.
pub(super) fn tax(
    model: &Model,
    load: &Load,
    measure: &Measure,
    width: Width,
) -> Result<Option<String>, ChartError> {
    let Some(ranked) = catalogue::tax(model, load, measure.metric) else { return Ok(None) };
    let described = format!("{} with 95 % intervals, {}", capital(&measure.axis), load.label);
    let room = Room { top: 0, width: width.pixels(), wide: width == Width::Wide };
    on_page(width, ranked.height(), &described, |sheet| ranked.draw(sheet, room)).map(Some)
}

/// A chart of half-widths of intervals over time, for a page. `None` if the run was too short.
pub(super) fn half_widths(model: &Model, load: &Load, width: Width) -> Result<Option<String>, ChartError> {
    let Some(panel) = precision::panel(model, load) else { return Ok(None) };
    let described = format!("Half-width of the interval of the added median over time, {}", load.label);
    on_page(width, panel.height(), &described, |sheet| {
        panel.draw(sheet, 0, (panel.labels(sheet), width.pixels()))
    })
    .map(Some)
}

/// A chart of a stream's life, for a page. `None` without tokens.
pub(super) fn stream_life(model: &Model, load: &Load, width: Width) -> Result<Option<String>, ChartError> {
    let Some(panel) = life::panel(model, load) else { return Ok(None) };
    let described = format!("{}: {}, {}", Chart::StreamLife.title(), life::ABOUT, load.label);
    on_page(width, panel.height(), &described, |sheet| {
        panel.draw(sheet, 0, (panel.labels(sheet), width.pixels()))
    })
    .map(Some)
}

/// A chart of response times after a start, for a page. `None` for runs without starts.
pub(super) fn after_starts(model: &Model, width: Width) -> Result<Option<String>, ChartError> {
    let Some(panel) = starts::panel(model) else { return Ok(None) };
    on_page(width, panel.height(), starts::HEADING, |sheet| {
        panel.draw(sheet, 0, (panel.labels(sheet), width.pixels()))
    })
    .map(Some)
}

/// Draws an SVG that is part of a page. `described` is its text for screen readers.
fn on_page(
    width: Width,
    height: i32,
    described: &str,
    draw: impl FnOnce(&Sheet<SVGBackend<'_>>) -> Result<(), ChartError>,
) -> Result<String, ChartError> {
    let mut svg = String::new();
    let across = width.pixels();
    let backend = SVGBackend::with_string(&mut svg, (across as u32, height as u32));
    let sheet = Sheet::new(backend, OF_PAGE, 1)?;
    draw(&sheet)?;
    sheet.present()?;
    drop(sheet);
    // The element `svg` is left out, because the page's template sets the size and the namespace.
    let body = svg.find('>').map_or("", |end| &svg[end + 1..]);
    let class = if width == Width::Wide { "wide" } else { "narrow" };
    let label = minijinja::HtmlEscape(described);
    Ok(format!(
        "<svg class=\"{class}\" viewBox=\"0 0 {across} {height}\" role=\"img\" aria-label=\"{label}\">{body}"
    ))
}

#[cfg(test)]
mod tests;
