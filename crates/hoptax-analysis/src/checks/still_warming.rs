//! `still-warming`: a process was still getting faster when its warm-up had to end, or became faster after
//! its trials.

use super::subject::Measured;
use super::{Finding, Rule, Severity, Subject, about, evidence};
use hoptax_record::WarmUp;
use hoptax_record::report::Case;

const CODE: &str = "still-warming";

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "void".into(),
        when:
            "the CPU time per request or the response time of a process was still falling when its warm-up \
               reached `at_most`, or was lower under the load after the last round than in all trials"
                .into(),
        seen: "Its figures describe a process that was still getting faster.",
        advice: "Give it more time: `warmup: { at_most: 5m }`. Or raise the rate, or allow \
                 `overload_external` for a gateway that hoptax did not start.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let of = |case: &Case| {
        let contender = subject.run.contenders.iter().find(|contender| contender.label == case.gateway);
        contender.map_or(&[][..], |contender| &contender.warm_ups)
    };
    let found = |(case, trials): Measured<'_>| {
        let unsettled = of(case).iter().find(|warm_up| !warm_up.settled).map(|one| unsettled(case, one));
        // The run sets the trials before the step aside, unless no others remain.
        let is_cold = |one: &&WarmUp| {
            let of_process = trials.iter().filter(|trial| trial.record.start == one.start);
            of_process.into_iter().any(|trial| trial.record.sequence < one.before_trial)
        };
        let late = || of(case).iter().filter(|_| case.warming == 0).filter(is_cold);
        unsettled.or_else(|| late().find_map(|one| Some(became_faster(case, one.faster_by?))))
    };
    subject.measured().filter_map(found).collect()
}

/// `by` is the difference of the logarithms of the cost of a request.
fn became_faster(case: &Case, by: f64) -> Finding {
    let times = by.exp();
    Finding {
        evidence: evidence([("times", times.into())]),
        message: format!(
            "The process became faster after its trials: before, a request cost {times:.1} times as much. So \
             its figures are those of a cold process."
        ),
        advice: "Measure again with more `time`, so that trials of the warm process follow.".into(),
        ..about(CODE, Severity::Void, &case.case)
    }
}

fn unsettled(case: &Case, warm_up: &WarmUp) -> Finding {
    let seconds = warm_up.load_ns() as f64 / 1e9;
    let requests: u64 = warm_up.bursts.iter().map(|burst| burst.requests).sum();
    let whose = if case.is_direct() { "The upstream" } else { "The process" };
    Finding {
        evidence: evidence([("load_s", seconds.into()), ("requests", requests.into())]),
        message: format!(
            "{whose} was still getting faster after {seconds:.0} s of load ({requests} requests), so its \
             figures are those of a cold process."
        ),
        advice:
            "Raise `at_most` in `warmup`. At the plan's load, a process warms up slowly: raise the rate too."
                .into(),
        ..about(CODE, Severity::Void, &case.case)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use hoptax_record::{Burst, WarmUpLoad};

    #[test]
    fn raised_for_each_case_of_a_process_that_has_not_settled() {
        for settled in [true, false] {
            let mut run = Run::steady(3, 100, &[("nginx", 150), ("jvm", 400)]);
            let burst = Burst {
                measured_ns: 60_000_000_000,
                requests: 90_000,
                p50_ns: 1,
                cpu_ns_per_request: Some(1.0),
                upstream_cpu_ns_per_request: None,
            };
            run.record.contenders[2].warm_ups =
                vec![WarmUp { load: WarmUpLoad::Plan, settled, bursts: vec![burst], ..WarmUp::default() }];
            insta::assert_snapshot!(texts(&raised(&run, CODE)));
        }
    }

    #[test]
    fn raised_if_a_process_became_faster_after_all_its_trials() {
        for (before_trial, count) in [(0, 0), (100, 1)] {
            let mut run = Run::steady(3, 100, &[("jvm", 400)]);
            let looked = WarmUp {
                before_trial,
                settled: true,
                generates_code: true,
                faster_by: Some(1.5),
                ..WarmUp::default()
            };
            run.record.contenders[1].warm_ups = vec![looked];
            let findings = raised(&run, CODE);
            assert_eq!(findings.len(), count, "{findings:?}");
            assert!(findings.iter().all(|one| one.message.contains("4.5 times as much")), "{findings:?}");
        }
    }
}
