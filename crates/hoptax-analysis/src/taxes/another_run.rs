//! Intervals that also hold for another run of the same plan.
//!
//! The rounds of a run show how its trials scatter. They do not show what stays the same for the whole run:
//!
//! - The clock of a rented machine's cores wanders for minutes. It makes all times of a run longer or shorter
//!   by about the same share, so it hardly changes a small difference between two gateways.
//! - A process keeps its place in memory for its whole life, and a runtime that compiles while it runs keeps
//!   the code that it happened to make. This differs from process to process, so it changes differences too.
//!
//! The size of each effect is a share of the figure, known from separate runs ([`Shares`]). The effects are
//! independent, so their squares add up. The effect of a process is less if the rounds are spread over
//! several processes ([`Processes`]).

use crate::taxes::processes::Processes;
use crate::trials::metric::is_time;
use hoptax_plan::{Metric, Quantity};
use hoptax_record::report::{Case, Difference, Latency, MessageTimes, Tax, WarmUpFigures};
use hoptax_record::{DIRECT, RunRecord, Shares};
use hoptax_stats::Estimate;
use std::collections::BTreeMap;

/// How much a figure scatters from run to run, for a comparison of two runs: half of a 95 % interval, as a
/// share of the figure. A comparison has many rows, and must not find differences between equal runs. So
/// these shares come from the gateways that scattered most, and not from the average. Envoy's CPU time had a
/// standard deviation of 4.7 % (`records/2026-11-27-vm-runs`).
/// On a calibrated machine, these shares grow or shrink with [`Shares`].
const OF_TWO_RUNS: f64 = 0.08;
/// The same for the slowest hundredth of responses, which depends on the few stalls that a run happens to
/// see.
const OF_TWO_TAILS: f64 = 0.15;
/// The same for a process that compiles while it runs. The CPU time of Spring Cloud Gateway scattered by 6 to
/// 11 %.
const OF_TWO_COMPILING: f64 = 0.15;
/// The same for throughput in closed loops and its ratio to direct's.
const OF_TWO_THROUGHPUTS: f64 = 0.04;
/// The same for memory. A process gets other addresses and shares other pages at each start.
const OF_TWO_MEMORIES: f64 = 0.05;

/// How the figures of the contenders of a run scatter from run to run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scatters<'a> {
    /// The shares of the machine.
    shares: &'a Shares,
    /// The warm-ups of the run. They show which contenders compile while they run. Without a warm-up, this is
    /// unknown.
    warm_ups: &'a [WarmUpFigures],
    /// The processes of the gateways that had several.
    processes: &'a BTreeMap<String, Processes>,
    /// True if each trial had a process of its own. Rounds then show how processes differ.
    isolate: bool,
}

impl<'a> Scatters<'a> {
    /// The scatters of a run with these warm-ups and processes.
    pub(crate) fn new(
        run: &'a RunRecord,
        warm_ups: &'a [WarmUpFigures],
        processes: &'a BTreeMap<String, Processes>,
    ) -> Self {
        Self { shares: &run.shares, warm_ups, processes, isolate: run.plan.isolate }
    }

    /// The scatter of a contender.
    pub(crate) fn of(&self, label: &str) -> Scatter {
        let one = Scatter::native(self.shares);
        let processes = self.processes(label);
        match (self.isolate && label != DIRECT, self.compiles(label)) {
            (true, _) => Scatter { of_place: 0.0, ..one },
            (false, true) => one.compiling(self.shares, processes.share).over(processes.effective),
            (false, false) => one.over(processes.effective),
        }
    }

    /// The processes of a contender.
    pub(crate) fn processes(&self, label: &str) -> Processes {
        self.processes.get(label).copied().unwrap_or(Processes::ONE)
    }

    /// True if the contender became faster while it was warmed up.
    pub(crate) fn compiles(&self, label: &str) -> bool {
        self.warm_ups.iter().any(|one| one.contender == label && one.slow_s > 0.0)
    }
}

