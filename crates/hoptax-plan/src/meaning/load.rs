//! Load: expands sweeps into load points.

use super::reader::{Reader, UpstreamRead};
use super::{http, rates, retry, search, streams, target};
use crate::error::Place;
use crate::raw::{KeepAliveText, Placed, RawLoad, RawLoop, Sweep};
use crate::units::{self, UnitError, show_duration, show_pace, show_rate};
use crate::{LoadPoint, Search, Target, Upstream, stages};
use hoptax_format::spec::{Arrivals, HIGHEST_RATE, HttpVersion, LOWEST_RATE, Rate, Retry, Shape};
use std::time::Duration;

/// Default duration of a trial in a plan with `trials` or `events`, and in a search.
const DEFAULT_DURATION: Duration = Duration::from_secs(10);

/// Default duration of a trial in a plan without `trials`. The medians of two trials of 4 s differ as much as
/// the medians of two trials of 300 ms. Long trials therefore bring no benefit, and short trials leave time
/// for more rounds.
const SHORT_DURATION: Duration = Duration::from_millis(300);

/// Minimum number of requests in a trial of default length.
const LEAST_REQUESTS: f64 = 50.0;

/// Maximum number of load points of a plan. If there were no limit, a sweep over several lists could use up
/// the memory.
const MOST_POINTS: usize = 1000;

/// Maximum number of connections. The lab also checks how many connections this machine supports, which
/// depends on file descriptors.
const MOST_CONNECTIONS: u32 = 10_000_000;

/// Load of a plan with features and without `load`: requests per second and connections of the open loop, and
/// connections of the closed loop.
const OF_FEATURES: (f64, u32, u32) = (1000.0, 8, 16);

/// The other parts of a plan on which its load depends.
pub(super) struct Setting<'a> {
    pub(super) upstream: &'a UpstreamRead,
    pub(super) targets: &'a [Target],
    /// Whether short trials are the default.
    pub(super) timed: bool,
    /// Name of the host of the role `generator`.
    pub(super) generator: &'a str,
}

pub(super) fn read(
    reader: &mut Reader<'_>,
    typed: Placed<Vec<Placed<RawLoad>>>,
    setting: &Setting<'_>,
) -> Vec<LoadPoint> {
    let Setting { upstream, targets, timed, generator } = *setting;
    if typed.value.is_empty() {
        reader.fault(
            typed.place,
            "`load` is empty",
            "add an entry, such as { loop: closed, connections: 1, duration: 5s }",
        );
    }
    let mut points: Vec<LoadPoint> = Vec::new();
    for Placed { place, value } in typed.value {
        let faults_before = reader.faults.len();
        let mut axes = Axes::read(reader, place, &value, generator, targets);
        let busy = Busy::of(upstream, targets);
        axes.short = timed.then(|| busy.total());
        axes.check_rates(reader, busy);
        axes.check_search(reader, setting);
        retry::check(reader, &axes.retry, targets);
        http::check_targets(reader, &axes.http, targets);
        http::check_streams(reader, &axes.http, &axes.streams, &axes.connections, &axes.keepalive);
        let count = axes.lengths().into_iter().fold(1, usize::saturating_mul);
        if count > MOST_POINTS {
            reader.fault(
                place,
                format!("this sweep has {count} load points"),
                format!("use fewer values: at most {MOST_POINTS} load points are allowed"),
            );
        }
        // Wrong values were replaced by placeholders. Load points with placeholders would only cause more
        // errors.
        if reader.faults.len() > faults_before {
            continue;
        }
        for point in axes.points() {
            if points.contains(&point) {
                reader.fault(
                    place,
                    format!("the load point {} appears twice", point.describe()),
                    "remove one of them; to measure this load point more often, raise `trials`",
                );
                break;
            }
            points.push(point);
        }
    }
    points
}

