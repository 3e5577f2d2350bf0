//! The charts that hoptax can write as files, and what they show.

use super::colour::colour;
use super::lines::{Axis, Line, Panel};
use super::ranked::{Ranked, Row};
use super::unit::Unit;
use super::{life, over_time, precision, starts};
use crate::model::Model;
use crate::prices::named;
use crate::words::measure::Measure;
use crate::words::sweeps::{Sweep, sweeps};
use crate::words::text::capital;
use hoptax_analysis::{Case, Difference, Load};
use hoptax_plan::Metric;
use hoptax_record::Times;
use hoptax_stats::Estimate;
use plotters::style::RGBColor;

/// Declares the charts, each with its name on the command line and its title.
macro_rules! charts {
    ($($(#[$doc:meta])* $chart:ident($name:literal, $title:expr);)*) => {
        /// A chart that hoptax can write as a file.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Chart {
            $($(#[$doc])* $chart,)*
        }

        impl Chart {
            /// Every chart.
            pub const ALL: [Self; 18] = [$(Self::$chart),*];

            /// The chart's name on the command line.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$chart => $name,)*
                }
            }

            /// The chart's title.
            pub fn title(self) -> &'static str {
                match self {
                    $(Self::$chart => $title,)*
                }
            }
        }
    };
}

charts! {
    /// What the answer compares: added response time at the median, or what is added to streams.
    Tax("tax", "Added response time at the median");
    /// Added response time at the 99th percentile.
    TaxP99("tax-p99", "Added response time at the 99th percentile");
    /// Time added to messages at the median.
    TaxMessage("tax-message", "Added time per message at the median");
    /// When the head, the first event and the tokens of a stream arrive.
    StreamLife("stream-life", "The life of a stream");
    /// CPU time of gateways per request.
    Cpu("cpu", "CPU time of the gateway per request");
    /// Memory of gateways.
    Memory("memory", "Resident memory of the gateway");
    /// Response time by percentile.
    Percentiles("percentiles", "Response time by percentile");
    /// Throughput and response time over time.
    Time("time", "Throughput and response time, trial by trial");
    /// Median response time, for each number of connections or streams, or each rate.
    SweepP50("sweep-p50", "Median response time");
    /// Response time at the 99th percentile, for each number of connections or streams, or each rate.
    SweepP99("sweep-p99", "Response time at the 99th percentile");
    /// Throughput, for each number of connections or streams, or each rate.
    SweepThroughput("sweep-throughput", "Throughput, requests/s");
    /// CPU time per request, for each number of connections or streams, or each rate.
    SweepCpu("sweep-cpu", "CPU time of the gateway per request");
    /// Memory, for each number of connections or streams, or each rate.
    SweepMemory("sweep-memory", "Resident memory of the gateway");
    /// Response time and rate of each trial of a search.
    Frontier("frontier", "Response time at the 99th percentile by rate");
    /// The highest rates at which contenders meet an objective.
    Capacity("capacity", "Highest rate that holds the objective, requests/s");
    /// Time that features add at the median.
    Prices("prices", "What features add to the median response time");
    /// Half-width of the interval of the added median, over measuring time.
    Precision("precision", "Half-width of the 95 % interval of the added median, over time");
    /// Response time over the time since the start of a gateway.
    Starts("starts", starts::HEADING);
}

/// The content of a chart.
#[derive(Debug)]
pub(super) struct Drawing {
    pub(super) title: String,
    pub(super) subtitle: String,
    /// Source of the figures: the run's name and start, and the version of hoptax.
    pub(super) source: String,
    pub(super) body: Body,
}

#[derive(Debug)]
pub(super) enum Body {
    Ranked(Ranked),
    Panels(Vec<Panel>),
}

impl Body {
    pub(super) fn height(&self) -> i32 {
        match self {
            Self::Ranked(ranked) => ranked.height(),
            Self::Panels(panels) => panels.iter().map(Panel::height).sum(),
        }
    }

