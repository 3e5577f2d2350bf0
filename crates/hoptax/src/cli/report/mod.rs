//! `hoptax report`.

mod chart;
mod foreign;

use super::exit::{BadInput, Exit};
use super::output::{columns, print, write_file};
use super::{help, paint, run_ref};
use anyhow::Context;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use hoptax_report::formats::{Draw, FORMATS, Format, Screen};
use hoptax_report::{self as report, Model};
use std::io;
use std::path::PathBuf;

/// Create a report from a run directory, even of an interrupted run
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[arg(value_name = "DIR", help = help::RUN_DIR)]
    dir: PathBuf,

    /// Output format [default: terminal; with --chart the extension of the --output file, or svg]
    #[arg(long, value_name = "FORMAT", value_parser = formats())]
    format: Option<&'static Format>,

    #[command(flatten)]
    chart: chart::ChartArgs,

    /// With --format fortio or hgrm: only this case, by its name in findings, or by the label of a gateway
    /// that has only one
    #[arg(long, value_name = "CASE")]
    case: Option<String>,

    /// Write to this file instead of standard output. With --format fortio or hgrm, and no --case: directory
    /// for a file per case
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,

    /// When to use colors in the terminal report
    #[arg(long, value_enum, default_value = "auto", value_name = "WHEN")]
    color: Color,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Color {
    /// On a terminal with colors, unless NO_COLOR is set
    Auto,
    /// Always use colors
    Always,
    /// Never use colors
    Never,
}

fn formats() -> impl TypedValueParser<Value = &'static Format> {
    let names = FORMATS.iter().map(|format| PossibleValue::new(format.name).help(format.about));
    PossibleValuesParser::new(names)
        .map(|name| Format::named(&name).expect("the parser accepts only known names"))
}

impl Args {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let format = self.format.unwrap_or(&FORMATS[0]);
        if self.case.is_some() && !matches!(format.draw, Draw::EachCase(..)) {
            let message =
                "--case works only with --format fortio or hgrm, which write one file per case; leave it out";
            return Err(BadInput(message.into()).into());
        }
        let run = hoptax_record::dir::Run::read(&run_ref::find(&self.dir))?;
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
                let message = "svg and png are formats of a single chart; choose one with --chart NAME \
                    (`--chart list` lists them)";
                return Err(BadInput(message.into()).into());
            }
        };
        match &self.output {
            Some(path) => write_file(path, &text)?,
            None => print(&text)?,
        }
        Ok(Exit::Success)
    }

    /// True if the terminal report has colors. A report in a file has colors only if the user gives
    /// `--color always`.
    fn colour(&self) -> bool {
        match self.color {
            Color::Auto => self.output.is_none() && is_coloured(),
            Color::Always => true,
            Color::Never => false,
        }
    }
}

/// The terminal report, as wide as the terminal.
pub(super) fn for_terminal(model: &Model, colour: bool) -> String {
    report::terminal(model, columns(), colour)
}

/// True if standard output is a terminal with colors and the user has not switched colors off.
pub(super) fn is_coloured() -> bool {
    paint::is_wanted(&io::stdout())
}