/// The load points of a plan with features and without `load`: a steady rate for times, and a closed loop for
/// CPU per request and throughput. In an open loop, CPU per request also contains the gateway's waking up,
/// and a feature changes how often it wakes up.
pub(super) fn of_features(setting: &Setting<'_>) -> Vec<LoadPoint> {
    let busy = Busy::of(setting.upstream, setting.targets);
    let (rate, open, closed) = OF_FEATURES;
    // By Little's law, this many requests are in flight at this rate. Twice as many connections carry them.
    let in_flight = (rate * busy.total().as_secs_f64()).ceil() as u32;
    let open = open.max(in_flight.saturating_mul(2));
    let short = setting.timed.then(|| busy.total());
    let steady = Shape::Open { rate: Rate::Fixed(rate), arrivals: Arrivals::Constant };
    [(steady, open), (Shape::Closed, closed.max(open))]
        .map(|(shape, connections)| {
            let duration = default_duration(short, &shape);
            LoadPoint { shape, ..LoadPoint::closed(connections, duration) }
        })
        .to_vec()
}

/// The mean delay of the built-in upstream. Zero for a running upstream, whose delay is unknown.
fn mean_delay(upstream: &UpstreamRead) -> Duration {
    match &upstream.value {
        Upstream::BuiltIn(built_in) => built_in.delay.mean(),
        Upstream::Running(_) => Duration::ZERO,
    }
}

/// How long a request keeps its connection busy on average, as far as the plan says.
#[derive(Debug, Clone, Copy)]
struct Busy {
    /// The upstream's delay.
    delay: Duration,
    /// The pauses in the request's body.
    pauses: Duration,
    /// The length of the streams of messages.
    streams: Duration,
}

impl Busy {
    fn of(upstream: &UpstreamRead, targets: &[Target]) -> Self {
        Self {
            delay: mean_delay(upstream),
            pauses: target::mean_pauses(targets),
            streams: streams::mean_length(targets, &upstream.value),
        }
    }

    fn total(self) -> Duration {
        self.delay + self.pauses + self.streams
    }

    fn describe(self) -> String {
        let parts = [
            (self.delay, format!("an upstream delay of {}", show_duration(self.delay))),
            (self.pauses, format!("pauses of {} in the body", show_duration(self.pauses))),
            (self.streams, format!("streams of {}", show_duration(self.streams))),
        ];
        let parts = parts.into_iter().filter(|(time, _)| !time.is_zero()).map(|(_, part)| part);
        parts.collect::<Vec<_>>().join(" and ")
    }
}

/// The axes of a sweep. Each axis has at least one value.
struct Axes {
    loops: Vec<Placed<RawLoop>>,
    rate: Vec<Placed<Option<Rate>>>,
    arrivals: Vec<Placed<Arrivals>>,
    connections: Vec<Placed<u32>>,
    streams: Vec<Placed<u32>>,
    /// `None` if the plan has no duration. Stages then use their own durations, and other rates use the
    /// default.
    duration: Vec<Placed<Option<Duration>>>,
    requests: Vec<Placed<Option<u64>>>,
    keepalive: Vec<Placed<Option<u32>>>,
    retry: Vec<Placed<Retry>>,
    http: Vec<Placed<HttpVersion>>,
    /// The host that sends the load. `None` if it is the host of the role `generator`, even if the plan names
    /// it.
    from: Vec<Placed<Option<String>>>,
    /// Mean time that a request takes at least. `None` if short trials are not the default.
    short: Option<Duration>,
    /// The search is not an axis: it applies to every load point.
    search: Option<Placed<Search>>,
}

const AXES: usize = 11;

/// An axis for a key that is not in the plan: one value without a place.
fn untyped<T>(value: T) -> Vec<Placed<T>> {
    vec![Placed { place: Place::default(), value }]
}

