//! `cpus-moved`: the hypervisor moved CPUs between cores during the run.

use super::{Finding, Rule, Severity, Subject, about_run, evidence};
use hoptax_record::Placement;

const CODE: &str = "cpus-moved";

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "note; a warning if all trials count (`trials` in the plan)".into(),
        when: "a cache line took twice as long from one CPU to another and back in some trials as in \
               others, because a hypervisor moved virtual CPUs to other cores. Without `trials` in the \
               plan, the trials with the rarer placement are set aside"
            .into(),
        seen: "On a rented machine, two CPUs were 110 ns apart for some minutes and 390 ns for others. \
               While far apart, gateways took 8 to 16 % more CPU time per request and added 17 to 37 % more \
               to the median.",
        advice: "Compare gateways within a run. `hoptax compare` shows whether the CPUs were as far apart in \
                 two runs. On a dedicated machine they never move.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let are_set_aside = subject.run.plan.trials.time_only().is_some();
    subject.placements.iter().filter_map(|one| finding(one, are_set_aside)).collect()
}

fn finding(placement: &Placement, are_set_aside: bool) -> Option<Finding> {
    let Placement { cpus: [one, other], usual_ns, other_ns, moved, trials } = *placement;
    let other_ns = other_ns.filter(|_| moved > 0)?;
    let so = match are_set_aside {
        true => "These are set aside, so figures are those of the usual distance",
        false => "Figures mix both distances",
    };
    Some(Finding {
        evidence: evidence([
            ("cpus", vec![one, other].into()),
            ("usual_ns", usual_ns.into()),
            ("other_ns", other_ns.into()),
            ("trials_moved", moved.into()),
            ("trials", trials.into()),
        ]),
        message: format!(
            "The hypervisor moved CPU {one} or {other} to another core: a cache line usually took \
             {usual_ns:.0} ns from one to the other and back, but {other_ns:.0} ns around {moved} of \
             {trials} trials. {so}."
        ),
        advice: "Compare gateways within this run. A run with another distance shows other figures.".into(),
        ..about_run(CODE, if are_set_aside { Severity::Note } else { Severity::Warning })
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use hoptax_record::CpuRoundTrip;

    /// A run whose CPUs are 80 ns apart in the first trials, and 390 ns in all others.
    fn moved(first: usize) -> Run {
        let mut run = Run::steady(4, 100, &[("nginx", 150)]);
        for (at, trial) in run.trials.iter_mut().enumerate() {
            let ns = if at < first { 80.0 } else { 390.0 };
            trial.cpu_round_trips = vec![CpuRoundTrip { cpus: [0, 1], before_ns: ns, after_ns: ns }];
        }
        run
    }

    #[test]
    fn raised_if_a_cpu_was_moved() {
        insta::assert_snapshot!(texts(&raised(&moved(3), CODE)));
        let note = finding(
            &Placement { cpus: [0, 1], usual_ns: 80.0, other_ns: Some(390.0), moved: 1, trials: 9 },
            true,
        );
        assert_eq!(note.expect("moved").severity, Severity::Note);
    }

    #[test]
    fn not_raised_if_all_trials_have_the_same_placement() {
        assert_eq!(raised(&moved(0), CODE), []);
    }
}
