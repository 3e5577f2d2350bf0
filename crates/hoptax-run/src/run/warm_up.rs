//! Warms processes up before their first trial.
//!
//! A process with a just-in-time compiler needs seconds of load until it reaches its full speed. How many
//! seconds depends on the load. If the process is never idle, its compiler gets no CPU time. At a low rate,
//! the compiler never notices that the code is hot. So each process gets short bursts of the highest load
//! that it can take. The other processes get their bursts during its pauses. A process has settled when
//! neither its CPU time per request nor its response time falls any longer. The rule looks at each process
//! alone and never at a tax.

use super::inputs::Run;
use super::traffic::Loaded;
use super::trial::load_spec;
use crate::schedule::{Contender, Slot};
use hoptax_format::Address;
use hoptax_format::record::LoadRecord;
use hoptax_format::spec::{HttpVersion, LoadSpec, Shape};
use hoptax_plan::{Gateway, GatewayKind, LoadPoint, Plan, UntilSettled, Upstream};
use hoptax_record::{Burst, DirectTrial, RoleUsage, WarmUp, WarmUpLoad, has_failures};
use std::time::Duration;

/// Duration of a burst. It is as short as the probes allow, so that the length of a warm-up is known to
/// within a few hundred requests, and so that pauses come often.
pub(super) const BURST: Duration = Duration::from_millis(150);

/// A process is under load for at least this long, unless it answers [`LEAST_REQUESTS`] sooner. Compilers
/// look for hot code after thousands of requests, so a process can be slow and steady for a while before it
/// becomes fast. A fall that is still to come cannot be seen.
const LEAST_LOAD: Duration = Duration::from_secs(10);

/// Number of requests after which a process can have settled before [`LEAST_LOAD`].
pub(super) const LEAST_REQUESTS: u64 = 100_000;

/// A process that generates code while it runs is under load for at least this long, however many requests it
/// answers. .NET and JVM gateways needed up to 30 s.
const LEAST_LOAD_COMPILING: Duration = Duration::from_secs(20);

/// Smallest number of bursts in which the rule looks for a fall. Later, it looks at the last half of all
/// bursts, because a slow fall shows only over a longer time.
const LEAST_BURSTS: usize = 8;

/// The CPU time per request has stopped falling if it falls by at most this share over these bursts.
const CPU_FALL: f64 = 0.02;

/// Like [`CPU_FALL`], for the response time, which scatters more.
const TIME_FALL: f64 = 0.05;

/// A fall of fewer standard errors than this may be chance. The standard errors assume independent values.
/// But neighboring bursts are similar, so the real errors are larger.
const FALL_IN_ERRORS: f64 = 3.0;

/// A fall of this many times the limit or more is large. To miss it would be worse than to warm up for
/// longer.
const LARGE_FALL: f64 = 5.0;

/// The number of standard errors for a large fall.
const LARGE_FALL_IN_ERRORS: f64 = 2.0;

/// Smallest fall of the CPU time per request since the previous warm-up that counts as a step, as a
/// difference of logarithms. On a busy machine, a process that has settled changes by 10 %.
const STEP: f64 = 0.2;

/// The same for the response time of a process whose CPU time is unknown. Neighbors of a virtual machine
/// change it more.
const TIME_STEP: f64 = 0.25;

/// Smallest step in standard errors, as in the rule that sets cold trials aside.
const STEP_IN_ERRORS: f64 = 5.0;

/// Pause after a burst if no other process has a burst in between. During the pause, a compiler has the CPUs
/// for itself. The processes of tests compile nothing.
pub(super) const PAUSE: Duration = Duration::from_millis(if cfg!(test) { 1 } else { 50 });

/// Smallest number of requests in a burst at the plan's rate. With fewer requests, the median is random.
const REQUESTS_AT_RATE: f64 = 20.0;

/// Longest burst at the plan's rate.
const LONGEST_BURST: Duration = Duration::from_secs(2);

/// The state of one process's warm-up, until the warm-up is over.
pub(super) struct WarmingUp {
    limit: Duration,
    /// Index of the load point whose load the process gets.
    load: usize,
    /// Numbers of connections and streams of the load point with most requests in flight, of those that have
    /// not killed the process.
    connections: u32,
    streams: u32,
    /// Time under load so far, ns. It includes bursts that do not count.
    loaded_ns: u64,
    record: WarmUp,
    is_hopeless: bool,
    /// The bursts of the previous warm-up, if the process has had trials since.
    before: Option<Vec<Burst>>,
}

