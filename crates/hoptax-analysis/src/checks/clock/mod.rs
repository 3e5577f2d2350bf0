//! `clock`: the path split uses two clocks that differ, or response times are multiples of a fixed step.

mod comb;

use super::{Concerns, Figures, Finding, Rule, Severity, Subject, about, about_run, evidence, percent};
use crate::Case;
use crate::figures::path::{self, Refusal};
use crate::trials::trial::Trial;
use hoptax_plan::{Delay, PathSplit, Upstream};
use hoptax_record::Role;
use hoptax_stats::merge;

const CODE: &str = "clock";

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "warning; a note if timestamps are missing".into(),
        when:
            "response times come in steps, such as 1 ms, or with `path_split` the upstream's timestamps are \
               missing, contradict the generator's clock, or come from another clock"
                .into(),
        seen: "A timer that rounds each wait up hides the real times.",
        advice: "Look for a coarse timer in the gateway, and check the clock source with `hoptax doctor`. \
                 With `path_split`, run the generator and the upstream on the same host.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    // With `Delay::Choice`, the plan itself makes response times come in steps.
    let steps_are_asked_for = matches!(
        &subject.run.plan.upstream,
        Upstream::BuiltIn(upstream) if matches!(upstream.delay, Delay::Choice(_))
    );
    subject
        .measured()
        .flat_map(|(case, trials)| {
            let quantised = if steps_are_asked_for { None } else { quantised(case, trials) };
            [path::refusal(trials).map(|refusal| refused(case, &refusal)), quantised]
        })
        .flatten()
        .chain(switched_off(subject))
        .collect()
}

/// Findings about a plan with `path_split` whose hosts have different clocks, so that hoptax takes no
/// timestamps. There is one finding for each host that sends such a load.
fn switched_off(subject: &Subject<'_>) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    for (case, trials) in subject.measured().filter(|_| subject.run.plan.path_split == PathSplit::On) {
        let Some(first) = trials.first().filter(|trial| trial.load.stamps.is_none()) else { continue };
        let Some(machine) = first.record.machine_of(Role::Upstream) else { continue };
        let in_words = |machine| subject.host_in_words(case.load.index, machine).unwrap_or_default();
        let finding = different_clocks(&[in_words(None), in_words(Some(machine))]);
        if findings.iter().all(|other| other.message != finding.message) {
            findings.push(finding);
        }
    }
    findings
}

fn different_clocks(hosts: &[String; 2]) -> Finding {
    Finding {
        concerns: Concerns::only(Figures::PathSplit),
        evidence: evidence([("hosts", hosts.to_vec().into())]),
        message: format!(
            "There are no timestamps, because {} have different clocks. Request path and response path \
             cannot be separated.",
            hosts.join(" and ")
        ),
        advice: "Give the generator and the upstream the same host, or leave `path_split` off. The report \
                 shows the round trips between the hosts."
            .into(),
        ..about_run(CODE, Severity::Note)
    }
}

fn refused(case: &Case, refusal: &Refusal) -> Finding {
    let no_split = "Request path and response path cannot be separated.";
    let (severity, evidence, message, advice) = match refusal {
        Refusal::OtherClock { generator, upstream } => (
            Severity::Warning,
            evidence([
                ("generator_boot_id", generator.boot_id.clone().into()),
                ("upstream_boot_id", upstream.boot_id.clone().into()),
                ("generator_offset_ns", generator.offset_ns.into()),
                ("upstream_offset_ns", upstream.offset_ns.into()),
            ]),
            format!(
                "The timestamps of the upstream and of the generator come from different clocks: {}. \
                {no_split}",
                if generator.boot_id == upstream.boot_id {
                    "the upstream runs in another time namespace"
                } else {
                    "the upstream runs on another host or virtual machine"
                }
            ),
            "Run the generator and the upstream on the same host and in the same time namespace, or leave \
             `path_split` off.",
        ),
        Refusal::Impossible { share } => (
            Severity::Warning,
            evidence([("impossible", (*share).into()), ("limit", path::IMPOSSIBLE.into())]),
            format!(
                "{} of the upstream's timestamps contradict the generator's clock: a request was received \
                 before it was sent, or was answered after its response arrived. {no_split}",
                percent(*share)
            ),
            "Check whether the gateway answers from a cache (timestamps then belong to an earlier request). \
             Check whether the generator and the upstream run on the same host. Check with `hoptax doctor` \
             whether the clocks of the CPUs agree.",
        ),
        Refusal::Missing { share } => (
            Severity::Note,
            evidence([("missing", (*share).into()), ("limit", path::MISSING.into())]),
            format!("{} of the responses have no timestamps from the upstream. {no_split}", percent(*share)),
            "If you start the upstream yourself, use `hoptax upstream --stamps`. Check whether the gateway \
             removes the header `hoptax-stamp`, or answers requests itself.",
        ),
    };
    Finding {
        concerns: Concerns::only(Figures::PathSplit),
        evidence,
        message,
        advice: advice.into(),
        ..about(CODE, severity, &case.case)
    }
}