    /// Names and colours in the key. Each name appears once. A ranked chart needs no key, because the names
    /// are beside its lines.
    pub(super) fn names(&self) -> Vec<(String, RGBColor)> {
        let Self::Panels(panels) = self else { return Vec::new() };
        let mut names: Vec<(String, RGBColor)> = Vec::new();
        for line in panels.iter().flat_map(|panel| &panel.lines) {
            if names.iter().all(|(known, _)| *known != line.name) {
                names.push((line.name.clone(), line.colour));
            }
        }
        names
    }
}

/// Percentiles that have a label on the axis. The first number is the rarity n of a percentile: one of n
/// responses is slower.
const RARITIES: [(f64, &str); 7] = [
    (2.0, "p50"),
    (10.0, "p90"),
    (20.0, "p95"),
    (100.0, "p99"),
    (1e3, "p99.9"),
    (1e4, "p99.99"),
    (1e5, "p99.999"),
];

impl Chart {
    /// The title, with the measure of the run's answer and the word of the run for a message.
    pub fn title_of(self, model: &Model) -> String {
        match self {
            Self::Tax => capital(&Measure::new(model.latency_metric(), model.message).axis),
            _ => self.title().replace("message", model.message),
        }
    }

    /// Words for an error message: the data that a run must contain for this chart.
    pub fn needs(self) -> &'static str {
        match self {
            Self::Tax | Self::TaxP99 | Self::Cpu | Self::Memory => "a measured gateway",
            Self::TaxMessage => "a measured gateway, and messages with a response time or an age",
            Self::StreamLife => "streams of tokens",
            Self::Percentiles | Self::Time => "a trial with responses",
            Self::SweepP50 | Self::SweepP99 | Self::SweepThroughput | Self::SweepCpu | Self::SweepMemory => {
                "load points that differ only in connections, only in streams or only in rate"
            }
            Self::Frontier | Self::Capacity => "a search for a capacity",
            Self::Prices => "a gateway measured with and without features",
            Self::Precision => "at least 10 rounds",
            Self::Starts => "starts of gateways (`start` in the plan)",
        }
    }

    /// Computes the chart at this load point, or for the sweep that contains this load point. `None` if the
    /// report has no data for the chart.
    pub(super) fn of(self, model: &Model, load: &Load) -> Option<Drawing> {
        let with_intervals = format!("{}; with 95 % intervals", load.label);
        let (subtitle, body) = match self {
            Self::Tax => (with_intervals, Body::Ranked(tax(model, load, model.latency_metric())?)),
            Self::TaxP99 => (with_intervals, Body::Ranked(tax(model, load, Metric::AddedP99)?)),
            Self::TaxMessage => {
                let (times, ranked) = messages(model, load)?;
                (format!("{times}; {with_intervals}"), Body::Ranked(ranked))
            }
            Self::StreamLife => {
                (format!("{}; {}", load.label, life::ABOUT), Body::Panels(vec![life::panel(model, load)?]))
            }
            Self::Cpu => (with_intervals, Body::Ranked(tax(model, load, Metric::CpuUsPerRequest)?)),
            Self::Memory => (load.label.clone(), Body::Ranked(memory(model, load)?)),
            Self::Prices => (with_intervals, Body::Ranked(prices(model, load)?)),
            Self::Capacity => (with_intervals, Body::Ranked(capacity(model, load)?)),
            Self::Percentiles => (with_intervals, Body::Panels(vec![percentiles(model, load)?])),
            Self::Time => (load.label.clone(), Body::Panels(over_time::panels(model, load)?)),
            Self::Frontier => (load.label.clone(), Body::Panels(vec![frontier(model, load)?])),
            Self::Precision => (load.label.clone(), Body::Panels(vec![precision::panel(model, load)?])),
            Self::Starts => (starts::subtitle(load), Body::Panels(vec![starts::panel(model)?])),
            Self::SweepP50 | Self::SweepP99 | Self::SweepThroughput | Self::SweepCpu | Self::SweepMemory => {
                let all: Vec<&Load> = model.loads().collect();
                let sweep = sweeps(&all).into_iter().find(|sweep| sweep.loads.contains(&load.index))?;
                let intervals = if self == Self::SweepMemory { "" } else { "; with 95 % intervals" };
                let subtitle = format!("over {}; {}{intervals}", sweep.axis, sweep.label);
                (subtitle, Body::Panels(vec![self.over(model, &sweep)?]))
            }
        };
        let source = format!("{} · {} · hoptax {}", model.name, model.started, model.hoptax);
        Some(Drawing { title: self.title_of(model), subtitle, source, body })
    }

    /// Computes a chart with the number of connections, of streams, or the rate on its horizontal axis.
    fn over(self, model: &Model, sweep: &Sweep) -> Option<Panel> {
        let unit = match self {
            Self::SweepThroughput => Unit::Rate,
            Self::SweepMemory => Unit::Bytes,
            _ => Unit::Time,
        };
        let lines: Vec<Line> = contenders(model)
            .filter_map(|(label, colour)| {
                let at = |load: usize| {
                    model.cases.iter().find(|case| case.gateway == label && case.load.index == load)
                };
                let figures = sweep.at.iter().zip(&sweep.loads);
                let figures: Vec<(f64, Estimate)> =
                    figures.filter_map(|(x, load)| Some((*x, self.figure(at(*load)?)?))).collect();
                let ranged = |(x, one): &(f64, Estimate)| one.interval().map(|(low, high)| (*x, low, high));
                (!figures.is_empty()).then(|| Line {
                    ranges: figures.iter().filter_map(ranged).collect(),
                    points: figures.iter().map(|(x, one)| (*x, Some(one.estimate))).collect(),
                    ..line(label, colour)
                })
            })
            .collect();
        let ends = |line: &Line| -> Vec<f64> {
            let points = line.points.iter().filter_map(|(_, value)| *value);
            points.chain(line.ranges.iter().flat_map(|(_, low, high)| [*low, *high])).collect()
        };
        let values: Vec<f64> = lines.iter().flat_map(ends).collect();
        let up = match self {
            Self::SweepP50 | Self::SweepP99 => Axis::around(unit, values.into_iter())?,
            _ => Axis::linear(unit, values.into_iter().reduce(f64::max)?),
        };
        let ticks: Vec<(f64, String)> = sweep.at.iter().map(|x| (*x, Unit::Rate.format(*x))).collect();
        let (first, last) = (sweep.at.first()?, sweep.at.last()?);
        let across = Axis::marked(ticks, first / 1.15, last * 1.15);
        Some(Panel { title: String::new(), across, up, lines, marks: Vec::new() })
    }

    /// The figure of a case that this chart shows.
    fn figure(self, case: &Case) -> Option<Estimate> {
        match self {
            Self::SweepP50 => case.response_time.as_ref()?.p50,
            Self::SweepP99 => case.response_time.as_ref()?.p99,
            Self::SweepThroughput => case.throughput.as_ref().map(|one| one.estimate),
            Self::SweepCpu => Some(case.tax.as_ref()?.cpu_us_per_request.as_ref()?.estimate),
            Self::SweepMemory => resident(case),
            _ => None,
        }
    }
}

