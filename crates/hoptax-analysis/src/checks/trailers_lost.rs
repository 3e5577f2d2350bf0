//! `trailers-lost`: answers to gRPC calls via the gateway lack their trailers, and direct's do not.

use super::{Finding, Measured, Rule, Severity, Subject, about, evidence, percent};
use hoptax_stats::share;

const CODE: &str = "trailers-lost";

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "void".into(),
        when: "an answer to a gRPC call via a gateway had the HTTP status 200 and no `grpc-status`, and \
               direct's answers had one"
            .into(),
        seen: "The status of a call is in the trailers. Without them, clients do not know whether it \
               succeeded, and report UNKNOWN. HAProxy before 2.9 may lose trailers while it buffers data.",
        advice: "Check that the gateway speaks HTTP/2 to the upstream and passes trailers (nginx: \
                 `grpc_pass` instead of `proxy_pass`), or use a newer version.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    subject.pairs().filter_map(|(via, direct)| of_pair(via, direct)).collect()
}

fn of_pair((case, _): Measured<'_>, direct: Measured<'_>) -> Option<Finding> {
    let counts = case.counts.as_ref()?;
    let of_direct = direct.0.counts.as_ref()?.trailers_lost;
    if counts.trailers_lost == 0 || of_direct > 0 {
        return None;
    }
    let calls: u64 = counts.grpc.values().sum();
    let share = share(counts.trailers_lost as f64, calls as f64)?;
    Some(Finding {
        evidence: evidence([
            ("calls", calls.into()),
            ("lost", counts.trailers_lost.into()),
            ("direct_lost", of_direct.into()),
            ("share", share.into()),
        ]),
        message: format!(
            "{} answers to gRPC calls ({}) came without a status via the gateway, and none directly. Their \
             trailers were lost, so clients do not know whether the calls succeeded.",
            counts.trailers_lost,
            percent(share)
        ),
        ..about(CODE, Severity::Void, &case.case)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;

    fn run(direct: u64, gateway: u64) -> Run {
        let mut run = Run::closed(1);
        run.record.plan.targets[0].grpc = true;
        run.push(via("direct", 0).first().calls(&[("UNKNOWN", direct)], direct));
        run.push(via("haproxy", 0).calls(&[("UNKNOWN", gateway)], gateway));
        run
    }

    #[test]
    fn raised_by_a_few_answers_without_trailers() {
        insta::assert_snapshot!(texts(&raised(&run(0, 3), CODE)));
    }

    #[test]
    fn not_raised_if_the_upstream_has_no_status_either() {
        assert_eq!(raised(&run(5, 5), CODE), []);
        assert_eq!(raised(&run(0, 0), CODE), []);
    }
}