fn quantised(case: &Case, trials: &[Trial<'_>]) -> Option<Finding> {
    let comb = comb::find(&merge(trials.iter().map(|trial| &trial.response_time)))?;
    let ms = comb.step_ns as f64 / 1e6;
    Some(Finding {
        evidence: evidence([
            ("step_us", (comb.step_ns as f64 / 1e3).into()),
            ("coherence", comb.coherence.into()),
            ("steps", comb.teeth.into()),
        ]),
        message: format!(
            "Response times come in steps of {ms} ms ({} steps seen). Something waits for a timer of {ms} \
             ms, or a clock advances in steps of {ms} ms. Differences smaller than a step come from the \
             timer, not from the gateway.",
            comb.teeth
        ),
        advice: "Check whether the response times of direct have the same steps. If so, the machine causes \
                 the steps, and `hoptax doctor` shows the clock source of the machine. If not, look in the \
                 gateway for a timer, a flush interval or a scheduler tick of this length."
            .into(),
        ..about(CODE, Severity::Warning, &case.case)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use crate::fixture::hosts::{from_two_hosts, on_hosts};
    use hoptax_format::random::Random;
    use std::time::Duration;

    fn findings(trial: crate::fixture::MadeTrial) -> Vec<Finding> {
        let run = Run::closed(8).with([trial]);
        raised(&run, CODE)
    }

    #[test]
    fn raised_by_different_clocks() {
        let stamped = || via("nginx", 0).paths_us(20, 30);
        for trial in [
            stamped().clocks(clock_id("a", 0), clock_id("b", 0)),
            stamped().clocks(clock_id("a", 0), clock_id("a", 9)),
            stamped().stamps(500, 0, 500),
            stamped().stamps(0, 1000, 0),
        ] {
            insta::assert_snapshot!(texts(&findings(trial)));
        }
    }

    #[test]
    fn a_note_if_hosts_have_different_clocks() {
        let mut run = on_hosts(&[("nginx", 850)]);
        assert_eq!(raised(&run, CODE), [], "the plan has no path split");
        run.record.plan.path_split = PathSplit::On;
        insta::assert_snapshot!(texts(&raised(&run, CODE)));
        for trial in &mut run.trials {
            trial.hosts.remove("app");
        }
        assert_eq!(raised(&run, CODE), [], "one machine");
    }

    #[test]
    fn each_host_that_sends_load_has_a_clock_of_its_own() {
        let mut run = from_two_hosts();
        run.record.plan.path_split = PathSplit::On;
        let hosts = |run: &Run| -> Vec<String> {
            let names = raised(run, CODE).into_iter().map(|found| found.evidence["hosts"][0].clone());
            names.map(|name| name.as_str().expect("a name").to_owned()).collect()
        };
        assert_eq!(hosts(&run), ["host client (generator)", "host edge (generator, gateway)"]);
        // `edge` and the upstream have the same clock.
        for trial in run.trials.iter_mut().filter(|trial| trial.load == 1) {
            let stamped = via(&trial.contender, 0).paths_us(20, 30).0;
            trial.load_record.as_mut().expect("measured").stamps =
                stamped.load_record.expect("measured").stamps;
        }
        assert_eq!(hosts(&run), ["host client (generator)"]);
    }

    #[test]
    fn not_raised_by_one_clock_without_stamps_or_if_the_plan_has_steps() {
        assert_eq!(findings(via("nginx", 0).paths_us(20, 30).clocks(clock_id("a", 5), clock_id("a", 5))), []);
        assert_eq!(findings(via("nginx", 0).paths_us(20, 30).stamps(1000, 1, 0)), []);
        assert_eq!(findings(via("nginx", 0)), []);
        let mut run = Run::closed(8);
        let Upstream::BuiltIn(upstream) = &mut run.record.plan.upstream else { panic!("built in") };
        upstream.delay =
            Delay::Choice(vec![(0.5, Duration::from_millis(1)), (0.5, Duration::from_millis(2))]);
        run.push(rounded());
        assert_eq!(raised(&run, CODE), [], "steps of the plan");
    }

    /// Response times: a waiting time that is rounded up to whole milliseconds, plus 80 to 180 µs for the way
    /// to the upstream and back.
    fn rounded() -> crate::fixture::MadeTrial {
        let mut random = Random::new(5);
        let times: Vec<u64> = (0..1000)
            .map(|_| (random.exponential() * 2.0).ceil() as u64 * 1000 + 80 + random.next_u64() % 100)
            .collect();
        via("nginx", 0).response_times_us(times.into_iter())
    }

    #[test]
    fn raised_by_response_times_in_steps() {
        let findings = findings(rounded());
        assert_eq!(findings[0].evidence["step_us"], 1000.0);
        insta::assert_snapshot!(texts(&findings));
    }
}
