//! The file `.data.json` of Kong's performance test framework (`spec/helpers/perf`). The framework's
//! `charts.py` draws charts from this file. Times are in ms.
//!
//! The framework itself makes two errors in this file. It writes a wrong label for two percentiles from wrk2
//! (99.99 % is called 90 %). It also always divides the sum of the RPS by three, even if there were more or
//! fewer trials. This module writes the right labels, and averages over all trials. It cannot fix a third
//! error: `charts.py` draws error bars that are twice as long as the range of the trials.

use hoptax_analysis::{Load, Pooled};
use hoptax_stats::Statistic;
use serde::Serialize;

#[derive(Debug, Serialize)]
struct Document<'a> {
    options: Options,
    data: Vec<Row<'a>>,
}

#[derive(Debug, Default, Serialize)]
struct Options {
    #[serde(skip_serializing_if = "Option::is_none")]
    suite_sequential: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    xaxis_title: Option<&'static str>,
}

/// The figures of a gateway at a load point. The framework calls a gateway a version, and a load point a
/// suite.
#[derive(Debug, Serialize)]
struct Row<'a> {
    version: &'a str,
    suite: Suite<'a>,
    /// Requests per second, for each trial.
    rpss: Vec<f64>,
    /// Requests per second over all trials.
    rps: f64,
    latencies_p90: Vec<f64>,
    latencies_p99: Vec<f64>,
    latency_avg: f64,
    latency_max: f64,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Suite<'a> {
    Label(&'a str),
    Number(u64),
}

/// The JSON document. A case without completed requests is left out, because the charts cannot show it.
///
/// # Errors
/// If a figure is not a number.
pub fn kong(cases: &[Pooled]) -> serde_json::Result<String> {
    let sweep = sweep(cases);
    let rows = cases.iter().filter_map(|case| row(case, sweep)).collect();
    let options =
        Options { suite_sequential: sweep.map(|_| true), xaxis_title: sweep.map(|sweep| sweep.title) };
    Ok(serde_json::to_string_pretty(&Document { options, data: rows })? + "\n")
}

fn row<'a>(case: &'a Pooled, sweep: Option<Sweep>) -> Option<Row<'a>> {
    let of = |statistic: Statistic| Some(statistic.of(&case.response_time)? / 1e3);
    let ms = |us: Option<f64>| us.map(|us| us / 1e3);
    Some(Row {
        version: &case.gateway,
        suite: match sweep {
            Some(sweep) => Suite::Number((sweep.of)(&case.load)?),
            None => Suite::Label(&case.load.label),
        },
        rpss: case.trials.iter().map(|trial| trial.throughput).collect(),
        rps: case.throughput(),
        latencies_p90: case.trials.iter().filter_map(|trial| ms(trial.p90_us)).collect(),
        latencies_p99: case.trials.iter().filter_map(|trial| ms(trial.p99_us)).collect(),
        latency_avg: of(Statistic::Mean)?,
        latency_max: of(Statistic::Max)?,
    })
}

/// A property of load points that is a whole number. If the property differs between load points, the charts
/// use it as a numeric axis.
#[derive(Debug, Clone, Copy)]
struct Sweep {
    title: &'static str,
    of: fn(&Load) -> Option<u64>,
}

/// The properties that can be used as an axis. They must be whole numbers, because the charts round them.
const SWEEPS: [Sweep; 3] = [
    Sweep { title: "connections", of: |load| Some(u64::from(load.connections)) },
    Sweep {
        title: "rate, requests/s",
        of: |load| load.rate.filter(|rate| rate.fract() == 0.0).map(|rate| rate as u64),
    },
    Sweep { title: "streams", of: |load| Some(u64::from(load.streams)) },
];

