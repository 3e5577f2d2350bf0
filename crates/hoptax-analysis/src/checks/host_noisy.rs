//! `host-noisy`: the hypervisor or processes outside of the run took CPU time during trials.

use super::{Concerns, Finding, MANY, Measured, Rule, Severity, Subject, evidence, percent, with_host};
use crate::{Case, Trial, headline};
use hoptax_format::record::WINDOW_NS;
use hoptax_plan::{GatewayKind, Upstream};
use hoptax_record::report::Load;
use hoptax_record::start::StartRecord;
use hoptax_record::{HostUsage, Stalled, TrialRecord};

const CODE: &str = "host-noisy";
/// Limit for the CPU time that the hypervisor takes during a trial, as a share of the time of all CPUs.
const STEAL: f64 = 0.05;
/// Limit for the CPU time that processes outside of the run use during a trial, as a share of the time of all
/// CPUs.
const FOREIGN: f64 = 0.05;

/// Share of disturbed trials above which a search finds the rate of a disturbed machine. In simulation, 95 %
/// intervals hold the capacity in about 9 of 10 searches if one trial in four is spoilt, and in fewer than
/// half if every second one is.
const SPOILT: f64 = 0.25;

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: format!(
            "warning; a note if at most {0} of all trials, and of each case at the answer's load point, are \
             affected; void for a search if more than {1} of its trials are",
            percent(MANY),
            percent(SPOILT)
        ),
        when: format!(
            "in a trial or a start, the hypervisor took more than {0} of all CPU time, a CPU stood still for \
             more than {0} of the time, or processes outside of the run used more than {1} of all CPU time, \
             on a host that the trial's requests pass",
            percent(STEAL),
            percent(FOREIGN)
        ),
        seen: "Response times contain that time.",
        advice: "Measure when nothing else runs, or on a dedicated machine. More rounds (a longer `time`) \
            narrow the intervals.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    if !subject.starts.is_empty() {
        return of_starts(subject).into_iter().collect();
    }
    of_rounds(subject).into_iter().chain(of_searches(subject)).collect()
}

/// The finding about the trials in rounds.
fn of_rounds(subject: &Subject<'_>) -> Option<Finding> {
    let hosts = || {
        subject.measured().flat_map(|(case, trials)| {
            trials.iter().flat_map(move |trial| {
                trial.record.machines().map(move |(machine, host)| (case, trial.round(), machine, host))
            })
        })
    };
    let noisy = subject
        .measured()
        .map(|(_, trials)| trials.iter().filter(|trial| is_noisy(trial)).count())
        .sum::<usize>();
    let worst = hosts().max_by(|(_, _, _, a), (_, _, _, b)| missing(a).total_cmp(&missing(b)));
    let (case, round, machine, host) = worst.filter(|_| noisy > 0)?;
    let trials: usize = subject.measured().map(|(_, trials)| trials.len()).sum();
    let evidence = evidence([
        ("trials", trials.into()),
        ("noisy_trials", noisy.into()),
        ("worst_case", case.case.clone().into()),
        ("worst_round", (round + 1).into()),
        ("worst_steal", host.steal.into()),
        ("worst_foreign", host.foreign.into()),
    ]);
    Some(Finding {
        code: CODE,
        severity: if is_often_noisy(subject) { Severity::Warning } else { Severity::Note },
        concerns: Concerns::ALL,
        case: None,
        evidence: with_host(evidence, "worst_host", subject.host_in_words(case.load.index, machine)),
        message: format!(
            "The hypervisor or other processes took CPU time in {noisy} of {trials} trials. In the worst \
             trial (round {}, {}), the hypervisor took {} of all CPU time{}, and processes outside of the \
             run used {}{}.",
            round + 1,
            case.case,
            percent(host.steal),
            subject.on_host(case.load.index, machine),
            percent(host.foreign),
            most_of_it(host)
        ),
        advice: format!(
            "{}Measure when nothing else runs, or on a dedicated machine. More rounds (a longer `time`) \
             narrow the intervals. Direct and gateways are measured in the same rounds, so the noise \
             affects both. The noise floor shows how large the noise is.{}",
            unknown_processes(subject, host),
            read_quiet(subject)
        ),
    })
}

