//! `workers-unequal`: gateways ran with different numbers of workers, or one with more than it may use.

use super::{Finding, Rule, Severity, Subject, evidence};
use crate::plan::Profile;
use crate::record::Contender;
use std::collections::BTreeMap;

const CODE: &str = "workers-unequal";

/// What is known about one gateway.
#[derive(Debug, Clone, Copy)]
struct Workers<'a> {
    gateway: &'a str,
    declared: Option<u32>,
    /// Most threads that worked in any trial.
    busy: Option<u32>,
    /// CPUs that those may run on, of that trial.
    cpus: u32,
}

/// In words.
pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "warning; a note where only threads that worked differ".into(),
        when:
            "gateways ran with different numbers of workers, or one with more than the CPUs that it may use"
                .into(),
        seen: "32 threads of one gateway against 16 workers of another: the figures compared the settings.",
        advice: "Set `workers` to the same number for every gateway, and no higher than its CPUs.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let mut by_gateway: BTreeMap<&str, Workers<'_>> = BTreeMap::new();
    for (case, trials) in subject.measured() {
        let contender = subject.run.contenders.iter().find(|contender| contender.label == case.gateway);
        let Some(contender) = contender.filter(|contender| is_compared(contender)) else { continue };
        let entry = by_gateway.entry(&contender.label).or_insert(Workers {
            gateway: &contender.label,
            declared: contender.workers,
            busy: None,
            cpus: 0,
        });
        for usage in trials.iter().filter_map(|trial| trial.record.gateway.as_ref()) {
            if usage.busy_threads > entry.busy {
                (entry.busy, entry.cpus) = (usage.busy_threads, usage.cpus_allowed.len() as u32);
            }
        }
    }
    let gateways: Vec<Workers<'_>> = by_gateway.into_values().collect();
    let crowded = gateways.iter().filter_map(crowded);
    unequal(&gateways, subject.run.plan.profile).into_iter().chain(crowded).collect()
}

/// Hops have one thread by design and are no choice; what already ran was not configured by the plan.
fn is_compared(contender: &Contender) -> bool {
    !contender.kind.is_empty() && !contender.kind.starts_with("hop-") && contender.kind != "external"
}

/// Told by what was asked for; in the stock profile, where each gateway decides for itself, by what was seen working.
fn unequal(gateways: &[Workers<'_>], profile: Profile) -> Option<Finding> {
    let count = |gateway: &Workers<'_>| match profile {
        Profile::Equalised => gateway.declared,
        Profile::Stock => gateway.busy,
    };
    let counted: Vec<(u32, &str)> =
        gateways.iter().filter_map(|gateway| Some((count(gateway)?, gateway.gateway))).collect();
    let (least, most) = (counted.iter().min()?, counted.iter().max()?);
    if least.0 == most.0 {
        return None;
    }
    // The stock profile is asked for to see what gateways do by themselves: then it is good to know, and no mistake.
    let (severity, what) = match profile {
        Profile::Equalised => (Severity::Warning, "workers"),
        Profile::Stock => (Severity::Note, "threads that work"),
    };
    Some(Finding {
        code: CODE,
        severity,
        case: None,
        evidence: evidence([
            ("most", most.1.into()),
            ("most_workers", most.0.into()),
            ("least", least.1.into()),
            ("least_workers", least.0.into()),
        ]),
        message: format!(
            "{} ran with {} {what} and {} with {}: throughput is not to be compared between them, CPU per request is.",
            most.1, most.0, least.1, least.0
        ),
        advice: "Give all gateways the same `workers`, in the profile `equalised`.".into(),
    })
}

/// More threads that work than CPUs: they wait for each other, and what the waiting costs is the plan's doing.
fn crowded(gateway: &Workers<'_>) -> Option<Finding> {
    let busy = gateway.busy?;
    (gateway.cpus > 0 && busy > gateway.cpus).then(|| Finding {
        code: CODE,
        severity: Severity::Warning,
        case: None,
        evidence: evidence([
            ("gateway", gateway.gateway.into()),
            ("busy_threads", busy.into()),
            ("cpus", gateway.cpus.into()),
        ]),
        message: format!(
            "{} worked with {busy} threads on {} CPU{}: they wait for each other.",
            gateway.gateway,
            gateway.cpus,
            if gateway.cpus == 1 { "" } else { "s" }
        ),
        advice: "Give it no more `workers` than the CPUs of its set in `cpus:`.".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::raised;
    use super::*;
    use crate::analysis::fixture::{Run, via};

    /// Gateways by label, workers declared, busy threads and CPUs.
    fn run(gateways: &[(&str, Option<u32>, u32, u32)], profile: Profile) -> Run {
        let mut run = Run::closed(8);
        run.record.plan.profile = profile;
        for (label, declared, busy, cpus) in gateways {
            let mut trial = via(label, 0);
            let usage = trial.0.gateway.as_mut().expect("watched");
            (usage.busy_threads, usage.cpus_allowed) = (Some(*busy), (0..*cpus).collect());
            run.push(trial);
            run.record.contenders.last_mut().expect("pushed").workers = *declared;
        }
        run
    }

    #[test]
    fn raised_by_different_numbers_of_workers() {
        let found =
            raised(&run(&[("nginx", Some(1), 1, 2), ("envoy", Some(2), 2, 2)], Profile::Equalised), CODE);
        assert_eq!(found.len(), 1);
        assert_eq!(
            (&found[0].evidence["most"], &found[0].evidence["most_workers"]),
            (&"envoy".into(), &2.into())
        );
        assert_eq!(found[0].severity, Severity::Warning);
        let found = raised(&run(&[("nginx", None, 1, 2), ("envoy", None, 2, 2)], Profile::Stock), CODE);
        assert_eq!(found.iter().map(|finding| finding.severity).collect::<Vec<_>>(), [Severity::Note]);
    }

    #[test]
    fn raised_by_more_threads_than_cpus() {
        let found = raised(&run(&[("tyk", Some(1), 32, 16)], Profile::Equalised), CODE);
        assert_eq!(found.len(), 1);
        assert_eq!(
            (&found[0].evidence["busy_threads"], &found[0].evidence["cpus"]),
            (&32.into(), &16.into())
        );
    }

    #[test]
    fn not_raised_by_equal_ones_by_idle_workers_or_by_hops() {
        let equal = [("nginx", Some(2), 1, 2), ("envoy", Some(2), 2, 2)];
        assert_eq!(
            raised(&run(&equal, Profile::Equalised), CODE),
            [],
            "a worker that had nothing to do is one"
        );
        let hop = [("nginx", Some(2), 2, 2), ("hop-l4", Some(1), 1, 2)];
        assert_eq!(raised(&run(&hop, Profile::Equalised), CODE), []);
    }
}
