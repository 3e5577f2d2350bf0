//! `bandwidth-bound`: a case's traffic came close to the capacity of the link.

use super::{Concerns, Finding, Rule, Severity, Subject, evidence, percent};

const CODE: &str = "bandwidth-bound";
/// Limit for the traffic ÷ the measured capacity of the link. Above this share, long queues form in front of the link.
const NEAR: f64 = 0.8;

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "warning".into(),
        when: format!(
            "a case used more than {} of the link's capacity in one direction. hoptax measures this capacity in the \
             same way as the command `hoptax bandwidth`",
            percent(NEAR)
        ),
        seen: "The link then limits all gateways equally. One published test ran over a link of 347 Mbit/s, so no \
               gateway could exceed 347 Mbit/s.",
        advice: "Request a smaller body, or use a faster link. CPU per request can still be compared, because the \
                 link does not limit it.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let Some(link) = subject.run.link.filter(|link| link.bytes_per_second > 0.0) else { return Vec::new() };
    let mut findings = Vec::new();
    for (case, trials) in subject.measured() {
        // The link has its full capacity in each direction, so only the busier direction counts.
        let rates = trials.iter().map(|trial| {
            let bytes = trial.load.bytes;
            bytes.sent.max(bytes.received) as f64 / trial.seconds()
        });
        let Some(most) = rates.max_by(f64::total_cmp) else { continue };
        let share = most / link.bytes_per_second;
        if share <= NEAR {
            continue;
        }
        findings.push(Finding {
            code: CODE,
            severity: Severity::Warning,
            concerns: Concerns::ALL,
            case: Some(case.case.clone()),
            evidence: evidence([
                ("bytes_per_second", most.into()),
                ("link_bytes_per_second", link.bytes_per_second.into()),
                ("message_bytes", link.message_bytes.into()),
                ("share", share.into()),
                ("limit", NEAR.into()),
            ]),
            message: format!(
                "The case transferred {:.0} MB/s in one direction. This is {} of the {:.0} MB/s that one connection \
                 can carry here with messages of {} bytes. The figures show how fast bytes are copied, not how fast \
                 the gateway is.",
                most / 1e6,
                percent(share),
                link.bytes_per_second / 1e6,
                link.message_bytes
            ),
            advice: "Use smaller bodies or a lower rate. Between machines, a faster link also helps. On the loopback \
                     interface, the limit is the CPU time and memory bandwidth for copying, which all roles share."
                .into(),
        });
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::tests::raised;
    use super::*;
    use crate::fixture::{Run, via};
    use hoptax_record::Link;

    fn run(link: Option<f64>) -> Run {
        let mut run = Run::closed(1);
        run.push(via("nginx", 0));
        run.record.link = link.map(|bytes_per_second| Link { message_bytes: 65_536, bytes_per_second });
        run
    }

    #[test]
    fn raised_near_the_links_capacity() {
        let found = raised(&run(Some(1_200_000.0)), CODE);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].evidence["bytes_per_second"], 1_100_000.0);
    }

    #[test]
    fn not_raised_well_below_it_or_if_it_is_unknown() {
        assert_eq!(raised(&run(Some(1_400_000.0)), CODE), []);
        assert_eq!(raised(&run(None), CODE), []);
    }
}
