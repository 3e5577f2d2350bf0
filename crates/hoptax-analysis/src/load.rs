//! A load point, as shown in reports.

use hoptax_format::clock::SECOND;
use hoptax_format::spec::{Arrivals, HttpVersion, Rate, Retry, Shape, Stage};
use hoptax_plan::LoadPoint;
use hoptax_plan::units::show_pace;
use hoptax_record::report::{LoadSearch, LoadStage};

/// A load point, as shown in reports.
#[derive(Debug, Clone, PartialEq)]
pub struct Load {
    /// Index in the plan's list of load points, after the plan was expanded.
    pub index: usize,
    /// Description in words. No two load points of a run have the same label.
    pub label: String,
    /// Kind of load: `closed` or `open`.
    pub kind: &'static str,
    /// Number of connections.
    pub connections: u32,
    /// Requested rate, requests/s. For a rate in stages, the mean rate. Absent in a closed loop.
    pub rate: Option<f64>,
    /// The stages of a changing rate. Absent for a steady rate.
    pub stages: Option<Vec<LoadStage>>,
    /// Kind of arrivals: `constant`, `jitter` or `poisson`. Absent in a closed loop.
    pub arrivals: Option<&'static str>,
    /// Planned length of a trial's measured time, s.
    pub duration_s: f64,
    /// Number of requests after which a trial ends early. Absent if there is no limit.
    pub requests: Option<u64>,
    /// Maximum number of requests per connection. It is 1 without keep-alive. Absent if there is no limit.
    pub requests_per_connection: Option<u32>,
    /// Which requests are sent again instead of failing.
    pub retry: Retry,
    /// HTTP version.
    pub http: HttpVersion,
    /// Name of the host that sends the load. Absent if it is the host of the role `generator`.
    pub from: Option<String>,
    /// The search. Absent if the load point is not a search.
    pub search: Option<LoadSearch>,
    /// Why the run left the load point out. Absent if it was measured.
    pub left_out: Option<String>,
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

    pub(crate) fn new(index: usize, point: &LoadPoint) -> Self {
        let connections =
            format!("{} connection{}", point.connections, if point.connections == 1 { "" } else { "s" });
        let how: String = point.unusual().iter().map(|words| format!(", {words}")).collect();
        let (kind, rate, arrivals, label) = match &point.shape {
            Shape::Closed => ("closed", None, None, format!("closed loop, {connections}{how}")),
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

    /// True for an open loop.
    pub fn is_open(&self) -> bool {
        self.rate.is_some()
    }

    /// True for an open loop at a constant rate.
    pub fn is_steady(&self) -> bool {
        self.is_open() && self.stages.is_none()
    }
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

/// A number with thousands separators. A fraction is kept.
pub(super) fn grouped(rate: f64) -> String {
    let text = rate.to_string();
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if fraction.is_empty() { grouped } else { format!("{grouped}.{fraction}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{closed_point, open_point, staged_point};

    #[test]
    fn labels_are_distinct() {
        let points = [
            closed_point(1, 5),
            closed_point(32, 5),
            closed_point(32, 10),
            closed_point(32, 10),
            open_point(1000.0, 8, 10),
            LoadPoint { requests_per_connection: Some(1), ..closed_point(1, 5) },
            LoadPoint { retry: Retry::IdleClose, ..closed_point(1, 5) },
            staged_point("100/s for 10s, ramp to 5000/s over 60s", 8),
            LoadPoint { from: Some("edge".into()), ..open_point(1000.0, 8, 10) },
        ];
        let labels: Vec<String> = Load::all(&points).into_iter().map(|load| load.label).collect();
        assert_eq!(
            labels,
            [
                "closed loop, 1 connection",
                "closed loop, 32 connections, 5 s",
                "closed loop, 32 connections, 10 s (load point 3)",
                "closed loop, 32 connections, 10 s (load point 4)",
                "open loop, 1,000/s, jitter ±10 %, 8 connections",
                "closed loop, 1 connection, keep-alive off",
                "closed loop, 1 connection, retry idle-close",
                "open loop, 100/s for 10s, ramp to 5000/s over 1m, jitter ±10 %, 8 connections",
                "open loop, 1,000/s, jitter ±10 %, 8 connections, from edge",
            ]
        );
    }

    #[test]
    fn stages_have_their_mean_rate_and_are_listed() {
        let load = &Load::all(&[staged_point("100/s for 1s, ramp to 300/s over 3s", 8)])[0];
        assert_eq!((load.rate, load.duration_s, load.is_steady()), (Some(175.0), 4.0, false));
        let stages = load.stages.as_deref().expect("it changes");
        assert_eq!(stages[1], LoadStage { from: 100.0, to: 300.0, duration_s: 3.0 });
    }
}