/// How the figures of one contender scatter from run to run. Each field is half of a 95 % interval, as a
/// share of the figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scatter {
    /// Scatter of all times, which is common to all processes of a run.
    of_runs: f64,
    /// Further scatter of all times of a process that compiles while it runs. It differs from process to
    /// process.
    of_processes: f64,
    /// Further scatter of CPU time. It counts if processes of a run are compared.
    of_place: f64,
    /// Scatter of throughput in closed loops.
    of_throughput: f64,
    /// Like `of_processes`, but for a comparison of two runs.
    of_two_processes: f64,
}

impl Scatter {
    fn native(shares: &Shares) -> Self {
        Self {
            of_runs: shares.times,
            of_processes: 0.0,
            of_place: shares.cpu,
            of_throughput: shares.throughput,
            of_two_processes: 0.0,
        }
    }

    /// `seen` is the scatter between processes that the run shows. Comparisons do not use it, because among
    /// many gateways it is too small for some by chance.
    fn compiling(self, shares: &Shares, seen: Option<f64>) -> Self {
        let of_two_processes = OF_TWO_COMPILING * (shares.times_jit / Shares::BUILT_IN.times_jit);
        Self { of_processes: seen.unwrap_or(shares.times_jit), of_two_processes, ..self }
    }

    /// The scatter of the mean of this many processes.
    fn over(self, processes: f64) -> Self {
        let of_mean = |of_one: f64| of_one / processes.sqrt();
        Self {
            of_processes: of_mean(self.of_processes),
            of_place: of_mean(self.of_place),
            of_two_processes: of_mean(self.of_two_processes),
            ..self
        }
    }

    /// Widens the interval of a time of this contender, or of an added time, so that it holds for another
    /// run.
    pub(crate) fn widen(self, in_run: Estimate) -> Estimate {
        wider(in_run, self.of_runs.hypot(self.of_processes) * in_run.estimate)
    }

    fn widen_throughput(self, in_run: Estimate) -> Estimate {
        wider(in_run, self.of_throughput * in_run.estimate)
    }

    /// How much a figure scatters from run to run, for a comparison of two runs: half of a 95 % interval, as
    /// a share of the figure. Zero for counts.
    pub(crate) fn between_runs(self, metric: Metric) -> f64 {
        // On a machine whose shares are twice the built-in ones, the shares of two runs are also twice as
        // large.
        let times = self.of_runs / Shares::BUILT_IN.times;
        let throughputs = self.of_throughput / Shares::BUILT_IN.throughput;
        match metric.quantity() {
            Quantity::Time if metric.quantile().is_some_and(|quantile| quantile >= 0.99) => {
                (OF_TWO_TAILS * times).hypot(self.of_two_processes)
            }
            Quantity::Time => (OF_TWO_RUNS * times).hypot(self.of_two_processes),
            Quantity::Rate | Quantity::Ratio => OF_TWO_THROUGHPUTS * throughputs,
            Quantity::Bytes => OF_TWO_MEMORIES.hypot(self.of_two_processes),
            Quantity::Share | Quantity::PerRequest => 0.0,
        }
    }

    fn widen_latency(self, latency: &mut Latency) {
        let Latency { p50, p90, p95, p99, p999, max: _, mean, samples: _, unit: _ } = latency;
        for one in [p50, p90, p95, p99, p999, mean].into_iter().flatten() {
            *one = self.widen(*one).at_least(0.0);
        }
    }

    fn widen_difference(self, difference: &mut Difference) {
        *difference = difference.with_interval(self.widen(difference.in_run), 0.0);
    }

    fn widen_tax(self, tax: &mut Tax, is_closed: bool) {
        let Tax {
            added_p50,
            added_p90,
            added_p95,
            added_p99,
            cpu_us_per_request,
            throughput_ratio,
            extra_upstream_requests: _,
            further,
        } = tax;
        for one in [added_p50, added_p90, added_p95, added_p99, cpu_us_per_request].into_iter().flatten() {
            self.widen_difference(one);
        }
        for (_, one) in further.iter_mut().filter(|(metric, _)| metric.is_time()) {
            self.widen_difference(one);
        }
        if let Some(ratio) = throughput_ratio.as_mut().filter(|_| is_closed) {
            *ratio = ratio.with_interval(self.widen_throughput(ratio.in_run), 1.0);
        }
    }

