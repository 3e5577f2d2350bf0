//! Findings and intervals during a run. The same analysis as for the report computes them.
//!
//! The analysis keeps a CPU busy, so hoptax runs it only between trials. The next trial has to wait for the
//! analysis. After each analysis, hoptax waits at least [`APART`] times the duration of this analysis before
//! it starts another analysis. All analyses together then delay the run by at most a fiftieth. In a run of
//! usual length, findings are still updated after each trial.

use super::cases::HalfWidth;
use hoptax_analysis::{Analysis, Finding, analyse};
use hoptax_record::{AsideRules, RunRecord, TrialRecord, mark_aside};

/// Findings about too little data. They are not shown during a run, because more data follows.
const TOO_FEW: [&str; 2] = ["few-samples", "not-distinguishable"];
/// Minimum time between two analyses, as a multiple of the duration of the first analysis.
const APART: u64 = 50;

/// The data recorded so far, and when it was last analysed.
#[derive(Debug, Default)]
pub(super) struct LiveFindings {
    run: Option<RunRecord>,
    trials: Vec<TrialRecord>,
    last: Option<LastAnalysis>,
}

/// The time at which the last analysis ended, and the duration of this analysis. Both are in nanoseconds.
#[derive(Debug, Clone, Copy)]
struct LastAnalysis {
    ended: u64,
    took: u64,
}

/// Results of an analysis of the trials recorded so far.
#[derive(Debug, PartialEq)]
pub(super) struct Found {
    pub(super) findings: Vec<Finding>,
    /// The half-width of each added median that has an interval.
    pub(super) half_widths: Vec<HalfWidth>,
}

impl LiveFindings {
    /// The services are up; `run` is the run record.
    pub(super) fn prepared(&mut self, run: &RunRecord) {
        self.run = Some(run.clone());
    }

    /// A trial was recorded.
    pub(super) fn recorded(&mut self, trial: &TrialRecord) {
        self.trials.push(trial.clone());
    }

    /// Analyses all trials recorded so far. Returns `None` if it is too early for another analysis, or if the
    /// run has no record yet.
    pub(super) fn analyse_if_due(&mut self, clock: impl Fn() -> u64) -> Option<Found> {
        let began = clock();
        let run = self.run.as_ref().filter(|_| self.is_due(began))?;
        mark_aside(&mut self.trials, &AsideRules::of(run));
        let analysis = analyse(run, &self.trials, &[], &[]);
        let half_widths = half_widths(&analysis);
        let mut findings = analysis.findings;
        findings.retain(|finding| !TOO_FEW.contains(&finding.code));
        let ended = clock();
        self.last = Some(LastAnalysis { ended, took: ended.saturating_sub(began) });
        Some(Found { findings, half_widths })
    }

    fn is_due(&self, now: u64) -> bool {
        self.last.is_none_or(|last| now.saturating_sub(last.ended) >= APART.saturating_mul(last.took))
    }
}

/// The half-widths of what gateways add at the median, in the metric of the report's answer.
fn half_widths(analysis: &Analysis) -> Vec<HalfWidth> {
    let metric = analysis.latency_metric();
    let of = |case: &hoptax_analysis::Case| {
        let us = case.tax.as_ref()?.get(metric)?.estimate.half_width()?;
        Some(HalfWidth { load: case.load.index, gateway: case.gateway.clone(), us })
    };
    analysis.cases.iter().filter_map(of).collect()
}

#[cfg(test)]
hoptax_pages::stated! {
    METHODOLOGY "the next evaluation waits {} times as long as the last one took" word(APART);
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_analysis::fixture::{Run, via};
    use hoptax_format::clock::MILLISECOND as MS;
    use std::cell::Cell;

    #[test]
    fn analyses_take_at_most_a_fiftieth_of_the_time() {
        let run = Run::steady(1, 100, &[("nginx", 150)]);
        let mut live = LiveFindings::default();
        let time = Cell::new(0);
        // This clock advances by 100 ms at each reading. It is read at the start and the end of an analysis,
        // so each analysis takes 100 ms.
        let clock = || {
            let now = time.get();
            time.set(now + 100 * MS);
            now
        };
        assert_eq!(live.analyse_if_due(clock), None, "no service is up yet");
        live.prepared(&run.record);
        run.trials.iter().for_each(|trial| live.recorded(trial));
        time.set(0);
        assert!(live.analyse_if_due(clock).is_some());
        for (at, is_due) in [(200, false), (5_099, false), (5_100, true), (10_000, false), (10_200, true)] {
            time.set(at * MS);
            assert_eq!(live.analyse_if_due(clock).is_some(), is_due, "{at} ms");
        }
    }

    #[test]
    fn findings_equal_those_of_a_report_on_the_trials_so_far() {
        let mut run = Run::closed(4);
        run.contender("nginx", None);
        run.push(via("direct", 0).first().all_at_us(100)).push(via("nginx", 0).all_at_us(150).errors(40));
        let mut live = LiveFindings::default();
        live.prepared(&run.record);
        run.trials.iter().for_each(|trial| live.recorded(trial));
        let found = live.analyse_if_due(|| 0).expect("the first analysis is always due");
        let mut expected = run.analyse().findings;
        assert!(expected.iter().any(|finding| TOO_FEW.contains(&finding.code)), "{expected:?}");
        expected.retain(|finding| !TOO_FEW.contains(&finding.code));
        assert!(expected.iter().any(|finding| finding.case.is_some()), "{expected:?}");
        assert_eq!(found, Found { findings: expected, half_widths: Vec::new() }, "one round has no interval");
    }

    #[test]
    fn half_widths_equal_those_of_a_report_on_the_trials_so_far() {
        let mut run = Run::closed(4);
        for round in 0..3 {
            run.direct(round, 100, 103).push(via("nginx", round).all_at_us(150 + 7 * u64::from(round)));
        }
        let mut live = LiveFindings::default();
        live.prepared(&run.record);
        run.trials.iter().for_each(|trial| live.recorded(trial));
        let found = live.analyse_if_due(|| 0).expect("the first analysis is always due");
        let analysis = run.analyse();
        let tax = analysis.case("nginx", 0).expect("measured").tax.as_ref().expect("a tax");
        let us = tax.added_p50.and_then(|added| added.estimate.half_width()).expect("three rounds");
        assert!(us > 0.0);
        assert_eq!(found.half_widths, [HalfWidth { load: 0, gateway: "nginx".into(), us }]);
    }

    #[test]
    fn half_widths_of_streams_are_those_of_messages() {
        let mut run = Run::closed(4);
        for round in 0..3 {
            let jitter = 2 * u64::from(round);
            let direct = || via("direct", round).all_at_us(900).server_stream_us(100, 1000);
            run.push(direct().first()).push(direct().last());
            let via = via("nginx", round).all_at_us(1500 + 90 * u64::from(round));
            run.push(via.server_stream_us(150 + jitter, 1000));
        }
        let mut live = LiveFindings::default();
        live.prepared(&run.record);
        run.trials.iter().for_each(|trial| live.recorded(trial));
        let found = live.analyse_if_due(|| 0).expect("the first analysis is always due");
        assert!(found.half_widths.len() == 1 && found.half_widths[0].us < 50.0, "{:?}", found.half_widths);
        let figures = run.trials.iter().filter_map(crate::watch::figures);
        let medians: Vec<f64> = figures.filter_map(|(_, times)| Some(times?[0].round())).collect();
        assert_eq!(medians[..3], [100.0, 100.0, 150.0]);
    }
}