/// The finding about each search. A search has no rounds in which direct and gateways are disturbed alike,
/// and the rates that it finds are those of the machine as it was.
fn of_searches(subject: &Subject<'_>) -> Vec<Finding> {
    let loads = Load::all(&subject.run.load);
    loads.iter().filter_map(|load| of_search(subject, load)).collect()
}

fn of_search(subject: &Subject<'_>, load: &Load) -> Option<Finding> {
    let is_step = |trial: &&TrialRecord| {
        trial.load as usize == load.index && trial.step.is_some() && trial.failed.is_none()
    };
    let steps = || subject.records.iter().filter(is_step);
    let noisy = steps().filter(|trial| has_noise(trial)).count();
    let hosts = steps().flat_map(|trial| trial.machines().map(move |(machine, host)| (trial, machine, host)));
    let (worst, machine, host) = hosts.max_by(|(_, _, a), (_, _, b)| missing(a).total_cmp(&missing(b)))?;
    let trials = steps().count();
    let is_more = |share: f64| noisy as f64 > share * trials as f64;
    let (severity, so) = match () {
        () if is_more(SPOILT) => (
            Severity::Void,
            "The rates are those of a disturbed machine: another search may find half or twice as much.",
        ),
        () if is_more(MANY) => (Severity::Warning, "A disturbed trial can fail at a rate that would hold."),
        () if noisy > 0 => (Severity::Note, "The fit allows for single disturbed trials."),
        () => return None,
    };
    let evidence = evidence([
        ("trials", trials.into()),
        ("noisy_trials", noisy.into()),
        ("worst_contender", worst.contender.clone().into()),
        ("worst_steal", host.steal.into()),
        ("worst_foreign", host.foreign.into()),
    ]);
    Some(Finding {
        code: CODE,
        severity,
        concerns: Concerns::ALL,
        case: Some(load.label.clone()),
        evidence: with_host(evidence, "worst_host", subject.host_in_words(load.index, machine)),
        message: format!(
            "The hypervisor or other processes took CPU time in {noisy} of {trials} trials of the search. \
             In the worst trial ({}), the hypervisor took {} of all CPU time{}, and processes outside of \
             the run used {}{}. {so}",
            worst.contender,
            percent(host.steal),
            subject.on_host(load.index, machine),
            percent(host.foreign),
            most_of_it(host)
        ),
        advice: "Search when nothing else runs, or on a dedicated machine.".into(),
    })
}

/// Index of the only load point of a run of starts.
const LOAD: usize = 0;

/// The finding about a run of starts.
fn of_starts(subject: &Subject<'_>) -> Option<Finding> {
    let is_noisy = |start: &&StartRecord| start.machines().any(|(_, host)| is_disturbed(host));
    let noisy = || subject.starts.iter().filter(is_noisy);
    let machines = noisy().flat_map(|start| start.machines().map(move |(name, host)| (start, name, host)));
    let (worst, machine, host) = machines.max_by(|(_, _, a), (_, _, b)| missing(a).total_cmp(&missing(b)))?;
    let (count, starts) = (noisy().count(), subject.starts.len());
    let evidence = evidence([
        ("starts", starts.into()),
        ("noisy_starts", count.into()),
        ("worst_round", (worst.round + 1).into()),
        ("worst_steal", host.steal.into()),
        ("worst_foreign", host.foreign.into()),
    ]);
    Some(Finding {
        code: CODE,
        severity: if count as f64 > MANY * starts as f64 { Severity::Warning } else { Severity::Note },
        concerns: Concerns::ALL,
        case: None,
        evidence: with_host(evidence, "worst_host", subject.host_in_words(LOAD, machine)),
        message: format!(
            "The hypervisor or other processes took CPU time in {count} of {starts} starts. In the worst \
             start (round {}, {}), the hypervisor took {} of all CPU time{}, and processes outside of the \
             run used {}{}.",
            worst.round + 1,
            worst.contender,
            percent(host.steal),
            subject.on_host(LOAD, machine),
            percent(host.foreign),
            most_of_it(host)
        ),
        advice: "Measure when nothing else runs, or on a dedicated machine. More starts narrow the \
                 intervals. Medians ignore a disturbance of fewer than half of the starts."
            .into(),
    })
}

