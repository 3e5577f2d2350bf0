//! CPU time and memory of a gateway that runs elsewhere, from the Prometheus server that monitors it.
//!
//! hoptax reads the single samples that lie within a trial. The gateway's CPU time per second is the growth
//! of its counters from the first to the last of these samples, so what it does before and after the trial
//! does not count. A trial must therefore last several times as long as the interval at which Prometheus
//! reads the counters.

use super::samples::{LEAST_INTERVALS, Period, largest, rate, seconds};
use hoptax_format::clock;
use hoptax_plan::Prometheus;
use hoptax_plan::units::show_duration;
use hoptax_record::RoleUsage;
use hoptax_servers::http_client::{Answer, HttpClient};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::net::SocketAddr;
use std::time::Duration;

/// Time limit for one answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How far back samples are searched at the start, s.
const LOOK_BACK_S: u64 = 300;

/// A Prometheus server, and the series of one gateway.
#[derive(Debug)]
pub(super) struct Metrics {
    address: SocketAddr,
    from: Prometheus,
}

/// Answer of Prometheus to a query.
#[derive(Deserialize)]
struct Response<T> {
    data: Option<Data<T>>,
    error: Option<String>,
}

#[derive(Deserialize)]
struct Data<T> {
    result: T,
}

/// A series with its samples, oldest first: time in seconds since the Unix epoch, and value.
#[derive(Deserialize)]
struct Series {
    values: Vec<(f64, String)>,
}

impl Metrics {
    /// Asks the server at this address for both selectors, before anything is measured. `trial` is the
    /// shortest trial.
    ///
    /// # Errors
    /// If Prometheus does not answer, knows no such series, has no recent samples, or reads them too rarely
    /// for `trial`.
    pub(super) fn open(from: &Prometheus, address: SocketAddr, trial: Duration) -> Result<Self, String> {
        let metrics = Self { address, from: from.clone() };
        let now_s = metrics.clock()?.0 + seconds(clock::unix());
        for selector in [&from.cpu, &from.memory] {
            let series: Vec<Vec<(f64, f64)>> = metrics.samples(selector, now_s, LOOK_BACK_S)?;
            check(selector, &series, now_s, trial).map_err(|reason| format!("{}: {reason}", from.url))?;
        }
        Ok(metrics)
    }

    /// CPU time and memory between two moments of [`clock::now`].
    ///
    /// # Errors
    /// If Prometheus does not answer, or has too few samples of this time.
    pub(super) fn used(&self, from_ns: u64, to_ns: u64) -> Result<RoleUsage, String> {
        let (offset_s, uncertainty_s) = self.clock()?;
        let (unix, now) = (seconds(clock::unix()), clock::now());
        let on_server = |at_ns: u64| unix - seconds(now.saturating_sub(at_ns)) + offset_s;
        let period =
            Period { from_s: on_server(from_ns) + uncertainty_s, to_s: on_server(to_ns) - uncertainty_s };
        // One more second, because a range is in whole seconds here.
        let length_s = (period.to_s - period.from_s).ceil().max(0.0) as u64 + 1;
        let of = |selector: &str| self.samples(selector, period.to_s, length_s);
        let (cpu, memory) = (of(&self.from.cpu)?, of(&self.from.memory)?);
        let (rate, processes) =
            rate(&cpu, period).map_err(|reason| format!("{}: {reason}", self.from.cpu))?;
        let rss_bytes_max =
            largest(&memory, period).map_err(|reason| format!("{}: {reason}", self.from.memory))?;
        let cpu_ns = (rate * to_ns.saturating_sub(from_ns) as f64) as u64;
        Ok(RoleUsage { cpu_ns, processes, rss_bytes_max, ..RoleUsage::default() })
    }

    /// The server's clock less this machine's, and half of the time that asking took, s.
    fn clock(&self) -> Result<(f64, f64), String> {
        let (unix, began) = (clock::unix(), clock::now());
        let (server_s, _): (f64, String) = self.ask("/api/v1/query?query=time()")?;
        let half = (clock::now() - began) / 2;
        Ok((server_s - seconds(unix + half), seconds(half)))
    }

