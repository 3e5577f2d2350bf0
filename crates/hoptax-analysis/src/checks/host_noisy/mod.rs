//! `host-noisy`: the hypervisor or processes outside of the run took CPU time during trials.

mod passes;

pub use passes::of_passes;

use super::{
    Concerns, Figures, Finding, MANY, Measured, Rule, Severity, Subject, about, about_run, evidence, percent,
    with_host,
};
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
/// intervals contain the capacity in about 9 of 10 searches if one trial in four is disturbed. They contain
/// it in fewer than half of the searches if every second trial is.
const SPOILT: f64 = 0.25;

/// Share of disturbed trials above which the figures of rounds describe a disturbed machine. In a simulation,
/// everything takes twice as long in a disturbed trial (`hoptax-stats/src/simulation/disturbed.rs`). Up to
/// this share, 95 % intervals of medians contain the value of the undisturbed machine in 9 of 10 runs.
const DISTURBED: f64 = 0.15;
/// Figures are void only if at least this many trials were disturbed. At the start of a run, two trials are
/// already a large share.
const LEAST_DISTURBED: usize = 3;

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: format!(
            "warning; a note if at most {0} of all trials, and at most {0} of the trials of each case at the \
             answer's load point, are affected; void if more than {1} of all trials (starts, profiling \
             passes), or of the trials at the answer's load point, are affected; void for a search if more \
             than {2} of its trials are affected",
            percent(MANY),
            percent(DISTURBED),
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
        advice: "Measure when nothing else runs, on a dedicated machine, or in more rounds (a longer \
            `time`).",
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
    let severity = severity_of_rounds(subject);
    let (concerns, so) = match severity {
        Severity::Void => (Concerns::only(Figures::Machine), ORDER_HOLDS),
        _ => (Concerns::ALL, ""),
    };
    let evidence = evidence([
        ("trials", trials.into()),
        ("noisy_trials", noisy.into()),
        ("worst_case", case.case.clone().into()),
        ("worst_round", (round + 1).into()),
        ("worst_steal", host.steal.into()),
        ("worst_foreign", host.foreign.into()),
    ]);
    Some(Finding {
        concerns,
        evidence: with_host(evidence, "worst_host", subject.host_in_words(case.load.index, machine)),
        message: format!(
            "The hypervisor or other processes took CPU time in {noisy} of {trials} trials. In the worst \
             trial (round {}, {}), the hypervisor took {} of all CPU time{}, and processes outside of the \
             run used {}{}.{so}",
            round + 1,
            case.case,
            percent(host.steal),
            subject.on_host(case.load.index, machine),
            percent(host.foreign),
            most_of_it(host)
        ),
        advice: unknown_processes(subject, host)
            + QUIETER
            + if severity == Severity::Void { "" } else { MORE_ROUNDS }
            + read_quiet(subject),
        ..about_run(CODE, severity)
    })
}

const QUIETER: &str = "Measure when nothing else runs, or on a dedicated machine.";
const MORE_ROUNDS: &str = " More rounds (a longer `time`) narrow the intervals. Direct and gateways are \
     measured in the same rounds, so the noise affects both. The noise floor shows how large the noise is.";

/// What is still true of a disturbed run of rounds. In simulation, a disturbance makes it harder to tell two
/// gateways apart, but does not reverse them.
const ORDER_HOLDS: &str = " The figures are those of a disturbed machine: another run may show others. Which \
     of two gateways costs more holds, because both were measured in the same rounds.";

/// The finding about each search. A search has no rounds in which direct and gateways are disturbed alike. It
/// finds the rate of the machine with the disturbance.
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
        () if is_more(MANY) => (Severity::Warning, "A disturbed trial can fail at a sustainable rate."),
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
        ..about(CODE, severity, &load.label)
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
    let tally = subject.starts.iter().map(|start| Tally::one(start.machines()));
    let severity = tally.fold(Tally::default(), Tally::plus).severity(!unknown_services(subject).is_empty());
    let so = match severity {
        Severity::Void => " The times are those of a disturbed machine: other starts may take others.",
        _ => "",
    };
    let evidence = evidence([
        ("starts", starts.into()),
        ("noisy_starts", count.into()),
        ("worst_round", (worst.round + 1).into()),
        ("worst_steal", host.steal.into()),
        ("worst_foreign", host.foreign.into()),
    ]);
    Some(Finding {
        evidence: with_host(evidence, "worst_host", subject.host_in_words(LOAD, machine)),
        message: format!(
            "The hypervisor or other processes took CPU time in {count} of {starts} starts. In the worst \
             start (round {}, {}), the hypervisor took {} of all CPU time{}, and processes outside of the \
             run used {}{}.{so}",
            worst.round + 1,
            worst.contender,
            percent(host.steal),
            subject.on_host(LOAD, machine),
            percent(host.foreign),
            most_of_it(host)
        ),
        advice: match severity {
            Severity::Void => QUIETER.into(),
            _ => format!("{QUIETER} More starts narrow the intervals."),
        },
        ..about_run(CODE, severity)
    })
}