fn contenders(model: &Model) -> impl Iterator<Item = (&str, RGBColor)> {
    model.contenders.iter().map(|one| (one.label.as_str(), colour(model, &one.label)))
}

fn line(name: &str, colour: RGBColor) -> Line {
    Line { name: name.to_owned(), colour, second: false, dots: true, points: Vec::new(), ranges: Vec::new() }
}

fn row(model: &Model, label: &str, difference: &Difference) -> Row {
    Row {
        name: label.to_owned(),
        colour: colour(model, label),
        estimate: difference.estimate,
        clear: difference.distinguishable,
    }
}

/// A tax in µs for each gateway, with the noise floor.
pub(super) fn tax(model: &Model, load: &Load, metric: Metric) -> Option<Ranked> {
    let rows = model
        .at(load)
        .filter_map(|case| Some(row(model, &case.gateway, case.tax.as_ref()?.get(metric)?)))
        .collect();
    let floor = model.noise_floor.by_load.get(load.index).and_then(|floor| floor.get(metric));
    Ranked::new(Unit::Time, floor, rows)
}

/// The times of messages that the chart shows, in words, and what each gateway adds to them at the median.
/// `None` if messages have neither a response time nor an age.
fn messages(model: &Model, load: &Load) -> Option<(&'static str, Ranked)> {
    Metric::HEADLINES_OF_MESSAGES.into_iter().find_map(|metric| {
        let times = if metric.times() == Some(Times::Age) { "age" } else { "response time" };
        Some((times, tax(model, load, metric)?))
    })
}

