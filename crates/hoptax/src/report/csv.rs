//! One line per case: for spreadsheets and plotting tools. RFC 4180, every time in µs.

use super::Model;
use crate::analysis::stats::{Estimate, Statistic};
use crate::analysis::{Case, TaxMetric};
use serde::Serialize;

/// The cases as CSV, with a line of headings. Cells of figures that were not measured are empty.
pub fn csv(model: &Model) -> String {
    let mut text = line(headings().iter().map(String::as_str));
    for case in &model.cases {
        let cells = cells(case);
        text.push_str(&line(cells.iter().map(String::as_str)));
    }
    text
}

fn headings() -> Vec<String> {
    let mut names: Vec<String> = [
        "gateway",
        "load",
        "loop",
        "connections",
        "rate",
        "http",
        "requests_per_connection",
        "trials",
        "failed",
    ]
    .map(String::from)
    .into();
    let mut figure = |name: &str| {
        names.extend([name.to_string(), format!("{name}_low"), format!("{name}_high")]);
    };
    figure("throughput");
    for statistic in Statistic::ALL {
        figure(&format!("response_time_{}_us", statistic.name()));
    }
    for metric in TaxMetric::ALL {
        figure(metric.name());
    }
    for metric in TaxMetric::ALL {
        names.push(format!("{}_distinguishable", metric.name()));
    }
    names.extend(
        ["error_share", "causes", "failed_checks", "gateway_rss_bytes_max", "findings"].map(String::from),
    );
    names
}

fn cells(case: &Case) -> Vec<String> {
    let mut cells = vec![
        case.gateway.clone(),
        case.load.label.clone(),
        case.load.kind.to_string(),
        case.load.connections.to_string(),
        optional(case.load.rate),
        name(&case.load.http),
        optional(case.load.requests_per_connection),
        case.trials.to_string(),
        case.failed.as_ref().map(|failure| failure.message.clone()).unwrap_or_default(),
    ];
    let mut figure = |estimate: Option<&Estimate>| {
        cells.push(optional(estimate.map(|estimate| estimate.estimate)));
        cells.push(optional(estimate.and_then(|estimate| estimate.low)));
        cells.push(optional(estimate.and_then(|estimate| estimate.high)));
    };
    figure(case.throughput.as_ref().map(|throughput| &throughput.estimate));
    for statistic in Statistic::ALL {
        figure(case.response_time.as_ref().and_then(|latency| latency.get(statistic)));
    }
    let tax = |metric| case.tax.as_ref().and_then(|tax| tax.get(metric));
    for metric in TaxMetric::ALL {
        figure(tax(metric).map(|difference| &difference.estimate));
    }
    for metric in TaxMetric::ALL {
        cells.push(tax(metric).map(|difference| difference.distinguishable.to_string()).unwrap_or_default());
    }
    cells.push(optional(case.error_share()));
    let causes = case.counts.iter().flat_map(|counts| &counts.causes);
    cells.push(causes.map(|(cause, count)| format!("{}={count}", name(cause))).collect::<Vec<_>>().join(" "));
    cells.push(optional(case.counts.as_ref().map(|counts| counts.failed_checks.values().sum::<u64>())));
    cells.push(optional(case.memory.as_ref().and_then(|memory| memory.gateway_rss_bytes_max)));
    cells.push(case.findings.join(" "));
    cells
}

/// A word as it is written in JSON.
fn name(word: &impl Serialize) -> String {
    serde_json::to_value(word).ok().and_then(|name| Some(name.as_str()?.to_string())).unwrap_or_default()
}

fn optional<T: ToString>(value: Option<T>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

fn line<'a>(cells: impl Iterator<Item = &'a str>) -> String {
    let quoted: Vec<String> = cells
        .map(|cell| match cell.contains([',', '"', '\n', '\r']) {
            true => format!("\"{}\"", cell.replace('"', "\"\"")),
            false => cell.to_string(),
        })
        .collect();
    format!("{}\r\n", quoted.join(","))
}

#[cfg(test)]
mod tests {
    use crate::analysis::fixture::{Run, via};

    #[test]
    fn every_line_has_the_cells_of_the_headings() {
        let mut run = Run::steady(3, 100, &[("nginx", 150)]);
        run.contender(
            "envoy",
            Some(crate::analysis::fixture::failure(crate::record::Stage::Start, "exited, it said \"no\"")),
        );
        let text = super::csv(&run.model());
        assert!(text.contains("\"exited, it said \"\"no\"\"\""), "{text}");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4);
        // Quoted cells of this run hold one comma each: the load's label, and the failure of envoy.
        let commas: Vec<usize> = lines.iter().map(|line| line.matches(',').count()).collect();
        assert_eq!(commas, [commas[0], commas[0] + 1, commas[0] + 1, commas[0] + 2]);
        let mut failing = Run::closed(1);
        failing.push(via("nginx", 0).errors(7).failed_check("status 503", 2));
        assert!(super::csv(&failing.model()).contains(",reset-before-response=7,2,"));
        assert!(!text.contains("NaN") && !text.contains("inf"));
    }
}
