//! `workers-unequal`: gateways had different numbers of workers, a gateway used more CPUs than it has
//! workers, or a gateway had more workers than CPUs.

use super::{Finding, Rule, Severity, Subject, about_run, evidence};
use crate::Trial;
use hoptax_format::record::WINDOW_NS;
use hoptax_plan::Profile;
use hoptax_record::Contender;
use hoptax_stats::median;
use serde_json::Value;
use std::collections::BTreeMap;

const CODE: &str = "workers-unequal";

/// Limit for CPUs used ÷ workers. Above this ratio, the finding is raised. A gateway's other threads (timers,
/// garbage collection, threads that block in system calls) do not use enough CPU time to exceed this ratio.
pub const BEYOND: f64 = 1.25;

/// Smallest ratio to report in the profile `stock`: CPUs used by one gateway ÷ CPUs used by another gateway.
const UNLIKE: f64 = 1.5;

/// Number of windows over which CPU time is measured: half a second. On a busy machine a sample may be some
/// milliseconds late, which is a large part of a single window.
const SPAN: usize = 5;

#[derive(Debug, Clone, Copy)]
struct Workers<'a> {
    gateway: &'a str,
    declared: Option<u32>,
    /// Number of CPUs that the gateway used at once. If its cases differ, the largest number.
    used: Option<f64>,
    /// Number of CPUs used at once in closed loops, where a gateway uses as much CPU time as it can.
    used_closed: Option<f64>,
    cpus: u32,
}

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "warning; a note in the profile `stock`".into(),
        when: format!(
            "gateways ran with different numbers of workers, a gateway with N workers kept more than \
             {BEYOND} × N CPUs busy, or a gateway has more workers than CPUs. In the profile `stock`, busy \
             CPUs are compared instead of numbers of workers: one gateway kept more than {UNLIKE} times as \
             many busy as another in closed loops. Busy CPUs are those of the busiest half second of each \
             trial, median over rounds"
        ),
        seen: "The figures compare settings, not gateways.",
        advice: "Set `workers` to the same number for every gateway, and to no more than its CPUs. `hoptax \
                 lint` checks packs.",
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
            used: None,
            used_closed: None,
            cpus: 0,
        });
        let used: Vec<f64> = trials.iter().filter_map(at_once).collect();
        let used = median(&used);
        entry.used = larger(entry.used, used);
        if case.load.kind == "closed" {
            entry.used_closed = larger(entry.used_closed, used);
        }
        let cpus = trials.iter().filter_map(|trial| Some(trial.record.gateway.as_ref()?.cpus_allowed.len()));
        entry.cpus = entry.cpus.max(cpus.max().unwrap_or(0) as u32);
    }
    let gateways: Vec<Workers<'_>> = by_gateway.into_values().collect();
    let unequal = match subject.run.plan.profile {
        Profile::Equalised => unequal(&gateways),
        Profile::Stock => unlike(&gateways),
    };
    let each = gateways.iter().flat_map(|gateway| [beyond(gateway), crowded(gateway)]);
    unequal.into_iter().chain(each.flatten()).collect()
}

/// True if the plan sets the number of the gateway's workers. Built-in hops always have one thread, and the
/// plan does not configure external gateways.
pub(super) fn is_compared(contender: &Contender) -> bool {
    !contender.kind.is_empty() && !contender.kind.starts_with("hop-") && contender.kind != "external"
}

fn larger(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    one.into_iter().chain(other).reduce(f64::max)
}

/// Number of CPUs used at once: the gateway's CPU time ÷ wall time, in the busiest half second of the trial.
fn at_once(trial: &Trial<'_>) -> Option<f64> {
    let windows = &trial.record.gateway.as_ref()?.cpu_ns_by_window;
    let spans = windows.windows(SPAN).map(|span| span.iter().sum::<u64>());
    Some(spans.max()? as f64 / (SPAN as u64 * WINDOW_NS) as f64)
}

