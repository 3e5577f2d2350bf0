//! Figures of quiet windows, by the code that makes those of all windows.

use crate::case::Case;
use crate::difference::Difference;
use crate::latency::latency;
use crate::load::Load;
use crate::noise::NoiseFloor;
use crate::quiet::{Quiet, QuietFigures, restrict};
use crate::tax::Tax;
use crate::throughput::Throughput;
use crate::trial::Trial;
use hoptax_plan::Metric;
use hoptax_stats::share;

/// The quiet windows of one contender's trials.
struct Look<'a> {
    windows: u64,
    left_out: u64,
    trials_left_out: u32,
    /// The trials with enough quiet windows, restricted to them; absent where it can be told of none.
    quiet: Vec<Trial<'a>>,
}

impl<'a> Look<'a> {
    /// Absent where it can be told of no trial.
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

    /// Reads the windows. Only where some are left out is it worth the work.
    fn read(&mut self, trials: &[Trial<'a>]) {
        let enough = |trial: &Trial<'a>| {
            let quiet = Quiet::of(trial.record).filter(Quiet::is_enough)?;
            restrict(trial, &quiet)
        };
        self.quiet = trials.iter().filter_map(enough).collect();
    }
}

/// Gives each of a load point's cases its quiet figures.
pub(crate) fn look(load: &Load, cases: &mut [(Case, Vec<Trial<'_>>)]) {
    let mut looks: Vec<Option<Look<'_>>> = cases.iter().map(|(_, trials)| Look::new(trials)).collect();
    if looks.iter().flatten().all(|look| look.left_out == 0) {
        for ((case, _), look) in cases.iter_mut().zip(&looks) {
            case.quiet = look.as_ref().map(|look| undisturbed(case, look));
        }
        return;
    }
    // Were only one side of a tax made from windows, the two would not be of the same making.
    for ((_, trials), look) in cases.iter().zip(&mut looks) {
        if let Some(look) = look {
            look.read(trials);
        }
    }
    let direct = cases.iter().position(|(case, _)| case.is_direct()).and_then(|index| looks[index].as_ref());
    let direct: &[Trial<'_>] = direct.map_or(&[], |look| &look.quiet);
    let floor = NoiseFloor::new(load.clone(), direct);
    for ((case, _), look) in cases.iter_mut().zip(&looks) {
        case.quiet = look.as_ref().map(|look| restricted(case, look, direct, &floor));
    }
}

/// No window was left out: the figures are those of all windows.
fn undisturbed(case: &Case, look: &Look<'_>) -> QuietFigures {
    QuietFigures {
        throughput: case.throughput.clone(),
        response_time: case.response_time.clone(),
        cpu_us_per_request: case.cpu.as_ref().and_then(|cpu| cpu.gateway_us_per_request),
        tax: case.tax.clone(),
        trials: case.trials,
        ..shares(look)
    }
}

fn restricted(case: &Case, look: &Look<'_>, direct: &[Trial<'_>], floor: &NoiseFloor) -> QuietFigures {
    let trials = &look.quiet;
    if trials.is_empty() {
        return shares(look);
    }
    let used: Option<u64> = trials.iter().map(|trial| trial.gateway_cpu_ns).sum();
    let completed: u64 = trials.iter().map(|trial| trial.completed).sum();
    QuietFigures {
        trials: trials.len() as u32,
        throughput: Throughput::of(trials),
        response_time: Some(latency(trials, |trial| Some(&trial.response_time))),
        cpu_us_per_request: used.and_then(|used| share(used as f64 / 1e3, completed as f64)),
        tax: (!case.is_direct()).then(|| Tax::new(trials, direct, floor)),
        ..shares(look)
    }
}

/// What was left out, without figures.
fn shares(look: &Look<'_>) -> QuietFigures {
    QuietFigures {
        windows: look.windows,
        left_out: look.left_out,
        share_left_out: look.left_out as f64 / look.windows as f64,
        trials: 0,
        trials_left_out: look.trials_left_out,
        throughput: None,
        response_time: None,
        cpu_us_per_request: None,
        tax: None,
    }
}

/// A metric of which all windows and quiet windows say different things.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Disagreement<'a> {
    /// Which.
    pub metric: Metric,
    /// What all windows say: the headline.
    pub all: &'a Difference,
    /// What quiet windows say.
    pub quiet: &'a Difference,
}

/// The metrics in which a conclusion is sought (in an open loop the rate decides the throughput) whose tax stands out of the
/// noise in all windows but not in quiet ones, or the other way round, or on the other side of "no tax". Both must have an
/// interval.
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
            one.all.estimate.interval().is_some()
                && one.quiet.estimate.interval().is_some()
                && verdict(one.all) != verdict(one.quiet)
        })
        .collect()
}
