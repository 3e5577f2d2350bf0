//! Load points.

use crate::plan::LoadPoint;
use crate::units::{grouped, show_pace};
use hoptax_format::clock::SECOND;
use hoptax_format::spec::{Arrivals, HttpVersion, Rate, Retry, Shape, Stage};
use serde::Serialize;

/// A load point.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Load {
    /// Index in the list of load points after sweeps are expanded.
    pub index: usize,
    /// Label in words; unique within a run.
    pub label: String,
    /// `closed` or `open`.
    #[serde(rename = "loop")]
    pub kind: &'static str,
    /// Connections.
    pub connections: u32,
    /// Maximum number of requests in flight on a connection. If it is 1, the JSON has no such member.
    #[serde(skip_serializing_if = "is_one")]
    pub streams: u32,
    /// Requests per second; if the rate has stages, their mean. Absent in a closed loop.
    pub rate: Option<f64>,
    /// Stages of a changing rate; absent for a steady rate.
    pub stages: Option<Vec<LoadStage>>,
    /// `constant`, `jitter` or `poisson`; absent in a closed loop.
    pub arrivals: Option<&'static str>,
    /// Planned measured time of one trial, seconds.
    pub duration_s: f64,
    /// Number of requests after which a trial ends early; absent if only the time limits a trial.
    pub requests: Option<u64>,
    /// Maximum number of requests per connection; 1 without keep-alive. Absent if there is no limit.
    pub requests_per_connection: Option<u32>,
    /// Which requests are sent again instead of failing.
    pub retry: Retry,
    /// HTTP version.
    pub http: HttpVersion,
    /// Name of the host that sends the load; absent if it is the host of the role `generator`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The capacity search at this load point; absent if the load point is measured without a search.
    pub search: Option<LoadSearch>,
    /// Why the run left the load point out. Absent if it was measured.
    #[serde(skip)]
    pub left_out: Option<String>,
}

/// Range and precision of a search. The objectives are listed with the results. In a closed loop, the rates
/// are numbers of connections.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LoadSearch {
    /// Lowest rate tried, requests/s.
    pub from: f64,
    /// Highest rate tried, requests/s.
    pub to: f64,
    /// Required precision: half the width of the rate's interval ÷ the rate. The search ends when this
    /// precision is reached.
    pub precision: f64,
    /// Measured time of a confirming trial, seconds.
    pub confirm_s: f64,
}

/// A stage of a changing rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LoadStage {
    /// Requests per second at the start.
    pub from: f64,
    /// Requests per second at the end.
    pub to: f64,
    /// Duration, seconds.
    pub duration_s: f64,
}

impl Load {
    /// Every load point of a run. The label of a load point contains only the settings that are needed to
    /// distinguish it from the other load points.
    pub fn all(points: &[LoadPoint]) -> Vec<Self> {
        let mut loads: Vec<Self> =
            points.iter().enumerate().map(|(index, point)| Self::new(index, point)).collect();
        let alike = |loads: &[Self], label: &str| loads.iter().filter(|load| load.label == label).count() > 1;
        let with_duration: Vec<String> = loads
            .iter()
            .map(|load| match alike(&loads, &load.label) {
                true => format!("{}, {} s", load.label, load.duration_s),
                false => load.label.clone(),
            })
            .collect();
        for (load, label) in loads.iter_mut().zip(with_duration) {
            load.label = label;
        }
        let numbered: Vec<String> = loads
            .iter()
            .map(|load| match alike(&loads, &load.label) {
                true => format!("{} (load point {})", load.label, load.index + 1),
                false => load.label.clone(),
            })
            .collect();
        for (load, label) in loads.iter_mut().zip(numbered) {
            load.label = label;
        }
        loads
    }

