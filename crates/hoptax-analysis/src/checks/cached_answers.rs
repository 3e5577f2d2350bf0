//! `cached-answers`: a cache answered instead of the upstream, and there is no ledger that would show it.

use super::{Finding, Measured, Rule, Severity, Subject, about, evidence, tunnel_refused};

const CODE: &str = "cached-answers";
/// Limit for the upstream's CPU time per request of a gateway, as a share of its CPU time per direct request.
/// Below it, most requests did not reach the upstream.
const IDLE: f64 = 0.1;
/// Smallest CPU time per direct request for this comparison, µs. With shorter times, the upstream does too
/// little work per request to compare.
const LEAST_US: f64 = 5.0;

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "void; warning if only a header says it and requests differ".into(),
        when: format!(
            "before the first trial, a repeated request got a header that direct's answer lacks, such as \
             `age` or `x-cache: HIT`, or the upstream used less than {} of the CPU time per request that it \
             used for direct ({LEAST_US} µs or more). Not checked if the upstream has a ledger, which \
             `amplification` reads",
            super::percent(IDLE)
        ),
        seen: "nginx with `proxy_cache` answered every request itself, and looked faster than direct.",
        advice: "Switch the cache off. Or make each request different: path: \"/?n={{uuid}}\". Or publish \
                 the figures as those of a cache.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    subject.pairs().filter_map(|(via, direct)| of_case(subject, via, direct)).collect()
}

fn of_case(subject: &Subject<'_>, (case, trials): Measured<'_>, direct: Measured<'_>) -> Option<Finding> {
    let has_ledger = trials.iter().any(|trial| trial.record.ledger.is_some());
    if has_ledger || tunnel_refused::is_raised(subject, case) {
        return None;
    }
    let contender = subject.run.contenders.iter().find(|one| one.label == case.gateway);
    let header = contender.and_then(|one| one.cached.as_deref());
    let used = upstream_cpu(case).zip(upstream_cpu(direct.0));
    let idle = used.filter(|(via, direct)| *direct >= LEAST_US && *via < IDLE * direct);
    let message = match (idle, header) {
        (Some((via, direct)), _) => format!(
            "The upstream used {via:.1} µs of CPU time for each request to {}, and {direct:.1} µs for each \
             direct request. So most of these requests did not reach the upstream{}.",
            case.gateway,
            header.map_or_else(String::new, |header| format!(": a cache answered them (`{header}`)"))
        ),
        (None, Some(header)) => format!(
            "A cache answers for the upstream: {} sent `{header}` with its answer to a repeated request. \
             Such answers cost less than answers from the upstream, and all answers of direct come from the \
             upstream.",
            case.gateway
        ),
        (None, None) => return None,
    };
    let targets = &subject.run.plan.targets;
    let differ = targets.iter().any(|target| target.path.contains("{{"));
    Some(Finding {
        evidence: evidence([
            ("header", header.into()),
            ("upstream_us_per_request", used.map(|(via, _)| via).into()),
            ("direct_upstream_us_per_request", used.map(|(_, direct)| direct).into()),
            ("limit", IDLE.into()),
        ]),
        message,
        ..about(CODE, if idle.is_none() && differ { Severity::Warning } else { Severity::Void }, &case.case)
    })
}

fn upstream_cpu(case: &crate::Case) -> Option<f64> {
    case.cpu.as_ref()?.upstream_us_per_request
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;

    /// A run without a ledger. The upstream used this much CPU time for the gateway's requests.
    fn found(upstream_ms: u64, header: Option<&str>, path: &str, with_ledger: bool) -> Vec<Finding> {
        let mut run = Run::closed(1);
        run.push(via("direct", 0).first().upstream_cpu_ms(20));
        run.push(via("mine", 0).upstream_cpu_ms(upstream_ms));
        run.record.plan.targets[0].path = path.into();
        run.record.contenders[1].cached = header.map(str::to_owned);
        if !with_ledger {
            run.trials.iter_mut().for_each(|trial| trial.ledger = None);
        }
        raised(&run, CODE)
    }

    #[test]
    fn raised_by_headers_of_caches_and_by_an_idle_upstream() {
        insta::assert_snapshot!(texts(&found(20, Some("x-cache: HIT"), "/", false)));
        insta::assert_snapshot!(texts(&found(20, Some("age: 1"), "/{{seq}}", false)));
        insta::assert_snapshot!(texts(&found(1, None, "/", false)));
    }

    #[test]
    fn not_raised_with_a_ledger_or_by_an_upstream_that_works() {
        assert_eq!(found(1, Some("age: 1"), "/", true), [], "`amplification` compares the ledger");
        assert_eq!(found(15, None, "/", false), []);
    }
}