/// Names the busiest process outside of the run, if such processes used too much CPU time, and the stalls of
/// the CPUs.
fn most_of_it(host: &HostUsage) -> String {
    let busiest = host.busiest_foreign.as_ref().filter(|_| host.foreign > FOREIGN);
    let process = busiest.map_or(String::new(), |process| format!(", most of it `{}`", process.name));
    match host.stalled.as_ref().filter(|stalled| stalled.count > 0) {
        Some(Stalled { count, longest_ns, .. }) => {
            let longest = *longest_ns as f64 / 1e6;
            format!("{process}; CPUs stood still {count} times, for up to {longest:.1} ms")
        }
        None => process,
    }
}

/// Advice to name the processes of services that already run: hoptax cannot tell the CPU time of unknown
/// processes from noise.
fn unknown_processes(subject: &Subject<'_>, host: &HostUsage) -> String {
    if host.foreign <= FOREIGN {
        return String::new();
    }
    let is_unknown = |label: &str| {
        let gateway = subject.gateway(label).map(|gateway| &gateway.kind);
        matches!(gateway, Some(GatewayKind::External { pid: None, prometheus: None, pods: None, .. }))
    };
    let gateways = subject.gateways().filter(|(case, trials)| {
        is_unknown(&case.gateway) && trials.iter().all(|trial| trial.record.gateway.is_none())
    });
    let mut names: Vec<&str> = gateways.map(|(case, _)| case.gateway.as_str()).collect();
    names.dedup();
    let upstream = match &subject.run.plan.upstream {
        Upstream::Running(running) => running.pid.is_none(),
        Upstream::BuiltIn(_) => false,
    };
    let is_watched = |(_, trials): Measured<'_>| trials.iter().any(|trial| trial.record.upstream.is_some());
    if upstream && !subject.measured().any(is_watched) {
        names.push("the upstream");
    }
    if names.is_empty() {
        return String::new();
    }
    format!(
        "hoptax does not know the process of {}, so its CPU time counts as that of other processes: add its \
         `pid` to the plan if it runs on this host. ",
        names.join(", ")
    )
}

fn is_noisy(trial: &Trial<'_>) -> bool {
    has_noise(trial.record)
}

fn has_noise(trial: &TrialRecord) -> bool {
    trial.machines().any(|(_, host)| is_disturbed(host))
}

/// The share of the time in which the CPU with the longest stalls stood still.
fn stalled(host: &HostUsage) -> f64 {
    let stalled = host.stalled.iter().flat_map(|stalled| stalled.ns_by_cpu.values());
    let share = |windows: &Vec<u64>| {
        windows.iter().sum::<u64>() as f64 / (windows.len().max(1) as u64 * WINDOW_NS) as f64
    };
    stalled.map(share).fold(0.0, f64::max)
}

/// How much of the CPUs was missing, to find the worst trial.
fn missing(host: &HostUsage) -> f64 {
    host.steal + host.foreign + stalled(host)
}

fn is_disturbed(host: &HostUsage) -> bool {
    host.steal > STEAL || host.foreign > FOREIGN || stalled(host) > STEAL
}

