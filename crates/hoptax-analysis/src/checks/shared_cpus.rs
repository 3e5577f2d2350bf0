//! `shared-cpus`: generator, gateway and upstream competed for the same CPUs.

use super::{Finding, Rule, Severity, Subject, about, evidence, percent};
use crate::{Case, Trial};
use hoptax_record::{Role, RoleUsage};
use serde_json::Value;
use std::collections::BTreeSet;

const CODE: &str = "shared-cpus";
/// Limit for the CPU time of the roles that share CPUs ÷ the total time of these CPUs. Below this limit, a
/// thread that wakes up usually finds a free CPU. For example, if two CPUs are each busy for 85 % of the
/// time, a thread that wakes up finds both of them busy in seven of ten cases (0.85²).
const BUSY: f64 = 0.85;

struct Shared<'t> {
    /// The machine that runs these roles. Absent for the generator's machine.
    machine: Option<&'t str>,
    roles: Vec<&'static str>,
    cpus: usize,
    threads: Option<u32>,
    used: f64,
}

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "warning; a note in closed loops (which always reach some limit) for direct and for cases \
                   that do not concern the answer"
            .into(),
        when: format!(
            "roles (generator, gateway, upstream) that share CPUs of a machine together used more than {} of \
             their time in a trial",
            percent(BUSY)
        ),
        seen: "They take time from each other, and the tax includes it.",
        advice: "Give each role its own CPUs (`cpus:` in the plan), or lower the load. On a machine with \
                 few CPUs, trust ratios rather than times.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    subject.measured().filter_map(|(case, trials)| of_case(subject, case, trials)).collect()
}

fn of_case(subject: &Subject<'_>, case: &Case, trials: &[Trial<'_>]) -> Option<Finding> {
    let contended: Vec<(u32, Shared<'_>)> = trials
        .iter()
        .filter_map(|trial| Some((trial.round(), shared(trial).filter(Shared::contended)?)))
        .collect();
    let (round, worst) = contended.iter().max_by(|(_, a), (_, b)| a.used.total_cmp(&b.used))?;
    let there = subject.on_host(case.load.index, worst.machine);
    // A closed loop always reaches some limit.
    let severity = if case.is_direct() && !case.load.is_open() { Severity::Note } else { Severity::Warning };
    Some(Finding {
        evidence: evidence([
            ("trials", trials.len().into()),
            ("contended_trials", contended.len().into()),
            ("worst_round", (round + 1).into()),
            ("worst_use", worst.used.into()),
            ("cpus", worst.cpus.into()),
            ("busy_threads", worst.threads.map_or(Value::Null, Value::from)),
            ("limit", BUSY.into()),
        ]),
        message: format!(
            "In {} of {} trials, {} competed for the same CPUs{there}. In the worst trial (round {}), these \
             roles together used {} of {} CPU{}. The tax of a gateway then includes the time that the \
             gateway took from generator and upstream.",
            contended.len(),
            trials.len(),
            worst.roles.join(", "),
            round + 1,
            percent(worst.used),
            worst.cpus,
            if worst.cpus == 1 { "" } else { "s" }
        ),
        advice: "Give each role its own CPUs (`cpus: auto` does so on a machine with at least four CPUs), \
                 or use open loops well below saturation. In this run, ratios between gateways are more \
                 reliable than times."
            .into(),
        ..about(CODE, severity, &case.case)
    })
}

impl Shared<'_> {
    /// True if more threads were busy than there are CPUs and the CPUs were saturated, so that threads had to
    /// wait for a CPU.
    fn contended(&self) -> bool {
        self.used > BUSY && self.threads.is_none_or(|threads| threads as usize > self.cpus)
    }
}

/// The roles that have a CPU in common with another role. `None` if no roles share CPUs, or if the CPUs are
/// unknown.
fn shared<'t>(trial: &Trial<'t>) -> Option<Shared<'t>> {
    let record = trial.record;
    // With several generators, only the CPU time of the first one counts. With several generators, the total
    // covers several machines.
    let generator = record.generators.first().map_or(&record.generator, |first| &first.usage);
    let roles =
        [(Role::Generator, generator), (Role::Gateway, &record.gateway), (Role::Upstream, &record.upstream)];
    let known: Vec<(Role, &RoleUsage)> = roles
        .into_iter()
        .filter_map(|(role, usage)| {
            Some((role, usage.as_ref().filter(|usage| !usage.cpus_allowed.is_empty())?))
        })
        .collect();
    // CPU 0 of one machine is not CPU 0 of another one. At most one machine has two of the three roles.
    let overlap = |(one, a): (Role, &RoleUsage), (other, b): (Role, &RoleUsage)| {
        record.machine_of(one) == record.machine_of(other)
            && a.cpus_allowed.iter().any(|cpu| b.cpus_allowed.contains(cpu))
    };
    let meets_another =
        |one: (Role, &RoleUsage)| known.iter().any(|other| other.0 != one.0 && overlap(one, *other));
    let sharing: Vec<_> = known.iter().filter(|one| meets_another(**one)).collect();
    let cpus: BTreeSet<u32> =
        sharing.iter().flat_map(|(_, usage)| usage.cpus_allowed.iter().copied()).collect();
    let used: u64 = sharing.iter().map(|(_, usage)| usage.cpu_ns).sum();
    (!sharing.is_empty()).then(|| Shared {
        machine: record.machine_of(sharing[0].0),
        roles: sharing.iter().map(|(role, _)| role.name()).collect(),
        cpus: cpus.len(),
        threads: sharing.iter().map(|(_, usage)| usage.busy_threads).sum(),
        used: used as f64 / (trial.load.measured_ns as f64 * cpus.len() as f64),
    })
}