/// The largest resident set of any trial. It has no interval.
fn resident(case: &Case) -> Option<Estimate> {
    let bytes = case.memory.as_ref()?.gateway_rss_bytes_max?;
    Some(Estimate::bare(bytes as f64, case.trials))
}

fn memory(model: &Model, load: &Load) -> Option<Ranked> {
    let of = |case: &Case| {
        let (name, colour) = (case.gateway.clone(), colour(model, &case.gateway));
        Some(Row { name, colour, estimate: resident(case)?, clear: true })
    };
    Ranked::new(Unit::Bytes, None, model.at(load).filter_map(of).collect())
}

fn prices(model: &Model, load: &Load) -> Option<Ranked> {
    let at = model.prices.rows.iter().filter(|price| price.load.index == load.index);
    let rows = at.filter_map(|price| {
        let difference = price.prices.get(Metric::AddedP50)?;
        Some(Row {
            name: format!("{}: {}", price.bare, named(price)),
            ..row(model, &price.gateway, difference)
        })
    });
    Ranked::new(Unit::Time, None, rows.collect())
}

/// `None` in a search for a number of connections, because the title says requests/s.
fn capacity(model: &Model, load: &Load) -> Option<Ranked> {
    load.rate?;
    let found: Vec<_> = model.capacity.iter().filter(|one| one.load.index == load.index).collect();
    let several = found.windows(2).any(|pair| pair[0].slo != pair[1].slo);
    let rows = found.iter().filter_map(|one| {
        let name = if several { format!("{}, {}", one.gateway, one.slo) } else { one.gateway.clone() };
        let colour = colour(model, &one.gateway);
        Some(Row { name, colour, estimate: one.rate?, clear: true })
    });
    Ranked::new(Unit::Rate, None, rows.collect())
}

fn percentiles(model: &Model, load: &Load) -> Option<Panel> {
    let of = |case: &Case| {
        let latency = case.response_time.as_ref()?;
        let figures = [(2.0, latency.p50), (10.0, latency.p90), (20.0, latency.p95), (100.0, latency.p99)];
        let ranged = |(x, one): (f64, Option<Estimate>)| one?.interval().map(|(low, high)| (x, low, high));
        (!case.curve.is_empty()).then(|| Line {
            dots: false,
            points: case.curve.iter().map(|(rarity, us)| (*rarity, Some(*us))).collect(),
            ranges: figures.into_iter().chain([(1e3, latency.p999)]).filter_map(ranged).collect(),
            ..line(&case.gateway, colour(model, &case.gateway))
        })
    };
    let lines: Vec<Line> = model.at(load).filter_map(of).collect();
    let points = || lines.iter().flat_map(|line| &line.points);
    let rarest = points().map(|(x, _)| *x).reduce(f64::max)?;
    let up = Axis::around(Unit::Time, points().filter_map(|(_, us)| *us))?;
    let ticks = RARITIES.iter().filter(|(rarity, _)| *rarity < rarest);
    let across = Axis::marked(ticks.map(|(x, name)| (*x, (*name).to_owned())).collect(), 1.0, rarest);
    Some(Panel { title: String::new(), across, up, lines, marks: Vec::new() })
}

