//! Merges a case's valid trials, for export formats that contain a whole distribution.

use crate::trials::counts::sum_counts;
use crate::trials::trial::{Trial, good_trials};
use hdrhistogram::Histogram;
use hoptax_format::record::Counts;
use hoptax_record::report::Load;
use hoptax_record::{RunRecord, TrialRecord};
use hoptax_stats::{Statistic, merge};

/// All valid trials of a case. There is at least one.
#[derive(Debug, Clone)]
pub struct Pooled {
    /// Name of the case, the same as in findings.
    pub case: String,
    /// `direct`, or the gateway's label.
    pub gateway: String,
    /// The load point.
    pub load: Load,
    /// The trials, in the order of the run.
    pub trials: Vec<TrialFigures>,
    /// Start of the first trial's measured time, Unix nanoseconds.
    pub started_unix_ns: u64,
    /// Total measured time, ns. It is never zero.
    pub measured_ns: u64,
    /// Requests completed in the measured time.
    pub completed: u64,
    /// Numbers of requests by outcome, summed over all trials.
    pub counts: Counts,
    /// Number of connections opened, including warm-up.
    pub opened: u64,
    /// Response times (completed − scheduled), ns.
    pub response_time: Histogram<u64>,
    /// Time to establish each connection, ns.
    pub connect: Histogram<u64>,
}

/// One trial of a case.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrialFigures {
    /// Requests per second.
    pub throughput: f64,
    /// 90th percentile of the response times, µs; absent without samples.
    pub p90_us: Option<f64>,
    /// 99th percentile of the response times, µs; absent without samples.
    pub p99_us: Option<f64>,
}

impl Pooled {
    /// Merges every case that has a valid trial, in the order of [`crate::Analysis::cases`]. Searches are
    /// left out.
    pub fn all(run: &RunRecord, records: &[TrialRecord]) -> Vec<Self> {
        let mut pooled = Vec::new();
        for load in Load::all(&run.load) {
            for contender in &run.contenders {
                let trials = good_trials(records, &contender.label, load.index);
                pooled.extend(Self::new(&contender.label, &load, &trials));
            }
        }
        pooled
    }

    fn new(gateway: &str, load: &Load, trials: &[Trial<'_>]) -> Option<Self> {
        let started_unix_ns = trials.iter().map(|trial| trial.load.started_unix_ns).min()?;
        let figures = |trial: &Trial<'_>| TrialFigures {
            throughput: trial.throughput(),
            p90_us: trial.response_time_us(Statistic::P90),
            p99_us: trial.response_time_us(Statistic::P99),
        };
        let mut in_order: Vec<&Trial<'_>> = trials.iter().collect();
        in_order.sort_by_key(|trial| trial.record.sequence);
        Some(Self {
            case: format!("{gateway}, {}", load.label),
            gateway: gateway.to_owned(),
            load: load.clone(),
            trials: in_order.into_iter().map(figures).collect(),
            started_unix_ns,
            measured_ns: trials.iter().map(|trial| trial.measured_ns).sum(),
            completed: trials.iter().map(|trial| trial.completed).sum(),
            counts: sum_counts(trials),
            opened: trials.iter().map(|trial| trial.load.lifetime.opened).sum(),
            response_time: merge(trials.iter().map(|trial| &trial.response_time)),
            connect: merge(trials.iter().map(|trial| &trial.connect)),
        })
    }

    /// Completed requests per second of measured time.
    pub fn throughput(&self) -> f64 {
        self.completed as f64 * 1e9 / self.measured_ns as f64
    }
}

#[cfg(test)]
mod tests {
    use super::Pooled;
    use crate::fixture::{Run, searched_point, via};

    #[test]
    fn agrees_with_the_case() {
        let mut run = Run::steady(3, 100, &[("nginx", 150)]);
        run.push(via("nginx", 3).all_at_us(9000).failed("nginx died"));
        let analysis = run.analyse();
        let pooled = Pooled::all(&run.record, &run.trials);
        let names: Vec<&str> = pooled.iter().map(|one| one.case.as_str()).collect();
        assert_eq!(names, analysis.cases.iter().map(|case| case.case.as_str()).collect::<Vec<_>>());
        for (one, case) in pooled.iter().zip(&analysis.cases) {
            let throughput = case.throughput.as_ref().expect("measured").estimate.estimate;
            assert!((one.throughput() / throughput - 1.0).abs() < 1e-9, "{} {throughput}", one.throughput());
            assert_eq!(one.trials.len(), case.trials as usize);
            let times = case.response_time.as_ref().expect("measured");
            assert_eq!(one.response_time.len(), times.samples);
            assert_eq!(Some(&one.counts), case.counts.as_ref());
        }
        assert_eq!(pooled[1].trials.len(), 3, "the failed one does not count");
    }

    #[test]
    fn cases_without_valid_trials_and_searches_are_left_out() {
        let run = Run::closed(4).with([via("nginx", 0).all_at_us(100).failed("nginx died")]);
        assert!(Pooled::all(&run.record, &run.trials).is_empty());
        let run = Run::with_load(vec![searched_point()]).with([via("direct", 0).all_at_us(100).step(1000.0)]);
        assert!(Pooled::all(&run.record, &run.trials).is_empty());
    }
}
