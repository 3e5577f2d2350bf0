//! `ports-exhausted`: connects failed for want of a local port, or nearly did.

use super::{Finding, Rule, Severity, Subject, evidence, percent};
use crate::analysis::{Case, Trial};
use hoptax_load::record::Cause;

const CODE: &str = "ports-exhausted";
/// Share of the port range that sockets in TIME_WAIT take. A port can be used once for each pair of source and destination;
/// TIME_WAIT is counted over all of them, so this is near the limit and not yet proof.
const NEAR: f64 = 0.8;

const ADVICE: &str = "Keep connections alive, give `sources:` several addresses (127.0.0.2, 127.0.0.3, …), widen \
                      net.ipv4.ip_local_port_range, or pause between trials until TIME_WAIT ends (a minute).";

/// In words.
pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "warning".into(),
        when: format!(
            "connects failed as every local port was in use, or sockets in TIME_WAIT took more than {} of the port range",
            percent(NEAR)
        ),
        seen: "One source address and a new connection for each request: after some 28,000 of them a minute the kernel says no.",
        advice: "Keep connections alive, give `sources:` several addresses, widen `net.ipv4.ip_local_port_range`, or pause between trials.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    subject
        .measured()
        .filter_map(|(case, trials)| failed(case, trials).or_else(|| near(case, trials)))
        .collect()
}

fn failed(case: &Case, trials: &[Trial<'_>]) -> Option<Finding> {
    let causes = trials.iter().filter_map(|trial| trial.load.counts.causes.get(&Cause::PortsExhausted));
    let failed: u64 = causes.sum();
    (failed > 0).then(|| Finding {
        code: CODE,
        severity: Severity::Warning,
        case: Some(case.case.clone()),
        evidence: evidence([("ports_exhausted", failed.into())]),
        message: format!(
            "{failed} connects failed as no local port was left: what was measured is how fast ports come back, not \
             what is connected to."
        ),
        advice: ADVICE.into(),
    })
}

fn near(case: &Case, trials: &[Trial<'_>]) -> Option<Finding> {
    let used = |trial: &Trial<'_>| {
        let network = trial.record.network.as_ref().filter(|network| network.local_ports > 0)?;
        Some((network.time_wait_max, network.local_ports))
    };
    let share = |(waiting, ports): (u64, u64)| waiting as f64 / ports as f64;
    let worst = trials.iter().filter_map(used).max_by(|a, b| share(*a).total_cmp(&share(*b)))?;
    let (waiting, ports) = worst;
    (share(worst) > NEAR).then(|| Finding {
        code: CODE,
        severity: Severity::Warning,
        case: Some(case.case.clone()),
        evidence: evidence([
            ("time_wait_max", waiting.into()),
            ("local_ports", ports.into()),
            ("share", share(worst).into()),
            ("limit", NEAR.into()),
        ]),
        message: format!(
            "{waiting} sockets stood in TIME_WAIT, {} of the {ports} local ports: new connections between the same two \
             addresses are about to fail, or already take long to find a port.",
            percent(share(worst))
        ),
        advice: ADVICE.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::raised;
    use super::*;
    use crate::analysis::fixture::{Run, via};
    use crate::record::NetworkUsage;

    fn waiting(time_wait_max: u64, local_ports: u64) -> Run {
        let mut trial = via("nginx", 0);
        trial.0.network = Some(NetworkUsage { time_wait_max, local_ports, ..NetworkUsage::default() });
        let mut run = Run::closed(1);
        run.push(trial);
        run
    }

    #[test]
    fn raised_by_failed_connects() {
        let mut trial = via("nginx", 0);
        let counts = &mut trial.0.load_record.as_mut().expect("made with one").counts;
        counts.causes.insert(Cause::PortsExhausted, 5);
        let mut run = Run::closed(1);
        run.push(trial).push(via("nginx", 1));
        let found = raised(&run, CODE);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].evidence["ports_exhausted"], 5);
    }

    #[test]
    fn raised_near_the_end_of_the_range_only() {
        assert_eq!(raised(&waiting(25_000, 28_232), CODE)[0].evidence["time_wait_max"], 25_000);
        assert_eq!(raised(&waiting(20_000, 28_232), CODE), []);
        assert_eq!(raised(&waiting(20_000, 0), CODE), [], "the range is unknown");
    }
}
