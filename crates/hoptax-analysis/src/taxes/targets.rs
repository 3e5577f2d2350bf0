//! Figures of each target of a mix.

use crate::figures::latency;
use crate::trials::pairs::{Added, Pairs, first_and_last};
use crate::trials::trial::{TargetTrial, Trial};
use hdrhistogram::Histogram;
use hoptax_plan::Target;
use hoptax_record::report::{Difference, TargetFigures};
use hoptax_stats::{Statistic, noise_of_drifts};

/// The figures of each target of a case, in the plan's order. Empty if the plan has only one target, or if
/// the records do not list targets.
pub(crate) fn figures(
    targets: &[Target],
    trials: &[Trial<'_>],
    direct: &[Trial<'_>],
    is_direct: bool,
) -> Vec<TargetFigures> {
    if targets.len() < 2 || trials.iter().all(|trial| trial.targets.is_empty()) {
        return Vec::new();
    }
    targets.iter().map(|target| one(target, targets, trials, direct, is_direct)).collect()
}

fn one(
    target: &Target,
    all: &[Target],
    trials: &[Trial<'_>],
    direct: &[Trial<'_>],
    is_direct: bool,
) -> TargetFigures {
    let of: Vec<(u32, &TargetTrial<'_>)> =
        trials.iter().filter_map(|trial| Some((trial.round(), trial.target(&target.name)?))).collect();
    let sum = |count: fn(&TargetTrial<'_>) -> u64| of.iter().map(|(_, trial)| count(trial)).sum();
    let times = (!is_direct).then(|| {
        Added::new(&Pairs::new(trials, direct), |trial| Some(&trial.target(&target.name)?.response_time))
    });
    let added = |statistic| added(times.as_ref()?, statistic, &target.name, direct);
    let latency = |times: for<'t> fn(&'t TargetTrial<'_>) -> &'t Histogram<u64>| {
        latency::of_histograms(&of.iter().map(|(round, trial)| (*round, times(trial))).collect::<Vec<_>>())
    };
    TargetFigures {
        name: target.name.clone(),
        share: target.share_of(all),
        scheduled: sum(|trial| trial.record.scheduled),
        completed: sum(|trial| trial.record.completed),
        ok: sum(|trial| trial.record.ok),
        failed: sum(|trial| trial.record.failed),
        response_time: latency(|trial| &trial.response_time),
        service_time: latency(|trial| &trial.service_time),
        added_p50: added(Statistic::P50),
        added_p99: added(Statistic::P99),
    }
}

/// Computes an added time in the same way as the tax of the whole case: trials are paired with direct by
/// round. The target has its own noise floor.
fn added(times: &Added, statistic: Statistic, name: &str, direct: &[Trial<'_>]) -> Option<Difference> {
    let of = |trial: &Trial<'_>| statistic.of(&trial.target(name)?.response_time);
    let drifts: Vec<f64> =
        first_and_last(direct).iter().filter_map(|(first, last)| Some(of(last)? - of(first)?)).collect();
    Some(Difference::new(times.at(statistic)?, 0.0, noise_of_drifts(&drifts)))
}

#[cfg(test)]
mod tests {
    use crate::fixture::{Run, via};

    #[test]
    fn each_target_is_compared_with_the_same_target_of_direct() {
        let mut run = Run::mix(&[("read", 3), ("write", 1)]);
        for round in 0..3 {
            let jitter = u64::from(round % 2);
            run.push(via("direct", round).first().target("read", 750, 100).target("write", 250, 300));
            run.push(via("direct", round).last().target("read", 750, 100 + jitter).target("write", 250, 300));
            run.push(via("nginx", round).target("read", 750, 150 + jitter).target("write", 250, 400));
        }
        let analysis = run.analyse();
        let targets = &analysis.case("nginx", 0).expect("measured").targets;
        let [read, write] = targets.as_slice() else { panic!("two: {targets:?}") };
        assert_eq!((read.name.as_str(), read.share, read.scheduled), ("read", 0.75, 2250));
        assert_eq!((write.completed, write.ok, write.failed), (750, 750, 0));
        let added = |target: &super::TargetFigures| target.added_p50.expect("paired");
        assert!((added(read).estimate.estimate - 50.0).abs() < 1.0, "{read:?}");
        assert!((added(write).estimate.estimate - 100.0).abs() < 1.0 && added(write).distinguishable);
        assert_eq!(write.response_time.samples, 750);
        let direct = &analysis.case("direct", 0).expect("measured").targets;
        assert!(direct.len() == 2 && direct.iter().all(|target| target.added_p50.is_none()));
    }

    #[test]
    fn a_single_target_has_no_rows() {
        let run = Run::steady(2, 100, &[("nginx", 150)]);
        assert!(run.analyse().cases.iter().all(|case| case.targets.is_empty()));
    }
}