#[cfg(test)]
hoptax_pages::stated! {
    FINDINGS "with probability `u²`: {} at 85 %" percent((BUSY * BUSY * 100.0).round() / 100.0);
    FINDINGS "with probability `u²`: 72 % at {}. -" percent(BUSY);
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;

    const MS: u64 = 1_000_000;

    /// A role with `threads` threads that used `cpu_ms` of CPU time on `cpus` in one second.
    fn role(cpu_ms: u64, cpus: &[u32], threads: u32) -> Option<RoleUsage> {
        let cpus_allowed = cpus.to_vec();
        Some(RoleUsage {
            cpu_ns: cpu_ms * MS,
            cpus_allowed,
            busy_threads: Some(threads),
            ..RoleUsage::default()
        })
    }

    fn trial(
        generator: Option<RoleUsage>,
        gateway: Option<RoleUsage>,
        upstream: Option<RoleUsage>,
    ) -> MadeTrial {
        let mut trial = via("nginx", 0);
        (trial.0.generator, trial.0.gateway, trial.0.upstream) = (generator, gateway, upstream);
        trial
    }

    /// The gateway is on a host of its own.
    fn elsewhere(trial: MadeTrial) -> MadeTrial {
        trial.elsewhere("edge", Role::Gateway, &[])
    }

    #[test]
    fn roles_that_share_another_machine_are_seen() {
        let there = trial(role(990, &[0], 1), role(500, &[0], 1), role(450, &[0], 1));
        let mut there = elsewhere(there);
        there.0.hosts.get_mut("edge").expect("there").roles = vec![Role::Gateway, Role::Upstream];
        let found = found(there);
        insta::assert_snapshot!(texts(&found));
        assert_eq!(found[0].evidence["worst_use"], 0.95);
    }

    fn found(trial: MadeTrial) -> Vec<Finding> {
        let run = Run::closed(32).with([trial]);
        raised(&run, CODE)
    }

    #[test]
    fn raised_if_three_threads_saturate_two_cpus() {
        let found = found(trial(role(600, &[0, 1], 1), role(800, &[0, 1], 1), role(500, &[0, 1], 1)));
        assert_eq!(found.len(), 1);
        let evidence = &found[0].evidence;
        assert_eq!((&evidence["worst_use"], &evidence["cpus"]), (&0.95.into(), &2.into()));
        assert_eq!(evidence["busy_threads"], 3);
    }

    #[test]
    fn raised_if_two_roles_are_pinned_to_one_cpu() {
        let found = found(trial(role(500, &[0], 1), role(450, &[0], 1), role(100, &[1], 1)));
        insta::assert_snapshot!(texts(&found));
    }

    #[test]
    fn the_sum_of_several_generators_does_not_count() {
        for (of_first, expected) in [(500, 1), (300, 0)] {
            let trial = trial(role(1500, &[0], 3), role(400, &[0], 1), role(100, &[1], 1));
            let trial = trial.generators_us(&[("a", 200), ("b", 200)]);
            let trial = trial.of_generator(0, |one| one.usage = role(of_first, &[0], 1));
            assert_eq!(found(trial).len(), expected, "{of_first}");
        }
    }

    #[test]
    fn not_raised_below_saturation_with_separate_cpus_or_a_cpu_per_thread() {
        let both = &[0, 1][..];
        for (quiet, trial) in [
            ("below", trial(role(100, both, 1), role(200, both, 1), role(100, both, 1))),
            ("apart", trial(role(990, &[0], 1), role(990, &[1], 1), role(990, &[2], 1))),
            ("one each", trial(role(950, both, 1), None, role(950, both, 1))),
            ("elsewhere", elsewhere(trial(role(990, &[0], 1), role(990, &[0], 1), role(990, &[1], 1)))),
            ("unknown", trial(role(950, &[], 1), role(950, &[], 1), role(950, &[], 1))),
        ] {
            assert_eq!(found(trial), [], "{quiet}");
        }
    }
}
