//! Charts that are drawn without a browser: files of their own, and the tax as SVG for pages whose script does not run. And the
//! colours of contenders, for every chart.
//!
//! [`catalogue`] says what is shown, [`ranked`] and [`lines`] draw it on a [`sheet`], [`standalone`] makes a file of it.

mod catalogue;
mod lines;
mod over_time;
mod ranked;
mod sheet;
mod standalone;

pub use catalogue::Chart;

use super::format::{Scale, number};
use super::model::Model;
use crate::analysis::{Load, TaxMetric, headline};
use plotters::prelude::{BLACK, RGBColor, SVGBackend};
use ranked::Room;
use sheet::{Ink, Sheet, steps};

/// A chart that could not be drawn.
#[derive(Debug, thiserror::Error)]
#[error("cannot draw a chart: {0}")]
pub struct ChartError(String);

impl ChartError {
    fn new(error: impl std::fmt::Display) -> Self {
        Self(error.to_string())
    }
}

/// Behind a chart that stands alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Theme {
    /// White.
    Light,
    /// Nearly black.
    Dark,
}

/// A chart of this report at this load point as SVG; `None` where the report has nothing for it to show.
///
/// # Errors
/// Only by a fault of hoptax itself.
pub fn svg(chart: Chart, model: &Model, load: &Load, theme: Theme) -> Result<Option<String>, ChartError> {
    chart.of(model, load).map(|drawing| standalone::svg(&drawing, theme)).transpose()
}

/// The same as PNG, with two dots for each pixel.
///
/// # Errors
/// Only by a fault of hoptax itself.
pub fn png(chart: Chart, model: &Model, load: &Load, theme: Theme) -> Result<Option<Vec<u8>>, ChartError> {
    chart.of(model, load).map(|drawing| standalone::png(&drawing, theme)).transpose()
}

/// Whether the report has something for the chart to show at this load point.
pub fn has(chart: Chart, model: &Model, load: &Load) -> bool {
    chart.of(model, load).is_some()
}

/// The load point that a report shows first; absent where there are searches alone.
pub fn shown_first(model: &Model) -> Option<&Load> {
    headline::for_latency(&mut model.loads())
}

/// What is drawn along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    /// µs.
    Time,
    /// Requests/s, or connections.
    Rate,
    /// Bytes.
    Bytes,
}

impl Unit {
    fn scale(self, size: f64) -> Scale {
        match self {
            Self::Time => Scale::of_us(size),
            Self::Rate => Scale::plain(),
            Self::Bytes => Scale::of_bytes(size),
        }
    }

    /// A value with the unit in which it is best read.
    fn told(self, value: f64) -> String {
        self.scale(value).value(value)
    }

    /// Round values from at or below `low` to at or above `high`, about `count` of them.
    fn steps(self, low: f64, high: f64, count: u32) -> Vec<f64> {
        let one = self.scale(high.max(-low)).one();
        steps(low / one, high / one, count).into_iter().map(|step| step * one).collect()
    }