    /// Widens the intervals of all times of a case, and of the throughput of a closed loop. In an open loop,
    /// the plan decides the throughput.
    pub(crate) fn widen_case(self, case: &mut Case) {
        let Case {
            load,
            throughput,
            response_time,
            service_time,
            send_lag,
            first_byte,
            connect,
            messages,
            message,
            tls,
            tax,
            targets,
            generators,
            quiet,
            path,
            ..
        } = case;
        let is_closed = load.arrivals.is_none();
        let mut differences: Vec<&mut Option<Difference>> = Vec::new();
        let plain = [response_time, service_time, send_lag, first_byte, connect].into_iter().flatten();
        plain.for_each(|one| self.widen_latency(one));
        tax.iter_mut().for_each(|tax| self.widen_tax(tax, is_closed));
        if let Some(MessageTimes {
            response_time,
            first_message,
            age,
            gap,
            headers,
            reach,
            first_event,
            first_age,
            token_time,
        }) = message
        {
            let times = [response_time, first_message, age, gap, headers, reach];
            let of_tokens = [first_event, first_age, token_time];
            times.into_iter().chain(of_tokens).flatten().for_each(|one| self.widen_latency(one));
        }
        tls.iter_mut().for_each(|tls| self.widen_latency(&mut tls.handshake));
        if let Some(quiet) = quiet {
            quiet.response_time.iter_mut().for_each(|times| self.widen_latency(times));
            quiet.tax.iter_mut().for_each(|tax| self.widen_tax(tax, is_closed));
        }
        for target in targets {
            self.widen_latency(&mut target.response_time);
            self.widen_latency(&mut target.service_time);
            differences.extend([&mut target.added_p50, &mut target.added_p99]);
        }
        let mut of_generators = Vec::new();
        for one in generators {
            self.widen_latency(&mut one.response_time);
            self.widen_latency(&mut one.send_lag);
            differences.push(&mut one.added_p50);
            of_generators.extend(&mut one.throughput);
        }
        if let Some(path) = path {
            for one in [&mut path.request_us_p50, &mut path.response_us_p50].into_iter().flatten() {
                *one = self.widen(*one).at_least(0.0);
            }
            differences.extend([&mut path.added_request_us_p50, &mut path.added_response_us_p50]);
        }
        let quiet = quiet.iter_mut().filter_map(|quiet| quiet.throughput.as_mut());
        let tokens = messages.iter_mut().filter_map(|messages| messages.tokens.as_mut());
        let tokens = tokens.flat_map(|one| {
            [&mut one.tokens_per_second, &mut one.streams_per_second, &mut one.good_per_second]
        });
        let others = quiet.chain(of_generators).chain(tokens.flatten());
        for one in throughput.iter_mut().chain(others).filter(|_| is_closed) {
            one.estimate = self.widen_throughput(one.estimate).at_least(0.0);
        }
        differences.into_iter().flatten().for_each(|one| self.widen_difference(one));
    }
}

/// Widens the interval of a difference between processes, so that it holds for another run. `processes` are
/// the figure and the scatter of each process. Metrics that are not times remain unchanged.
pub(crate) fn widen_between(metric: Metric, in_run: Estimate, processes: &[(f64, Scatter)]) -> Estimate {
    if !is_time(metric) {
        return in_run;
    }
    let each = |(figure, scatter): &(f64, Scatter)| {
        let of_place = if metric == Metric::CpuUsPerRequest { scatter.of_place } else { 0.0 };
        figure * of_place.hypot(scatter.of_processes)
    };
    let of_processes = processes.iter().map(each).fold(0.0, f64::hypot);
    // The clock of the cores is the same for all processes.
    let of_runs = processes.iter().map(|(_, scatter)| scatter.of_runs).fold(0.0, f64::max);
    wider(in_run, of_processes.hypot(of_runs * in_run.estimate))
}