    /// The samples of each series in the `length_s` seconds up to `to_s`.
    fn samples(&self, selector: &str, to_s: f64, length_s: u64) -> Result<Vec<Vec<(f64, f64)>>, String> {
        let query = encoded(&format!("{selector}[{length_s}s]"));
        let series: Vec<Series> = self.ask(&format!("/api/v1/query?query={query}&time={to_s:.3}"))?;
        let values = |series: Series| {
            let samples = series.values.into_iter();
            samples.filter_map(|(at_s, value)| Some((at_s, value.parse().ok()?))).collect()
        };
        Ok(series.into_iter().map(values).collect())
    }

    /// The result of a query.
    fn ask<T: DeserializeOwned>(&self, path: &str) -> Result<T, String> {
        let url = &self.from.url;
        let request = format!("GET {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", self.address);
        let answer = HttpClient::plain(self.address, TIMEOUT).send(request.as_bytes(), false);
        let Answer { status, body, .. } =
            answer.map_err(|error| format!("Prometheus at {url} does not answer: {error:#}"))?;
        let response: Response<T> = serde_json::from_slice(&body).map_err(|_| {
            format!("{url} is not a Prometheus server: it answers queries with status {status} and no result")
        })?;
        match response {
            Response { data: Some(data), error: None } => Ok(data.result),
            Response { error, .. } => Err(format!(
                "Prometheus at {url} says: {}",
                error.unwrap_or_else(|| format!("status {status}"))
            )),
        }
    }
}

/// Checks that the series can be used for trials of this length.
fn check(selector: &str, series: &[Vec<(f64, f64)>], now_s: f64, trial: Duration) -> Result<(), String> {
    if series.is_empty() {
        return Err(format!(
            "no series matches `{selector}` in the last {}. Look at the names on the server's page `/graph`",
            show_duration(Duration::from_secs(LOOK_BACK_S))
        ));
    }
    let gaps = series.iter().flat_map(|one| one.windows(2)).map(|pair| pair[1].0 - pair[0].0);
    let mut gaps: Vec<f64> = gaps.collect();
    gaps.sort_by(f64::total_cmp);
    // The median, because Prometheus may have missed single samples.
    let Some(&interval_s) = gaps.get(gaps.len() / 2) else {
        return Err(format!(
            "`{selector}` has a single sample. Wait until Prometheus has read it several times"
        ));
    };
    let newest_s = series.iter().filter_map(|one| one.last()).map(|(at_s, _)| *at_s).fold(0.0, f64::max);
    let interval = Duration::from_millis((interval_s * 1e3).round() as u64);
    if now_s - newest_s > 2.0 * interval_s + 1.0 {
        return Err(format!(
            "the newest sample of `{selector}` is {:.0} s old. Does Prometheus still reach the gateway?",
            now_s - newest_s
        ));
    }
    if trial < interval * LEAST_INTERVALS {
        return Err(format!(
            "it reads `{selector}` every {}, which is too rare for trials of {}. Write `duration: {}` for \
             each load, or lower `scrape_interval` of Prometheus",
            show_duration(interval),
            show_duration(trial),
            show_duration(interval * LEAST_INTERVALS)
        ));
    }
    Ok(())
}

/// A text as part of a URL's query.
fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' | b'.' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_old_and_missing_samples_are_refused() {
        let every =
            |interval: f64| vec![(0..20).map(|at| (f64::from(at) * interval, 1.0)).collect::<Vec<_>>()];
        let refused = |series: &[Vec<(f64, f64)>], now_s, seconds| {
            check("cpu", series, now_s, Duration::from_secs(seconds)).expect_err("refused")
        };
        assert_eq!(check("cpu", &every(15.0), 290.0, Duration::from_secs(60)), Ok(()));
        let mut missed = every(15.0);
        missed[0].remove(7);
        assert_eq!(check("cpu", &missed, 290.0, Duration::from_secs(60)), Ok(()), "one is missing");
        let told = [
            refused(&every(15.0), 290.0, 59),
            refused(&every(15.0), 400.0, 60),
            refused(&[], 400.0, 60),
            refused(&[vec![(3.0, 1.0)]], 4.0, 60),
        ];
        insta::assert_snapshot!(told.join("\n"));
    }

    #[test]
    fn queries_are_encoded() {
        assert_eq!(encoded("a_b{c=\"d e\"}[5s]"), "a_b%7Bc%3D%22d%20e%22%7D%5B5s%5D");
    }
}