/// The last warm-up of a process, and its requests since.
#[derive(Debug, Clone, Default)]
pub(super) struct Settled {
    /// The warm-up, if the process had settled in it.
    pub(super) warm_up: Option<WarmUp>,
    /// Number of requests that it has answered in trials since.
    pub(super) answered: u64,
}

impl WarmingUp {
    /// A warm-up that begins now, before the trial with this number. `deaths` are the load points of earlier
    /// warm-ups that killed the process. After the first death, the process gets only the plan's load. After
    /// each further death, it does not get the load of that load point any more. Returns `None` if no load
    /// point is left.
    pub(super) fn new(
        plan: &Plan,
        limits: UntilSettled,
        gateway: Option<&Gateway>,
        trial: usize,
        deaths: &[usize],
    ) -> Option<Self> {
        let deadly = deaths.get(1..).unwrap_or_default();
        let points = || {
            plan.load
                .iter()
                .enumerate()
                .filter(|(index, point)| point.left_out.is_none() && !deadly.contains(index))
        };
        let record = WarmUp {
            before_trial: trial as u32,
            load: if deaths.is_empty() { load_of(plan, limits, gateway) } else { WarmUpLoad::Plan },
            ..WarmUp::default()
        };
        let load = heaviest(points())?;
        let is_http2 = |point: &LoadPoint| point.http == HttpVersion::Http2;
        let alike = points().filter(|(_, point)| is_http2(point) == is_http2(&plan.load[load]));
        let widest = alike.map(|(_, point)| (point.concurrency(), point.connections, point.streams)).max()?;
        let (_, connections, streams) = widest;
        Some(Self {
            limit: limits.at_most,
            load,
            connections,
            streams,
            loaded_ns: 0,
            record,
            is_hopeless: false,
            before: None,
        })
    }

    /// Makes this a second look at a process that had settled in the warm-up `before`, and has had trials
    /// since.
    pub(super) fn after(mut self, before: &WarmUp) -> Self {
        self.record.load = before.load;
        self.before = Some(before.bursts.clone());
        self
    }

    /// Index of the load point whose load the process gets.
    pub(super) fn load(&self) -> usize {
        self.load
    }

    /// Load spec of the next burst.
    pub(super) fn spec(&self, run: &Run<'_>, addresses: Vec<impl Into<Address>>) -> LoadSpec {
        let slot =
            Slot { round: 0, load: self.load, contender: Contender::Direct(DirectTrial::First), step: None };
        let mut spec = load_spec(run, &slot, addresses);
        (spec.warmup_ns, spec.requests) = (0, None);
        let mut duration = BURST;
        match (self.record.load, &spec.shape) {
            (WarmUpLoad::Highest, _) => {
                spec.shape = Shape::Closed;
                (spec.connections, spec.streams) = (self.connections, self.streams);
                spec.workers = (spec.cpus.len() as u32).clamp(1, spec.connections);
            }
            (WarmUpLoad::Plan, Shape::Open { rate, .. }) => {
                let enough =
                    Duration::try_from_secs_f64(REQUESTS_AT_RATE / rate.mean()).unwrap_or(LONGEST_BURST);
                duration = enough.clamp(BURST, LONGEST_BURST);
            }
            (WarmUpLoad::Plan, Shape::Closed) => {}
        }
        spec.duration_ns = duration.as_nanos() as u64;
        spec
    }

    /// Adds the result of a burst. If requests failed at the highest load, the warm-up begins again with the
    /// plan's load. `role` is the resource use of the process, and `upstream` the use of the upstream if it
    /// is on the same machine.
    pub(super) fn add(&mut self, loaded: &Loaded, role: Option<&RoleUsage>, upstream: Option<&RoleUsage>) {
        let answered = |record: &&LoadRecord| loaded.failed.is_none() && record.counts.completed > 0;
        let measured = loaded.record.as_ref().filter(answered);
        self.loaded_ns += loaded.record.as_ref().map_or(0, |record| record.measured_ns);
        self.record.generates_code |= role.is_some_and(|role| role.generates_code);
        match (measured, self.record.load) {
            (None, WarmUpLoad::Plan) => self.is_hopeless = true,
            (Some(record), load) if load == WarmUpLoad::Plan || !has_failures(record) => {
                self.record.bursts.extend(burst(record, role, upstream));
            }
            _ => {
                self.record.load = WarmUpLoad::Plan;
                self.record.bursts.clear();
            }
        }
    }

