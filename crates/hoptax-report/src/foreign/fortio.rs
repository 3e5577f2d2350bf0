//! A result in the format that fortio's `load -json` writes, for `fortio report` and other programs that read
//! it. The Go types are `fhttp.HTTPRunnerResults`, `periodic.RunnerResults` and `stats.HistogramData`, in
//! version 1.63.
//!
//! Times are in seconds. `DurationHistogram` contains response times, so it is free of coordinated omission
//! in an open loop. It includes timeouts, but no other failures, because other failures have no response
//! time.

use hdrhistogram::Histogram;
use hoptax_format::histogram::{rank, value_at_rank};
use hoptax_format::record::Counts;
use hoptax_format::spec::{Arrivals, Shape};
use hoptax_plan::units::{show_duration, show_pace};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

const SECOND: f64 = 1e9;
/// fortio's default percentiles, plus the 95th percentile.
const PERCENTILES: [f64; 6] = [50.0, 75.0, 90.0, 95.0, 99.0, 99.9];
/// Width of the first bucket, ns. Each bucket is 10 % wider than the bucket before it. Narrower buckets would
/// not be visible in a chart.
const FIRST_BUCKET: u64 = 1000;
const GROWTH: f64 = 1.1;

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct FortioResult<'a> {
    run_type: &'static str,
    labels: &'a str,
    start_time: String,
    #[serde(rename = "RequestedQPS")]
    requested_qps: String,
    requested_duration: String,
    #[serde(rename = "ActualQPS")]
    actual_qps: f64,
    /// Actual duration, ns.
    actual_duration: u64,
    num_threads: u32,
    version: String,
    duration_histogram: Times,
    /// An empty histogram. Absent if a request failed, because failed requests have no times to put into the
    /// histogram.
    #[serde(skip_serializing_if = "Option::is_none")]
    errors_duration_histogram: Option<Times>,
    exactly: u64,
    jitter: bool,
    uniform: bool,
    no_catch_up: bool,
    #[serde(rename = "RunID")]
    run_id: i64,
    #[serde(rename = "ID")]
    id: String,
    ret_codes: BTreeMap<i32, u64>,
    #[serde(rename = "URL")]
    url: &'a str,
    num_connections: u32,
    #[serde(rename = "HTTP10")]
    http10: bool,
    disable_keep_alive: bool,
    insecure: bool,
    /// Time limit of a request, ns.
    #[serde(rename = "HTTPReqTimeOut")]
    timeout: u64,
    socket_count: u64,
    connection_stats: Times,
    abort_on: i32,
}

/// The Go type `stats.HistogramData`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Times {
    count: u64,
    min: f64,
    max: f64,
    sum: f64,
    avg: f64,
    std_dev: f64,
    data: Vec<Bucket>,
    percentiles: Vec<Percentile>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Bucket {
    start: f64,
    end: f64,
    /// Cumulative share of the samples, in per cent.
    percent: f64,
    count: u64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Percentile {
    percentile: f64,
    value: f64,
}

/// The facts that a result is computed from.
#[derive(Debug)]
pub struct Facts<'a> {
    /// Title of the result in `fortio report`.
    pub labels: &'a str,
    /// The requested URL.
    pub url: &'a str,
    /// Start of the measured time, Unix nanoseconds.
    pub started_unix_ns: u64,
    /// The kind of load. It determines when requests are due.
    pub shape: &'a Shape,
    /// Planned number of requests. Absent if only the duration limits the load.
    pub requests: Option<u64>,
    /// Planned measured time.
    pub duration: Duration,
    /// Actual measured time, ns.
    pub measured_ns: u64,
    /// Requests completed in the measured time.
    pub completed: u64,
    /// Number of connections.
    pub connections: u32,
    /// Number of connections opened, including warm-up.
    pub opened: u64,
    /// Number of requests with each outcome.
    pub counts: &'a Counts,
    /// Response times, ns. A response time is the time of completion minus the scheduled time.
    pub response_time: &'a Histogram<u64>,
    /// Time to establish each connection, ns.
    pub connect: &'a Histogram<u64>,
    /// True if HTTP/1.0 was used.
    pub http10: bool,
    /// True if each connection carried only one request.
    pub keep_alive_off: bool,
    /// True if the server's certificate was not verified.
    pub insecure: bool,
    /// Time limit of a request, ns.
    pub timeout_ns: u64,
}

/// The JSON document.
///
/// # Errors
/// If a figure is not a number.
pub fn fortio(facts: &Facts<'_>) -> serde_json::Result<String> {
    Ok(serde_json::to_string_pretty(&result(facts))? + "\n")
}

