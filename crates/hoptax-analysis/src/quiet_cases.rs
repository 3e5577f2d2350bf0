//! Computes the figures of quiet windows, with the same code as the figures of all windows.

use crate::figures::latency::latency;
use crate::figures::throughput::throughput;
use crate::quiet::{Quiet, restrict};
use crate::taxes::noise::noise_floor;
use crate::taxes::tax::tax;
use crate::trials::trial::Trial;
use hoptax_plan::Metric;
use hoptax_record::report::{Case, Difference, Load, NoiseFloor, QuietFigures};
use hoptax_stats::share;

/// The quiet windows of a contender's trials at a load point.
struct QuietTrials<'a> {
    windows: u64,
    left_out: u64,
    trials_left_out: u32,
    /// The trials with enough quiet windows, restricted to these windows. Empty until [`Self::read`] is
    /// called.
    quiet: Vec<Trial<'a>>,
}

impl<'a> QuietTrials<'a> {
    /// `None` if no trial recorded steal.
    fn new(trials: &[Trial<'a>]) -> Option<Self> {
        let known: Vec<(&Trial<'a>, Quiet)> =
            trials.iter().filter_map(|trial| Some((trial, Quiet::of(trial.record)?))).collect();
        if known.is_empty() {
            return None;
        }
        let sum = |count: fn(&Quiet) -> usize| known.iter().map(|(_, quiet)| count(quiet) as u64).sum();
        Some(Self {
            windows: sum(Quiet::windows),
            left_out: sum(Quiet::left_out),
            trials_left_out: known.iter().filter(|(_, quiet)| !quiet.is_enough()).count() as u32,
            quiet: Vec::new(),
        })
    }

    /// Reads the histograms of the windows. This takes a long time, so it is done only if some windows are
    /// left out.
    fn read(&mut self, trials: &[Trial<'a>]) {
        let enough = |trial: &Trial<'a>| {
            let quiet = Quiet::of(trial.record).filter(Quiet::is_enough)?;
            restrict(trial, &quiet)
        };
        self.quiet = trials.iter().filter_map(enough).collect();
    }
}

/// Adds the quiet figures to the cases of a load point.
pub(crate) fn fill_in(load: &Load, cases: &mut [(Case, Vec<Trial<'_>>)]) {
    let mut of_cases: Vec<Option<QuietTrials<'_>>> =
        cases.iter().map(|(_, trials)| QuietTrials::new(trials)).collect();
    if of_cases.iter().flatten().all(|quiet| quiet.left_out == 0) {
        for ((case, _), quiet) in cases.iter_mut().zip(&of_cases) {
            case.quiet = quiet.as_ref().map(|quiet| undisturbed(case, quiet));
        }
        return;
    }
    // The gateway's figure and direct's figure must both be computed from quiet windows, even if only one of
    // the two was disturbed.
    for ((_, trials), quiet) in cases.iter().zip(&mut of_cases) {
        if let Some(quiet) = quiet {
            quiet.read(trials);
        }
    }
    let direct = cases.iter().position(|(case, _)| case.is_direct());
    let direct = direct.and_then(|index| of_cases[index].as_ref());
    let direct: &[Trial<'_>] = direct.map_or(&[], |direct| &direct.quiet);
    let floor = noise_floor(load.clone(), direct);
    for ((case, _), quiet) in cases.iter_mut().zip(&of_cases) {
        case.quiet = quiet.as_ref().map(|quiet| restricted(case, quiet, direct, &floor));
    }
}

/// The quiet figures of a case at a load point where no window was left out. They equal the figures of all
/// windows.
fn undisturbed(case: &Case, quiet: &QuietTrials<'_>) -> QuietFigures {
    QuietFigures {
        throughput: case.throughput.clone(),
        response_time: case.response_time.clone(),
        cpu_us_per_request: case.cpu.as_ref().and_then(|cpu| cpu.gateway_us_per_request),
        tax: case.tax.clone(),
        trials: case.trials,
        ..shares(quiet)
    }
}

fn restricted(
    case: &Case,
    quiet: &QuietTrials<'_>,
    direct: &[Trial<'_>],
    floor: &NoiseFloor,
) -> QuietFigures {
    let trials = &quiet.quiet;
    if trials.is_empty() {
        return shares(quiet);
    }
    let used: Option<u64> = trials.iter().map(|trial| trial.gateway_cpu_ns).sum();
    let completed: u64 = trials.iter().map(|trial| trial.completed).sum();
    QuietFigures {
        trials: trials.len() as u32,
        throughput: throughput(trials),
        response_time: Some(latency(trials, |trial| Some(&trial.response_time))),
        cpu_us_per_request: used.and_then(|used| share(used as f64 / 1e3, completed as f64)),
        tax: (!case.is_direct()).then(|| tax(trials, direct, floor)),
        ..shares(quiet)
    }
}

/// The numbers of windows and trials, without any figures.
fn shares(quiet: &QuietTrials<'_>) -> QuietFigures {
    QuietFigures {
        windows: quiet.windows,
        left_out: quiet.left_out,
        share_left_out: quiet.left_out as f64 / quiet.windows as f64,
        trials_left_out: quiet.trials_left_out,
        ..QuietFigures::default()
    }
}

/// A metric for which all windows and quiet windows give different results.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Disagreement<'a> {
    /// The metric.
    pub metric: Metric,
    /// The figure of all windows, which is the headline.
    pub all: &'a Difference,
    /// The figure of quiet windows.
    pub quiet: &'a Difference,
}

/// The metrics for which all windows and quiet windows disagree. They disagree if only one of the two taxes
/// is distinguishable from noise, or if both are distinguishable but only one of them is above "no tax". If
/// the quiet tax is within the interval of all windows, they do not disagree: the quiet tax only has fewer
/// trials. A metric is left out if one of its two taxes has no interval. In an open loop, throughput is left
/// out, because the rate decides it.
pub(crate) fn disagreements(case: &Case) -> Vec<Disagreement<'_>> {
    let Some((tax, quiet)) = case.tax.as_ref().zip(case.quiet.as_ref().and_then(|quiet| quiet.tax.as_ref()))
    else {
        return Vec::new();
    };
    [Metric::AddedP50, Metric::AddedP99, Metric::ThroughputRatio]
        .into_iter()
        .filter(|metric| !(case.load.is_open() && *metric == Metric::ThroughputRatio))
        .filter_map(|metric| Some(Disagreement { metric, all: tax.get(metric)?, quiet: quiet.get(metric)? }))
        .filter(|one| {
            let above = |difference: &Difference| difference.estimate.estimate > one.metric.neutral();
            let verdict = |difference: &Difference| {
                (difference.distinguishable, difference.distinguishable && above(difference))
            };
            let lost_precision = one.all.distinguishable && !one.quiet.distinguishable && {
                let (low, high) = one.all.estimate.interval().unwrap_or_default();
                (low..=high).contains(&one.quiet.estimate.estimate)
            };
            !lost_precision
                && one.all.estimate.interval().is_some()
                && one.quiet.estimate.interval().is_some()
                && verdict(one.all) != verdict(one.quiet)
        })
        .collect()
}
