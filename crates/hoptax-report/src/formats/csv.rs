//! The report as CSV (RFC 4180): one line for each case, then one line for each capacity. All times are in
//! µs. There is a column of streams if a load uses HTTP/2, and there are columns of messages and tokens if
//! calls have streams of them.

use crate::Model;
use hoptax_analysis::{Capacity, Case, Difference, Load, Price};
use hoptax_format::llm::TokenCounts;
use hoptax_format::spec::HttpVersion;
use hoptax_plan::Metric;
use hoptax_stats::{Estimate, Statistic};
use serde::Serialize;

/// The report as CSV, with a line of headings. If a figure was not measured, its cell is empty. A run of
/// starts has a table of its own.
pub fn csv(model: &Model) -> String {
    if model.measured_starts() {
        let rows = crate::sections::starts::csv_rows(model);
        return rows.iter().map(|cells| line(cells.iter().map(String::as_str))).collect();
    }
    let messages = || model.cases.iter().filter_map(|case| case.messages.as_ref());
    let has = Has {
        streams: has_streams(model),
        messages: messages().next().is_some(),
        tokens: messages().any(|messages| messages.tokens.is_some()),
    };
    let headings = headings(has);
    let mut text = line(headings.iter().map(String::as_str));
    let rows = model
        .cases
        .iter()
        .map(|case| cells(model, case, has))
        .chain(model.capacity.iter().map(|one| of_capacity(one, headings.len(), has.streams)));
    for cells in rows {
        text.push_str(&line(cells.iter().map(String::as_str)));
    }
    text
}

/// Which columns there are.
#[derive(Clone, Copy)]
struct Has {
    /// The number of HTTP/2 streams.
    streams: bool,
    /// Messages of streams.
    messages: bool,
    /// Streams of tokens.
    tokens: bool,
}

fn has_streams(model: &Model) -> bool {
    let loads = model.cases.iter().map(|case| &case.load);
    let mut loads = loads.chain(model.capacity.iter().map(|one| &one.load));
    loads.any(|load| load.http == HttpVersion::Http2)
}

fn headings(has: Has) -> Vec<String> {
    let of_case = "gateway load loop connections rate http requests_per_connection trials failed";
    let mut names: Vec<String> = of_case.split(' ').map(String::from).collect();
    if has.streams {
        names.insert(STREAMS, "streams".into());
    }
    let mut figure = |name: &str| {
        names.extend([name.to_string(), format!("{name}_low"), format!("{name}_high")]);
    };
    figure("throughput");
    for statistic in Statistic::ALL {
        figure(&format!("response_time_{}_us", statistic.name()));
    }
    for metric in Metric::TAXES {
        figure(metric.name());
    }
    for metric in Metric::TAXES {
        names.push(format!("{}_verdict", metric.name()));
    }
    for metric in Metric::TAXES {
        names.extend(of_four(&format!("quiet_{}", metric.name())));
    }
    names.push("quiet_share_left_out".to_owned());
    for way in ["request", "response"] {
        names.extend(of_four(&format!("added_{way}_us_p50")));
    }
    names.extend(of_four(Metric::AddedFirstByteP50.name()));
    if has.messages {
        names.extend(MESSAGES.split(' ').map(|name| format!("messages_{name}")));
        names.extend(Metric::OF_MESSAGES.into_iter().flat_map(|metric| of_four(metric.name())));
    }
    if has.tokens {
        names.extend(TOKENS.map(|name| format!("tokens_{name}")));
        for name in ["tokens_per_second", "streams_per_second", "good_per_second"] {
            names.extend(["", "_low", "_high"].map(|end| format!("{name}{end}")));
        }
        names.extend(Metric::OF_TOKENS.into_iter().flat_map(|metric| of_four(metric.name())));
    }
    names.extend(["features", "bare"].map(String::from));
    for metric in Metric::PRICES {
        names.extend(of_four(&format!("price_{}", metric.name())));
    }
    names.extend(
        ["error_share", "causes", "failed_checks", "gateway_rss_bytes_max", "findings"].map(String::from),
    );
    names.extend(CAPACITY.map(String::from));
    names
}

/// The columns of a difference: the figure, the two ends of its interval, and the verdict.
fn of_four(name: &str) -> [String; 4] {
    ["", "_low", "_high", "_verdict"].map(|end| format!("{name}{end}"))
}

/// Place of the column of streams, after that of connections.
const STREAMS: usize = 4;