fn result<'a>(facts: &Facts<'a>) -> FortioResult<'a> {
    let counts = facts.counts;
    let failed = counts.timeouts + counts.connect_errors + counts.resets + counts.bad_responses;
    let mut ret_codes: BTreeMap<i32, u64> =
        counts.status.iter().map(|(status, count)| (i32::from(*status), *count)).collect();
    if failed > 0 {
        // −1 is fortio's code for requests without a response.
        ret_codes.insert(-1, failed);
    }
    let started = SystemTime::UNIX_EPOCH + Duration::from_nanos(facts.started_unix_ns);
    let start_time = humantime::format_rfc3339_micros(started).to_string();
    let (requested_qps, arrivals) = match facts.shape {
        Shape::Closed => ("max".to_owned(), Arrivals::Constant),
        Shape::Open { rate, arrivals } => (show_pace(rate).trim_end_matches("/s").to_owned(), *arrivals),
    };
    let all_went_well = failed == 0 && counts.ok == counts.completed;
    FortioResult {
        run_type: "HTTP",
        labels: facts.labels,
        requested_qps,
        requested_duration: match facts.requests {
            Some(requests) => format!("exactly {requests} calls"),
            None => show_duration(facts.duration),
        },
        actual_qps: facts.completed as f64 * SECOND / facts.measured_ns.max(1) as f64,
        actual_duration: facts.measured_ns,
        num_threads: facts.connections,
        version: format!("hoptax {}", env!("CARGO_PKG_VERSION")),
        duration_histogram: Times::of(facts.response_time),
        errors_duration_histogram: all_went_well.then(|| Times::of(&hoptax_format::histogram::empty(1))),
        exactly: facts.requests.unwrap_or(0),
        jitter: matches!(arrivals, Arrivals::Jitter(_)),
        uniform: false,
        no_catch_up: false,
        run_id: 0,
        id: format!(
            "{}-hoptax",
            start_time.replace(['-', ':'], "").replace(['T', '.'], "-").trim_end_matches('Z')
        ),
        start_time,
        ret_codes,
        url: facts.url,
        num_connections: 1,
        http10: facts.http10,
        disable_keep_alive: facts.keep_alive_off,
        insecure: facts.insecure,
        timeout: facts.timeout_ns,
        socket_count: facts.opened,
        connection_stats: Times::of(facts.connect),
        abort_on: 0,
    }
}

impl Times {
    fn of(histogram: &Histogram<u64>) -> Self {
        let count = histogram.len();
        let seconds = |nanoseconds: f64| nanoseconds / SECOND;
        if count == 0 {
            let (data, percentiles) = (Vec::new(), Vec::new());
            return Self { count, min: 0.0, max: 0.0, sum: 0.0, avg: 0.0, std_dev: 0.0, data, percentiles };
        }
        let (min, max) = (seconds(histogram.min() as f64), seconds(histogram.max() as f64));
        let mut data: Vec<Bucket> = Vec::new();
        let (mut so_far, mut edge) = (0, min);
        for step in histogram.iter_log(FIRST_BUCKET, GROWTH) {
            let count_here = step.count_since_last_iteration();
            let end = seconds(step.value_iterated_to() as f64).clamp(min, max);
            if count_here > 0 {
                so_far += count_here;
                let percent = 100.0 * so_far as f64 / count as f64;
                data.push(Bucket { start: edge, end, percent, count: count_here });
            }
            edge = end;
        }
        if let Some(last) = data.last_mut() {
            last.end = max;
        }
        let avg = seconds(histogram.mean());
        let at = |percentile: f64| seconds(value_at_rank(histogram, rank(percentile / 100.0, count)) as f64);
        Self {
            count,
            min,
            max,
            sum: avg * count as f64,
            avg,
            std_dev: seconds(histogram.stdev()),
            data,
            percentiles: PERCENTILES
                .map(|percentile| Percentile { percentile, value: at(percentile) })
                .into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_format::histogram::{TRIAL_DIGITS, empty};

    #[test]
    fn buckets_cover_everything_once() {
        let mut histogram = empty(TRIAL_DIGITS);
        for value in [150, 90_000, 91_000, 2_000_000, 3_000_000_000] {
            histogram.record(value).expect("in range");
        }
        let times = Times::of(&histogram);
        assert_eq!(times.data.iter().map(|bucket| bucket.count).sum::<u64>(), 5);
        assert_eq!(
            (times.data[0].start, times.data.last().map(|last| last.end)),
            (times.min, Some(times.max))
        );
        assert_eq!(times.data.last().map(|last| last.percent), Some(100.0));
        for pair in times.data.windows(2) {
            assert!(pair[0].end <= pair[1].start && pair[1].start <= pair[1].end, "{pair:?}");
        }
        assert!((times.sum - 3.002_181_15).abs() < 0.003, "{}", times.sum);
    }

    #[test]
    fn a_percentile_is_the_value_of_its_whole_rank() {
        for samples in [1000_u64, 2000, 5000] {
            let mut histogram = empty(TRIAL_DIGITS);
            histogram.record_n(300_000, samples - samples / 1000).expect("in range");
            histogram.record_n(20_000_000, samples / 1000).expect("in range");
            let found = Times::of(&histogram).percentiles;
            let last = found.last().expect("the 99.9th percentile");
            assert!(last.value < 0.0004, "{last:?} of {samples}");
        }
    }

    #[test]
    fn without_responses_all_figures_are_zero() {
        let times = Times::of(&empty(TRIAL_DIGITS));
        assert_eq!((times.count, times.max, times.data.len(), times.percentiles.len()), (0, 0.0, 0, 0));
    }
}