/// The end of a sentence about a host. It names the busiest process outside of the run if such processes used
/// too much CPU time, and says how often and for how long CPUs stood still.
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

/// Advice to name the processes of services that already run.
fn unknown_processes(subject: &Subject<'_>, host: &HostUsage) -> String {
    let names = unknown_services(subject);
    if host.foreign <= FOREIGN || names.is_empty() {
        return String::new();
    }
    format!(
        "hoptax does not know the process of {}, so its CPU time counts as that of other processes: add its \
         `pid` to the plan if it runs on this host. ",
        names.join(", ")
    )
}

/// The services that already run and whose processes are unknown. hoptax cannot tell their CPU time from
/// noise.
fn unknown_services<'a>(subject: &Subject<'a>) -> Vec<&'a str> {
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
    names
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

/// Share of the CPU time that the run did not get. The trial with the largest share is the worst one.
fn missing(host: &HostUsage) -> f64 {
    host.steal + host.foreign + stalled(host)
}

/// True if the hypervisor took much time.
fn is_taken(host: &HostUsage) -> bool {
    host.steal > STEAL || stalled(host) > STEAL
}

fn is_disturbed(host: &HostUsage) -> bool {
    is_taken(host) || host.foreign > FOREIGN
}

/// Number of trials or starts.
#[derive(Clone, Copy, Default)]
struct Tally {
    all: usize,
    disturbed: usize,
    /// Number of trials or starts that the hypervisor disturbed.
    taken: usize,
}

impl Tally {
    /// One trial or start that used these machines.
    fn one<'m>(machines: impl Iterator<Item = (Option<&'m str>, &'m HostUsage)>) -> Self {
        let (mut disturbed, mut taken) = (false, false);
        for (_, host) in machines {
            disturbed |= is_disturbed(host);
            taken |= is_taken(host);
        }
        Self { all: 1, disturbed: disturbed.into(), taken: taken.into() }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            all: self.all + other.all,
            disturbed: self.disturbed + other.disturbed,
            taken: self.taken + other.taken,
        }
    }

    /// The severity of a finding about these trials. The CPU time of services with unknown processes may look
    /// like noise. If there are such services, only the hypervisor makes figures void.
    fn severity(self, has_unknown: bool) -> Severity {
        let is_more = |count: usize, share: f64| count as f64 > share * self.all as f64;
        let certain = if has_unknown { self.taken } else { self.disturbed };
        match () {
            () if certain >= LEAST_DISTURBED && is_more(certain, DISTURBED) => Severity::Void,
            () if is_more(self.disturbed, MANY) => Severity::Warning,
            () => Severity::Note,
        }
    }
}

/// The gravest of these severities: of all trials together, of all trials at the load point of the answer,
/// and of each case at this load point. A single case counts at most as a warning.
fn severity_of_rounds(subject: &Subject<'_>) -> Severity {
    let has_unknown = !unknown_services(subject).is_empty();
    let answer = headline::for_latency(&mut subject.measured().map(|(case, _)| &case.load));
    let is_of_answer = |case: &Case| Some(case.load.index) == answer.map(|load| load.index);
    let (mut all, mut at_answer) = (Tally::default(), Tally::default());
    let mut gravest = Severity::Note;
    for (case, trials) in subject.measured() {
        let each = trials.iter().map(|trial| Tally::one(trial.record.machines()));
        let of_case = each.fold(Tally::default(), Tally::plus);
        all = all.plus(of_case);
        if is_of_answer(case) {
            at_answer = at_answer.plus(of_case);
            gravest = gravest.min(of_case.severity(has_unknown).max(Severity::Warning));
        }
    }
    gravest.min(all.severity(has_unknown)).min(at_answer.severity(has_unknown))
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
    METHODOLOGY "more than {} of a run's trials" percent(DISTURBED);
}

#[cfg(test)]
mod tests;
