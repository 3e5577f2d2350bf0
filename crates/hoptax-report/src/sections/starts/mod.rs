//! Shows what starts and reloads of gateways cost: tables, and sentences about each gateway.

mod words;

pub(crate) use words::{answer, rounds, summaries};

use crate::charts;
use crate::model::Model;
use crate::words::format::{Scale, number};
use crate::words::table::{Cell, in_one_line, none};
use crate::words::text::inline;
use hoptax_record::report::{StartFigures, StartMedian};
use hoptax_record::start::StartKind;
use minijinja::{Value, context};

/// Headings of the table of first answers, after the name.
const FIRST: &[&str] = &["listening", "ready", "1st request", "10th", "100th", "1,000th", "CPU", "memory"];

/// Headings of the table of the load after a start, after the name.
const LOADED: &[&str] =
    &["settled", "requests", "extra wait", "p50 then", "CPU", "memory", "timed out", "failed", "unanswered"];

/// Explains the figures of both tables.
pub(crate) const NOTE: &str = "Medians over starts, with their 95 % intervals. Times count from the creation \
     of the gateway's process, or from the beginning of the reload. Listening: it accepts a connection. \
     Ready: it has answered rightly. Settled: it has become as fast as it stays under this load. Requests, \
     CPU and memory: until it has settled. Extra wait: how much longer these requests together took than at \
     a settled gateway.";

/// A table of starts.
pub(crate) struct Table {
    pub(crate) title: String,
    pub(crate) headings: &'static [&'static str],
    pub(crate) rows: Vec<Row>,
}

pub(crate) struct Row {
    /// Label of the contender.
    contender: String,
    /// The label, or the label with `reload`.
    pub(crate) name: String,
    pub(crate) cells: Vec<Cell>,
}

/// The tables of a run of starts. Empty for other runs.
pub(crate) fn tables(model: &Model) -> Vec<Table> {
    if !model.measured_starts() {
        return Vec::new();
    }
    let load =
        model.noise_floor.by_load.first().map_or(String::new(), |floor| format!(": {}", floor.load.label));
    let table = |title: String, headings, cells: fn(&StartFigures) -> Option<Vec<Cell>>| {
        let row = |one: &StartFigures| {
            Some(Row { contender: one.contender.clone(), name: name(one), cells: cells(one)? })
        };
        Table { title, headings, rows: model.starts.iter().filter_map(row).collect() }
    };
    let tables = [
        table("From the start to the first answers, one request after the other".into(), FIRST, first),
        table(format!("Under load from the first right answer on{load}"), LOADED, loaded),
    ];
    tables.into_iter().filter(|table| !table.rows.is_empty()).collect()
}

/// The name of a row: the contender's label, with `reload` for reloads.
fn name(one: &StartFigures) -> String {
    match one.kind {
        StartKind::Direct | StartKind::Start => one.contender.clone(),
        StartKind::Reload => format!("{}, reload", one.contender),
    }
}

fn first(one: &StartFigures) -> Option<Vec<Cell>> {
    let us = |median: &Option<StartMedian>| time(median.as_ref());
    let ms = |median: &Option<StartMedian>| time(median.map(|one| one.times(1e3)).as_ref());
    let requests = &one.requests;
    Some(vec![
        ms(&one.listening_ms),
        ms(&one.ready_ms),
        us(&requests.first_us),
        us(&requests.tenth_us),
        us(&requests.hundredth_us),
        us(&requests.thousandth_us),
        ms(&one.ready_cpu_ms),
        cell(one.ready_rss_bytes.as_ref(), Scale::of_bytes),
    ])
}

fn loaded(one: &StartFigures) -> Option<Vec<Cell>> {
    let load = one.load.as_ref()?;
    let scaled =
        |median: &Option<StartMedian>, factor: f64| time(median.map(|one| one.times(factor)).as_ref());
    let count = |count: u64| Cell { value: number(count as f64), ..none() };
    Some(vec![
        scaled(&load.settled_s, 1e6),
        cell(load.settled_requests.as_ref(), |_| Scale::plain()),
        scaled(&load.later_request_s, 1e6),
        scaled(&load.settled_p50_us, 1.0),
        scaled(&load.settled_cpu_ms, 1e3),
        cell(load.settled_rss_bytes.as_ref(), Scale::of_bytes),
        count(load.timeouts),
        count(load.errors),
        count(load.unanswered),
    ])
}