/// Numbers of messages, with their names in JSON.
const MESSAGES: &str = "sent received lost repeated reordered unnumbered merged_in_read merged_into_one \
    comments pings cut refused compressed";

/// Numbers of streams of tokens, with their names in JSON.
const TOKENS: [&str; 8] =
    ["ended", "unended", "errors", "left", "other_events", "usage", "usage_tokens", "good"];

/// Columns that are filled only in the lines of capacities.
const CAPACITY: [&str; 6] =
    ["objective", "capacity", "capacity_low", "capacity_high", "capacity_below", "capacity_limited_by"];

/// The line of a capacity: gateway and load, then empty cells, then the columns of [`CAPACITY`].
fn of_capacity(one: &Capacity, headings: usize, has_streams: bool) -> Vec<String> {
    let trials = one.rate.as_ref().map(|rate| rate.trials.to_string()).unwrap_or_default();
    let mut cells = about(&one.gateway, &one.load, has_streams);
    cells.push(trials);
    cells.push(one.failed.as_ref().map(|failure| failure.message.clone()).unwrap_or_default());
    cells.resize(headings - CAPACITY.len(), String::new());
    cells.push(one.slo.clone());
    cells.extend(three(one.rate.as_ref()));
    cells.push(optional(one.below));
    cells.push(one.limited_by.as_ref().map(name).unwrap_or_default());
    cells
}

/// The first cells of a line, which contain gateway and load.
fn about(gateway: &str, load: &Load, has_streams: bool) -> Vec<String> {
    let mut cells = vec![
        gateway.to_owned(),
        load.label.clone(),
        load.kind.to_string(),
        load.connections.to_string(),
        optional(load.rate),
        name(&load.http),
        optional(load.requests_per_connection),
    ];
    if has_streams {
        cells.insert(STREAMS, load.streams.to_string());
    }
    cells
}

fn three(estimate: Option<&Estimate>) -> [String; 3] {
    [
        optional(estimate.map(|estimate| estimate.estimate)),
        optional(estimate.and_then(|estimate| estimate.low)),
        optional(estimate.and_then(|estimate| estimate.high)),
    ]
}

/// The verdict on a difference, in the words that the other formats use too.
fn verdict(difference: Option<&Difference>) -> String {
    difference
        .map_or("", |one| if one.distinguishable { "distinguishable" } else { "not distinguishable" })
        .into()
}

/// A difference, the two ends of its interval, and the verdict.
fn four(difference: Option<&Difference>) -> Vec<String> {
    let mut cells = three(difference.map(|one| &one.estimate)).to_vec();
    cells.push(verdict(difference));
    cells
}

fn cells(model: &Model, case: &Case, has: Has) -> Vec<String> {
    let mut cells = about(&case.gateway, &case.load, has.streams);
    cells.push(case.trials.to_string());
    cells.push(case.failed.as_ref().map(|failure| failure.message.clone()).unwrap_or_default());
    let mut figure = |estimate: Option<&Estimate>| cells.extend(three(estimate));
    figure(case.throughput.as_ref().map(|throughput| &throughput.estimate));
    for statistic in Statistic::ALL {
        figure(case.response_time.as_ref().and_then(|latency| latency.get(statistic)));
    }
    let tax = |metric| case.tax.as_ref().and_then(|tax| tax.get(metric));
    for metric in Metric::TAXES {
        figure(tax(metric).map(|difference| &difference.estimate));
    }
    for metric in Metric::TAXES {
        cells.push(verdict(tax(metric)));
    }
    let quiet = case.quiet.as_ref();
    for metric in Metric::TAXES {
        cells.extend(four(quiet.and_then(|quiet| quiet.tax.as_ref()).and_then(|tax| tax.get(metric))));
    }
    cells.push(optional(quiet.map(|quiet| quiet.share_left_out)));
    let path = case.path.as_ref();
    cells.extend(four(path.and_then(|path| path.added_request_us_p50.as_ref())));
    cells.extend(four(path.and_then(|path| path.added_response_us_p50.as_ref())));
    cells.extend(four(tax(Metric::AddedFirstByteP50)));
    if has.messages {
        cells.extend(of_messages(case));
    }
    if has.tokens {
        cells.extend(of_tokens(case));
    }
    cells.extend(of_price(model, case));
    cells.push(optional(hoptax_analysis::error_share(case)));
    let causes = case.counts.iter().flat_map(|counts| &counts.causes);
    cells.push(causes.map(|(cause, count)| format!("{}={count}", name(cause))).collect::<Vec<_>>().join(" "));
    cells.push(optional(case.counts.as_ref().map(|counts| counts.failed_checks.values().sum::<u64>())));
    cells.push(optional(case.memory.as_ref().and_then(|memory| memory.gateway_rss_bytes_max)));
    cells.push(case.findings.join(" "));
    cells.extend(CAPACITY.map(|_| String::new()));
    cells
}

