//! Charts as SVG that is set into the page: black becomes the page's own colour there, so that one drawing serves
//! light and dark.

mod bars;
mod frontier;
mod lines;

pub(super) use bars::{cpu, tax};
pub(super) use frontier::frontier;
pub(super) use lines::{latency, throughput};

use super::model::Model;
use plotters::prelude::{BLACK, IntoFont, RGBColor, SVGBackend, TextStyle};
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// A chart that could not be drawn.
#[derive(Debug, thiserror::Error)]
#[error("cannot draw a chart: {0}")]
pub struct ChartError(String);

impl ChartError {
    fn new(error: impl std::fmt::Display) -> Self {
        Self(error.to_string())
    }
}

/// Okabe and Ito's palette, which people with any colour vision tell apart ("Color Universal Design", 2008); its
/// yellow comes last, as it is faint on white. Its black is direct's, drawn in grey.
const PALETTE: [RGBColor; 7] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0xf0, 0xe4, 0x42),
];
const DIRECT: RGBColor = RGBColor(0x80, 0x80, 0x80);
/// Replaced by the page's colour for grid lines.
const GRID: RGBColor = RGBColor(0xcc, 0xcc, 0xcc);

/// The two widths that are drawn: for a laptop and for a phone. A drawing made for one is unreadable on the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    Wide,
    Narrow,
}

impl Width {
    fn pixels(self) -> u32 {
        match self {
            Self::Wide => 860,
            Self::Narrow => 358,
        }
    }
}

/// A contender's colour: the same in every chart.
pub(super) fn colour(model: &Model, label: &str) -> RGBColor {
    let gateways = model.contenders.iter().filter(|one| one.label != crate::record::DIRECT);
    let position = gateways.enumerate().find(|(_, one)| one.label == label).map(|(index, _)| index);
    position.map_or(DIRECT, shade)
}

/// A colour of the palette; for those beyond it the same ones again, first darker, then lighter, so that 21 differ.
fn shade(index: usize) -> RGBColor {
    let colour = PALETTE[index % PALETTE.len()];
    let to = |part: u8| match index / PALETTE.len() % 3 {
        0 => part,
        1 => (f64::from(part) * 0.6) as u8,
        _ => (f64::from(part) * 0.5 + 127.0) as u8,
    };
    RGBColor(to(colour.0), to(colour.1), to(colour.2))
}

/// A colour as CSS has it.
pub(super) fn css(colour: RGBColor) -> String {
    format!("#{:02x}{:02x}{:02x}", colour.0, colour.1, colour.2)
}

/// Text in the page's colour and font.
fn text(size: u32, across: HPos) -> TextStyle<'static> {
    TextStyle::from(("sans-serif", size).into_font()).color(&BLACK).pos(Pos::new(across, VPos::Center))
}

/// Draws, and takes from the SVG what the page decides: its size and its namespace.
fn drawn(
    width: Width,
    height: u32,
    describe: &str,
    draw: impl FnOnce(SVGBackend<'_>) -> Result<(), ChartError>,
) -> Result<String, ChartError> {
    let mut svg = String::new();
    draw(SVGBackend::with_string(&mut svg, (width.pixels(), height)))?;
    let body = svg.find('>').map_or("", |end| &svg[end + 1..]);
    let class = if width == Width::Wide { "wide" } else { "narrow" };
    let (across, label) = (width.pixels(), minijinja::HtmlEscape(describe));
    Ok(format!(
        "<svg class=\"{class}\" viewBox=\"0 0 {across} {height}\" role=\"img\" aria-label=\"{label}\">{body}"
    ))
}

/// Steps of 1, 2 or 5 times a power of ten from at or below `low` to at or above `high`, about `count` of them.
fn steps(low: f64, high: f64, count: u32) -> Vec<f64> {
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
    use crate::analysis::fixture::{Run, sample, via};

    #[test]
    fn steps_are_round_and_span_the_range() {
        assert_eq!(steps(0.0, 97.0, 5), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(steps(-3.0, 12.0, 3), [-5.0, 0.0, 5.0, 10.0, 15.0]);
        assert!(steps(0.0, 0.0, 4).len() < 10);
    }

    #[test]
    fn a_contender_has_one_colour_and_direct_none_of_theirs() {
        let model = sample().model();
        assert_eq!(colour(&model, "nginx"), colour(&model, "nginx"));
        assert_ne!(colour(&model, "nginx"), colour(&model, "haproxy"));
        assert_eq!(colour(&model, "direct"), DIRECT);
    }

    #[test]
    fn twenty_gateways_have_twenty_colours() {
        let all: std::collections::BTreeSet<String> = (0..21).map(|index| css(shade(index))).collect();
        assert_eq!(all.len(), 21, "{all:?}");
        assert!(!all.contains(&css(DIRECT)));
    }

    #[test]
    fn every_chart_is_drawn_at_both_widths() {
        let model = sample().model();
        for load in model.loads() {
            for width in [Width::Wide, Width::Narrow] {
                for chart in [latency, throughput, cpu, tax] {
                    let svg = chart(&model, load, width).expect("drawn").expect("there is something to draw");
                    assert!(svg.starts_with("<svg class=") && svg.trim_end().ends_with("</svg>"));
                    assert!(!svg.contains("http") && !svg.contains("NaN") && !svg.contains("inf"), "{svg}");
                }
            }
        }
    }

    #[test]
    fn nothing_measured_draws_nothing() {
        let mut run = Run::closed(1);
        run.push(via("nginx", 0).nothing_completed());
        let model = run.model();
        let load = model.loads().next().expect("one");
        assert_eq!(latency(&model, load, Width::Wide).expect("no error"), None);
        assert_eq!(tax(&model, load, Width::Wide).expect("no error"), None);
        assert_eq!(cpu(&model, load, Width::Wide).expect("no error"), None);
    }

    #[test]
    fn labels_are_escaped() {
        let model = Run::steady(3, 100, &[("<b>&\"x\"", 150)]).model();
        let load = model.loads().next().expect("one");
        for chart in [latency, throughput, cpu, tax] {
            let svg = chart(&model, load, Width::Wide).expect("drawn").expect("something");
            assert!(!svg.contains("<b>"), "{svg}");
        }
    }
}
