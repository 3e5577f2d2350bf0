//! `hoptax history trend`.

use super::draw::plain;
use super::open::{History, as_error, json, unknown};
use crate::cli::exit::BadInput;
use crate::cli::help;
use crate::cli::output::{columns, print};
use hoptax_history::{Bound, Point, Trend, TrendChoice, TrendQuery};
use hoptax_plan::Metric;
use hoptax_record::DIRECT;
use hoptax_report::{figure_in_words, wrapped};

/// Maximum width of the drawing, in columns.
const DRAWING: usize = 25;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Name of the plan
    #[arg(value_name = "PLAN")]
    name: String,

    /// Label of the gateway, or `direct`; required if the runs have several gateways
    #[arg(long, value_name = "LABEL")]
    gateway: Option<String>,

    /// Load point, by its label or a part of the label; required if the runs have several load points
    #[arg(long, value_name = "LOAD")]
    load: Option<String>,

    /// Metric [default: added_p50; p50 for direct; ready for starts; throughput, which is the capacity, for a
    /// search]
    #[arg(long, value_name = "METRIC")]
    metric: Option<String>,

    #[arg(long, value_enum, default_value = "terminal", help = help::FORMAT)]
    format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Text for a terminal
    Terminal,
    /// JSON for programs
    Json,
    /// One line per run, for spreadsheets
    Csv,
}

impl Args {
    pub(super) fn run(self, history: &mut History) -> anyhow::Result<()> {
        let choices = history.cases(Some(&self.name))?;
        let query = self.query(choices.iter().collect())?;
        let trend = history.store.trend(&query).map_err(as_error)?;
        match self.format {
            Format::Terminal => print(&terminal(&query, &trend, columns())),
            Format::Json => print(&json(&trend)?),
            Format::Csv => print(&csv(query.metric, &trend)),
        }
    }

    /// The case and metric to show. Fails with [`BadInput`] if no case matches the options, or if several
    /// cases match.
    fn query(&self, choices: Vec<&TrendChoice>) -> Result<TrendQuery, BadInput> {
        if choices.is_empty() {
            return Err(BadInput(format!(
                "no run of {} has a measured case; `hoptax history list` shows the state of each run",
                plain(&self.name)
            )));
        }
        let gateway = self.gateway(&choices)?;
        let of_gateway: Vec<&TrendChoice> =
            choices.into_iter().filter(|choice| choice.gateway == gateway).collect();
        let choice = self.load(&of_gateway)?;
        let metric = self.metric(choice)?;
        Ok(TrendQuery { name: self.name.clone(), gateway, load: choice.load.clone(), metric })
    }

    fn gateway(&self, choices: &[&TrendChoice]) -> Result<String, BadInput> {
        let mut labels: Vec<&str> = choices.iter().map(|choice| &*choice.gateway).collect();
        labels.dedup();
        let gateways: Vec<&str> = labels.iter().copied().filter(|label| *label != DIRECT).collect();
        match (&self.gateway, &gateways[..]) {
            (Some(typed), _) if labels.contains(&&**typed) => Ok(typed.clone()),
            (Some(typed), _) => {
                Err(unknown("no run measured a gateway with the label", typed, labels.into_iter()))
            }
            (None, [only]) => Ok((*only).to_owned()),
            (None, []) => Ok(DIRECT.to_owned()),
            (None, _) => Err(BadInput(format!(
                "the runs have several gateways; choose one with --gateway: {}",
                plain(&labels.join(", "))
            ))),
        }
    }

    fn load<'c>(&self, choices: &[&'c TrendChoice]) -> Result<&'c TrendChoice, BadInput> {
        let typed = self.load.as_deref().unwrap_or_default().to_lowercase();
        let fits = |choice: &&&&'c TrendChoice| choice.load.to_lowercase().contains(&typed);
        let exact = choices.iter().find(|choice| choice.load.to_lowercase() == typed);
        let found: Vec<&&TrendChoice> = choices.iter().filter(|choice| fits(&choice)).collect();
        let loads = |choices: &mut dyn Iterator<Item = &'c TrendChoice>| -> String {
            choices.map(|choice| format!("\n  --load '{}'", choice.load)).collect()
        };
        match (exact, &found[..]) {
            (Some(exact), _) => Ok(exact),
            (None, [only]) => Ok(only),
            (None, []) => {
                let loads = loads(&mut choices.iter().copied());
                Err(BadInput(format!("no load point matches `{}`; choose one:{loads}", plain(&typed))))
            }
            (None, several) => {
                let loads = loads(&mut several.iter().map(|choice| **choice));
                Err(BadInput(format!("several load points match; choose one:{loads}")))
            }
        }
    }

    fn metric(&self, choice: &TrendChoice) -> Result<Metric, BadInput> {
        let tax = if choice.gateway == DIRECT { Metric::P50 } else { Metric::AddedP50 };
        let has = |metric: &Metric| choice.metrics.contains(metric);
        // Cases of starts and of searches have no response times.
        let other = [Metric::Ready, Metric::Throughput].into_iter().find(has);
        let default = other.filter(|_| !has(&Metric::P50)).unwrap_or(tax);
        let names = || choice.metrics.iter().map(|metric| metric.name());
        let typed = self.metric.as_deref().unwrap_or(default.name());
        let found = choice.metrics.iter().find(|metric| metric.is_called(typed));
        found.copied().ok_or_else(|| unknown("this case has no metric", typed, names()))
    }
}

