//! `hoptax report --chart`: one chart as a file.

use crate::cli::exit::{BadInput, Exit};
use crate::cli::output::{print, write_file};
use crate::cli::words::{Words, word};
use anyhow::Context;
use hoptax_analysis::Load;
use hoptax_plan::units;
use hoptax_report::charts::{self, Theme};
use hoptax_report::formats::{Draw, DrawChart, Format};
use hoptax_report::{Chart, Model};
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::path::Path;

/// Value of `--chart` that lists the charts of the run.
const LIST: &str = "list";

#[derive(Debug, clap::Args)]
pub(super) struct ChartArgs {
    /// Draw only this chart: tax, percentiles, time, sweep-p99, frontier, …; `list` lists the charts of this
    /// run
    #[arg(long, value_name = "NAME")]
    pub(super) chart: Option<String>,

    /// Load point of the chart, by its number or label [default: the first one in the report]
    #[arg(long, value_name = "LOAD", requires = "chart")]
    pub(super) load: Option<String>,

    /// Background of the chart
    #[arg(long, default_value = "light", requires = "chart", value_parser = word(THEMES))]
    theme: Theme,
}

const THEMES: Words<Theme> = &[("light", "White", Theme::Light), ("dark", "Almost black", Theme::Dark)];

impl ChartArgs {
    /// Draws the chart called `name`, or lists the charts.
    pub(super) fn run(
        &self,
        name: &str,
        format: Option<&'static Format>,
        model: &Model,
        output: Option<&Path>,
    ) -> anyhow::Result<Exit> {
        let (format, draw) = chart_format(format, output)?;
        if name == LIST {
            print(&list(model))?;
            return Ok(Exit::Success);
        }
        let chart = named(name)?;
        let load = self.load(chart, model)?;
        let file = draw(chart, model, load, self.theme)?;
        let file = file.ok_or_else(|| no_data(chart, model, load))?;
        match output {
            Some(path) => write_file(path, &file)?,
            None => to_standard_output(&file, format)?,
        }
        Ok(Exit::Success)
    }

    /// The load point that the user typed. If the user typed no load point, this is the first load point that
    /// has this chart.
    fn load<'m>(&self, chart: Chart, model: &'m Model) -> Result<&'m Load, BadInput> {
        let loads: Vec<&Load> = model.noise_floor.by_load.iter().map(|floor| &floor.load).collect();
        let Some(typed) = &self.load else {
            let shown = charts::shown_first(model);
            let has = |load: &&Load| charts::has(chart, model, load);
            let first = shown.filter(has).or_else(|| loads.iter().copied().find(has));
            return first.or(shown).or(loads.first().copied()).ok_or_else(|| {
                BadInput(
                    "the run has no load points, so it has no charts; see `hoptax report` without --chart"
                        .into(),
                )
            });
        };
        let by_number = typed.parse::<usize>().ok().and_then(|number| loads.get(number.checked_sub(1)?));
        let by_label = || loads.iter().find(|load| load.label == *typed);
        by_number.or_else(by_label).copied().ok_or_else(|| {
            let labels = loads.iter().map(|load| load.label.as_str());
            let near = units::nearest(typed, labels).map(|near| format!("did you mean `{near}`? "));
            let all =
                loads.iter().enumerate().map(|(index, load)| format!("\n  {} {}", index + 1, load.label));
            BadInput(format!(
                "this run has no load point `{typed}`\nhelp: {}its load points, by number and label:{}",
                near.unwrap_or_default(),
                all.collect::<String>()
            ))
        })
    }
}

/// The format of the chart. It is the value of `--format`, or else the extension of the output file, or else
/// svg.
fn chart_format(
    format: Option<&'static Format>,
    output: Option<&Path>,
) -> Result<(&'static Format, DrawChart), BadInput> {
    let ending =
        output.and_then(Path::extension).and_then(|ending| ending.to_str()).map(str::to_ascii_lowercase);
    let name = format.map(|format| format.name).or(ending.as_deref()).unwrap_or("svg");
    match (Format::named(name), format) {
        (Some(format @ Format { draw: Draw::Chart(draw), .. }), _) => Ok((format, *draw)),
        (_, Some(_)) => {
            Err(BadInput("a chart is an svg or a png file; use --format svg or --format png".into()))
        }
        (_, None) => Err(BadInput(format!(
            "a chart is an svg or a png file, not {name}; name the file *.svg or *.png, or add --format svg"
        ))),
    }
}

fn named(name: &str) -> Result<Chart, BadInput> {
    Chart::ALL.into_iter().find(|chart| chart.name() == name).ok_or_else(|| {
        let help = match units::nearest(name, Chart::ALL.into_iter().map(Chart::name)) {
            Some(near) => format!("did you mean {near}?"),
            None => format!("the charts are {}", Chart::ALL.map(Chart::name).join(", ")),
        };
        BadInput(format!(
            "there is no chart `{name}`\nhelp: {help}; `--chart list` lists the charts of this run"
        ))
    })
}

fn no_data(chart: Chart, model: &Model, load: &Load) -> BadInput {
    let elsewhere = model.noise_floor.by_load.iter().find(|floor| charts::has(chart, model, &floor.load));
    let help = elsewhere.map_or_else(
        || "`--chart list` lists the charts of this run".to_owned(),
        |floor| format!("the run has this chart for --load {}", floor.load.index + 1),
    );
    BadInput(format!(
        "the run has no data for the chart `{}` at {}: it needs {}\nhelp: {help}",
        chart.name(),
        load.label,
        chart.needs()
    ))
}

/// Lists the charts that this run has, with their titles. Then lists the other charts, with the data that
/// each chart needs.
fn list(model: &Model) -> String {
    let has =
        |chart: &Chart| model.noise_floor.by_load.iter().any(|floor| charts::has(*chart, model, &floor.load));
    let (had, not): (Vec<Chart>, Vec<Chart>) = Chart::ALL.into_iter().partition(has);
    let mut text = String::new();
    for chart in had {
        let _ = writeln!(text, "{:17} {}", chart.name(), chart.title_of(model));
    }
    if !not.is_empty() {
        text.push_str("\nNot available for this run:\n");
    }
    for chart in not {
        let _ = writeln!(text, "{:17} needs {}", chart.name(), chart.needs());
    }
    text
}

fn to_standard_output(file: &[u8], format: &Format) -> anyhow::Result<()> {
    if format.name == "png" && io::stdout().is_terminal() {
        return Err(BadInput(
            "a terminal cannot show a PNG; name a file with --output, such as --output chart.png".into(),
        )
        .into());
    }
    match io::stdout().lock().write_all(file) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("cannot write the chart to standard output; write it to a file with --output"),
    }
}
