//! One way of loading.

use super::Objective;
use super::stages::show_pace;
use super::units;
use hoptax_load::spec::{HttpVersion, Shape};
use std::time::Duration;

/// One way of loading: one case per contender.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadPoint {
    /// When requests are due.
    pub shape: Shape,
    /// Connections.
    pub connections: u32,
    /// Measured time of one trial; with stages, the sum of theirs.
    pub duration: Duration,
    /// Stop after this many requests, if that comes before the duration.
    pub requests: Option<u64>,
    /// Requests that a connection carries before it is replaced; 1 is keep-alive off, absent is no limit.
    pub requests_per_connection: Option<u32>,
    /// Version of HTTP spoken.
    pub http: HttpVersion,
    /// The highest rate that holds an objective is searched for; the shape's rate is then where the search begins.
    pub search: Option<Search>,
}

/// A search for the highest rates that a contender holds under one or several objectives.
#[derive(Debug, Clone, PartialEq)]
pub struct Search {
    /// What must hold; at least one, no two alike.
    pub objectives: Vec<Objective>,
    /// Lowest rate tried, requests/s.
    pub from: f64,
    /// Highest rate tried, requests/s.
    pub to: f64,
    /// Half-width of the interval, as a part of the rate, at which the search ends.
    pub precision: f64,
    /// Measured time of a trial that confirms.
    pub confirm: Duration,
}

impl Search {
    /// In words: `100/s to 50000/s, p99 < 10ms and errors < 0.1%`, or with several objectives their number.
    pub fn describe(&self) -> String {
        let range = format!("{} to {}", units::show_rate(self.from), units::show_rate(self.to));
        match self.objectives.as_slice() {
            [one] => format!("{range}, {}", one.text),
            several => format!("{range}, {} objectives", several.len()),
        }
    }
}

impl LoadPoint {
    /// A closed loop over keep-alive connections.
    pub fn closed(connections: u32, duration: Duration) -> Self {
        Self {
            shape: Shape::Closed,
            connections,
            duration,
            requests: None,
            requests_per_connection: None,
            http: HttpVersion::Http11,
            search: None,
        }
    }

    /// In words, for tables and messages: `closed, 100 connections` or `open, 1000/s jitter, 8 connections`.
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

    /// What differs from keep-alive connections that speak HTTP/1.1, in words.
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
        words
    }
}
