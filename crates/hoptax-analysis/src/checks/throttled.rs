//! `throttled`: a cgroup's CPU limit stopped a role for part of a trial.

use super::{Finding, Rule, Severity, Subject, about, evidence, percent, with_host};
use crate::Trial;
use hoptax_record::{Role, RoleUsage, TrialRecord};

const CODE: &str = "throttled";
/// Limit for throttled time ÷ measured time. CPU limits work in periods of 100 ms. If a role reaches its CPU
/// limit once in ten seconds, the p99.9 already changes. Above this share, medians change too.
const SHARE: f64 = 0.01;

type Used = (Role, fn(&TrialRecord) -> Option<&RoleUsage>);

const ROLES: [Used; 3] = [
    (Role::Generator, |record| record.generator.as_ref()),
    (Role::Gateway, |record| record.gateway.as_ref()),
    (Role::Upstream, |record| record.upstream.as_ref()),
];

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "warning".into(),
        when: format!(
            "a CPU limit (cgroup) stopped the generator, the gateway or the upstream for more than {} of a \
            trial",
            percent(SHARE)
        ),
        seen: "The container then stops until the period of 100 ms ends, so the p99 is tens of milliseconds.",
        advice: "Raise or remove the limit (`cpu.max`), or give the gateway no more workers than the limit \
            allows.",
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
            let machine = trials.iter().find_map(|trial| trial.record.machine_of(role));
            let there = subject.on_host(case.load.index, machine);
            let role = role.name();
            findings.push(Finding {
                evidence: with_host(
                    evidence([
                        ("role", role.into()),
                        ("trials", trials.len().into()),
                        ("trials_hit", hit.into()),
                        ("worst_share", worst.into()),
                        ("limit", SHARE.into()),
                    ]),
                    "host",
                    subject.host_in_words(case.load.index, machine),
                ),
                message: format!(
                    "A CPU limit stopped the {role}{there} in {hit} of {} trials, for up to {} of the time \
                     (added up over all CPUs): {}.",
                    trials.len(),
                    percent(worst),
                    consequence(role)
                ),
                advice: "Remove the cgroup's limit (`cpu.max`, `cpu.cfs_quota_us`, a container's or pod's \
                         CPU limit), or measure at a load that stays below the limit. To restrict a role to \
                         some CPUs, pin it with `cpus:` instead of limiting its CPU time."
                    .into(),
                ..about(CODE, Severity::Warning, &case.case)
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
        "gateway" => "the figures show the limit, not the gateway",
        "upstream" => "the upstream is slower than it could be, for direct and gateways alike",
        _ => "requests left late, and response times include the delay",
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use crate::fixture::hosts::on_hosts;

    fn throttled_run(gateway_ns: Option<u64>) -> Run {
        let mut trial = via("nginx", 0);
        trial.0.gateway.as_mut().expect("watched").throttled_ns = gateway_ns;
        Run::closed(1).with([trial, via("nginx", 1)])
    }

    #[test]
    fn raised_with_the_throttled_role_if_its_limit_was_hit() {
        let found = raised(&throttled_run(Some(400_000_000)), CODE);
        assert_eq!(found.len(), 1);
        let evidence = &found[0].evidence;
        assert_eq!((&evidence["role"], &evidence["worst_share"]), (&"gateway".into(), &0.4.into()));
        assert_eq!(evidence["trials_hit"], 1);
        assert_eq!(raised(&throttled_run(Some(10_000_000)), CODE), []);
        assert_eq!(raised(&throttled_run(None), CODE), []);
    }

    #[test]
    fn names_the_host_of_the_role() {
        let mut run = on_hosts(&[("nginx", 850)]);
        for trial in &mut run.trials {
            trial.upstream.as_mut().expect("watched").throttled_ns = Some(400_000_000);
        }
        let found = raised(&run, CODE);
        assert_eq!(
            (found.len(), &found[0].evidence["host"]),
            (2, &"host app (upstream)".into()),
            "{found:?}"
        );
        insta::assert_snapshot!(texts(&found));
    }
}