    /// The load point at this index of a plan, with a label that other load points may have too.
    pub fn new(index: usize, point: &LoadPoint) -> Self {
        let connections = point.connections_in_words();
        let how: String = point.unusual().iter().map(|words| format!(", {words}")).collect();
        let (kind, rate, arrivals, label) = match &point.shape {
            Shape::Closed => {
                let label = match &point.search {
                    None => format!("closed loop, {connections}{how}"),
                    Some(search) => {
                        let (from, to) = (grouped(search.from), grouped(search.to));
                        format!("search, {from} to {to} connections, closed loop{how}")
                    }
                };
                ("closed", None, None, label)
            }
            Shape::Open { rate, arrivals } => {
                let (name, manner) = match arrivals {
                    Arrivals::Constant => ("constant", "constant".to_string()),
                    Arrivals::Jitter(share) => ("jitter", format!("jitter ±{} %", share * 100.0)),
                    Arrivals::Poisson => ("poisson", "poisson".to_string()),
                };
                let pace = match &point.search {
                    None => format!("open loop, {}", pace(rate)),
                    Some(search) => format!("search, {}/s to {}/s", grouped(search.from), grouped(search.to)),
                };
                let label = format!("{pace}, {manner}, {connections}{how}");
                ("open", Some(rate), Some(name), label)
            }
        };
        Self {
            index,
            label,
            kind,
            connections: point.connections,
            streams: point.streams,
            rate: rate.map(Rate::mean),
            stages: rate.and_then(stages),
            arrivals,
            duration_s: point.duration.as_secs_f64(),
            requests: point.requests,
            requests_per_connection: point.requests_per_connection,
            retry: point.retry,
            http: point.http,
            from: point.from.clone(),
            search: point.search.as_ref().map(|search| LoadSearch {
                from: search.from,
                to: search.to,
                precision: search.precision,
                confirm_s: search.confirm.as_secs_f64(),
            }),
            left_out: point.left_out.clone(),
        }
    }

    /// Maximum number of requests in flight: connections × streams.
    pub fn concurrency(&self) -> u64 {
        u64::from(self.connections) * u64::from(self.streams)
    }

    /// True for an open loop.
    pub fn is_open(&self) -> bool {
        self.rate.is_some()
    }

    /// True for an open loop at a constant rate.
    pub fn is_steady(&self) -> bool {
        self.is_open() && self.stages.is_none()
    }
}

fn is_one(number: &u32) -> bool {
    *number == 1
}

/// A rate with thousands separators, or the stages of a changing rate.
fn pace(rate: &Rate) -> String {
    match rate {
        Rate::Fixed(rate) => format!("{}/s", grouped(*rate)),
        Rate::Stages(_) => show_pace(rate),
    }
}

fn stages(rate: &Rate) -> Option<Vec<LoadStage>> {
    let Rate::Stages(stages) = rate else { return None };
    let converted = |stage: &Stage| LoadStage {
        from: stage.from,
        to: stage.to,
        duration_s: stage.for_ns as f64 / SECOND as f64,
    };
    Some(stages.iter().map(converted).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn closed_point(connections: u32, seconds: u64) -> LoadPoint {
        LoadPoint::closed(connections, Duration::from_secs(seconds))
    }

    fn open_point(rate: Rate) -> LoadPoint {
        LoadPoint { shape: Shape::Open { rate, arrivals: Arrivals::Jitter(0.1) }, ..closed_point(8, 10) }
    }

    fn second(from: f64, to: f64, seconds: u64) -> Stage {
        Stage { from, to, for_ns: seconds * SECOND }
    }

    #[test]
    fn labels_are_distinct() {
        let points = [
            closed_point(1, 5),
            closed_point(32, 5),
            closed_point(32, 10),
            closed_point(32, 10),
            open_point(Rate::Fixed(1000.0)),
            LoadPoint { requests_per_connection: Some(1), ..closed_point(1, 5) },
            LoadPoint { retry: Retry::IdleClose, ..closed_point(1, 5) },
            LoadPoint { http: HttpVersion::Http2, ..closed_point(1, 5) },
            LoadPoint { http: HttpVersion::Http2, streams: 8, ..closed_point(10, 5) },
            open_point(Rate::Stages(vec![second(100.0, 100.0, 10), second(100.0, 5000.0, 60)])),
            LoadPoint { from: Some("edge".into()), ..open_point(Rate::Fixed(1000.0)) },
        ];
        let labels: Vec<String> = Load::all(&points).into_iter().map(|load| load.label).collect();
        insta::assert_snapshot!(labels.join("\n"));
    }

    #[test]
    fn stages_have_their_mean_rate_and_are_listed() {
        let staged = open_point(Rate::Stages(vec![second(100.0, 100.0, 1), second(100.0, 300.0, 3)]));
        let load = &Load::all(&[staged])[0];
        assert_eq!((load.rate, load.is_steady()), (Some(175.0), false));
        let stages = load.stages.as_deref().expect("it changes");
        assert_eq!(stages[1], LoadStage { from: 100.0, to: 300.0, duration_s: 3.0 });
    }
}