impl Axes {
    fn read(
        reader: &mut Reader<'_>,
        entry: Place,
        typed: &RawLoad,
        generator: &str,
        targets: &[Target],
    ) -> Self {
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
                    format!("remove `{key}`, or write `loop: open`")
                };
                reader.fault(
                    place,
                    format!("a closed loop has no `{key}`, because responses set its pace"),
                    help,
                );
            }
        }
        // A closed loop of streams is searched for a number of connections.
        let of_connections = closed && !open && targets.iter().all(|target| target.stream.is_some());
        if let Some(search) = &typed.search {
            search::refuse_keys(reader, search.place, typed, closed && !of_connections);
        } else if open && typed.rate.is_none() {
            reader.fault(entry, "an open loop needs a `rate`", "add for example rate: 1000/s");
        }
        let search = typed.search.as_ref().and_then(|typed| search::read(reader, typed, of_connections));
        let rate = match &typed.rate {
            _ if typed.search.is_some() && !of_connections => search::first_rate(search.as_ref()),
            None => untyped(None),
            Some(typed) => rates::read(reader, typed)
                .into_iter()
                .map(|Placed { place, value }| Placed { place, value: Some(value) })
                .collect(),
        };
        let all_staged =
            !rate.is_empty() && rate.iter().all(|rate| matches!(rate.value, Some(Rate::Stages(_))));
        if let (Some(requests), None, false) = (&typed.requests, &typed.duration, all_staged) {
            reader.fault(
                requests.0[0].place,
                "`requests` needs a `duration`, because a trial without responses would otherwise never end",
                "add `duration`, the longest time of a trial",
            );
        }
        Self {
            short: None,
            loops: typed.loops.0.clone(),
            rate,
            arrivals: swept(reader, typed.arrivals.as_ref(), Arrivals::Constant, |reader, arrivals| {
                reader.unit(arrivals, units::arrivals)
            }),
            connections: swept(reader, Some(&typed.connections), 1, |reader, connections| {
                Some(reader.count(
                    Some(&Placed { place: connections.place, value: connections.value.0 }),
                    "connections",
                    1,
                    MOST_CONNECTIONS,
                ))
            }),
            streams: swept(reader, typed.streams.as_ref(), 1, |reader, typed| {
                Some(http::streams(reader, typed))
            }),
            duration: swept(reader, typed.duration.as_ref(), None, |reader, duration| {
                reader.time_above_zero(duration, "duration", "write a longer time, such as 10s").map(Some)
            }),
            requests: swept(reader, typed.requests.as_ref(), None, |reader, requests| {
                if requests.value.0 == 0 {
                    reader.fault(requests.place, "`requests` is zero", "write 1 or more, or remove it");
                }
                Some(Some(requests.value.0))
            }),
            keepalive: swept(
                reader,
                typed.keepalive.as_ref(),
                None,
                |reader, typed: &Placed<KeepAliveText>| reader.unit(typed, keepalive),
            ),
            retry: swept(reader, typed.retry.as_ref(), Retry::Off, |_, typed| {
                Some(retry::understand(typed.value))
            }),
            http: swept(reader, typed.http.as_ref(), HttpVersion::Http11, |reader, typed| {
                reader.unit(typed, http::version)
            }),
            // The check of the hosts reports unknown names.
            from: swept(reader, typed.from.as_ref(), None, |_, typed| {
                Some(Some(typed.value.0.clone()).filter(|host| host != generator))
            }),
            search,
        }
    }

    /// Checks the rates. A rate must not be too high or too low to schedule, and must agree with the
    /// duration. At least one request must be due within the duration. There must be enough connections for
    /// the rate.
    fn check_rates(&self, reader: &mut Reader<'_>, busy: Busy) {
        for Placed { place, value } in &self.rate {
            let Some(rate) = value else { continue };
            if rate.highest() > HIGHEST_RATE {
                reader.fault(
                    *place,
                    format!("rates above {} are not supported", show_rate(HIGHEST_RATE)),
                    "lower the rate",
                );
                continue;
            }
            let faults_before = reader.faults.len();
            for duration in &self.duration {
                check_duration(reader, *place, rate, duration);
            }
            if let Rate::Fixed(rate) = rate
                && *rate < LOWEST_RATE
                && reader.faults.len() == faults_before
            {
                reader.fault(
                    *place,
                    format!("rates below {} are not supported", show_rate(LOWEST_RATE)),
                    "raise the rate",
                );
            }
        }
        self.check_carried(reader, busy);
    }

    /// Checks that there are enough connections and streams for the rate. By Little's law, the number of
    /// requests in flight is the rate × the time in flight. Each stream carries only one request at a time.
    /// For stages, the mean rate is checked, because a single stage may exceed the capacity on purpose.
    fn check_carried(&self, reader: &mut Reader<'_>, busy: Busy) {
        let delay = busy.total().as_secs_f64();
        let rates = self.rate.iter().filter_map(|rate| rate.value.as_ref());
        let Some(highest) = rates.max_by(|a, b| a.mean().total_cmp(&b.mean())) else { return };
        let rate = highest.mean();
        let shown = match highest {
            Rate::Fixed(rate) => show_rate(*rate),
            Rate::Stages(_) => format!("{} on average", show_rate((rate * 1000.0).round() / 1000.0)),
        };
        // The tolerance allows for rounding.
        let in_flight = rate * delay;
        let streams = self.streams.iter().map(|streams| streams.value).min().unwrap_or(1);
        for connections in &self.connections {
            let carried = f64::from(connections.value) * f64::from(streams);
            if in_flight <= carried * (1.0 + 1e-9) {
                continue;
            }
            let least = ((in_flight - 1e-9 * in_flight) / f64::from(streams)).ceil();
            let of_streams = if streams == 1 { String::new() } else { format!(" of {streams} streams") };
            reader.fault(
                connections.place,
                format!(
                    "{shown} with {} needs {least} connections{of_streams}, but there {}",
                    busy.describe(),
                    if connections.value == 1 {
                        "is 1".to_owned()
                    } else {
                        format!("are {}", connections.value)
                    },
                ),
                format!(
                    "use at least {least} connections or at most {}",
                    show_rate((carried / delay * 1000.0).floor() / 1000.0)
                ),
            );
        }
    }

    fn check_search(&self, reader: &mut Reader<'_>, setting: &Setting<'_>) {
        let Some(search) = &self.search else { return };
        search::check_content(reader, search, setting.targets);
        if self.rate.iter().all(|rate| rate.value.is_none()) {
            search::check_connections(reader, &search.value, &self.connections);
            let is_built_in = matches!(setting.upstream.value, Upstream::BuiltIn(_));
            search::check_times(reader, search, setting.targets, is_built_in);
            return;
        }
        for duration in &self.duration {
            search::check_samples(reader, search, duration.value.unwrap_or(DEFAULT_DURATION));
        }
    }

    fn lengths(&self) -> [usize; AXES] {
        [
            self.loops.len(),
            self.rate.len(),
            self.arrivals.len(),
            self.connections.len(),
            self.streams.len(),
            self.duration.len(),
            self.requests.len(),
            self.keepalive.len(),
            self.retry.len(),
            self.http.len(),
            self.from.len(),
        ]
    }

    fn places(&self) -> [Place; AXES] {
        [
            self.loops[0].place,
            self.rate[0].place,
            self.arrivals[0].place,
            self.connections[0].place,
            self.streams[0].place,
            self.duration[0].place,
            self.requests[0].place,
            self.keepalive[0].place,
            self.retry[0].place,
            self.http[0].place,
            self.from[0].place,
        ]
    }

    /// All combinations of the axes' values. The value of the axis that comes first in the plan changes
    /// slowest.
    fn points(&self) -> Vec<LoadPoint> {
        let (lengths, places) = (self.lengths(), self.places());
        let mut slowest_first: [usize; AXES] = std::array::from_fn(|axis| axis);
        slowest_first.sort_by_key(|&axis| places[axis]);
        let mut points = Vec::new();
        for number in 0..lengths.iter().product() {
            let mut rest = number;
            let mut index = [0; AXES];
            for &axis in slowest_first.iter().rev() {
                index[axis] = rest % lengths[axis];
                rest /= lengths[axis];
            }
            points.push(self.point(index));
        }
        points.retain(|point| http::fits(point.http, point.streams));
        points
    }

    fn point(&self, index: [usize; AXES]) -> LoadPoint {
        let [loops, rate, arrivals, connections, streams, duration, requests, keepalive, retry, http, from] =
            index;
        let rate = self.rate[rate].value.clone();
        let staged = match &rate {
            Some(Rate::Stages(stages)) => Some(stages::length(stages)),
            _ => None,
        };
        let shape = match (self.loops[loops].value, rate) {
            (RawLoop::Open, Some(rate)) => Shape::Open { rate, arrivals: self.arrivals[arrivals].value },
            _ => Shape::Closed,
        };
        let duration = staged
            .or(self.duration[duration].value)
            .unwrap_or_else(|| default_duration(self.short.filter(|_| self.search.is_none()), &shape));
        LoadPoint {
            shape,
            connections: self.connections[connections].value,
            streams: self.streams[streams].value,
            duration,
            requests: self.requests[requests].value,
            requests_per_connection: self.keepalive[keepalive].value,
            retry: self.retry[retry].value,
            http: self.http[http].value,
            from: self.from[from].value.clone(),
            search: self.search.as_ref().map(|search| search::at(&search.value, duration)),
            left_out: None,
        }
    }
}