/// Draws one line per run. The line contains the value, the position of the value between the lowest and the
/// highest value, and the verdict. If something changed before a run, the changes are listed above the line.
fn terminal(query: &TrendQuery, trend: &Trend, width: u16) -> String {
    let width = usize::from(width);
    let title = format!("{} of {} in {}: {}", query.metric.name(), query.gateway, query.name, query.load);
    let mut text = wrapped(&plain(&title), width);
    text.push('\n');
    let figures: Vec<String> = trend
        .points
        .iter()
        .map(|point| {
            let sign = point.bound.map_or("", Bound::sign);
            sign.to_owned() + &figure_in_words(query.metric, point.estimate, point.interval)
        })
        .collect();
    let longest = |lengths: &mut dyn Iterator<Item = usize>| lengths.max().unwrap_or(0);
    let ids = longest(&mut trend.points.iter().map(|point| point.id.chars().count()));
    let values = longest(&mut figures.iter().map(|figure| figure.chars().count()));
    let verdicts = longest(&mut trend.points.iter().map(|point| point.verdict.chars().count()));
    let room = width.saturating_sub(ids + values + verdicts + 6);
    let scale = Scale::new(&trend.points, room.min(DRAWING));
    for (point, figure) in trend.points.iter().zip(&figures) {
        if !point.changed.is_empty() {
            let changed = wrapped(&format!("changed: {}", plain(&point.changed.join(", "))), width - 2);
            changed.lines().for_each(|line| text += &format!("  {line}\n"));
        }
        if let Some(change) = trend.changes.iter().find(|change| change.after == point.id) {
            let level = wrapped(&format!("new level: {}", change.in_words(query.metric)), width - 2);
            level.lines().for_each(|line| text += &format!("  {line}\n"));
        }
        let id = plain(&point.id);
        if ids + values + 2 > width {
            text.push_str(&format!("{id}\n  {figure}  {}\n", point.verdict));
            continue;
        }
        let drawing = scale.draw(point);
        let line = format!("{id:<ids$}  {figure:>values$}  {drawing}  {}", point.verdict);
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

struct Scale {
    low: f64,
    high: f64,
    columns: usize,
}

impl Scale {
    /// The scale for these points, `columns` wide. If there are fewer than five columns, the scale has no
    /// columns, because such a narrow drawing shows nothing.
    fn new(points: &[Point], columns: usize) -> Self {
        let ends = points.iter().flat_map(|point| {
            let (low, high) = point.interval.unwrap_or((point.estimate, point.estimate));
            [low.min(point.estimate), high.max(point.estimate)]
        });
        let (low, high) = ends.fold((f64::MAX, f64::MIN), |(low, high), end| (low.min(end), high.max(end)));
        Self { low, high, columns: if columns < 5 { 0 } else { columns } }
    }

    fn column(&self, value: f64) -> usize {
        let width = self.high - self.low;
        let share = if width > 0.0 { (value - self.low) / width } else { 0.5 };
        (share.clamp(0.0, 1.0) * self.columns.saturating_sub(1) as f64).round() as usize
    }

    fn draw(&self, point: &Point) -> String {
        let (low, high) = point.interval.unwrap_or((point.estimate, point.estimate));
        let (low, high, at) = (self.column(low), self.column(high), self.column(point.estimate));
        let of = |column: usize| match column {
            _ if column == at => '●',
            _ if (low..=high).contains(&column) => '─',
            _ => ' ',
        };
        (0..self.columns).map(of).collect()
    }
}

fn csv(metric: Metric, trend: &Trend) -> String {
    let mut text = String::from("run,started,estimate,low,high,unit,version,verdict,changed,bound,change\n");
    for point in &trend.points {
        let ends = point.interval.map(|(low, high)| [low.to_string(), high.to_string()]);
        let [low, high] = ends.unwrap_or_default();
        let change = trend.changes.iter().find(|change| change.after == point.id);
        let cells = [
            point.id.clone(),
            point.started_unix.to_string(),
            point.estimate.to_string(),
            low,
            high,
            trend.unit.clone(),
            point.version.clone().unwrap_or_default(),
            point.verdict.clone(),
            point.changed.join("; "),
            point.bound.map_or("", Bound::sign).trim().to_owned(),
            change.map(|change| change.in_words(metric)).unwrap_or_default(),
        ];
        text += &(cells.map(|cell| quoted(&cell)).join(",") + "\n");
    }
    text
}

fn quoted(cell: &str) -> String {
    match cell.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.to_owned(),
    }
}
