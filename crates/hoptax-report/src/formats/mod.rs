//! The formats of `hoptax report`.

pub(crate) mod csv;
pub(crate) mod html;
pub(crate) mod json;
pub(crate) mod junit;
pub(crate) mod markdown;
pub(crate) mod page;
pub(crate) mod terminal;

use super::charts::{self, Chart, ChartError, Theme};
use super::model::Model;
use crate::foreign;
use crate::formats::csv::csv;
use crate::formats::html::{HtmlError, html};
use crate::formats::json::json;
use crate::formats::markdown::markdown;
use crate::formats::terminal::terminal;
use hoptax_analysis::{Load, Pooled};
use hoptax_record::RunRecord;

/// A format of `hoptax report`.
#[derive(Debug, Clone, Copy)]
pub struct Format {
    /// The format's name on the command line.
    pub name: &'static str,
    /// Description of the format in the command line's help.
    pub about: &'static str,
    /// The function that generates the format.
    pub draw: Draw,
}

/// How a format is generated, and from which data.
#[derive(Debug, Clone, Copy)]
pub enum Draw {
    /// Generated from the whole report.
    Report(fn(&Model, Screen) -> Result<String, HtmlError>),
    /// One document that contains the distributions of all cases.
    Cases(fn(&[Pooled]) -> serde_json::Result<String>),
    /// One document for each case, in a file with this extension.
    EachCase(&'static str, DrawCase),
    /// A single chart.
    Chart(DrawChart),
}

/// Generates the document for one case of a run. The second argument is the distribution of the case.
pub type DrawCase = fn(&RunRecord, &Pooled) -> serde_json::Result<String>;

/// Draws a chart at a load point. Returns `None` if the report has no data for it.
pub type DrawChart = fn(Chart, &Model, &Load, Theme) -> Result<Option<Vec<u8>>, ChartError>;

/// The properties of the screen, for formats that depend on them.
#[derive(Debug, Clone, Copy)]
pub struct Screen {
    /// Width, in columns.
    pub width: u16,
    /// True if ANSI colours should be used.
    pub colour: bool,
}

/// All formats, in the order of the help. The first format is the default.
#[rustfmt::skip]
pub const FORMATS: [Format; 10] = [
    Format::report("terminal", "Tables and sentences for a terminal", |model, to| Ok(terminal(model, to.width, to.colour))),
    Format::report("markdown", "A summary for a pull request, in Markdown", |model, _| Ok(markdown(model))),
    Format::report("html", "One self-contained page with charts", |model, _| html(model)),
    Format::report("json", "JSON for programs: a stable interface", |model, _| Ok(json(model))),
    Format::report("csv", "A table for spreadsheets", |model, _| Ok(csv(model))),
    Format::of("fortio", "JSON for `fortio report`: one file per case", Draw::EachCase("json", foreign::fortio_of_case)),
    Format::of("hgrm", "Percentiles of response times for HdrHistogram's plotters: one file per case", Draw::EachCase("hgrm", |_, case| Ok(foreign::hgrm(&case.response_time)))),
    Format::of("kong", "The `.data.json` of Kong's performance test framework", Draw::Cases(foreign::kong)),
    Format::of("svg", "A chart; with --chart", Draw::Chart(charts::svg_file)),
    Format::of("png", "A chart; with --chart", Draw::Chart(charts::png)),
];

impl Format {
    const fn of(name: &'static str, about: &'static str, draw: Draw) -> Self {
        Self { name, about, draw }
    }

    const fn report(
        name: &'static str,
        about: &'static str,
        draw: fn(&Model, Screen) -> Result<String, HtmlError>,
    ) -> Self {
        Self::of(name, about, Draw::Report(draw))
    }

    /// Finds the format with this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        FORMATS.iter().find(|format| format.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::FORMATS;
    use super::html::words;
    use crate::fixture::{Reported as _, Run};
    use crate::{json, markdown, tail_files, terminal};
    use std::path::Path;

    #[test]
    fn a_plain_run_has_no_other_sections() {
        let model = Run::steady(3, 100, &[("nginx", 150)]).model();
        assert!(tail_files(&model).is_empty());
        assert!(!json(&model).contains("enerators"));
        let others =
            "response path|the events|windows were quiet|· quiet|HTTP/2|enerators|beyond p99|Price of";
        for text in [terminal(&model, 80, false), markdown(&model), words(&model)] {
            for other in others.split('|') {
                assert!(!text.contains(other), "{other}: {text}");
            }
        }
    }

    #[test]
    fn the_reference_page_lists_every_format() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/report.md");
        let page = std::fs::read_to_string(path).expect("docs/reference/report.md");
        let table: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
        for format in FORMATS {
            let name = format!("`{}`", format.name);
            assert!(
                table.iter().any(|row| row.contains(&name)),
                "docs/reference/report.md: no row for {name}"
            );
        }
    }
}
