//! Decides which findings concern the answer of a run.
//!
//! The answer ranks gateways by their added latency at the median, at one load point. It rests on the medians
//! of direct and of these gateways there. A finding about other figures, another load point or a reference
//! hop does not make the answer doubtful. Without a ranking, every finding counts, because a report then
//! shows all figures alike.
//!
//! A closed loop always reaches some limit: the generator's, the upstream's, or that of CPUs that roles
//! share. A finding about this limit matters if the answer comes from this closed loop. Otherwise it is only
//! a note on the throughput of the loop.

use super::analysis::Analysis;
use super::checks::{Figures, Finding, Severity};
use super::headline;
use crate::taxes::gateway_pairs::competitors;
use hoptax_record::{DIRECT, RunRecord};
use std::collections::BTreeSet;

/// Sets [`Concerns::answer`](hoptax_record::report::Concerns::answer) of every finding.
pub(super) fn mark(analysis: &mut Analysis, run: &RunRecord) {
    soften_limits(analysis);
    let Some(cases) = cases_of_answer(analysis, run) else { return };
    for finding in &mut analysis.findings {
        finding.concerns.answer = is_about(finding, &cases);
    }
}

/// Codes of findings that say what limited a load.
const LIMITS: [&str; 3] = ["generator-saturated", "upstream-saturated", "shared-cpus"];

/// Turns warnings about the limit of a closed loop into notes, unless the latency headline comes from this
/// closed loop.
fn soften_limits(analysis: &mut Analysis) {
    let measured = || analysis.cases.iter().filter(|case| case.trials > 0);
    let Some(answer) = headline::for_latency(&mut measured().map(|case| &case.load)).map(|load| load.index)
    else {
        return;
    };
    let elsewhere: BTreeSet<String> = measured()
        .filter(|case| !case.load.is_open() && case.load.index != answer)
        .map(|case| case.case.clone())
        .collect();
    let is_limit = |finding: &&mut Finding| {
        LIMITS.contains(&finding.code) && finding.case.as_ref().is_some_and(|case| elsewhere.contains(case))
    };
    for finding in analysis.findings.iter_mut().filter(is_limit) {
        finding.severity = finding.severity.max(Severity::Note);
    }
    analysis.findings.sort_by_key(|finding| finding.severity);
}

fn is_about(finding: &Finding, cases: &BTreeSet<String>) -> bool {
    matches!(finding.concerns.figures, Figures::All | Figures::Machine)
        && finding.case.as_ref().is_none_or(|case| cases.contains(case))
}

/// Names of the cases that the answer rests on. `None` if the run has no ranking.
fn cases_of_answer(analysis: &Analysis, run: &RunRecord) -> Option<BTreeSet<String>> {
    let gateways = competitors(run, &analysis.prices);
    let ranking = analysis.ranking(&gateways)?;
    let at_load = analysis.cases.iter().filter(|case| case.load.index == ranking.load.index);
    let ranked = at_load.filter(|case| case.gateway == DIRECT || gateways.contains(&case.gateway.as_str()));
    Some(ranked.map(|case| case.case.clone()).collect())
}

#[cfg(test)]
mod tests {
    use crate::checks::{Finding, Severity};
    use crate::fixture::{Run, closed_point, open_point, via};

    /// Two load points; the answer comes from the first. In four rounds, nginx and haproxy answer after 150
    /// and 170 µs.
    fn run() -> Run {
        let mut run = Run::with_load(vec![open_point(1000.0, 8, 1), closed_point(32, 1)]);
        for round in 0..4 {
            for load in 0..2 {
                run.direct_trials(round, |trial| trial.at_load(load).all_at_us(100));
                for (gateway, time) in [("nginx", 150), ("haproxy", 170)] {
                    run.push(via(gateway, round).at_load(load).all_at_us(time + u64::from(round)));
                }
            }
        }
        run
    }

    #[test]
    fn the_limit_of_a_closed_loop_is_a_note_unless_the_answer_rests_on_it() {
        let severity = |run: &Run| {
            let findings = run.analyse().findings;
            assert!(findings.windows(2).all(|pair| pair[0].severity <= pair[1].severity), "{findings:#?}");
            let found = findings.into_iter().filter(|finding| finding.code == "generator-saturated");
            found.map(|finding| finding.severity).collect::<Vec<_>>()
        };
        let mut run = run();
        run.push(via("nginx", 4).at_load(1).all_at_us(154).generator_busy(95));
        assert_eq!(severity(&run), [Severity::Note]);
        let mut run = self::run();
        run.push(via("nginx", 4).at_load(0).all_at_us(154).generator_busy(95));
        assert_eq!(severity(&run), [Severity::Warning], "an open loop");
        let mut run = Run::steady(4, 100, &[("nginx", 150), ("haproxy", 170)]);
        run.push(via("nginx", 4).all_at_us(150).generator_busy(95));
        assert_eq!(severity(&run), [Severity::Warning], "the only load");
    }

    fn rejections(run: &Run) -> Vec<Finding> {
        let findings = run.analyse().findings;
        findings.into_iter().filter(|finding| finding.code == "rejections-counted").collect()
    }

    #[test]
    fn a_finding_at_another_load_point_does_not_concern_the_answer() {
        for (load, concerned) in [(0, true), (1, false)] {
            let run = run().with([via("nginx", 4).at_load(load).status(500, 999)]);
            let found = rejections(&run);
            assert_eq!(found.len(), 1, "{found:?}");
            assert_eq!(found[0].concerns.answer, concerned, "load point {load}");
        }
    }

    #[test]
    fn tails_do_not_concern_an_answer_about_medians_but_the_whole_run_does() {
        let findings = run().analyse().findings;
        let few: Vec<&Finding> = findings.iter().filter(|finding| finding.code == "few-samples").collect();
        assert!(!few.is_empty() && few.iter().all(|finding| !finding.concerns.answer), "{findings:#?}");
        let run = run().with([via("nginx", 4).at_load(1).all_at_us(154).host(0.3, 0.3)]);
        let findings = run.analyse().findings;
        let noisy = findings.iter().find(|finding| finding.code == "host-noisy").expect("planted");
        assert!(noisy.concerns.answer);
    }

    #[test]
    fn without_a_ranking_every_finding_counts() {
        let run = Run::steady(3, 100, &[("nginx", 150)]).with([via("nginx", 3).status(500, 999)]);
        let findings = run.analyse().findings;
        assert!(findings.iter().all(|finding| finding.concerns.answer), "{findings:#?}");
        assert!(!rejections(&run).is_empty());
    }
}
