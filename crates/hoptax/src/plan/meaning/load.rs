//! Load: sweeps expanded into load points.

use super::{Reader, UpstreamRead};
use crate::plan::error::Place;
use crate::plan::raw::{Placed, RawLoad, RawLoop, Sweep};
use crate::plan::units::{self, show_duration, show_rate};
use crate::plan::{LoadPoint, Upstream};
use hoptax_load::spec::{Arrivals, Rate, Shape};
use std::time::Duration;

/// One request per nanosecond: scheduled moments are whole nanoseconds.
const HIGHEST_RATE: f64 = 1e9;

const DEFAULT_DURATION: Duration = Duration::from_secs(10);

/// More load points than anyone waits for; keeps a sweep of sweeps from filling the memory.
const MOST_POINTS: usize = 1000;

/// More than any machine holds; what this one holds is the lab's to say, for it depends on the descriptors.
const MOST_CONNECTIONS: u32 = 10_000_000;

pub(super) fn read(
    reader: &mut Reader<'_>,
    typed: Placed<Vec<Placed<RawLoad>>>,
    upstream: &UpstreamRead,
) -> Vec<LoadPoint> {
    if typed.value.is_empty() {
        reader.fault(
            typed.place,
            "there is no load",
            "add an entry, such as { loop: closed, connections: 1, duration: 5s }",
        );
    }
    let mut points: Vec<LoadPoint> = Vec::new();
    for Placed { place, value } in typed.value {
        let faults_before = reader.faults.len();
        let axes = Axes::read(reader, place, &value);
        axes.check_rates(reader, upstream);
        let count = axes.lengths().into_iter().fold(1, usize::saturating_mul);
        if count > MOST_POINTS {
            reader.fault(place, format!("this sweep makes {count} load points"), "sweep over fewer values");
        }
        // Points made of stand-ins would only raise doubts of their own.
        if reader.faults.len() > faults_before {
            continue;
        }
        for point in axes.points() {
            if points.contains(&point) {
                reader.fault(
                    place,
                    format!("the load point {} stands twice", point.describe()),
                    "remove one: `trials` says how often each is measured",
                );
                break;
            }
            points.push(point);
        }
    }
    points
}

/// What is swept over, each axis with at least one value.
struct Axes {
    loops: Vec<Placed<RawLoop>>,
    rate: Vec<Placed<Option<f64>>>,
    arrivals: Vec<Placed<Arrivals>>,
    connections: Vec<Placed<u32>>,
    duration: Vec<Placed<Duration>>,
    requests: Vec<Placed<Option<u64>>>,
}

/// An axis that was not typed: one value, which stands nowhere.
fn untyped<T>(value: T) -> Vec<Placed<T>> {
    vec![Placed { place: Place::default(), value }]
}

impl Axes {
    fn read(reader: &mut Reader<'_>, entry: Place, typed: &RawLoad) -> Self {
        let open = typed.loops.0.iter().any(|typed| typed.value == RawLoop::Open);
        let closed = typed.loops.0.iter().any(|typed| typed.value == RawLoop::Closed);
        if closed {
            for (key, place) in [
                ("rate", typed.rate.as_ref().map(|rate| rate.0[0].place)),
                ("arrivals", typed.arrivals.as_ref().map(|arrivals| arrivals.0[0].place)),
            ] {
                let Some(place) = place else { continue };
                let help = if open {
                    "write the closed and the open loop as two entries".to_owned()
                } else {
                    format!("leave out `{key}`, or write `loop: open`")
                };
                reader.fault(
                    place,
                    format!("a closed loop has no `{key}`: the responses set its pace"),
                    help,
                );
            }
        }
        if open && typed.rate.is_none() {
            reader.fault(entry, "an open loop needs a `rate`", "add one, as in rate: 1000/s");
        }
        if let (Some(requests), None) = (&typed.requests, &typed.duration) {
            reader.fault(
                requests.0[0].place,
                "`requests` without a `duration` has no end if nothing answers",
                "add `duration` as the longest time it may take",
            );
        }
        Self {
            loops: typed.loops.0.clone(),
            rate: swept(reader, typed.rate.as_ref(), None, |reader, rate| {
                Some(Some(reader.unit(rate, units::rate)?))
            }),
            arrivals: swept(reader, typed.arrivals.as_ref(), Arrivals::Constant, |reader, arrivals| {
                reader.unit(arrivals, units::arrivals)
            }),
            connections: swept(reader, Some(&typed.connections), 1, |reader, connections| {
                Some(reader.count(Some(connections), "connections", 1, MOST_CONNECTIONS))
            }),
            duration: swept(reader, typed.duration.as_ref(), DEFAULT_DURATION, |reader, duration| {
                let value = reader.unit(duration, units::duration)?;
                if value.is_zero() {
                    reader.fault(duration.place, "nothing can be measured in no time", "write 10s");
                }
                Some(value)
            }),
            requests: swept(reader, typed.requests.as_ref(), None, |reader, requests| {
                if requests.value == 0 {
                    reader.fault(requests.place, "`requests` is zero", "write 1 or more, or leave it out");
                }
                Some(Some(requests.value))
            }),
        }
    }