/// The cell of a time, given in µs.
fn time(median: Option<&StartMedian>) -> Cell {
    cell(median, Scale::of_us)
}

fn cell(median: Option<&StartMedian>, scale: fn(f64) -> Scale) -> Cell {
    let Some(median) = median else { return none() };
    // A median of zero does not determine a unit, so the upper end of its interval does.
    let largest =
        [median.at_least(), median.high.unwrap_or_default()].into_iter().find(|value| *value != 0.0);
    let scale = scale(largest.unwrap_or_default());
    let value = match median.estimate {
        Some(value) => scale.value(value),
        None => format!("> {}", scale.value(median.at_least())),
    };
    Cell { value, interval: interval(median, scale, ">"), ..none() }
}

/// The interval of a median: `4.9–5.6`, or `4.1 to > 10` if its upper end is only known to exceed a bound.
/// Empty if both ends are only known to exceed a bound.
fn interval(median: &StartMedian, scale: Scale, more: &str) -> String {
    match (median.low, median.high) {
        _ if !median.has_interval() => "no interval".into(),
        (Some(low), Some(high)) => scale.interval(low, high),
        (Some(low), None) => {
            let bound = median.more_than.unwrap_or(f64::NAN);
            format!("{} to {more} {}", scale.number(low), scale.number(bound))
        }
        (None, _) => String::new(),
    }
}

/// The tables as Markdown. Empty for other runs.
pub(crate) fn markdown(model: &Model) -> String {
    let mut text = String::new();
    for table in tables(model) {
        let headings = table.headings.iter().map(|heading| format!(" {heading} |")).collect::<String>();
        text.push_str(&format!("\n### {}\n\n| gateway |{headings}\n|---|", inline(&table.title)));
        text.push_str(&format!("{}\n", "---:|".repeat(table.headings.len())));
        for row in &table.rows {
            let cells: String = row.cells.iter().map(|cell| format!(" {} |", in_one_line(cell))).collect();
            text.push_str(&format!("| {} |{cells}\n", inline(&row.name)));
        }
    }
    if !text.is_empty() {
        text.push_str(&format!("\n{NOTE}\n"));
    }
    text
}

/// The values that the page's template needs.
pub(crate) fn html(model: &Model) -> Vec<Value> {
    let cells = |row: &Row| -> Vec<Value> {
        let cell = |one: &Cell| {
            context! { value => &one.value, interval => &one.interval, distinguishable => one.distinguishable }
        };
        row.cells.iter().map(cell).collect()
    };
    let of = |table: Table| {
        let row = |row: &Row| {
            context! {
                // The script shows and hides rows by the contender's label.
                contender => &row.contender,
                gateway => &row.name,
                colour => charts::css(charts::colour(model, &row.contender)),
                cells => cells(row),
            }
        };
        context! {
            title => table.title,
            headings => std::iter::once("gateway").chain(table.headings.iter().copied()).collect::<Vec<_>>(),
            rows => table.rows.iter().map(row).collect::<Vec<_>>(),
        }
    };
    tables(model).into_iter().map(of).collect()
}

/// The figures as CSV: a line of headings, then a line for each kind of start of each contender. If a cell is
/// empty, its figure is unknown. If `more_than` has a value, the figure exceeds this value.
pub(crate) fn csv_rows(model: &Model) -> Vec<Vec<String>> {
    let kind = |kind| match kind {
        StartKind::Direct => "direct",
        StartKind::Start => "start",
        StartKind::Reload => "reload",
    };
    let names = "gateway kind measured failed unsettled scheduled timeouts errors unanswered";
    let mut headings: Vec<String> = names.split(' ').map(String::from).collect();
    for name in CSV.split(' ') {
        headings.extend(["", "_low", "_high", "_more_than"].map(|end| format!("{name}{end}")));
    }
    let row = |one: &StartFigures| {
        let load = one.load.as_ref();
        let count = |of: Option<u64>| of.map_or(String::new(), |count| count.to_string());
        let mut cells = vec![
            one.contender.clone(),
            kind(one.kind).to_owned(),
            one.measured.to_string(),
            one.failed.to_string(),
            count(load.map(|load| load.unsettled.into())),
            count(load.map(|load| load.scheduled)),
            count(load.map(|load| load.timeouts)),
            count(load.map(|load| load.errors)),
            count(load.map(|load| load.unanswered)),
        ];
        for median in csv_medians(one) {
            let parts = |one: StartMedian| [one.estimate, one.low, one.high, one.more_than];
            let parts = median.map_or([None; 4], parts);
            cells.extend(parts.map(|part| part.map_or(String::new(), |value| value.to_string())));
        }
        cells
    };
    std::iter::once(headings).chain(model.starts.iter().map(row)).collect()
}