    /// A value on an axis that goes to `largest`.
    fn told_beside(self, value: f64, largest: f64) -> String {
        if value == 0.0 { number(0.0) } else { self.scale(largest).value(value) }
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

/// Colours that the page replaces by its own, so that one drawing serves light and dark.
const OF_PAGE: Ink = Ink { paper: None, text: BLACK, quiet: BLACK, grid: RGBColor(0xcc, 0xcc, 0xcc) };

/// The two widths that a page has: for a laptop and for a phone. A drawing made for one is unreadable on the other.
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

/// The added time at the median for a page, least first, with intervals and the noise floor; absent where there is no tax.
pub(super) fn tax(model: &Model, load: &Load, width: Width) -> Result<Option<String>, ChartError> {
    let Some(ranked) = catalogue::tax(model, load, TaxMetric::AddedP50) else { return Ok(None) };
    let mut svg = String::new();
    let (across, height) = (width.pixels(), ranked.height());
    let backend = SVGBackend::with_string(&mut svg, (across as u32, height as u32));
    let sheet = Sheet::new(backend, OF_PAGE, 1)?;
    ranked.draw(&sheet, Room { top: 0, width: across, wide: width == Width::Wide })?;
    sheet.present()?;
    drop(sheet);
    // The page decides on size and namespace.
    let body = svg.find('>').map_or("", |end| &svg[end + 1..]);
    let class = if width == Width::Wide { "wide" } else { "narrow" };
    let described = format!("Added response time at the median with 95 % intervals, {}", load.label);
    let label = minijinja::HtmlEscape(&described);
    Ok(Some(format!(
        "<svg class=\"{class}\" viewBox=\"0 0 {across} {height}\" role=\"img\" aria-label=\"{label}\">{body}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::fixture::features::matrix;
    use crate::analysis::fixture::{Run, open_point, sample, searched_point, via};

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
    fn the_tax_is_drawn_at_both_widths() {
        let model = sample().model();
        for load in model.loads() {
            for width in [Width::Wide, Width::Narrow] {
                let svg = tax(&model, load, width).expect("drawn").expect("there is something to draw");
                assert!(svg.starts_with("<svg class=") && svg.trim_end().ends_with("</svg>"));
                assert!(!svg.contains("http") && !svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            }
        }
    }

    #[test]
    fn nothing_measured_draws_nothing() {
        let mut run = Run::closed(1);
        run.push(via("nginx", 0).nothing_completed());
        let model = run.model();
        let load = model.loads().next().expect("one");
        assert_eq!(tax(&model, load, Width::Wide).expect("no error"), None);
        // Trials took their time and memory all the same.
        for chart in Chart::ALL.into_iter().filter(|chart| ![Chart::Time, Chart::Memory].contains(chart)) {
            assert_eq!(svg(chart, &model, load, Theme::Light).expect("no error"), None, "{}", chart.name());
        }
    }

    #[test]
    fn labels_are_escaped() {
        let model = Run::steady(3, 100, &[("<b>&\"x\"", 150)]).model();
        let load = model.loads().next().expect("one");
        let page = tax(&model, load, Width::Wide).expect("drawn").expect("something");
        let alone = svg(Chart::Percentiles, &model, load, Theme::Dark).expect("drawn").expect("something");
        assert!(!page.contains("<b>") && !alone.contains("<b>"), "{page}{alone}");
        assert!(roxmltree::Document::parse(&alone).is_ok());
    }

    /// Two gateways over two load points and a search.
    fn swept() -> Run {
        let mut run =
            Run::with_load(vec![open_point(1000.0, 2, 1), open_point(1000.0, 8, 1), searched_point()]);
        for round in 0..3 {
            for load in 0..2 {
                let trial = |who: &str, us: u64| {
                    via(who, round).windows_us(&vec![vec![us + u64::from(round); 100]; 10]).at_load(load)
                };
                run.push(trial("direct", 100).first());
                run.push(trial("nginx", 160)).push(trial("envoy", 400));
                run.push(trial("direct", 103).last());
            }
            for (who, us) in [("direct", 900), ("nginx", 1500), ("envoy", 9000)] {
                for rate in [800.0, 1600.0, 3200.0] {
                    run.push(via(who, round).all_at_us(us + rate as u64 / 10).step(rate).at_load(2));
                }
            }
        }
        run
    }

    fn drawn(chart: Chart, model: &Model, load: &Load) -> String {
        svg(chart, model, load, Theme::Light)
            .expect("drawn")
            .unwrap_or_else(|| panic!("{} is missing", chart.name()))
    }

    #[test]
    fn every_chart_stands_alone_as_svg_and_png() {
        let (swept, features) = (swept().model(), matrix(230, 33).model());
        for chart in Chart::ALL {
            let model = if chart == Chart::Prices { &features } else { &swept };
            let mut loads = model.noise_floor.by_load.iter().map(|floor| &floor.load);
            let load = loads.find(|load| load.search.is_some() == chart.is_of_searches()).expect("one");
            assert!(has(chart, model, load), "{}", chart.name());
            let text = drawn(chart, model, load);
            let document = roxmltree::Document::parse(&text).expect("XML");
            let texts: Vec<&str> =
                document.descendants().filter_map(|node| node.text()).map(str::trim).collect();
            assert!(texts.contains(&chart.title()), "{texts:?}");
            assert!(texts.iter().any(|text| text.contains("nginx")), "{texts:?}");
            assert!(!text.contains("NaN") && !text.contains("inf,"), "{text}");
            if [Chart::Tax, Chart::Time].contains(&chart) {
                let file = png(chart, model, load, Theme::Dark).expect("drawn").expect("something");
                let decoder = png::Decoder::new(std::io::Cursor::new(&file));
                let reader = decoder.read_info().expect("PNG");
                assert_eq!(reader.info().width, 1920, "two dots for each of 960 pixels");
            }
        }
    }

    #[test]
    fn a_line_has_as_many_points_as_there_are_load_points() {
        let model = swept().model();
        let load = model.loads().next().expect("one");
        let text = drawn(Chart::SweepP50, &model, load);
        let document = roxmltree::Document::parse(&text).expect("XML");
        let dots = document.descendants().filter(|node| node.has_tag_name("circle"));
        assert_eq!(dots.count(), 3 * 2, "three contenders at two load points");
        let single = Run::closed(4).model();
        let load = single.loads().next().expect("one");
        assert!(!has(Chart::SweepP50, &single, load) && !has(Chart::Frontier, &single, load));
    }

    #[test]
    fn values_stand_beside_what_was_measured() {
        let model = Run::steady(3, 100, &[("nginx", 150)]).model();
        let load = model.loads().next().expect("one");
        let added = model.cases.iter().find_map(|case| case.tax.as_ref()?.added_p50.as_ref()).expect("a tax");
        let value = Unit::Time.told(added.estimate.estimate);
        assert!(drawn(Chart::Tax, &model, load).contains(&value), "{value}");
    }
}