    /// Rates that cannot be: too high to schedule, too low for the duration, or more than the connections carry.
    fn check_rates(&self, reader: &mut Reader<'_>, upstream: &UpstreamRead) {
        let rates = || self.rate.iter().filter_map(|rate| Some((rate.place, rate.value?)));
        let Some(shortest) = self.duration.iter().map(|duration| duration.value).min() else { return };
        for (place, rate) in rates() {
            if rate > HIGHEST_RATE {
                reader.fault(place, "more than one request per nanosecond", "ask for less");
            } else if !shortest.is_zero() && rate * shortest.as_secs_f64() < 1.0 {
                let message =
                    format!("at {} no request is due within {}", show_rate(rate), show_duration(shortest));
                reader.fault(place, message, "raise the rate or the duration");
            }
        }
        let Upstream::BuiltIn(built_in) = &upstream.value else { return };
        let delay = built_in.delay.mean().as_secs_f64();
        let Some((_, rate)) = rates().max_by(|(_, a), (_, b)| a.total_cmp(b)) else { return };
        // Little's law: requests in flight = rate × time in flight, and a connection carries one at a time. A billionth
        // is forgiven to the arithmetic.
        let in_flight = rate * delay;
        for connections in &self.connections {
            let carried = f64::from(connections.value);
            if in_flight <= carried * (1.0 + 1e-9) {
                continue;
            }
            let least = (in_flight - 1e-9 * in_flight).ceil();
            reader.fault(
                connections.place,
                format!(
                    "{} through an upstream delay of {} keeps {least} requests in flight, and {} cannot carry them",
                    show_rate(rate),
                    show_duration(built_in.delay.mean()),
                    plural(connections.value, "connection"),
                ),
                format!(
                    "use at least {least} connections, or a rate of at most {}",
                    show_rate((carried / delay * 1000.0).floor() / 1000.0)
                ),
            );
        }
    }

    fn lengths(&self) -> [usize; 6] {
        [
            self.loops.len(),
            self.rate.len(),
            self.arrivals.len(),
            self.connections.len(),
            self.duration.len(),
            self.requests.len(),
        ]
    }

    /// Every combination; the axis that was typed first changes slowest.
    fn points(&self) -> Vec<LoadPoint> {
        let lengths = self.lengths();
        let places = [
            self.loops[0].place,
            self.rate[0].place,
            self.arrivals[0].place,
            self.connections[0].place,
            self.duration[0].place,
            self.requests[0].place,
        ];
        let mut slowest_first = [0, 1, 2, 3, 4, 5];
        slowest_first.sort_by_key(|&axis| places[axis]);
        let mut points = Vec::new();
        for number in 0..lengths.iter().product() {
            let mut rest = number;
            let mut index = [0; 6];
            for &axis in slowest_first.iter().rev() {
                index[axis] = rest % lengths[axis];
                rest /= lengths[axis];
            }
            points.push(self.point(index));
        }
        points
    }

    fn point(&self, [loops, rate, arrivals, connections, duration, requests]: [usize; 6]) -> LoadPoint {
        let shape = match (self.loops[loops].value, self.rate[rate].value) {
            (RawLoop::Open, Some(rate)) => {
                Shape::Open { rate: Rate::Fixed(rate), arrivals: self.arrivals[arrivals].value }
            }
            _ => Shape::Closed,
        };
        LoadPoint {
            shape,
            connections: self.connections[connections].value,
            duration: self.duration[duration].value,
            requests: self.requests[requests].value,
        }
    }
}

/// Understands the values of one axis; those that are wrong are noted and replaced by `default`.
fn swept<T: Clone, U: Clone>(
    reader: &mut Reader<'_>,
    typed: Option<&Sweep<T>>,
    default: U,
    mut understand: impl FnMut(&mut Reader<'_>, &Placed<T>) -> Option<U>,
) -> Vec<Placed<U>> {
    let Some(Sweep(values)) = typed else { return untyped(default) };
    values
        .iter()
        .map(|typed| Placed {
            place: typed.place,
            value: understand(reader, typed).unwrap_or_else(|| default.clone()),
        })
        .collect()
}

fn plural(count: u32, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}
