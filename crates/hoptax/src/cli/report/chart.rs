//! `hoptax report --chart`: one chart as a file.

use crate::cli::exit::{BadInput, Exit};
use crate::cli::output::{print, write_file};
use anyhow::Context;
use hoptax_analysis::Load;
use hoptax_plan::units;
use hoptax_report::charts::{self, Theme};
use hoptax_report::formats::{Draw, DrawChart, Format};
use hoptax_report::{Chart, Model};
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::path::Path;

/// What lists the charts that a run has.
const LIST: &str = "list";

/// Which chart, as it was typed.
#[derive(Debug, clap::Args)]
pub(super) struct ChartArgs {
    /// Draw one chart as a file of its own: tax, percentiles, time, sweep-p99, frontier, …; `list` tells which this run has.
    #[arg(long, value_name = "NAME")]
    pub(super) chart: Option<String>,

    /// With --chart: the load point, by its number or its label; without it, the one that the report shows first.
    #[arg(long, value_name = "LOAD", requires = "chart")]
    pub(super) load: Option<String>,

    /// With --chart: what the chart stands upon.
    #[arg(long, value_enum, default_value = "light", requires = "chart")]
    theme: ThemeName,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ThemeName {
    /// White.
    Light,
    /// Nearly black.
    Dark,
}

impl ChartArgs {
    /// Makes what was asked for.
    pub(super) fn run(
        &self,
        name: &str,
        format: Option<&'static Format>,
        model: &Model,
        output: Option<&Path>,
    ) -> anyhow::Result<Exit> {
        let (format, draw) = wanted(format, output)?;
        if name == LIST {
            print(&list(model))?;
            return Ok(Exit::Success);
        }
        let chart = named(name)?;
        let load = self.load(chart, model)?;
        let theme = match self.theme {
            ThemeName::Light => Theme::Light,
            ThemeName::Dark => Theme::Dark,
        };
        let file = draw(chart, model, load, theme)?;
        let file = file.ok_or_else(|| nothing(chart, model, load))?;
        match output {
            Some(path) => write_file(path, &file)?,
            None => to_standard_output(&file, format)?,
        }
        Ok(Exit::Success)
    }

    /// The load point that is asked for, or the first one of which there is such a chart.
    fn load<'m>(&self, chart: Chart, model: &'m Model) -> Result<&'m Load, BadInput> {
        let loads: Vec<&Load> = model.noise_floor.iter().map(|floor| &floor.load).collect();
        let Some(typed) = &self.load else {
            let shown = charts::shown_first(model);
            let has = |load: &&Load| charts::has(chart, model, load);
            let first = shown.filter(has).or_else(|| loads.iter().copied().find(has));
            return first
                .or(shown)
                .or(loads.first().copied())
                .ok_or_else(|| BadInput("the run has no load points".into()));
        };
        let by_number = typed.parse::<usize>().ok().and_then(|number| loads.get(number.checked_sub(1)?));
        let by_label = || loads.iter().find(|load| load.label == *typed);
        by_number.or_else(by_label).copied().ok_or_else(|| {
            let labels = loads.iter().map(|load| load.label.as_str());
            let near = units::nearest(typed, labels).map(|near| format!("did you mean `{near}`? "));
            let all =
                loads.iter().enumerate().map(|(index, load)| format!("\n  {} {}", index + 1, load.label));
            BadInput(format!(
                "no load point of this run is `{typed}`\nhelp: {}it has, by number and label:{}",
                near.unwrap_or_default(),
                all.collect::<String>()
            ))
        })
    }
}

/// The format of the chart: what was typed, or else what the file's name ends with.
fn wanted(
    format: Option<&'static Format>,
    output: Option<&Path>,
) -> Result<(&'static Format, DrawChart), BadInput> {
    let ending =
        output.and_then(Path::extension).and_then(|ending| ending.to_str()).map(str::to_ascii_lowercase);
    let name = format.map(|format| format.name).or(ending.as_deref()).unwrap_or("svg");
    match (Format::named(name), format) {
        (Some(format @ Format { draw: Draw::Chart(draw), .. }), _) => Ok((format, *draw)),
        (_, Some(_)) => {
            Err(BadInput("a chart is drawn as svg or png: add --format svg or --format png".into()))
        }
        (_, None) => Err(BadInput(format!(
            "a chart is drawn as svg or png, and not as {name}: name a file that ends so, or add --format"
        ))),
    }
}

fn named(name: &str) -> Result<Chart, BadInput> {
    Chart::ALL.into_iter().find(|chart| chart.name() == name).ok_or_else(|| {
        let help = match units::nearest(name, Chart::ALL.into_iter().map(Chart::name)) {
            Some(near) => format!("did you mean {near}?"),
            None => format!("there are {}", Chart::ALL.map(Chart::name).join(", ")),
        };
        BadInput(format!("there is no chart `{name}`\nhelp: {help}; `--chart list` tells which this run has"))
    })
}

fn nothing(chart: Chart, model: &Model, load: &Load) -> BadInput {
    let elsewhere = model.noise_floor.iter().find(|floor| charts::has(chart, model, &floor.load));
    let help = elsewhere.map_or_else(
        || "`--chart list` tells which charts this run has".to_owned(),
        |floor| format!("there is one at --load {}", floor.load.index + 1),
    );
    BadInput(format!(
        "there is nothing for the chart `{}` at {}: it needs {}\nhelp: {help}",
        chart.name(),
        load.label,
        chart.needs()
    ))
}

/// The charts that this run has, with their titles; and what the others would need.
fn list(model: &Model) -> String {
    let has = |chart: &Chart| model.noise_floor.iter().any(|floor| charts::has(*chart, model, &floor.load));
    let (had, not): (Vec<Chart>, Vec<Chart>) = Chart::ALL.into_iter().partition(has);
    let mut text = String::new();
    for chart in had {
        let _ = writeln!(text, "{:17} {}", chart.name(), chart.title());
    }
    if !not.is_empty() {
        text.push_str("\nNot of this run:\n");
    }
    for chart in not {
        let _ = writeln!(text, "{:17} needs {}", chart.name(), chart.needs());
    }
    text
}

fn to_standard_output(file: &[u8], format: &Format) -> anyhow::Result<()> {
    if format.name == "png" && io::stdout().is_terminal() {
        return Err(BadInput("a PNG is nothing for a terminal: name a file with --output".into()).into());
    }
    match io::stdout().lock().write_all(file) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("cannot write the chart to standard output"),
    }
}