/// The cells for the messages of streams.
fn of_messages(case: &Case) -> Vec<String> {
    let counted = case.messages.as_ref().map(|messages| messages.counts.all().map(|count| count.to_string()));
    let mut cells = counted.map_or_else(|| vec![String::new(); MESSAGES.split(' ').count()], Vec::from);
    for metric in Metric::OF_MESSAGES {
        cells.extend(four(case.tax.as_ref().and_then(|tax| tax.get(metric))));
    }
    cells
}

/// The cells for the streams of tokens.
fn of_tokens(case: &Case) -> Vec<String> {
    let tokens = case.messages.as_ref().and_then(|messages| messages.tokens.as_ref());
    let counts = tokens.map(|tokens| {
        let TokenCounts { ended, unended, errors, left, paused: _, other_events, usage, usage_tokens, good } =
            tokens.counts;
        let always = [ended, unended, errors, left, other_events, usage, usage_tokens].map(Some);
        always.into_iter().chain([good]).map(optional).collect::<Vec<_>>()
    });
    let mut cells = counts.unwrap_or_else(|| vec![String::new(); TOKENS.len()]);
    let rates =
        tokens.map(|tokens| [&tokens.tokens_per_second, &tokens.streams_per_second, &tokens.good_per_second]);
    for rate in rates.unwrap_or([&None, &None, &None]) {
        cells.extend(three(rate.as_ref().map(|rate| &rate.estimate)));
    }
    for metric in Metric::OF_TOKENS {
        cells.extend(four(case.tax.as_ref().and_then(|tax| tax.get(metric))));
    }
    cells
}

/// The cells for the features, for the gateway without these features, and for their prices.
fn of_price(model: &Model, case: &Case) -> Vec<String> {
    let is_own = |row: &&Price| row.gateway == case.gateway && row.load.index == case.load.index;
    let price = model.prices.rows.iter().find(is_own);
    let features =
        price.map(|price| price.features.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "));
    let mut cells =
        vec![features.unwrap_or_default(), price.map(|price| price.bare.clone()).unwrap_or_default()];
    for metric in Metric::PRICES {
        cells.extend(four(price.and_then(|price| price.prices.get(metric))));
    }
    cells
}

/// The name that a value has in JSON.
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
    use crate::fixture::*;
    use hoptax_format::spec::HttpVersion;
    use hoptax_plan::LoadPoint;

    #[test]
    fn every_line_has_the_cells_of_the_headings() {
        let mut run = Run::steady(3, 100, &[("nginx", 150)]);
        run.contender(
            "envoy",
            Some(hoptax_analysis::fixture::failure(hoptax_record::Stage::Start, "exited, it said \"no\"")),
        );
        let text = super::csv(&run.model());
        assert!(text.contains("\"exited, it said \"\"no\"\"\""), "{text}");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4);
        // The label of the load point contains a comma in the line of each case. In envoy's line, the failure
        // also contains a comma.
        let commas: Vec<usize> = lines.iter().map(|line| line.matches(',').count()).collect();
        assert_eq!(commas, [commas[0], commas[0] + 1, commas[0] + 1, commas[0] + 2]);
        let mut failing = Run::closed(1);
        failing.push(via("nginx", 0).errors(7).failed_check("status 503", 2));
        assert!(super::csv(&failing.model()).contains(",reset-before-response=7,2,"));
        assert!(!text.contains("NaN") && !text.contains("inf"));
    }

    #[test]
    fn streams_have_a_column_only_with_http2() {
        let text = super::csv(&Run::steady(2, 100, &[("nginx", 150)]).model());
        assert!(text.starts_with("gateway,load,loop,connections,rate,http,"), "{text}");
        let of = |streams| LoadPoint { http: HttpVersion::Http2, streams, ..closed_point(2, 1) };
        let mut run = Run::with_load(vec![of(1), of(8)]);
        run.push(via("direct", 0).first()).push(via("direct", 0).first().at_load(1));
        let text = super::csv(&run.model());
        assert!(text.starts_with("gateway,load,loop,connections,streams,rate,http,"), "{text}");
        assert!(text.contains(",closed,2,1,,2,") && text.contains(",closed,2,8,,2,"), "{text}");
    }
}
