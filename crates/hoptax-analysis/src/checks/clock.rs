//! `clock`: times that cannot be what they seem. Either the path split's two clocks are not one, or response times come in steps.

mod comb;

use super::{Finding, Rule, Severity, Subject, evidence, percent};
use crate::Case;
use crate::path::{self, Refusal};
use crate::trial::Trial;
use hoptax_plan::{Delay, Upstream};
use hoptax_stats::merge;

const CODE: &str = "clock";

/// In words.
pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "warning; a note where stamps are missing".into(),
        when: "response times come in steps, as of a timer of 1 ms, or the path split was asked for and the upstream's stamps are missing, contradict the generator's clock, or are on another clock".into(),
        seen: "Schedulers and timers that round waits up to the next millisecond: 1.0 and 2.0 ms were published for 0.2 and 1.1.",
        advice: "Look for a coarse timer in the gateway, and with `hoptax doctor` at the clock source; run generator and upstream on one host for the path split.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    // Then the plan itself asks for steps.
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
        .collect()
}

fn refused(case: &Case, refusal: &Refusal) -> Finding {
    let no_split = "The way there and the way back are not told apart.";
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
                "The upstream's stamps are on another clock than the generator's: {}. {no_split}",
                if generator.boot_id == upstream.boot_id {
                    "it runs in another time namespace"
                } else {
                    "it runs on another host or virtual machine"
                }
            ),
            "Run generator and upstream on one host and in one time namespace, or leave `path_split` off.",
        ),
        Refusal::Impossible { share } => (
            Severity::Warning,
            evidence([("impossible", (*share).into()), ("limit", path::IMPOSSIBLE.into())]),
            format!(
                "{} of the upstream's stamps contradict the generator's clock: received before the request was sent, or \
                 answered after the response was there. {no_split}",
                percent(*share)
            ),
            "Look whether the gateway answers from a cache (the stamps are then an earlier request's), whether generator and \
             upstream share a host, and with `hoptax doctor` whether the CPUs' clocks are in step.",
        ),
        Refusal::Missing { share } => (
            Severity::Note,
            evidence([("missing", (*share).into()), ("limit", path::MISSING.into())]),
            format!("{} of the responses carry no stamps of the upstream's. {no_split}", percent(*share)),
            "An upstream that is not started by the run must be `hoptax upstream --stamps`; look whether the gateway drops the \
             header `hoptax-stamp`, or answers by itself.",
        ),
    };
    Finding { code: CODE, severity, case: Some(case.case.clone()), evidence, message, advice: advice.into() }
}

fn quantised(case: &Case, trials: &[Trial<'_>]) -> Option<Finding> {
    let comb = comb::find(&merge(trials.iter().map(|trial| &trial.response_time)))?;
    let ms = comb.step_ns as f64 / 1e6;
    Some(Finding {
        code: CODE,
        severity: Severity::Warning,
        case: Some(case.case.clone()),
        evidence: evidence([
            ("step_us", (comb.step_ns as f64 / 1e3).into()),
            ("coherence", comb.coherence.into()),
            ("steps", comb.teeth.into()),
        ]),
        message: format!(
            "Response times come in steps of {ms} ms, on {} of them: something on the way waits for a timer of {ms} ms, or a clock \
             is no finer. Differences below a step, and percentiles between two, are the timer's.",
            comb.teeth
        ),
        advice: "Look whether direct has the steps too (then it is the machine: `hoptax doctor` tells its clock source), and for \
                 a timer, a flush interval or a scheduler's tick of that length in the gateway."
            .into(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::raised;
    use super::*;
    use crate::fixture::{Run, clock_id, via};
    use hoptax_load::random::Random;
    use std::time::Duration;

    fn findings(trial: crate::fixture::MadeTrial) -> Vec<Finding> {
        let mut run = Run::closed(8);
        run.push(trial);
        raised(&run, CODE)
    }

    #[test]
    fn raised_by_clocks_that_are_not_one() {
        let stamped = || via("nginx", 0).paths_us(20, 30);
        for (trial, severity, words) in [
            (
                stamped().clocks(clock_id("a", 0), clock_id("b", 0)),
                Severity::Warning,
                "on another host or virtual machine",
            ),
            (
                stamped().clocks(clock_id("a", 0), clock_id("a", 9)),
                Severity::Warning,
                "another time namespace",
            ),
            (stamped().stamps(500, 0, 500), Severity::Warning, "50 % of the upstream's stamps contradict"),
            (stamped().stamps(0, 1000, 0), Severity::Note, "100 % of the responses carry no stamps"),
        ] {
            let findings = findings(trial);
            assert_eq!(findings.len(), 1, "{words}");
            assert_eq!(findings[0].severity, severity);
            assert!(findings[0].message.contains(words), "{}", findings[0].message);
        }
    }

    #[test]
    fn not_raised_by_one_clock_or_without_stamps() {
        assert_eq!(findings(via("nginx", 0).paths_us(20, 30).clocks(clock_id("a", 5), clock_id("a", 5))), []);
        assert_eq!(findings(via("nginx", 0).paths_us(20, 30).stamps(1000, 1, 0)), []);
        assert_eq!(findings(via("nginx", 0)), []);
    }

    /// Waits of some milliseconds, rounded up by a timer, and what the way takes beside them.
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
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].evidence["step_us"], 1000.0);
        assert!(findings[0].message.contains("in steps of 1 ms"), "{}", findings[0].message);
    }

    #[test]
    fn not_raised_where_the_plan_asks_for_steps() {
        let mut run = Run::closed(8);
        let Upstream::BuiltIn(upstream) = &mut run.record.plan.upstream else { panic!("built in") };
        upstream.delay =
            Delay::Choice(vec![(0.5, Duration::from_millis(1)), (0.5, Duration::from_millis(2))]);
        run.push(rounded());
        assert_eq!(raised(&run, CODE), []);
    }
}