/// The estimate with a scatter added to its interval.
fn wider(in_run: Estimate, scatter: f64) -> Estimate {
    let Some(half) = in_run.half_width() else { return in_run };
    let (half, estimate) = (half.hypot(scatter), in_run.estimate);
    Estimate { low: Some(estimate - half), high: Some(estimate + half), ..in_run }
}

#[cfg(test)]
hoptax_pages::stated! {
    METHODOLOGY "must not look different: {} for times and CPU time" percent(OF_TWO_RUNS);
    METHODOLOGY "for times and CPU time, {} for p99 and above" percent(OF_TWO_TAILS);
    METHODOLOGY "for memory, and {} more (as squares) for a process that compiles" percent(OF_TWO_COMPILING);
    METHODOLOGY "for p99 and above, {} for throughput," percent(OF_TWO_THROUGHPUTS);
    METHODOLOGY "for throughput, {} for memory, and" percent(OF_TWO_MEMORIES);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Run, via};
    use hoptax_record::{Burst, WarmUp};

    const NATIVE: Scatter = Scatter {
        of_runs: 0.06,
        of_processes: 0.0,
        of_place: 0.02,
        of_throughput: 0.025,
        of_two_processes: 0.0,
    };
    const COMPILES: Scatter = Scatter { of_processes: 0.1, of_two_processes: 0.15, ..NATIVE };
    const ISOLATED: Scatter = Scatter { of_place: 0.0, ..NATIVE };

    fn around(estimate: f64, half: f64) -> Estimate {
        Estimate { low: Some(estimate - half), high: Some(estimate + half), ..Estimate::bare(estimate, 30) }
    }

    fn half(estimate: Estimate) -> f64 {
        estimate.half_width().expect("an interval")
    }

    #[test]
    fn scatters_add_up_as_squares_and_shrink_with_the_number_of_processes() {
        let wider = NATIVE.widen(around(100.0, 6.0));
        assert_eq!((wider.estimate, wider.trials), (100.0, 30));
        assert!((half(wider) - 72.0_f64.sqrt()).abs() < 1e-9);
        assert!((half(NATIVE.widen(around(-100.0, 0.0))) - 6.0).abs() < 1e-9);
        assert!((half(COMPILES.widen(around(100.0, 0.0))) - 136.0_f64.sqrt()).abs() < 1e-9);
        assert_eq!(half(COMPILES.widen(around(0.0, 3.0))), 3.0, "what adds nothing adds nothing in any run");
        assert_eq!(NATIVE.widen(Estimate::bare(100.0, 1)), Estimate::bare(100.0, 1));
        let four = NATIVE.compiling(&Shares::BUILT_IN, None).over(4.0);
        let expected = Scatter { of_processes: 0.05, of_place: 0.01, of_two_processes: 0.075, ..NATIVE };
        assert_eq!(four, expected);
        let seen = NATIVE.compiling(&Shares::BUILT_IN, Some(0.02)).over(4.0);
        assert_eq!(seen, Scatter { of_processes: 0.01, ..expected }, "a comparison does not use it");
    }

    #[test]
    fn between_two_processes_their_own_scatter_counts() {
        let between = |metric, scatter| {
            half(widen_between(metric, around(0.0, 1.0), &[(30.0, NATIVE), (40.0, scatter)]))
        };
        assert_eq!(between(Metric::AddedP50, NATIVE), 1.0, "the clock of the cores makes no difference");
        assert!((between(Metric::AddedP50, COMPILES) - 17.0_f64.sqrt()).abs() < 1e-9, "1 + 4²");
        assert!((between(Metric::CpuUsPerRequest, NATIVE) - 2.0_f64.sqrt()).abs() < 1e-9, "1 + (2 % of 50)²");
        assert_eq!(between(Metric::ThroughputRatio, COMPILES), 1.0);
        let isolated = widen_between(Metric::CpuUsPerRequest, around(0.0, 1.0), &[(30.0, ISOLATED); 2]);
        assert_eq!(half(isolated), 1.0, "the rounds of such a run have processes of their own");
        let of_two = widen_between(Metric::AddedP50, around(100.0, 0.0), &[(0.0, NATIVE)]);
        assert!((half(of_two) - 6.0).abs() < 1e-9);
    }

    #[test]
    fn shares_of_a_calibrated_machine_replace_the_built_in_ones() {
        let half_of = |shares: Shares| Shares {
            times: shares.times / 2.0,
            times_jit: shares.times_jit / 2.0,
            throughput: shares.throughput / 2.0,
            cpu: shares.cpu / 2.0,
            ..shares
        };
        let mut run = run();
        run.record.contenders[1].warm_ups = vec![slow_at_first()];
        let all = |run: &Run| {
            let (analysis, side) = (run.analyse(), crate::Side::read(&run.record, &run.trials));
            let tax = analysis.case("nginx", 0).expect("measured").tax.clone().expect("a tax");
            let mut found = vec![
                half(tax.added_p50.expect("measured").estimate),
                half(tax.throughput_ratio.expect("measured").estimate),
            ];
            let metrics = [Metric::AddedP50, Metric::P99, Metric::Throughput];
            found.extend(metrics.map(|metric| side.scatter("nginx").between_runs(metric)));
            found
        };
        let built_in = all(&run);
        run.record.shares = half_of(Shares::BUILT_IN);
        for (halved, built_in) in all(&run).into_iter().zip(built_in) {
            assert!((halved / built_in - 0.5).abs() < 1e-3, "{halved} {built_in}");
        }
    }

    /// Five rounds in which nginx takes 150 µs and 20 to 22 µs of CPU time.
    fn run() -> Run {
        let mut run = Run::closed(1);
        for round in 0..5 {
            run.direct(round, 100, 100);
            run.push(via("nginx", round).all_at_us(150).gateway_cpu_us(20_000 + 500 * u64::from(round)));
        }
        run
    }

    /// A warm-up in which the first three bursts take six times as long as the others.
    fn slow_at_first() -> WarmUp {
        let burst = |p50_ns: u64| Burst {
            measured_ns: 150_000_000,
            requests: 1000,
            p50_ns,
            cpu_ns_per_request: Some(p50_ns as f64 / 5.0),
            upstream_cpu_ns_per_request: None,
        };
        let bursts = [900_000; 3].into_iter().chain([150_000; 6]).map(burst).collect();
        WarmUp { settled: true, bursts, ..WarmUp::default() }
    }

    #[test]
    fn every_time_of_a_case_and_its_throughput_are_widened() {
        let mut run = run();
        let halves = |run: &Run| {
            let analysis = run.analyse();
            let case = analysis.case("nginx", 0).expect("measured");
            let tax = case.tax.as_ref().expect("a tax");
            let p50 = case.response_time.as_ref().and_then(|times| times.p50).expect("samples");
            let (added, ratio) = (tax.added_p50.expect("measured"), tax.throughput_ratio.expect("measured"));
            assert_eq!(added.in_run.half_width(), Some(0.0));
            [half(p50), half(added.estimate), half(ratio.estimate)]
        };
        let near = |found: [f64; 3], expected: [f64; 3]| {
            found.iter().zip(expected).all(|(found, expected)| (found / expected - 1.0).abs() < 0.02)
        };
        let native = halves(&run);
        assert!(near(native, [9.0, 3.0, 0.025]), "{native:?}");
        run.record.contenders[1].warm_ups = vec![slow_at_first()];
        let compiled = halves(&run);
        assert!(near(compiled, [150.0 * 0.1166, 50.0 * 0.1166, 0.025]), "{compiled:?}");
        // Processes with three and two of the five rounds count like 25 ÷ 13.
        run.trials.iter_mut().for_each(|trial| trial.start = trial.round % 2);
        let of_two = halves(&run);
        let share = 0.06_f64.hypot(0.1 / (25.0_f64 / 13.0).sqrt());
        assert!(near(of_two, [150.0 * share, 50.0 * share, 0.025]), "{of_two:?}");
        run.record.plan.isolate = true;
        let isolated = halves(&run);
        assert!(near(isolated, native), "{isolated:?}");
    }
}