    /// True if the warm-up is over: the process has settled, the time is over, or no request is answered.
    pub(super) fn is_over(&mut self) -> bool {
        let is_at_limit = self.loaded_ns >= self.limit.as_nanos() as u64;
        let has_enough = is_at_limit || self.has_enough();
        self.record.settled = has_enough && is_settled(&self.record.bursts);
        self.record.settled || self.is_hopeless || is_at_limit
    }

    /// True if the process had so much load that it can have settled.
    fn has_enough(&self) -> bool {
        let (load_ns, requests) = (self.record.load_ns(), self.record.requests());
        // A second look continues the load that the process had before.
        if self.record.generates_code && self.before.is_none() {
            return load_ns >= LEAST_LOAD_COMPILING.as_nanos() as u64;
        }
        load_ns >= LEAST_LOAD.as_nanos() as u64 || requests >= LEAST_REQUESTS
    }

    /// What happened so far, in a few words: `3.2 s of load, 41,000 requests`.
    pub(super) fn describe(&self) -> String {
        let (seconds, requests) = (self.record.load_ns() as f64 / 1e9, self.record.requests());
        format!("{seconds:.1} s of load, {requests} requests")
    }

    /// The record, unless nothing was measured.
    pub(super) fn into_record(mut self) -> Option<WarmUp> {
        self.record.faster_by = self.before.and_then(|before| faster_by(&before, &self.record.bursts));
        (!self.record.bursts.is_empty()).then_some(self.record)
    }
}

/// The load that a process may get. A service that hoptax did not start may be in production. So it never
/// gets more load than the plan says, unless the plan allows it.
fn load_of(plan: &Plan, limits: UntilSettled, gateway: Option<&Gateway>) -> WarmUpLoad {
    let is_external = matches!(plan.upstream, Upstream::Running(_))
        || gateway.is_some_and(|gateway| matches!(gateway.kind, GatewayKind::External { .. }));
    if is_external && !limits.overload_external { WarmUpLoad::Plan } else { WarmUpLoad::Highest }
}

/// Index of the heaviest of these load points: the closed loop with the most requests in flight, or else the
/// open loop with the highest rate.
fn heaviest<'a>(points: impl Iterator<Item = (usize, &'a LoadPoint)>) -> Option<usize> {
    let weight = |point: &LoadPoint| match &point.shape {
        Shape::Closed => (true, point.concurrency() as f64),
        Shape::Open { rate, .. } => (false, rate.mean()),
    };
    let heavier = |a: &(bool, f64), b: &(bool, f64)| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1));
    let weights = points.map(|(index, point)| (index, weight(point)));
    weights.max_by(|(_, a), (_, b)| heavier(a, b)).map(|(index, _)| index)
}

fn burst(record: &LoadRecord, role: Option<&RoleUsage>, upstream: Option<&RoleUsage>) -> Option<Burst> {
    let p50_ns = record.histograms.service_time.decode().ok()?.value_at_quantile(0.5);
    let requests = record.counts.completed;
    let per_request = |role: &RoleUsage| role.cpu_ns as f64 / requests as f64;
    Some(Burst {
        measured_ns: record.measured_ns,
        requests,
        p50_ns,
        cpu_ns_per_request: role.map(per_request),
        upstream_cpu_ns_per_request: upstream.map(per_request).filter(|ns| *ns > 0.0),
    })
}

/// The bursts in which the rule looks for a fall.
fn last_half(bursts: &[Burst]) -> &[Burst] {
    &bursts[bursts.len().saturating_sub(LEAST_BURSTS.max(bursts.len() / 2))..]
}

/// True if neither figure of the process falls any longer.
fn is_settled(bursts: &[Burst]) -> bool {
    let last = last_half(bursts);
    if bursts.len() <= LEAST_BURSTS {
        return false;
    }
    let falls = |limit: f64, figure: fn(&Burst) -> Option<f64>| {
        let values: Vec<f64> = last.iter().filter_map(figure).collect();
        [fall(&values), fall_of_last(&values)].into_iter().any(|(fall, error)| {
            let errors = if fall > LARGE_FALL * limit { LARGE_FALL_IN_ERRORS } else { FALL_IN_ERRORS };
            fall > limit && fall > errors * error
        })
    };
    !falls(CPU_FALL, |burst| burst.cpu_ns_per_request) && !falls(TIME_FALL, |burst| Some(burst.p50_ns as f64))
}

