//! METHODOLOGY.md, BIAS.md and some pages of docs state constants of the code. Each row below pairs a
//! constant in the source with the words on the page. So neither of them can change alone.

use std::fs::read_to_string;
use std::path::Path;

const METHODOLOGY: &str = "METHODOLOGY.md";
const BIAS: &str = "BIAS.md";
const QUIET_WINDOWS: &str = "docs/concepts/quiet-windows.md";
const FINDINGS: &str = "docs/concepts/findings.md";
const PLAN: &str = "docs/reference/plan.md";
const SIMULATIONS: &str = "docs/concepts/simulations.md";

/// Constants that pages state. Each row: the source file below `crates/`, the text that ends the line of the
/// constant, the page, and the words on the page that state the value.
const STATED: &[(&str, &str, &str, &str)] = &[
    // Recording.
    (
        "hoptax-load/src/record.rs",
        "WINDOW_NS: u64 = 100 * crate::clock::MILLISECOND",
        METHODOLOGY,
        "digits per window of 100 ms",
    ),
    ("hoptax-load/src/histogram.rs", "LOWEST: u64 = 100", METHODOLOGY, "HDR histograms (100 ns to"),
    (
        "hoptax-load/src/histogram.rs",
        "HIGHEST: u64 = 3600 * crate::clock::SECOND",
        METHODOLOGY,
        "to 1 h, 3 significant digits",
    ),
    (
        "hoptax-load/src/histogram.rs",
        "TRIAL_DIGITS: u8 = 3",
        METHODOLOGY,
        "3 significant digits: values are exact to within 0.1 %",
    ),
    (
        "hoptax-load/src/histogram.rs",
        "WINDOW_DIGITS: u8 = 2",
        QUIET_WINDOWS,
        "Histograms of windows have 2 digits",
    ),
    (
        "hoptax-analysis/src/checks/errors.rs",
        "DOUBTFUL: f64 = 0.001",
        METHODOLOGY,
        "above 0.1 % a finding says that the percentiles cover only the survivors",
    ),
    ("hoptax-analysis/src/checks/errors.rs", "DOUBTFUL: f64 = 0.001", BIAS, "errors are doubted above 0.1 %"),
    (
        "hoptax-analysis/src/checks/workers_unequal.rs",
        "BEYOND: f64 = 1.25",
        FINDINGS,
        "From 1.25 times the number of workers it counts as more",
    ),
    (
        "hoptax-analysis/src/checks/workers_unequal.rs",
        "UNLIKE: f64 = 1.5",
        FINDINGS,
        "a ratio of 1.5 or more in closed loops is noted",
    ),
    (
        "hoptax-analysis/src/checks/workers_unequal.rs",
        "SPAN: usize = 5",
        FINDINGS,
        "the gateway's CPU time in its busiest half second",
    ),
    // Tails.
    (
        "hoptax-analysis/src/tail.rs",
        "RESOLVED_WITHIN: f64 = 0.2",
        METHODOLOGY,
        "the half-width of its interval is at most 20 % of the tax",
    ),
    // Bisect.
    ("hoptax-stats/src/bisect.rs", "WEIGHT: f64 = 0.7", METHODOLOGY, "raised to the power 0.7"),
    (
        "hoptax-stats/src/bisect.rs",
        "DEGREES: f64 = 8.0",
        METHODOLOGY,
        "Noise follows Student's t with 8 degrees",
    ),
    (
        "hoptax-stats/src/bisect.rs",
        "SCATTER: f64 = 0.1",
        METHODOLOGY,
        "scatter by a further 10 % of the change",
    ),
    (
        "hoptax/src/cli/bisect.rs",
        "OF_STARTS: f64 = 0.01",
        METHODOLOGY,
        "plus 1 % of the figure for each start",
    ),
    ("hoptax/src/cli/bisect/steps.rs", "SURE: f64 = 0.95", METHODOLOGY, "The search stops at 95 %"),
    // Prices of features.
    (
        "hoptax-analysis/src/features/mod.rs",
        "OF_TWO_DIFFERENCES: f64 = std::f64::consts::SQRT_2",
        METHODOLOGY,
        "its noise floor is multiplied by √2",
    ),
    (
        "hoptax-analysis/src/difference.rs",
        "LEAST_CHANGE: f64 = 0.01",
        METHODOLOGY,
        "exceeds the noise floor and 1 % of the bare gateway's own figure",
    ),
    // Events.
    (
        "hoptax-analysis/src/events.rs",
        "AFTER_NS: u64 = SECOND",
        METHODOLOGY,
        "from its start to 1 s after its end",
    ),
    // Intervals.
    ("hoptax-plan/src/meaning/trials.rs", "FEWEST_TIMED: u32 = 10", METHODOLOGY, "from the tenth round on"),
    ("hoptax/src/schedule/auto.rs", "LOOKS_APART: u32 = 8", METHODOLOGY, "has grown by an eighth"),
    (
        "hoptax-plan/src/meaning/load.rs",
        "SHORT_DURATION: Duration = Duration::from_millis(300)",
        BIAS,
        "short rounds of 300 ms trials",
    ),
    (
        "hoptax-plan/src/meaning/trials.rs",
        "TIME: Duration = Duration::from_secs(180)",
        BIAS,
        "**Three minutes unless the plan says otherwise.**",
    ),
    (
        "hoptax-stats/src/draws.rs",
        "EXACT_UP_TO: usize = 7",
        METHODOLOGY,
        "Up to seven rounds all possible draws are enumerated",
    ),
    (
        "hoptax-stats/src/draws.rs",
        "DRAWS: usize = 2000",
        METHODOLOGY,
        "Beyond that there are 2,000 draws from a fixed seed",
    ),
    (
        "hoptax-stats/src/rounds.rs",
        "MOST_UNITS: usize = 30",
        METHODOLOGY,
        "More than 30 rounds are drawn in 30 batches",
    ),
    (
        "hoptax-stats/src/simulation/world.rs",
        "REQUESTS: usize = 500",
        SIMULATIONS,
        "500 requests per trial, direct twice per round",
    ),
    (
        "hoptax-stats/src/simulation/stopping.rs",
        "RUNS: u32 = 4000",
        SIMULATIONS,
        "4,000 runs with normal scatter",
    ),
    // Quiet windows.
    (
        "hoptax-analysis/src/quiet/windows.rs",
        "stolen_ns: 5 * MILLISECOND,",
        METHODOLOGY,
        "shows at least 5 ms of steal (half a tick) on any CPU in it",
    ),
    ("hoptax-analysis/src/quiet/windows.rs", "before: 1,", METHODOLOGY, "as the time needs, and one more"),
    (
        "hoptax-analysis/src/quiet/windows.rs",
        "after: 1,",
        METHODOLOGY,
        "as much time is left out as it took, and at least one window",
    ),
    (
        "hoptax-analysis/src/quiet/windows.rs",
        "in_proportion: true,",
        METHODOLOGY,
        "as much time is left out as it took, and at least one window",
    ),
    (
        "hoptax-analysis/src/quiet/windows.rs",
        "ENOUGH: f64 = 0.5",
        METHODOLOGY,
        "less than half quiet enters no quiet figure",
    ),
    (
        "hoptax-record/src/aside.rs",
        "STEAL: f64 = 0.05",
        METHODOLOGY,
        "the hypervisor took more than 5 % of the CPU time is set aside",
    ),
    (
        "hoptax-record/src/aside.rs",
        "LEAST_DISTANCES: usize = 8",
        METHODOLOGY,
        "From eight trials on, a plan with `time` sets trials aside",
    ),
    (
        "hoptax-record/src/aside.rs",
        "APART: f64 = 2.0",
        METHODOLOGY,
        "that was more than twice, or less than half, the median of the run",
    ),
    (
        "hoptax-host/src/probe/cpu_distance.rs",
        "ROUND_TRIPS: u32 = 400",
        METHODOLOGY,
        "the fastest of 4 times 400 round trips",
    ),
    (
        "hoptax-host/src/probe/cpu_distance.rs",
        "TRIES: u32 = 4",
        METHODOLOGY,
        "the fastest of 4 times 400 round trips",
    ),
    (
        "hoptax-analysis/src/another_run.rs",
        "OF_COMPILING: f64 = 0.1",
        METHODOLOGY,
        "(JVM, Node), 10 % of its figure are added",
    ),
    (
        "hoptax-analysis/src/another_run.rs",
        "OF_PROCESS: f64 = 0.02",
        METHODOLOGY,
        "2 % of the CPU time of each are",
    ),
    (
        "hoptax-analysis/src/another_run.rs",
        "OF_THROUGHPUT: f64 = 0.025",
        METHODOLOGY,
        "its ratio to direct's get 2.5 %",
    ),
    (
        "hoptax-analysis/src/another_run.rs",
        "OF_RUNS: f64 = 0.06",
        METHODOLOGY,
        "`figure ± √(h² + (6 % · figure)²)`",
    ),
    (
        "hoptax-analysis/src/another_run.rs",
        "OF_TWO_RUNS: f64 = 0.08",
        METHODOLOGY,
        "8 % for times and CPU time",
    ),
    ("hoptax-analysis/src/another_run.rs", "OF_TWO_TAILS: f64 = 0.15", METHODOLOGY, "15 % for p99 and above"),
    (
        "hoptax-analysis/src/another_run.rs",
        "OF_TWO_COMPILING: f64 = 0.15",
        METHODOLOGY,
        "15 % more (as squares) for a process that compiles",
    ),
    (
        "hoptax-analysis/src/another_run.rs",
        "OF_TWO_THROUGHPUTS: f64 = 0.04",
        METHODOLOGY,
        "4 % for throughput",
    ),
    ("hoptax-analysis/src/another_run.rs", "OF_TWO_MEMORIES: f64 = 0.05", METHODOLOGY, "5 % for memory"),
    (
        "hoptax-analysis/src/side.rs",
        "OF_PLACEMENT: f64 = 2.0",
        METHODOLOGY,
        "placed differently, it is 2 instead",
    ),
    ("hoptax-analysis/src/side.rs", "OF_PLACEMENT_ADDED: f64 = 3.0", METHODOLOGY, "and 3 for added times"),
    (
        "hoptax-analysis/src/compare/verdict.rs",
        "FOR_HEADLINES: f64 = 0.8",
        METHODOLOGY,
        "Four fifths of the 5 % are for the headline rows",
    ),
    (
        "hoptax-record/src/aside.rs",
        "FALL: f64 = 0.05",
        METHODOLOGY,
        "by more than 5 % and five standard errors",
    ),
    ("hoptax-record/src/aside.rs", "FALL_IN_ERRORS: f64 = 5.0", METHODOLOGY, "five standard errors"),
    // The warm-up.
    (
        "hoptax/src/run/warm_up.rs",
        "BURST: Duration = Duration::from_millis(150)",
        PLAN,
        "each process gets bursts of 150 ms",
    ),
    (
        "hoptax/src/run/warm_up.rs",
        "LEAST_LOAD: Duration = Duration::from_secs(8)",
        PLAN,
        "35,000 requests or 8 s of load",
    ),
    ("hoptax/src/run/warm_up.rs", "LEAST_REQUESTS: u64 = 35_000", PLAN, "35,000 requests or"),
    ("hoptax/src/run/warm_up.rs", "CPU_FALL: f64 = 0.02", PLAN, "they fall by at most 2 % and 5 %"),
    ("hoptax/src/run/warm_up.rs", "TIME_FALL: f64 = 0.05", PLAN, "at most 2 % and 5 %"),
    (
        "hoptax-host/src/probe/steal.rs",
        "MARGIN: u32 = 10",
        METHODOLOGY,
        "The second before the measured time and the second after it",
    ),
    // The request path and the response path.
    (
        "hoptax-analysis/src/path.rs",
        "IMPOSSIBLE: f64 = 0.001",
        METHODOLOGY,
        "counted as impossible, and above 0.1 % there is no split either",
    ),
    (
        "hoptax-analysis/src/path.rs",
        "MISSING: f64 = 0.01",
        METHODOLOGY,
        "If more than 1 % of the responses carry no stamps",
    ),
    // Capacity.
    (
        "hoptax-plan/src/objective.rs",
        "REACHED: f64 = 0.99",
        METHODOLOGY,
        "99 % of the requests due were answered successfully",
    ),
    ("hoptax-plan/src/objective.rs", "REACHED: f64 = 0.99", BIAS, "99 % of the requests answered"),
    (
        "hoptax/src/schedule/capacity_search.rs",
        "CLIMB: f64 = 4.0",
        METHODOLOGY,
        "from the lowest rate by a factor of four",
    ),
    (
        "hoptax/src/schedule/capacity_search.rs",
        "TRIED: [f64; 2] = [0.25, 0.75]",
        METHODOLOGY,
        "alternately at the lower and the upper quarter",
    ),
    (
        "hoptax/src/schedule/capacity_search.rs",
        "SEARCH_STEPS: u32 = 24",
        METHODOLOGY,
        "at most 24 steps of climb and search for one objective",
    ),
    (
        "hoptax/src/schedule/capacity_search.rs",
        "STEPS_PER_OBJECTIVE: u32 = 6",
        METHODOLOGY,
        "6 more for each further one",
    ),
    (
        "hoptax/src/schedule/capacity_search.rs",
        "CONFIRM_STEPS: u32 = 6",
        METHODOLOGY,
        "and 6 to confirm each",
    ),
    (
        "hoptax/src/schedule/capacity_search.rs",
        "DECIDE: u32 = 2",
        METHODOLOGY,
        "two of at most three must hold",
    ),
    (
        "hoptax-plan/src/meaning/search.rs",
        "PRECISION: f64 = 0.05",
        METHODOLOGY,
        "is within the precision (5 %)",
    ),
    (
        "hoptax-plan/src/meaning/search.rs",
        "CONFIRM: u32 = 2",
        METHODOLOGY,
        "trials twice as long at the lower end",
    ),
    ("hoptax-stats/src/threshold.rs", "LUCK: f64 = 0.01", METHODOLOGY, "0.01 + (0.99 − lapse) · logistic"),
    (
        "hoptax-stats/src/threshold.rs",
        "BEYOND: f64 = 2.0",
        METHODOLOGY,
        "between half the lowest and twice the highest is equally likely",
    ),
    (
        "hoptax-stats/src/threshold.rs",
        "[(0.01, 0.7), (0.1, 0.22), (0.25, 0.08)]",
        METHODOLOGY,
        "(1, 10 or 25 %, summed over)",
    ),
    (
        "hoptax-analysis/src/capacity/limit.rs",
        "BUSY: f64 = 0.85",
        METHODOLOGY,
        "on a CPU for more than 85 % of the time",
    ),
    (
        "hoptax-analysis/src/capacity/limit.rs",
        "EXAMINED: usize = 3",
        METHODOLOGY,
        "the middle one of the three failed trials",
    ),
    (
        "hoptax-analysis/src/capacity/limit.rs",
        "SAME: f64 = 1.5",
        METHODOLOGY,
        "stayed within 1.5 times the usual",
    ),
    // Comparison of runs.
    (
        "hoptax-analysis/src/difference.rs",
        "LEAST_CHANGE: f64 = 0.01",
        METHODOLOGY,
        "by more than `max(f, 1 %)`, beyond chance",
    ),
    (
        "hoptax-analysis/src/difference.rs",
        "LEAST_CHANGE: f64 = 0.01",
        BIAS,
        "**Comparisons overlook 1 % of change**",
    ),
    (
        "hoptax-analysis/src/difference.rs",
        "ALPHA: f64 = 0.05",
        METHODOLOGY,
        "in at most 5 % of comparisons is *any* row called wrongly",
    ),
    // Change points.
    (
        "hoptax-stats/src/change_points.rs",
        "P_VALUE: f64 = 0.001",
        METHODOLOGY,
        "Student's t decides: p ≤ 0.001",
    ),
    (
        "hoptax-stats/src/change_points.rs",
        "LEAST: usize = 3",
        METHODOLOGY,
        "at least three runs on each side",
    ),
    (
        "hoptax-stats/src/change_points.rs",
        "LEAST_CHANGE: f64 = 0.01",
        METHODOLOGY,
        "Changes of up to 1 % do not count",
    ),
    (
        "hoptax-stats/src/change_points.rs",
        "SPIKE: f64 = 5.0",
        METHODOLOGY,
        "A run more than five standard deviations from the median",
    ),
    (
        "hoptax-stats/src/change_points.rs",
        "AROUND: usize = 2",
        METHODOLOGY,
        "itself and two neighbors on each side is a spike",
    ),
    (
        "hoptax-history/src/changes.rs",
        "UNCHANGED: f64 = 0.05",
        METHODOLOGY,
        "the gateway if direct has p > 0.05",
    ),
    (
        "hoptax-history/src/changes.rs",
        "NEAR: usize = 1",
        METHODOLOGY,
        "direct changed in the same place, ±1 run",
    ),
    (
        "hoptax-stats/src/simulation/series.rs",
        "RUNS: usize = 40",
        SIMULATIONS,
        "50 made-up series of 40 runs",
    ),
    (
        "hoptax-stats/src/simulation/series.rs",
        "THRESHOLD: f64 = 0.1",
        SIMULATIONS,
        "a threshold of 10 % between neighboring runs",
    ),
    // Gateways against each other.
    (
        "hoptax-analysis/src/difference.rs",
        "ALPHA: f64 = 0.05",
        METHODOLOGY,
        "Student's t gives p < 0.05 after Holm's correction",
    ),
    (
        "hoptax-analysis/src/difference.rs",
        "LEAST_CHANGE: f64 = 0.01",
        METHODOLOGY,
        "exceeds 1 % of the smaller of the two gateways' figures",
    ),
    (
        "hoptax-analysis/src/gateway_pairs.rs",
        "MOST_IN_FULL: usize = 30",
        METHODOLOGY,
        "With more than 30 gateways only those that compete",
    ),
    // Findings.
    (
        "hoptax-analysis/src/checks/generator_saturated.rs",
        "BUSY: f64 = 0.85",
        BIAS,
        "saturated above 85 % of a CPU",
    ),
    (
        "hoptax-analysis/src/checks/generators_disagree.rs",
        "OF_TAX: f64 = 0.25",
        METHODOLOGY,
        "they differ by more than a quarter of the case's added p50",
    ),
    (
        "hoptax-analysis/src/checks/shared_cpus.rs",
        "BUSY: f64 = 0.85",
        FINDINGS,
        "with probability `u²`: 72 % at 85 %",
    ),
    (
        "hoptax-analysis/src/checks/different_work.rs",
        "ERRORS: f64 = 5.0",
        METHODOLOGY,
        "five standard errors of the pooled share apart",
    ),
    (
        "hoptax-analysis/src/checks/balance.rs",
        "CHANCE: f64 = 1e-4",
        METHODOLOGY,
        "at 1 in 10,000, with Cohen's w",
    ),
    ("hoptax-analysis/src/checks/balance.rs", "EFFECT: f64 = 0.1", METHODOLOGY, "Cohen's w above 0.1"),
    (
        "hoptax-report/src/over_load.rs",
        "APART: f64 = 0.2",
        METHODOLOGY,
        "by at least 20 % of the smaller tax",
    ),
    ("hoptax-report/src/over_load.rs", "FACTOR: f64 = 2.0", METHODOLOGY, "change by a factor of at least 2"),
    ("hoptax-analysis/src/checks/unsteady.rs", "CHANGE: f64 = 0.1", METHODOLOGY, "the change must be 10 %"),
    (
        "hoptax-analysis/src/checks/unsteady.rs",
        "MOST: f64 = 0.75",
        METHODOLOGY,
        "three quarters of the trials must change in the same direction",
    ),
    ("hoptax-analysis/src/checks/rate_limit.rs", "BURST_S: f64 = 1.0", METHODOLOGY, "N × (s + 1) requests"),
    ("hoptax-analysis/src/checks/rate_limit.rs", "INEXACT: f64 = 0.1", METHODOLOGY, "and a tenth more"),
    (
        "hoptax-analysis/src/checks/memory_growing.rs",
        "GROWTH: f64 = 0.05",
        METHODOLOGY,
        "with a growth of 5 %",
    ),
    (
        "hoptax-analysis/src/checks/impossible.rs",
        "IN_FLIGHT: f64 = 1.1",
        METHODOLOGY,
        "More than a tenth above it is impossible",
    ),
    (
        "hoptax-analysis/src/checks/impossible.rs",
        "IDLE: f64 = 0.5",
        METHODOLOGY,
        "less than half of it, without errors",
    ),
    (
        "hoptax-analysis/src/checks/clock/comb.rs",
        "COHERENCE: f64 = 0.9",
        METHODOLOGY,
        "The finding is raised from 0.9",
    ),
    (
        "hoptax-analysis/src/checks/clock/comb.rs",
        "TEETH: usize = 3",
        METHODOLOGY,
        "if at least three steps have 5 % of the samples each",
    ),
    (
        "hoptax-analysis/src/checks/clock/comb.rs",
        "TOOTH: f64 = 0.05",
        METHODOLOGY,
        "if at least three steps have 5 % of the samples each",
    ),
    (
        "hoptax-host/src/probe/threads.rs",
        "IDLE: f64 = 0.02",
        FINDINGS,
        "on a CPU for at least 2 % of the measured time",
    ),
    (
        "hoptax-host/src/probe/threads.rs",
        "HELPER: f64 = 0.25",
        FINDINGS,
        "at least a quarter of the time of the role's busiest thread",
    ),
    (
        "hoptax/src/run/generator.rs",
        "LINK_TIME: Duration = Duration::from_millis(300)",
        FINDINGS,
        "over the loopback, one way, for 0.3 s",
    ),
    (
        "hoptax/src/watch/live_findings.rs",
        "APART: u64 = 50",
        METHODOLOGY,
        "fifty times as long as the last one took",
    ),
    (
        "hoptax/src/run/flow.rs",
        "LARGE_BODY: u64 = 64 << 10",
        FINDINGS,
        "once per run if that is 64 KiB or more",
    ),
    (
        "hoptax-host/src/probe/fitness/clock.rs",
        "MOST_NS: u64 = 150 * clock::MILLISECOND",
        METHODOLOGY,
        "at most 150 ms for short sleeps",
    ),
    // Several hosts.
    (
        "hoptax-host/src/probe/leg.rs",
        "ROUND_TRIPS_NS: u64 = 800 * MILLISECOND",
        METHODOLOGY,
        "on one idle connection without Nagle's delay, for 0.8 s",
    ),
    ("hoptax-host/src/probe/leg.rs", "BATCHES: u64 = 10", METHODOLOGY, "Each of ten batches has a median"),
    (
        "hoptax-host/src/probe/leg.rs",
        "ONE_PACKET: u64 = 1400",
        METHODOLOGY,
        "but at most 1,400 bytes, one packet",
    ),
    (
        "hoptax-host/src/probe/leg.rs",
        "BANDWIDTH_NS: u64 = 400 * MILLISECOND",
        METHODOLOGY,
        "in the second half of 0.4 s",
    ),
    (
        "hoptax-host/src/probe/leg.rs",
        "LEAST_MESSAGE: u64 = 16 << 10",
        METHODOLOGY,
        "between 16 KiB and 1 MiB",
    ),
    (
        "hoptax-host/src/probe/leg.rs",
        "LONGEST_MESSAGE: u64 = 1 << 20",
        METHODOLOGY,
        "between 16 KiB and 1 MiB",
    ),
    // Profiles.
    ("hoptax/src/run/pass.rs", "WINDOWS: usize = 5", PLAN, "slices of 0.5 s of all passes are the batches"),
    (
        "hoptax-stats/src/rounds.rs",
        "MOST_UNITS: usize = 30",
        PLAN,
        "of all passes are the batches, at most 30",
    ),
    (
        "hoptax-stats/src/slices.rs",
        "LEAST_PASSES: usize = 4",
        PLAN,
        "From four passes on, the passes are batches too, and the wider interval counts",
    ),
    (
        "hoptax/src/run/pass.rs",
        "WAITING_EVERY: u32 = 2",
        PLAN,
        "Every second one also records where threads wait",
    ),
];

#[test]
fn pages_state_the_constants_of_the_code() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut wrong = Vec::new();
    for (source, constant, page, words) in STATED {
        let code = read_to_string(crates.join(source)).unwrap_or_else(|error| panic!("{source}: {error}"));
        if !code.lines().any(|line| ends(line, constant)) {
            wrong.push(format!(
                "{source} no longer has `{constant}`: fix {page} where it says \"{words}\", and this row"
            ));
        }
        let text = read_to_string(crates.join("..").join(page)).expect("the page");
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if !text.contains(words) {
            wrong.push(format!("{page} no longer says \"{words}\", for `{constant}` in {source}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// True if the line ends with the constant. `0.1` must not match `0.15`.
fn ends(line: &str, constant: &str) -> bool {
    line.trim_end().trim_end_matches(';').ends_with(constant)
}