fn sweep(cases: &[Pooled]) -> Option<Sweep> {
    let mut loads: Vec<&Load> = cases.iter().map(|case| &case.load).collect();
    loads.dedup_by_key(|load| load.index);
    let alike_but = |at: usize| {
        let rest = |load: &Load| {
            let others: Vec<Option<u64>> = SWEEPS
                .iter()
                .enumerate()
                .filter(|(other, _)| *other != at)
                .map(|(_, sweep)| (sweep.of)(load))
                .collect();
            let how = (load.http, load.requests_per_connection, load.retry, load.from.clone());
            (others, load.kind, load.arrivals, how, load.stages.is_some())
        };
        loads.windows(2).all(|pair| rest(pair[0]) == rest(pair[1]))
    };
    let distinct = |sweep: &Sweep| {
        let numbers: Option<std::collections::BTreeSet<u64>> =
            loads.iter().map(|load| (sweep.of)(load)).collect();
        numbers.is_some_and(|numbers| numbers.len() == loads.len())
    };
    let found = SWEEPS.iter().enumerate().find(|(at, sweep)| alike_but(*at) && distinct(sweep));
    found.map(|(_, sweep)| *sweep).filter(|_| loads.len() > 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_analysis::fixture::{Run, closed_point, open_point, via};
    use hoptax_format::spec::HttpVersion;
    use hoptax_plan::LoadPoint;
    use serde_json::{Value, json};

    fn drawn(run: &Run) -> Value {
        serde_json::from_str(&kong(&Pooled::all(&run.record, &run.trials)).expect("drawn")).expect("JSON")
    }

    fn over(points: Vec<LoadPoint>) -> Run {
        let loads = points.len() as u32;
        let mut run = Run::with_load(points);
        for load in 0..loads {
            run.push(via("direct", 0).first().at_load(load).all_at_us(100));
            run.push(via("nginx", 0).at_load(load).all_at_us(150));
        }
        run
    }

    #[test]
    fn percentiles_are_as_labelled_and_averages_are_over_all_trials() {
        let mut run = Run::closed(1);
        // Two trials have times from 1 to 1,000 ms. The other two trials have times from 2 to 2,000 ms.
        for (round, factor) in [(0, 1_000), (1, 1_000), (2, 2_000), (3, 2_000)] {
            run.push(via("kong", round).response_times_us((1..=1000).map(|ms| ms * factor)));
        }
        let told = drawn(&run);
        let row =
            told["data"].as_array().expect("rows").iter().find(|row| row["version"] == "kong").expect("kong");
        let near = |value: &Value, expected: f64| {
            let value = value.as_f64().expect("a number");
            assert!((value / expected - 1.0).abs() < 0.002, "{value} is not {expected}");
        };
        let four = |name: &str| row[name].as_array().expect("one per trial").clone();
        for (value, expected) in four("latencies_p90").iter().zip([900.0, 900.0, 1800.0, 1800.0]) {
            near(value, expected);
        }
        for (value, expected) in four("latencies_p99").iter().zip([990.0, 990.0, 1980.0, 1980.0]) {
            near(value, expected);
        }
        assert_eq!(four("rpss").len(), 4);
        // The mean of 500.5 ms and 1,001 ms, over four trials.
        near(&row["latency_avg"], 750.75);
        near(&row["latency_max"], 2000.0);
        let mean = four("rpss").iter().filter_map(Value::as_f64).sum::<f64>() / 4.0;
        near(&row["rps"], mean);
    }

    #[test]
    fn a_sweep_of_one_number_is_an_axis() {
        let run = over(vec![closed_point(1, 5), closed_point(8, 5), closed_point(32, 5)]);
        let told = drawn(&run);
        assert_eq!(told["options"], json!({ "suite_sequential": true, "xaxis_title": "connections" }));
        let suites: Vec<u64> =
            told["data"].as_array().expect("rows").iter().filter_map(|row| row["suite"].as_u64()).collect();
        assert_eq!(suites, [1, 1, 8, 8, 32, 32]);
        let told = drawn(&over(vec![open_point(500.0, 8, 5), open_point(1000.0, 8, 5)]));
        assert_eq!(told["options"]["xaxis_title"], "rate, requests/s");
        assert_eq!(told["data"][3]["suite"], 1000);
        let of = |streams| LoadPoint { http: HttpVersion::Http2, streams, ..closed_point(2, 5) };
        assert_eq!(drawn(&over(vec![of(1), of(10)]))["options"]["xaxis_title"], "streams");
    }

    #[test]
    fn without_a_sweep_suites_have_labels() {
        for points in [
            vec![closed_point(1, 5)],
            vec![closed_point(1, 5), open_point(500.0, 8, 5)],
            vec![open_point(500.5, 8, 5), open_point(1000.0, 8, 5)],
            vec![open_point(500.0, 8, 5), open_point(1000.0, 16, 5)],
            vec![closed_point(8, 5), LoadPoint { requests_per_connection: Some(1), ..closed_point(32, 5) }],
        ] {
            let told = drawn(&over(points));
            assert_eq!(told["options"], json!({}));
            assert!(
                told["data"][0]["suite"].as_str().is_some_and(|label| label.contains("loop, ")),
                "{told}"
            );
        }
    }

    #[test]
    fn cases_without_responses_are_left_out() {
        let run = Run::steady(2, 100, &[]).with([via("dead", 0).nothing_completed()]);
        let told = drawn(&run);
        let versions: Vec<&Value> =
            told["data"].as_array().expect("rows").iter().map(|row| &row["version"]).collect();
        assert_eq!(versions, ["direct"]);
        assert!(!told.to_string().contains("null"), "{told}");
    }
}