/// Fall of a straight line through the values (least squares) from the first to the last, and its standard
/// error, as shares of their mean. 0 if there are too few values.
fn fall(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let (middle, mean) = ((count - 1.0) / 2.0, values.iter().sum::<f64>() / count);
    let deviations = || values.iter().enumerate().map(|(at, value)| (at as f64 - middle, value - mean));
    let of_places = deviations().map(|(at, _)| at * at).sum::<f64>();
    let slope = deviations().map(|(at, value)| at * value).sum::<f64>() / of_places;
    let squares = deviations().map(|(at, value)| (value - slope * at).powi(2)).sum::<f64>();
    let error = (squares / (count - 2.0) / of_places).sqrt();
    if !slope.is_finite() || !error.is_finite() || mean <= 0.0 {
        return (0.0, 0.0);
    }
    (-slope * (count - 1.0) / mean, error * (count - 1.0) / mean)
}

/// How far the last value is below the mean of the others, and the standard error of that, as shares of the
/// mean. This is needed because a straight line hardly shows a step in the last burst. A process that becomes
/// fast in this burst can then also reach [`LEAST_REQUESTS`] in it. 0 if there are too few values.
fn fall_of_last(values: &[f64]) -> (f64, f64) {
    let Some((last, others)) = values.split_last().filter(|(_, others)| others.len() > 1) else {
        return (0.0, 0.0);
    };
    let count = others.len() as f64;
    let mean = others.iter().sum::<f64>() / count;
    let squares = others.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    let error = (squares / (count - 1.0) * (1.0 + 1.0 / count)).sqrt();
    if mean <= 0.0 { (0.0, 0.0) } else { ((mean - last) / mean, error / mean) }
}

/// A figure of a burst, if it is known.
type Figure = fn(&Burst) -> Option<f64>;

/// By how much a process became faster between the ends of two warm-ups, as a difference of logarithms.
/// `None` if it did not. A neighbor of a virtual machine slows the upstream too, so the CPU time is seen in
/// relation to the upstream's.
fn faster_by(before: &[Burst], now: &[Burst]) -> Option<f64> {
    let (before, now) = (last_half(before), last_half(now));
    let figures: [(Figure, f64); 3] = [
        (|burst| Some(burst.cpu_ns_per_request? / burst.upstream_cpu_ns_per_request?), STEP),
        (|burst| burst.cpu_ns_per_request, STEP),
        (|burst| Some(burst.p50_ns as f64), TIME_STEP),
    ];
    let level = |bursts: &[Burst], figure: Figure| {
        let values: Option<Vec<f64>> =
            bursts.iter().map(|burst| figure(burst).filter(|value| *value > 0.0).map(f64::ln)).collect();
        let values = values.filter(|values| values.len() >= 2)?;
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        Some((mean, squares / (count - 1.0) / count))
    };
    let known = figures
        .iter()
        .find_map(|(figure, least)| Some((level(before, *figure)?, level(now, *figure)?, *least)));
    let ((first, first_error), (second, second_error), least) = known?;
    let (fall, error) = (first - second, (first_error + second_error).sqrt());
    (fall > least && fall > STEP_IN_ERRORS * error).then_some(fall)
}