/// True if more than a few trials of the run, or of a case at the load point of the answer, were noisy.
fn is_often_noisy(subject: &Subject<'_>) -> bool {
    let noisy = |trials: &[Trial<'_>]| trials.iter().filter(|trial| is_noisy(trial)).count();
    let answer = headline::for_latency(&mut subject.measured().map(|(case, _)| &case.load));
    let is_of_answer = |case: &Case| Some(case.load.index) == answer.map(|load| load.index);
    let (mut all, mut all_noisy) = (0, 0);
    for (case, trials) in subject.measured() {
        if is_of_answer(case) && noisy(trials) as f64 > MANY * trials.len() as f64 {
            return true;
        }
        all += trials.len();
        all_noisy += noisy(trials);
    }
    all_noisy as f64 > MANY * all as f64
}

/// Advice to read the quiet figures. Empty if no window was left out because of steal.
fn read_quiet(subject: &Subject<'_>) -> &'static str {
    let quiet = || subject.measured().filter_map(|(case, _)| case.quiet.as_ref());
    match quiet().any(|quiet| quiet.leaves_out() && quiet.trials > 0) {
        true => " The figures of quiet windows leave out the disturbed time.",
        false => "",
    }
}

#[cfg(test)]
hoptax_pages::stated! {
    METHODOLOGY "If more than {} of a search's trials were disturbed" percent(SPOILT);
}

#[cfg(test)]
mod tests {
    use super::super::tests::{raised, texts};
    use super::*;
    use crate::fixture::hosts::{from_two_hosts, on_hosts};
    use crate::fixture::{Run, closed_point, open_point, searched_point, via};
    use hoptax_record::ForeignProcess;

    #[test]
    fn raised_once_with_the_worst_trial() {
        let mut run = Run::closed(1);
        run.push(via("nginx", 0).host(0.06, 0.0)).push(via("nginx", 1).host(0.0, 0.2));
        run.push(via("nginx", 2).host(0.01, 0.01));
        let findings = raised(&run, CODE);
        assert_eq!(findings.len(), 1);
        let evidence = &findings[0].evidence;
        assert_eq!((&evidence["noisy_trials"], &evidence["trials"]), (&2.into(), &3.into()));
        assert_eq!((&evidence["worst_round"], &evidence["worst_foreign"]), (&2.into(), &0.2.into()));
    }

    #[test]
    fn a_search_whose_trials_are_disturbed_is_void() {
        let cases =
            [(0, None), (1, Some(Severity::Note)), (3, Some(Severity::Warning)), (6, Some(Severity::Void))];
        for (noisy, expected) in cases {
            let mut run = Run::with_load(vec![searched_point()]);
            for at in 0..20 {
                let foreign = if at < noisy { 0.9 } else { 0.0 };
                run.push(via("nginx", at).all_at_us(100).step(500.0).host(0.0, foreign));
            }
            let found = raised(&run, CODE);
            assert_eq!(found.first().map(|one| one.severity), expected, "{noisy} of 20: {found:?}");
            assert!(found.iter().all(|one| one.evidence["noisy_trials"] == noisy), "{found:?}");
            if expected == Some(Severity::Void) {
                insta::assert_snapshot!(texts(&found));
            }
        }
    }

    #[test]
    fn names_the_process_that_used_most() {
        for (foreign, named) in [(0.2, true), (0.01, false)] {
            let mut trial = via("nginx", 0).host(0.1, foreign);
            trial.0.host.busiest_foreign = Some(ForeignProcess { name: "cargo".into(), cpu_ns: 1 });
            let mut run = Run::closed(1);
            run.push(trial);
            assert_eq!(raised(&run, CODE)[0].message.contains("used 20 %, most of it `cargo`."), named);
        }
    }

    #[test]
    fn raised_if_cpus_stood_still_although_there_was_no_steal() {
        for (ms, count) in [(50, 0), (60, 1)] {
            let mut trial = via("nginx", 0);
            let windows = vec![ms * 1_000_000, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            let ns_by_cpu = std::collections::BTreeMap::from([(1, windows)]);
            trial.0.host.stalled = Some(Stalled { count: 9, longest_ns: 5_700_000, ns_by_cpu });
            let mut run = Run::closed(1);
            run.push(trial);
            let found = raised(&run, CODE);
            assert_eq!(found.len(), count, "{ms} ms of a second");
            let words = "CPUs stood still 9 times, for up to 5.7 ms";
            assert!(found.iter().all(|one| one.message.contains(words)), "{found:?}");
        }
    }

    #[test]
    fn a_gateway_without_a_process_may_be_the_noise() {
        let advice = |watched: bool, foreign: f64| {
            let mut run = Run::closed(1);
            let trial = via("mine", 0).host(0.1, foreign);
            run.push(if watched { trial } else { trial.unwatched() });
            run.record.plan.gateways = vec![crate::fixture::features::external("mine")];
            raised(&run, CODE).remove(0).advice
        };
        assert!(advice(false, 0.4).starts_with("hoptax does not know the process of mine, so its CPU time"));
        assert!(!advice(true, 0.4).contains("pid"), "its process was found");
        assert!(!advice(false, 0.01).contains("pid"), "the hypervisor took the time");
    }

    #[test]
    fn a_note_if_few_trials_are_noisy() {
        for (noisy, expected) in [(2, Severity::Note), (3, Severity::Warning)] {
            let mut run = Run::closed(1);
            for round in 0..20 {
                let steal = if round < noisy { 0.06 } else { 0.0 };
                run.push(via("nginx", round).host(steal, 0.0)).push(via("envoy", round));
            }
            let found = raised(&run, CODE);
            assert_eq!((found.len(), found[0].severity), (1, expected), "{noisy} of 20");
        }
    }

    #[test]
    fn noise_away_from_the_answer_is_a_note_if_it_is_rare() {
        let severity = |load: u32| {
            let mut run = Run::with_load(vec![open_point(1000.0, 8, 1), closed_point(32, 1)]);
            for round in 0..20 {
                for at in 0..2 {
                    let steal = if at == load && round < 3 { 0.06 } else { 0.0 };
                    run.push(via("nginx", round).at_load(at).host(steal, 0.0));
                    run.push(via("envoy", round).at_load(at));
                }
            }
            raised(&run, CODE)[0].severity
        };
        assert_eq!((severity(0), severity(1)), (Severity::Warning, Severity::Note));
    }

    #[test]
    fn mentions_quiet_figures_if_there_are_any() {
        let run = |stolen: &[u64]| {
            let mut run = Run::closed(1);
            run.push(via("nginx", 0).windows_us(&vec![vec![100]; 10]).stolen_ms(stolen).host(0.06, 0.0));
            raised(&run, CODE).remove(0).advice
        };
        assert!(run(&[0, 0, 30, 0, 0, 0, 0, 0, 0, 0]).contains("quiet windows"));
        assert!(!run(&[0; 10]).contains("quiet windows"), "foreign processes leave no window out");
        assert!(!run(&[30; 10]).contains("quiet windows"), "none is left");
    }

    #[test]
    fn raised_by_starts_on_a_noisy_machine() {
        for (noisy, expected) in [(0, None), (2, Some(Severity::Note)), (9, Some(Severity::Warning))] {
            let mut run = crate::fixture::starts::started(20, &[]);
            run.starts.iter_mut().take(noisy).for_each(|start| start.host.steal = 0.2);
            let found = raised(&run, CODE);
            assert_eq!(found.first().map(|one| one.severity), expected, "{noisy} of 40");
            assert!(found.iter().all(|one| one.evidence["noisy_starts"] == noisy), "{found:?}");
        }
    }

    #[test]
    fn starts_are_disturbed_on_the_gateways_host_too() {
        let mut run = crate::fixture::starts::started(20, &[]);
        run.record.hosts = on_hosts(&[]).record.hosts;
        for start in run.starts.iter_mut().take(9) {
            start.hosts.insert("edge".into(), HostUsage { steal: 0.2, ..HostUsage::default() });
        }
        let found = raised(&run, CODE);
        assert_eq!((found.len(), &found[0].evidence["noisy_starts"]), (1, &9.into()), "{found:?}");
        insta::assert_snapshot!(texts(&found));
    }

    #[test]
    fn names_the_host_that_was_disturbed() {
        // `edge` sends the second load, so `trial.host` is the usage of `edge`.
        let mut run = from_two_hosts();
        for trial in run.trials.iter_mut().filter(|trial| trial.load == 1) {
            trial.host.steal = 0.3;
        }
        let found = raised(&run, CODE);
        insta::assert_snapshot!(texts(&found));
        for trial in run.trials.iter_mut().filter(|trial| trial.load == 0) {
            let there = trial.hosts.get_mut("edge").expect("there").usage.as_mut();
            there.expect("its own").steal = 0.4;
        }
        let found = raised(&run, CODE);
        insta::assert_snapshot!(texts(&found));

        let mut run = on_hosts(&[("nginx", 850)]);
        for trial in &mut run.trials {
            // Direct requests do not pass the gateway's host.
            trial.hosts.get_mut("edge").expect("there").usage.as_mut().expect("its own").steal = 0.3;
        }
        let found = raised(&run, CODE);
        assert_eq!((found.len(), &found[0].evidence["noisy_trials"]), (1, &4.into()), "{found:?}");
        assert_eq!(found[0].evidence["worst_host"], "host edge (gateway)");
        insta::assert_snapshot!(texts(&found));
        run.trials.retain(|trial| trial.contender == "direct");
        assert_eq!(raised(&run, CODE), []);
    }

    #[test]
    fn not_raised_on_a_quiet_machine() {
        let mut run = Run::closed(1);
        run.push(via("nginx", 0).host(0.05, 0.05));
        assert_eq!(raised(&run, CODE), []);
    }
}
