//! `throttled`: a cgroup's CPU limit held a role back during trials.

use super::{Finding, Rule, Severity, Subject, evidence, percent};
use crate::Trial;
use hoptax_record::{RoleUsage, TrialRecord};

const CODE: &str = "throttled";
/// Time held back over measured time. Limits work in periods of 100 ms; one that is hit once in ten seconds moves a p99.9,
/// and one that is hit for more than this share moves medians.
const SHARE: f64 = 0.01;

type Role = (&'static str, fn(&TrialRecord) -> Option<&RoleUsage>);

const ROLES: [Role; 3] = [
    ("generator", |record| record.generator.as_ref()),
    ("gateway", |record| record.gateway.as_ref()),
    ("upstream", |record| record.upstream.as_ref()),
];

/// In words.
pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "warning".into(),
        when: format!(
            "a cgroup's CPU limit held generator, gateway or upstream back for more than {} of a trial",
            percent(SHARE)
        ),
        seen: "Containers with a CPU limit stand still for the rest of each 100 ms once it is used up: a p99 of tens of milliseconds from nowhere.",
        advice: "Raise or remove the limit (`cpu.max`), or give the gateway no more workers than it allows.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (case, trials) in subject.measured() {
        for (role, usage) in ROLES {
            let shares: Vec<f64> =
                trials.iter().filter_map(|trial| share(trial, usage(trial.record)?)).collect();
            let hit = shares.iter().filter(|share| **share > SHARE).count();
            let Some(worst) = shares.iter().copied().max_by(f64::total_cmp).filter(|_| hit > 0) else {
                continue;
            };
            findings.push(Finding {
                code: CODE,
                severity: Severity::Warning,
                case: Some(case.case.clone()),
                evidence: evidence([
                    ("role", role.into()),
                    ("trials", trials.len().into()),
                    ("trials_hit", hit.into()),
                    ("worst_share", worst.into()),
                    ("limit", SHARE.into()),
                ]),
                message: format!(
                    "A CPU limit held the {role} back in {hit} of {} trials, at worst for {} of the time (added up over \
                     CPUs): {}.",
                    trials.len(),
                    percent(worst),
                    consequence(role)
                ),
                advice: "Lift the cgroup's limit (`cpu.max`, `cpu.cfs_quota_us`, a container's or pod's CPU limit), or \
                         measure at a load that stays under it; pin with `cpus:` instead of limiting."
                    .into(),
            });
        }
    }
    findings
}

fn share(trial: &Trial<'_>, usage: &RoleUsage) -> Option<f64> {
    Some(usage.throttled_ns? as f64 / trial.load.measured_ns as f64)
}

fn consequence(role: &str) -> &'static str {
    match role {
        "gateway" => "what is measured is the limit, not what the gateway can do",
        "upstream" => "the upstream is slower than it need be, for direct and gateways alike",
        _ => "requests left late, and response times hold that lateness",
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::raised;
    use super::*;
    use crate::fixture::{Run, via};

    fn held_back(gateway_ns: Option<u64>) -> Run {
        let mut trial = via("nginx", 0);
        trial.0.gateway.as_mut().expect("watched").throttled_ns = gateway_ns;
        let mut run = Run::closed(1);
        run.push(trial).push(via("nginx", 1));
        run
    }

    #[test]
    fn raised_with_the_role_that_was_held_back() {
        let found = raised(&held_back(Some(400_000_000)), CODE);
        assert_eq!(found.len(), 1);
        let evidence = &found[0].evidence;
        assert_eq!((&evidence["role"], &evidence["worst_share"]), (&"gateway".into(), &0.4.into()));
        assert_eq!(evidence["trials_hit"], 1);
    }

    #[test]
    fn not_raised_by_a_limit_that_was_hardly_hit_or_by_none() {
        assert_eq!(raised(&held_back(Some(10_000_000)), CODE), []);
        assert_eq!(raised(&held_back(None), CODE), []);
    }
}