/// If the rates of trials of a search differ by less than this factor, the trials share one point of the
/// line.
const ALIKE: f64 = 1.1;

/// `None` in a search for a number of connections, because the axis has rates.
fn frontier(model: &Model, load: &Load) -> Option<Panel> {
    load.rate?;
    let mut lines: Vec<Line> = Vec::new();
    let mut marks: Vec<(f64, String)> = Vec::new();
    for one in model.capacity.iter().filter(|one| one.load.index == load.index) {
        if let Some(rate) = one.rate {
            mark(&mut marks, rate.estimate, &one.gateway);
        }
        if lines.iter().any(|line| line.name == one.gateway) {
            continue;
        }
        let mut trials: Vec<(f64, f64)> =
            // A p99 among requests without a response time is longer than any limit.
            one.steps
                .iter()
                .filter(|step| step.held.is_some())
                .map(|step| (step.rate, step.p99_us.unwrap_or(f64::INFINITY)))
                .collect();
        trials.sort_by(|a, b| a.0.total_cmp(&b.0));
        let points = middles(&trials).into_iter().map(|(rate, us)| (rate, Some(us))).collect();
        lines.push(Line { points, ..line(&one.gateway, colour(model, &one.gateway)) });
    }
    let points = || lines.iter().flat_map(|line| &line.points);
    let across = Axis::around(Unit::Rate, points().map(|(rate, _)| *rate))?;
    let up = Axis::around(Unit::Time, points().filter_map(|(_, us)| us.filter(|us| us.is_finite())))?;
    Some(Panel { title: String::new(), across, up, lines, marks })
}

/// Marks the rate at which a contender meets an objective. Contenders with about the same rate share a mark.
fn mark(marks: &mut Vec<(f64, String)>, rate: f64, who: &str) {
    match marks.iter_mut().find(|(at, _)| *at < rate * ALIKE && rate < *at * ALIKE) {
        Some((_, names)) if names.split(", ").any(|name| name == who) => {}
        Some((_, names)) => *names = format!("{names}, {who}"),
        None => marks.push((rate, who.to_owned())),
    }
}

/// Groups trials at about the same rate, and returns the median of each group. The median of several trials
/// is shown because a single trial may be disturbed.
fn middles(trials: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut groups: Vec<Vec<(f64, f64)>> = Vec::new();
    for trial in trials {
        match groups.last_mut() {
            Some(group) if trial.0 < group[0].0 * ALIKE => group.push(*trial),
            _ => groups.push(vec![*trial]),
        }
    }
    let middle = |group: Vec<(f64, f64)>| {
        let mut times: Vec<f64> = group.iter().map(|(_, us)| *us).collect();
        times.sort_by(f64::total_cmp);
        (group[group.len() / 2].0, times[times.len() / 2])
    };
    groups.into_iter().map(middle).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trials_at_about_the_same_rate_are_one_point() {
        let trials = [(100.0, 9.0), (104.0, 1.0), (105.0, 2.0), (200.0, 7.0)];
        assert_eq!(middles(&trials), [(104.0, 2.0), (200.0, 7.0)]);
    }

    #[test]
    fn gateways_that_hold_the_same_rate_share_a_mark() {
        let mut marks = Vec::new();
        for (rate, who) in [(500.0, "a"), (505.0, "b"), (500.0, "a"), (900.0, "a")] {
            mark(&mut marks, rate, who);
        }
        assert_eq!(marks, [(500.0, "a, b".to_owned()), (900.0, "a".to_owned())]);
    }
}