/// Duration of a trial if the plan sets none. A short trial has time for [`LEAST_REQUESTS`] requests at the
/// rate, and also for [`LEAST_REQUESTS`] requests one after the other. `short` is the time that a request
/// keeps its connection busy; `None` if short trials are not the default.
fn default_duration(short: Option<Duration>, shape: &Shape) -> Duration {
    let Some(delay) = short else { return DEFAULT_DURATION };
    let interval = match shape {
        Shape::Open { rate, .. } => 1.0 / rate.mean(),
        Shape::Closed => 0.0,
    };
    let needed = LEAST_REQUESTS * interval.max(delay.as_secs_f64());
    Duration::try_from_secs_f64(needed).map_or(DEFAULT_DURATION, |needed| {
        Duration::from_millis(needed.as_millis() as u64).clamp(SHORT_DURATION, DEFAULT_DURATION)
    })
}

/// Checks that the duration agrees with the stages, and that at least one request is due within it.
fn check_duration(reader: &mut Reader<'_>, place: Place, rate: &Rate, duration: &Placed<Option<Duration>>) {
    let length = match (rate, duration.value) {
        (Rate::Stages(stages), typed) => {
            let length = stages::length(stages);
            if let Some(typed) = typed.filter(|typed| *typed != length && !typed.is_zero()) {
                reader.fault(
                    duration.place,
                    format!(
                        "the stages take {}, but `duration` is {}",
                        show_duration(length),
                        show_duration(typed)
                    ),
                    "remove `duration`, because the stages set the duration",
                );
            }
            length
        }
        (Rate::Fixed(_), typed) => typed.unwrap_or(DEFAULT_DURATION),
    };
    if !length.is_zero() && rate.mean() * length.as_secs_f64() < 1.0 {
        let message = format!("at {}, no request is due within {}", show_pace(rate), show_duration(length));
        reader.fault(place, message, "raise the rate or the duration");
    }
}

/// Parses `on`, `off`, or a number of requests per connection.
fn keepalive(text: &str) -> Result<Option<u32>, UnitError> {
    let text = text.trim();
    let refuse = |help: &str| Err(UnitError::new(format!("`{text}` is not a value of `keepalive`"), help));
    let count = text.strip_suffix("requests").or(text.strip_suffix("request")).unwrap_or(text).trim_end();
    match (text, count.parse::<u32>()) {
        ("on", _) => Ok(None),
        ("off", _) => Ok(Some(1)),
        ("true" | "yes", _) => refuse("write on"),
        ("false" | "no", _) | (_, Ok(0)) => refuse("write off"),
        (_, Ok(count)) => Ok(Some(count)),
        _ => refuse("write on, off, or the number of requests per connection, such as 100"),
    }
}

/// Reads the values of one axis. Wrong values are reported and replaced by `default`.
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

#[cfg(test)]
hoptax_pages::stated! {
    BIAS "short rounds of {} trials" time(SHORT_DURATION);
}
