//! Load points and searches.

use super::Objective;
use super::stages::show_pace;
use super::units;
use hoptax_format::spec::{HttpVersion, Retry, Shape};
use std::time::Duration;

/// A load point. Each pair of a load point and a contender is one case.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadPoint {
    /// A closed loop, or an open loop with rate and arrivals.
    pub shape: Shape,
    /// Number of connections.
    pub connections: u32,
    /// Measured time of one trial. With stages, this is the sum of their durations.
    pub duration: Duration,
    /// Number of requests after which the trial stops, even if its duration is not over. If absent, there is
    /// no limit.
    pub requests: Option<u64>,
    /// Number of requests per connection. 1 means no keep-alive. If absent, there is no limit.
    pub requests_per_connection: Option<u32>,
    /// Which requests are sent again instead of failing.
    pub retry: Retry,
    /// HTTP version.
    pub http: HttpVersion,
    /// Name of the host that sends this load. `None` for the host of the role `generator`.
    pub from: Option<String>,
    /// Search for the highest rate at which an objective is met. If there is a search, the rate in `shape` is
    /// only the first rate that the search tries.
    pub search: Option<Search>,
    /// Why the run leaves this load point out, for every contender: the machine has too few descriptors or
    /// ports for its connections. Absent if the load point is measured. No plan contains it; it is decided
    /// before a run begins.
    pub left_out: Option<String>,
}

/// A search. For each objective, it finds the highest rate at which a contender meets the objective.
#[derive(Debug, Clone, PartialEq)]
pub struct Search {
    /// The objectives, without duplicates. There is at least one objective.
    pub objectives: Vec<Objective>,
    /// Lowest rate that the search tries, requests/s.
    pub from: f64,
    /// Highest rate that the search tries, requests/s.
    pub to: f64,
    /// Precision of the result, as a share of the highest rate. The search estimates the highest rate with an
    /// interval. It ends when half the width of this interval is below this share.
    pub precision: f64,
    /// Measured time of a confirming trial.
    pub confirm: Duration,
}

impl Search {
    /// Describes the search: `100/s to 50000/s, p99 < 10ms and errors < 0.1%`. If there are several
    /// objectives, shows only their number.
    pub fn describe(&self) -> String {
        let range = format!("{} to {}", units::show_rate(self.from), units::show_rate(self.to));
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
        let connections = match self.connections {
            1 => "1 connection".to_owned(),
            count => format!("{count} connections"),
        };
        let how = self.unusual().iter().map(|words| format!(", {words}")).collect::<String>();
        match &self.shape {
            Shape::Open { arrivals, .. } if self.search.is_some() => {
                let search = self.search.as_ref().map(Search::describe).unwrap_or_default();
                format!("search, {search}, {}, {connections}{how}", units::show_arrivals(*arrivals))
            }
            Shape::Closed => format!("closed, {connections}{how}"),
            Shape::Open { rate, arrivals } => {
                let (rate, arrivals) = (show_pace(rate), units::show_arrivals(*arrivals));
                format!("open, {rate} {arrivals}, {connections}{how}")
            }
        }
    }

    /// Describes how the load point differs from HTTP/1.1 with keep-alive and without retries, sent by the
    /// host of the role `generator`.
    pub fn unusual(&self) -> Vec<String> {
        let mut words = Vec::new();
        if self.http == HttpVersion::Http10 {
            words.push("HTTP/1.0".to_owned());
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