#[cfg(test)]
hoptax_pages::stated! {
    PLAN "each process gets bursts of {} with" time(BURST);
    PLAN "requests or {} of load" time(LEAST_LOAD);
    PLAN "That takes {} requests or" number(LEAST_REQUESTS);
    PLAN "at least {} if the process generates code" time(LEAST_LOAD_COMPILING);
    PLAN "fallen by more than {} since its warm-up" percent(STEP);
    PLAN "response time fall by at most {} and 5 %," percent(CPU_FALL);
    PLAN "response time fall by at most 2 % and {}," percent(TIME_FALL);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bursts of 150 ms of a process that takes `cpu(n)` µs for its n-th request and is the only limit.
    fn bursts(count: usize, cpu: impl Fn(u64) -> f64) -> Vec<Burst> {
        let mut sent = 0;
        let mut one = || {
            let (begun, mut used) = (sent, 0.0);
            while used < BURST.as_secs_f64() * 1e6 {
                used += cpu(sent);
                sent += 1;
            }
            let requests = sent - begun;
            let each = used * 1e3 / requests as f64;
            Burst {
                measured_ns: BURST.as_nanos() as u64,
                requests,
                p50_ns: (each * 32.0) as u64,
                cpu_ns_per_request: Some(each),
                upstream_cpu_ns_per_request: None,
            }
        };
        (0..count).map(|_| one()).collect()
    }

    /// A warm-up with these bursts.
    fn warming(bursts: &[Burst]) -> WarmingUp {
        let record = WarmUp { bursts: bursts.to_vec(), ..WarmUp::default() };
        WarmingUp {
            limit: Duration::from_secs(60),
            load: 0,
            connections: 1,
            streams: 1,
            loaded_ns: record.load_ns(),
            record,
            is_hopeless: false,
            before: None,
        }
    }

    fn settles_after(all: &[Burst]) -> Option<usize> {
        (1..=all.len()).find(|count| {
            let mut warming = warming(&all[..*count]);
            warming.is_over() && warming.record.settled
        })
    }

    /// Number of bursts and of requests after which the rule says that the process has settled.
    fn settles(cpu: impl Fn(u64) -> f64) -> Option<(usize, u64)> {
        let all = bursts(400, cpu);
        let count = settles_after(&all)?;
        Some((count, all[..count].iter().map(|burst| burst.requests).sum()))
    }

    #[test]
    fn a_process_that_rejects_requests_gets_the_plans_load_and_its_series_begins_again() {
        let mut warming = warming(&bursts(3, |_| 100.0));
        warming.limit = Duration::from_secs(1);
        warming.loaded_ns = 0;
        let unanswered = Loaded::default();
        warming.add(&unanswered, None, None);
        assert!(warming.record.load == WarmUpLoad::Plan && warming.record.bursts.is_empty());
        assert!(!warming.is_over());
        warming.add(&unanswered, None, None);
        assert!(warming.is_over(), "it answers nothing at the plan's load either");
    }

    #[test]
    fn the_highest_load_has_the_most_requests_in_flight() {
        let chosen = |load: &str| {
            let plan = hoptax_lab::fake::parsed(&format!("gateways: []\nload: [{load}]\n"));
            let limits = UntilSettled { at_most: Duration::from_secs(1), overload_external: false };
            let warming = WarmingUp::new(&plan, limits, None, 0, &[]).expect("a load point");
            (warming.load, warming.connections, warming.streams)
        };
        let http1 = "{ loop: closed, connections: [1, 100] }, { loop: open, rate: 9/s, connections: 500 }";
        assert_eq!(chosen(http1), (1, 500, 1));
        let http2 = "{ loop: closed, connections: 10, http: 2, streams: [1, 8] }";
        assert_eq!(chosen(&format!("{http2}, {{ loop: closed, connections: 64 }}")), (1, 10, 8));
        assert_eq!(chosen(&format!("{http2}, {{ loop: closed, connections: 99 }}")), (2, 99, 1));
    }

    #[test]
    fn native_code_settles_after_the_least_load() {
        // 25,000 requests per second, like nginx.
        let (count, requests) = settles(|_| 40.0).expect("it settles");
        assert!(count < 28 && requests >= LEAST_REQUESTS, "{count}, {requests}");
        // 8,300 and 4,000 requests per second: 10 s.
        for us in [120.0, 250.0] {
            let (count, _) = settles(|_| us).expect("it settles");
            assert_eq!(count, 67);
        }
    }

    #[test]
    fn a_process_that_generates_code_is_loaded_for_longer_unless_the_plan_says_less() {
        let all = bursts(150, |_| 40.0);
        let settles = |limit: u64| {
            (1..=all.len()).find(|count| {
                let mut warming = warming(&all[..*count]);
                (warming.record.generates_code, warming.limit) = (true, Duration::from_secs(limit));
                warming.is_over() && warming.record.settled
            })
        };
        assert_eq!(settles(60), Some(134), "20 s");
        assert_eq!(settles(6), Some(40), "6 s");
    }

    /// 120 µs less per request from the step on, as if a compiler had finished.
    #[test]
    fn a_second_look_finds_a_step_and_no_neighbor() {
        let slow = bursts(67, |_| 148.0);
        let fell = bursts(67, |n| if n < 20_000 { 148.0 } else { 28.0 });
        let found = |before: &[Burst], now: &[Burst]| {
            let mut look = warming(now).after(&warming(before).record);
            assert!(look.is_over() && look.record.settled);
            look.into_record().expect("measured").faster_by
        };
        let by = found(&slow, &fell).expect("it became faster");
        assert!((by - (148.0_f64 / 28.0).ln()).abs() < 0.01, "{by}");
        assert_eq!(found(&slow, &slow), None);
        assert_eq!(found(&fell, &slow), None, "it became slower");
        // A neighbor slowed the gateway and the upstream during the warm-up.
        let with_upstream = |us: f64, factor: f64| {
            let mut all = bursts(67, |_| us * factor);
            all.iter_mut().for_each(|burst| burst.upstream_cpu_ns_per_request = Some(10_000.0 * factor));
            all
        };
        assert_eq!(found(&with_upstream(100.0, 1.5), &with_upstream(100.0, 1.0)), None);
        assert!(found(&with_upstream(140.0, 1.0), &with_upstream(100.0, 1.0)).is_some());
    }

    #[test]
    fn a_process_settles_only_after_its_warm_up() {
        let falling = |n: u64| 35.0 + 140.0 * (1.0 - n as f64 / 30_000.0).max(0.0);
        assert!(settles(falling).is_some_and(|(_, requests)| requests > 30_000));
        let slower = |n: u64| 35.0 + 140.0 * (1.0 - n as f64 / 100_000.0).max(0.0);
        assert!(settles(slower).is_some_and(|(_, requests)| requests > 95_000), "{:?}", settles(slower));
        for at in [30_000, 45_000] {
            let step = |n: u64| if n < at { 128.0 } else { 28.0 };
            assert!(settles(step).is_some_and(|(_, requests)| requests > at), "{:?}", settles(step));
        }
        // With a half-life of 40,000 requests, the figure is within 5 % of its final value.
        let halving = |n: u64| 50.0 + 160.0 * 0.5_f64.powf(n as f64 / 40_000.0);
        let (_, requests) = settles(halving).expect("it settles");
        assert!(halving(requests) < 52.5, "{requests}: {}", halving(requests));
    }

    /// A step anywhere among the first 64,000 requests: the first 10 s of load. After the burst with the
    /// step, the process has answered the minimum number of requests.
    #[test]
    fn a_process_does_not_settle_in_the_burst_with_its_step() {
        for at in (2_000..64_000).step_by(500) {
            let step = |n: u64| if n < at { 148.0 } else { 16.0 };
            let all = bursts(180, step);
            let count = settles_after(&all).expect("it settles");
            let is_fast = |burst: &&Burst| burst.cpu_ns_per_request.is_some_and(|cpu| cpu < 20e3);
            let fast = all[..count].iter().filter(is_fast).count();
            // The report takes the settled figure from the last six bursts.
            assert!(fast >= 6, "step after {at} requests: {fast} of {count} bursts are fast");
        }
    }

    #[test]
    fn noise_does_not_keep_a_process_from_settling() {
        // CPU time that scatters by 15 % from burst to burst, because a neighbor of the virtual machine comes
        // and goes.
        let mut random = 1_u64;
        let mut scatter = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            0.85 + 0.3 * (random >> 40) as f64 / (1 << 24) as f64
        };
        let runs = 200;
        let needed = (0..runs).map(|_| {
            let mut all = bursts(400, |_| 120.0);
            all.iter_mut().for_each(|burst| *burst.cpu_ns_per_request.as_mut().expect("known") *= scatter());
            settles_after(&all).expect("it settles")
        });
        let mean = needed.sum::<usize>() as f64 / f64::from(runs);
        assert!((67.0..70.0).contains(&mean), "{mean} bursts instead of 67");
    }

    #[test]
    fn a_process_does_not_settle_while_it_still_falls() {
        let falling = |n: u64| 2000.0 * (1.0 - n as f64 / 20_000.0).max(0.1);
        assert!(settles(falling).is_some_and(|(_, requests)| requests > 18_000), "{:?}", settles(falling));
    }
}