/// Names of the figures in CSV, as in JSON.
const CSV: &str = "listening_ms ready_ms first_us tenth_us hundredth_us thousandth_us ready_cpu_ms \
    ready_rss_bytes settled_s settled_requests later_request_s settled_p50_us settled_cpu_ms \
    settled_rss_bytes";

/// The figures in the order of [`CSV`].
fn csv_medians(one: &StartFigures) -> [Option<StartMedian>; 14] {
    let (requests, load) = (&one.requests, one.load.as_ref());
    [
        one.listening_ms,
        one.ready_ms,
        requests.first_us,
        requests.tenth_us,
        requests.hundredth_us,
        requests.thousandth_us,
        one.ready_cpu_ms,
        one.ready_rss_bytes,
        load.and_then(|load| load.settled_s),
        load.and_then(|load| load.settled_requests),
        load.and_then(|load| load.later_request_s),
        load.and_then(|load| load.settled_p50_us),
        load.and_then(|load| load.settled_cpu_ms),
        load.and_then(|load| load.settled_rss_bytes),
    ]
}

#[cfg(test)]
mod tests {
    use crate::fixture::Reported as _;
    use crate::formats::html::words;
    use crate::{csv, json, markdown, terminal};
    use hoptax_analysis::fixture::starts::{Cold, sample, started};
    use serde_json::Value;

    #[test]
    fn a_report_shows_starts_and_nothing_about_trials() {
        let model = sample().model();
        assert!(model.measured_anything() && model.summary.len() == 2, "{model:#?}");
        for text in [terminal(&model, 100, false), markdown(&model), words(&model)] {
            for part in [
                "what does a new instance cost?",
                "yarp, reload",
                "extra wait",
                "80 starts and 40 reloads in 20",
            ] {
                assert!(text.to_lowercase().contains(part), "{part}: {text}");
            }
            for part in ["trial", "not measured", "not reached", "each hop", "noise floor", " tax"] {
                assert!(!text.to_lowercase().contains(part), "{part}: {text}");
            }
        }
    }

    #[test]
    fn a_terminal_of_100_columns_is_wide_enough() {
        let text = terminal(&sample().model(), 100, false);
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        assert!(
            text.lines().any(|line| line.starts_with("gateway") && line.ends_with("memory")),
            "one block: {text}"
        );
    }

    #[test]
    fn what_has_not_settled_is_shown_as_more() {
        let cold = Cold { settled_s: None, ..Cold::managed() };
        let model = started(20, &[("nginx", Cold::native()), ("ocelot", cold)]).model();
        let row = |text: &str| {
            text.lines().find(|line| line.starts_with("| ocelot |") && line.contains("> ")).map(str::to_owned)
        };
        let row = row(&markdown(&model)).expect("a row");
        assert!(row.contains("| > 10 s | > 10,000 |"), "{row}");
        assert!(terminal(&model, 100, false).contains("not-settled"));
        let csv = csv(&model);
        let rows: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
        assert!(rows.len() == 4 && rows.iter().all(|row| row.len() == rows[0].len()), "{csv}");
        let column = |name: &str| rows[0].iter().position(|one| *one == name).expect("a column");
        assert_eq!((rows[3][column("settled_s")], rows[3][column("settled_s_more_than")]), ("", "10"));
    }

    #[test]
    fn the_json_report_has_the_figures() {
        let report: Value = serde_json::from_str(&json(&sample().model())).expect("JSON");
        let starts = report["starts"].as_array().expect("starts");
        let kinds: Vec<&str> = starts.iter().filter_map(|one| one["kind"].as_str()).collect();
        assert_eq!(kinds, ["direct", "start", "start", "reload"]);
        assert!(
            starts[1]["ready_ms"]["estimate"].as_f64().is_some_and(|ms| (4.8..5.2).contains(&ms)),
            "{report}"
        );
        assert_eq!(starts[1]["ready_ms"]["more_than"], Value::Null);
        assert_eq!((&report["cases"], &report["rounds"]), (&Value::Array(Vec::new()), &20.into()));
    }
}
