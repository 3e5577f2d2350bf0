//! `hoptax report`.

mod chart;
mod foreign;

use super::exit::{BadInput, Exit};
use super::load::paint;
use super::output::{columns, print, write_file};
use anyhow::Context;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use hoptax_plan::recorded;
use hoptax_report::formats::{Draw, FORMATS, Format, Screen};
use hoptax_report::{self as report, Model};
use std::io;
use std::path::PathBuf;

/// Make a report from a run directory, also of a run that was interrupted or killed.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Run directory: the one that holds run.json and trials.jsonl.
    #[arg(value_name = "DIR")]
    dir: PathBuf,

    /// What to make; without it terminal, or with --chart what the file's name ends with.
    #[arg(long, value_parser = formats())]
    format: Option<&'static Format>,

    #[command(flatten)]
    chart: chart::ChartArgs,

    /// With fortio and hgrm: of this case alone, named as findings name it, or by its gateway if that has no other.
    #[arg(long, value_name = "CASE")]
    case: Option<String>,

    /// Write to this file instead of standard output; fortio and hgrm without --case write one file per case into this
    /// directory.
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,

    /// Colours of the terminal report; auto: on a terminal, unless NO_COLOR is set.
    #[arg(long, value_enum, default_value = "auto", value_name = "WHEN")]
    color: Color,
}

/// When a report has colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Color {
    /// Where standard output is a terminal that shows them, and `NO_COLOR` is not set.
    Auto,
    /// Whatever standard output is.
    Always,
    /// Nowhere.
    Never,
}

/// Reads the name of a format.
fn formats() -> impl TypedValueParser<Value = &'static Format> {
    let names = FORMATS.iter().map(|format| PossibleValue::new(format.name).help(format.about));
    PossibleValuesParser::new(names).map(|name| Format::named(&name).expect("a name of the table"))
}

impl Args {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let format = self.format.unwrap_or(&FORMATS[0]);
        if self.case.is_some() && !matches!(format.draw, Draw::EachCase(..)) {
            let told = "--case goes with --format fortio and --format hgrm, which have a file for each case; leave it out";
            return Err(BadInput(told.into()).into());
        }
        let run = recorded::read(&self.dir)?;
        for line in &run.unreadable {
            eprintln!("note: skipped {line}");
        }
        if let Some(name) = &self.chart.chart {
            return self.chart.run(name, self.format, &Model::of(&run), self.output.as_deref());
        }
        let text = match format.draw {
            Draw::Report(draw) => draw(&Model::of(&run), Screen { width: columns(), colour: self.colour() })
                .with_context(|| format!("cannot draw the {} report", format.name.to_uppercase()))?,
            Draw::Cases(draw) => draw(&foreign::measured(&run)?)?,
            Draw::EachCase(ending, draw) => {
                let document = foreign::Document { format: format.name, ending, draw };
                return foreign::each(&run, &document, self.case.as_deref(), self.output.as_deref());
            }
            Draw::Chart(_) => {
                let told = "a whole report is no picture: say which chart with --chart NAME; `--chart list` tells which there are";
                return Err(BadInput(told.into()).into());
            }
        };
        match &self.output {
            Some(path) => write_file(path, &text)?,
            None => print(&text)?,
        }
        Ok(Exit::Success)
    }

    /// Whether the report for a terminal has colours. In a file it has none unless they are asked for.
    fn colour(&self) -> bool {
        match self.color {
            Color::Auto => self.output.is_none() && is_coloured(),
            Color::Always => true,
            Color::Never => false,
        }
    }
}

/// Tables and sentences, as wide as the terminal.
pub(super) fn for_terminal(model: &Model, colour: bool) -> String {
    report::terminal(model, columns(), colour)
}

/// Whether standard output is a terminal that shows colours, and nobody asked for none.
pub(super) fn is_coloured() -> bool {
    paint::is_wanted(&io::stdout())
}
