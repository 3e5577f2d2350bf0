//! Cells of the main table. The formats for the terminal, Markdown and HTML lay them out.

use crate::words::format::{Scale, bytes};
use hoptax_analysis::{Case, Difference, TargetFigures};
use hoptax_stats::Estimate;

/// A figure with its interval.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Cell {
    /// The value with its unit. A dash if the figure is missing.
    pub(crate) value: String,
    /// The interval. Empty for a maximum and for a missing figure.
    pub(crate) interval: String,
    /// False if the cell shows a tax that is not distinguishable from noise.
    pub(crate) distinguishable: bool,
}

pub(crate) fn in_one_line(cell: &Cell) -> String {
    let interval = match cell.interval.is_empty() {
        true => String::new(),
        false => format!(" ({})", cell.interval),
    };
    let doubt = if cell.distinguishable { "" } else { ", not distinguishable" };
    format!("{}{interval}{doubt}", cell.value)
}

/// Headings of the main table, after the column with the gateway's name.
pub(crate) const HEADINGS: [&str; 7] =
    ["requests/s", "p50", "p99", "added p50", "added p99", "CPU/req", "memory"];

/// A row of the main table. `None` for a case that was not measured.
pub(crate) fn row(case: &Case) -> Option<[Cell; 7]> {
    let response = case.response_time.as_ref()?;
    let tax = case.tax.as_ref();
    let memory = case.memory.as_ref().and_then(|memory| memory.gateway_rss_bytes_max);
    Some([
        case.throughput
            .as_ref()
            .map_or_else(none, |throughput| with_accepted(case, rate(&throughput.estimate))),
        time(response.p50.as_ref()),
        time(response.p99.as_ref()),
        added(tax.and_then(|tax| tax.added_p50.as_ref())),
        added(tax.and_then(|tax| tax.added_p99.as_ref())),
        tax.and_then(|tax| tax.cpu_us_per_request.as_ref())
            .map_or_else(none, |cpu| time(Some(&cpu.estimate))),
        memory.map_or_else(none, |memory| Cell { value: bytes(memory as f64), ..none() }),
    ])
}

/// Share of rejected responses above which a row also shows how many were accepted.
const REJECTED: f64 = 0.001;

/// Adds the accepted responses per second to the cell of a throughput, if a noticeable share of the responses
/// was rejected.
fn with_accepted(case: &Case, cell: Cell) -> Cell {
    let (Some(counts), Some(throughput)) = (&case.counts, &case.throughput) else { return cell };
    let limits = [429, 503].map(|status| counts.status.get(&status).copied().unwrap_or(0));
    let rejected = limits.iter().sum::<u64>() as f64 / counts.completed.max(1) as f64;
    if rejected <= REJECTED {
        return cell;
    }
    let accepted = (1.0 - rejected) * throughput.estimate.estimate;
    let accepted = format!("{} accepted", Scale::of_throughput(accepted).value(accepted));
    let interval = if cell.interval.is_empty() { accepted } else { format!("{}; {accepted}", cell.interval) };
    Cell { interval, ..cell }
}

/// The row of one target of a mix. The name of the row begins with a dot, to show that the row is not a
/// gateway.
pub(crate) fn target_row(target: &TargetFigures) -> (String, [Cell; 7]) {
    let cells = [
        none(),
        time(target.response_time.p50.as_ref()),
        time(target.response_time.p99.as_ref()),
        added(target.added_p50.as_ref()),
        added(target.added_p99.as_ref()),
        none(),
        none(),
    ];
    (format!("· {}", target.name), cells)
}

/// The cell of a missing figure.
pub(crate) fn none() -> Cell {
    Cell { value: "–".into(), interval: String::new(), distinguishable: true }
}

/// The cell of a figure, in the given unit.
pub(crate) fn figure(estimate: &Estimate, scale: Scale) -> Cell {
    Cell { value: scale.estimate(estimate), interval: scale.interval_of(estimate), distinguishable: true }
}

/// The cell of a throughput, given in requests/s.
pub(crate) fn rate(estimate: &Estimate) -> Cell {
    figure(estimate, Scale::of_throughput(estimate.estimate))
}

/// The cell of a time, given in µs.
pub(crate) fn time(estimate: Option<&Estimate>) -> Cell {
    estimate.map_or_else(none, |estimate| figure(estimate, Scale::of_us(estimate.estimate)))
}

/// The cell of an added time with its sign, given in µs.
pub(crate) fn added(tax: Option<&Difference>) -> Cell {
    tax.map_or_else(none, |tax| difference(&tax.estimate, tax.distinguishable))
}

/// The cell of a difference of two times with its sign, given in µs.
pub(crate) fn difference(estimate: &Estimate, distinguishable: bool) -> Cell {
    let cell = time(Some(estimate));
    let sign = if estimate.estimate > 0.0 { "+" } else { "" };
    Cell { value: format!("{sign}{}", cell.value), distinguishable, ..cell }
}

/// The cell of a ratio of throughputs.
pub(crate) fn ratio(tax: Option<&Difference>) -> Cell {
    let Some(tax) = tax else { return none() };
    Cell { distinguishable: tax.distinguishable, ..figure(&tax.estimate, Scale::percent()) }
}
