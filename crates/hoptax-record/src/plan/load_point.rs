//! Load points and searches.

use super::Objective;
use crate::units;
use hoptax_format::spec::{HttpVersion, Retry, Shape};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A load point: one way to send requests. Each contender has one case at each load point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadPoint {
    /// When requests are due.
    pub shape: Shape,
    /// Number of connections.
    pub connections: u32,
    /// Maximum number of requests in flight on a connection. More than one needs HTTP/2. One in older runs.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub streams: u32,
    /// Measured time of one trial. If the rate has stages, the sum of their durations.
    pub duration: Duration,
    /// Number of requests after which a trial ends early; absent if only the time limits a trial.
    pub requests: Option<u64>,
    /// Number of requests on a connection before the connection is replaced; absent if there is no limit.
    pub requests_per_connection: Option<u32>,
    /// Which requests are sent again instead of failing. Older versions sent no request again.
    #[serde(default)]
    pub retry: Retry,
    /// HTTP version.
    #[serde(default)]
    pub http: HttpVersion,
    /// Name of the host that sends this load; absent if it is the host of the role `generator`, and in older
    /// runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The capacity search, which starts at the rate of `shape`; absent if there is no search.
    pub search: Option<Search>,
    /// Why the run left this load point out, for every contender; absent if it was measured, and in older
    /// runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
}

/// A search for the highest rate at which a contender meets an objective. It can have several objectives,
/// each with its own highest rate. In a closed loop of streams, the rates are numbers of connections.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Search {
    /// The objectives.
    pub objectives: Vec<Objective>,
    /// Lowest rate tried, requests/s.
    pub from: f64,
    /// Highest rate tried, requests/s.
    pub to: f64,
    /// Required precision: half the width of the rate's interval ÷ the rate. The search ends when this
    /// precision is reached.
    pub precision: f64,
    /// Measured time of a confirming trial.
    pub confirm: Duration,
}

impl Search {
    /// Describes the search: `100/s to 50000/s, p99 < 10ms and errors < 0.1%`. If there are several
    /// objectives, shows only their number.
    fn describe(&self, shape: &Shape) -> String {
        let range = match shape {
            Shape::Open { .. } => format!("{} to {}", units::show_rate(self.from), units::show_rate(self.to)),
            Shape::Closed => format!("{} to {} connections", self.from, self.to),
        };
        match self.objectives.as_slice() {
            [one] => format!("{range}, {}", one.text),
            several => format!("{range}, {} objectives", several.len()),
        }
    }
}

impl LoadPoint {
    /// A closed loop with keep-alive connections.
    pub fn closed(connections: u32, duration: Duration) -> Self {
        Self {
            shape: Shape::Closed,
            connections,
            streams: 1,
            duration,
            requests: None,
            requests_per_connection: None,
            retry: Retry::Off,
            http: HttpVersion::Http11,
            from: None,
            search: None,
            left_out: None,
        }
    }

    /// Maximum number of requests in flight: connections × streams.
    pub fn concurrency(&self) -> u64 {
        u64::from(self.connections) * u64::from(self.streams)
    }

    /// The connections in words: `1 connection`, or `10 connections × 8 streams`.
    pub fn connections_in_words(&self) -> String {
        connections_in_words(self.connections, self.streams)
    }

    /// True if rounds measure this load point: it has no search, and is not left out.
    pub fn is_in_rounds(&self) -> bool {
        self.search.is_none() && self.left_out.is_none()
    }

    /// The search that the run does at this load point.
    pub fn searched(&self) -> Option<&Search> {
        self.search.as_ref().filter(|_| self.left_out.is_none())
    }

    /// Describes the load point: `closed, 100 connections` or `open, 1000/s jitter, 8 connections`.
    pub fn describe(&self) -> String {
        let connections = self.connections_in_words();
        let how = self.unusual().iter().map(|words| format!(", {words}")).collect::<String>();
        match &self.shape {
            Shape::Open { arrivals, .. } if self.search.is_some() => {
                let search = self.search.as_ref().map(|search| search.describe(&self.shape));
                let (search, arrivals) = (search.unwrap_or_default(), units::show_arrivals(*arrivals));
                format!("search, {search}, {arrivals}, {connections}{how}")
            }
            Shape::Closed => match &self.search {
                Some(search) => format!("search, {}, closed{how}", search.describe(&self.shape)),
                None => format!("closed, {connections}{how}"),
            },
            Shape::Open { rate, arrivals } => {
                let (rate, arrivals) = (units::show_pace(rate), units::show_arrivals(*arrivals));
                format!("open, {rate} {arrivals}, {connections}{how}")
            }
        }
    }

    /// Describes how the load point differs from HTTP/1.1 with keep-alive and without retries, sent by the
    /// host of the role `generator`.
    pub fn unusual(&self) -> Vec<String> {
        let mut words = Vec::new();
        match self.http {
            HttpVersion::Http10 => words.push("HTTP/1.0".to_owned()),
            HttpVersion::Http11 => {}
            HttpVersion::Http2 => words.push("HTTP/2".to_owned()),
        }
        match self.requests_per_connection {
            None => {}
            Some(1) => words.push("keep-alive off".to_owned()),
            Some(count) => words.push(format!("{count} requests per connection")),
        }
        if self.retry == Retry::IdleClose {
            words.push("retry idle-close".to_owned());
        }
        if let Some(host) = &self.from {
            words.push(format!("from {host}"));
        }
        words
    }
}

/// Numbers of connections and of streams in words: `1 connection`, or `10 connections × 8 streams`. A single
/// stream is not named.
pub fn connections_in_words(connections: u32, streams: u32) -> String {
    let plural = if connections == 1 { "" } else { "s" };
    let streams = if streams == 1 { String::new() } else { format!(" × {streams} streams") };
    format!("{connections} connection{plural}{streams}")
}

fn one() -> u32 {
    1
}

fn is_one(number: &u32) -> bool {
    *number == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_named_and_stored_only_if_there_are_several() {
        let plain = LoadPoint::closed(1, Duration::from_secs(1));
        let multiplexed =
            LoadPoint { connections: 10, streams: 8, http: HttpVersion::Http2, ..plain.clone() };
        assert_eq!((plain.concurrency(), multiplexed.concurrency()), (1, 80));
        insta::assert_snapshot!([plain.describe(), multiplexed.describe()].join("\n"));
        for (point, streams) in [(plain, None), (multiplexed, Some(8))] {
            let stored = serde_json::to_value(&point).expect("stored");
            assert_eq!(stored.get("streams").and_then(serde_json::Value::as_u64), streams);
            assert_eq!(serde_json::from_value::<LoadPoint>(stored).expect("read"), point);
        }
    }
}