fn unequal(gateways: &[Workers<'_>]) -> Option<Finding> {
    let counted = gateways.iter().filter_map(|gateway| Some((gateway.declared?, gateway.gateway)));
    let counted: Vec<(u32, &str)> = counted.collect();
    let (least, most) = (counted.iter().min()?, counted.iter().max()?);
    (least.0 != most.0).then(|| {
        let message = format!("{} ran with {} workers, and {} ran with {}", most.1, most.0, least.1, least.0);
        let evidence = [("most_workers", most.0.into()), ("least_workers", least.0.into())];
        incomparable(Severity::Warning, (most.1, least.1), evidence, &message)
    })
}

/// The finding about two gateways that had unequal numbers of workers or CPUs.
fn incomparable(
    severity: Severity,
    (most, least): (&str, &str),
    [of_most, of_least]: [(&'static str, Value); 2],
    difference: &str,
) -> Finding {
    Finding {
        evidence: evidence([("most", most.into()), of_most, ("least", least.into()), of_least]),
        message: format!(
            "{difference}. Compare the CPU per request of these gateways, not their throughput."
        ),
        advice: "Give all gateways the same `workers`, in the profile `equalised`.".into(),
        ..about_run(CODE, severity)
    }
}

/// Compares how many CPUs gateways used in the profile `stock`. In this profile gateways run with their
/// defaults, so a difference is not a mistake.
fn unlike(gateways: &[Workers<'_>]) -> Option<Finding> {
    let used = || gateways.iter().filter_map(|gateway| Some((gateway.used_closed?, gateway.gateway)));
    let least = used().min_by(|a, b| a.0.total_cmp(&b.0))?;
    let most = used().max_by(|a, b| a.0.total_cmp(&b.0))?;
    (most.0 > BEYOND && most.0 > least.0 * UNLIKE).then(|| {
        let message = format!(
            "{} used up to {:.1} CPUs at once, and {} used up to {:.1} CPUs",
            most.1, most.0, least.1, least.0
        );
        let evidence = [("most_cpus", most.0.into()), ("least_cpus", least.0.into())];
        incomparable(Severity::Note, (most.1, least.1), evidence, &message)
    })
}

/// Checks whether a gateway used more CPUs at once than it has workers. The number of its threads does not
/// matter.
fn beyond(gateway: &Workers<'_>) -> Option<Finding> {
    let (declared, used) = (gateway.declared?, gateway.used?);
    (used > f64::from(declared) * BEYOND).then(|| Finding {
        evidence: evidence([
            ("gateway", gateway.gateway.into()),
            ("workers", declared.into()),
            ("cpus_used", used.into()),
            ("limit", BEYOND.into()),
        ]),
        message: format!(
            "{} used {used:.1} CPUs at once with {declared} worker{}. A gateway that obeys `workers` uses \
            fewer CPUs.",
            gateway.gateway,
            if declared == 1 { "" } else { "s" }
        ),
        advice: "Check with `hoptax lint` whether the gateway's pack obeys `workers`. `held_to_cpus: true` \
                 in the pack limits the gateway to as many CPUs as it has workers."
            .into(),
        ..about_run(CODE, Severity::Warning)
    })
}

/// Checks whether a gateway has more workers than CPUs. If so, workers wait for each other because of the
/// plan, not because of the gateway.
fn crowded(gateway: &Workers<'_>) -> Option<Finding> {
    let declared = gateway.declared?;
    (gateway.cpus > 0 && declared > gateway.cpus).then(|| Finding {
        evidence: evidence([
            ("gateway", gateway.gateway.into()),
            ("workers", declared.into()),
            ("cpus", gateway.cpus.into()),
        ]),
        message: format!(
            "{} ran with {declared} workers on {} CPU{}, so its workers wait for each other.",
            gateway.gateway,
            gateway.cpus,
            if gateway.cpus == 1 { "" } else { "s" }
        ),
        advice: "Give the gateway no more `workers` than CPUs in `cpus:`.".into(),
        ..about_run(CODE, Severity::Warning)
    })
}

#[cfg(test)]
hoptax_pages::stated! {
    FINDINGS "From {} times the number of workers it counts as more" number(BEYOND);
    FINDINGS "a ratio of {} or more in closed loops is noted" number(UNLIKE);
    FINDINGS "the gateway's CPU time in its busiest {} second" fraction(SPAN as f64 / 10.0);
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;

    struct Made {
        label: &'static str,
        workers: Option<u32>,
        /// CPUs used in each window of each round.
        rounds: Vec<Vec<f64>>,
        threads: u32,
        cpus: u32,
    }

    fn made(label: &'static str, workers: u32, used: f64) -> Made {
        Made { label, workers: Some(workers), rounds: vec![vec![used; 10]], threads: workers, cpus: 2 }
    }

    fn run(gateways: &[Made], profile: Profile) -> Run {
        let mut run = Run::closed(8);
        run.record.plan.profile = profile;
        for gateway in gateways {
            for (round, windows) in gateway.rounds.iter().enumerate() {
                let mut trial = via(gateway.label, round as u32);
                let usage = trial.0.gateway.as_mut().expect("watched");
                usage.busy_threads = Some(gateway.threads);
                usage.cpus_allowed = (0..gateway.cpus).collect();
                usage.cpu_ns_by_window =
                    windows.iter().map(|cpus| (cpus * WINDOW_NS as f64) as u64).collect();
                run.push(trial);
            }
            run.record.contenders.last_mut().expect("pushed").workers = gateway.workers;
        }
        run
    }

    fn found(gateways: &[Made]) -> Vec<Finding> {
        raised(&run(gateways, Profile::Equalised), CODE)
    }

    #[test]
    fn raised_by_different_numbers_of_workers() {
        let found = found(&[made("nginx", 1, 0.9), made("envoy", 2, 1.6)]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].evidence["most"], "envoy");
        assert_eq!(found[0].evidence["most_workers"], 2);
        assert_eq!(found[0].severity, Severity::Warning);
    }

    #[test]
    fn raised_by_more_cpus_at_once_than_workers() {
        let varnish = Made { threads: 40, ..made("varnish", 1, 1.6) };
        let found = found(&[made("nginx", 1, 0.9), varnish]);
        assert_eq!(found[0].evidence["gateway"], "varnish");
        insta::assert_snapshot!(texts(&found));
        // With a rate in stages, the gateway is busy only for a short time.
        let peak: Vec<f64> = [vec![0.1; 20], vec![1.9; 5], vec![0.1; 20]].concat();
        let found =
            raised(&run(&[Made { rounds: vec![peak], ..made("caddy", 1, 0.0) }], Profile::Equalised), CODE);
        assert_eq!(found.len(), 1);
    }

    #[test]
    fn raised_by_more_workers_than_cpus() {
        let found = found(&[Made { threads: 32, cpus: 16, ..made("tyk", 32, 14.0) }]);
        assert_eq!(found.len(), 1);
        assert_eq!((&found[0].evidence["workers"], &found[0].evidence["cpus"]), (&32.into(), &16.into()));
    }

    #[test]
    fn a_note_in_the_stock_profile() {
        let stock = |label, used| Made { workers: None, ..made(label, 1, used) };
        let found = raised(&run(&[stock("nginx", 0.9), stock("envoy", 1.9)], Profile::Stock), CODE);
        assert_eq!(found.iter().map(|finding| finding.severity).collect::<Vec<_>>(), [Severity::Note]);
        assert_eq!(found[0].evidence["most_cpus"], 1.9);
        let alike = [stock("nginx", 0.4), stock("envoy", 1.1)];
        assert_eq!(raised(&run(&alike, Profile::Stock), CODE), [], "both need one CPU only");
    }

    #[test]
    fn not_raised_by_equal_workers_pools_hops_or_a_single_round() {
        let idle = Made { threads: 1, ..made("nginx", 2, 0.5) };
        assert_eq!(found(&[idle, made("envoy", 2, 1.9)]), [], "an idle worker counts too");
        let pool = Made { threads: 60, ..made("apache", 1, 0.97) };
        assert_eq!(found(&[made("nginx", 1, 0.99), pool]), [], "threads that take turns on one CPU");
        assert_eq!(found(&[made("nginx", 2, 1.6), made("hop-l4", 1, 0.9)]), []);
        let mut windows = vec![0.9; 30];
        windows[7] = 1.8;
        let rounds = vec![windows, vec![1.9; 30], vec![0.9; 30]];
        assert_eq!(found(&[Made { rounds, ..made("nginx", 1, 0.0) }]), [], "one round");
    }
}
