//! Builds the report model from a run and its analysis.

use super::format::Scale;
use super::model::Model;
use super::prices::PriceList;
use super::{capacity, sentence};
use hoptax_analysis::{Analysis, Case, analyse, precision_over_time};
use hoptax_plan::recorded::{Run, RunRecord};
use hoptax_plan::units::show_duration;
use hoptax_plan::{Running, Target, Trials, Upstream};
use hoptax_record::Stopped;
use hoptax_record::report::HostLooks;
use std::time::{Duration, UNIX_EPOCH};

impl Model {
    /// The model of a run. `unreadable` describes the lines of the run's records that could not be read.
    pub fn new(run: &RunRecord, trials_recorded: usize, analysis: Analysis, unreadable: &[String]) -> Self {
        let ended = run.ended.as_ref();
        let answer = sentence::answer(run, &analysis);
        let prices = PriceList::new(&analysis);
        let summary = capacity::add_sentences(sentence::summaries(run, &analysis), &analysis);
        Self {
            name: run.plan.name.clone(),
            interrupted: ended.is_none_or(|ended| ended.interrupted),
            hoptax: run.hoptax.clone(),
            started: timestamp(run.started_unix_ns),
            ended: ended.map(|ended| timestamp(ended.unix_ns)),
            seed: run.seed,
            command: run.command.clone(),
            plan_text: run.plan_text.clone(),
            rounds: rounds(run, &analysis),
            stopped: run.stopped,
            target: Target::describe_all(&run.plan.targets),
            profile: run.plan.profile,
            trials_planned: run.trials_planned,
            trials_recorded,
            environment: run.environment.clone(),
            host: HostLooks { at_start: run.host_at_start.clone(), at_end: run.host_at_end.clone() },
            contenders: run.contenders.clone(),
            answer,
            summary,
            prices,
            pairs: analysis.pairs,
            noise_floor: analysis.noise_floor,
            cases: analysis.cases,
            capacity: analysis.capacity,
            precision: Vec::new(),
            findings: analysis.findings,
            budget: analysis.budget,
            notes: notes(run, trials_recorded, unreadable),
            rendered: Vec::new(),
        }
    }

    /// The model of a run that was read from its directory.
    pub fn of(run: &Run) -> Self {
        let analysis = analyse(&run.record, &run.trials);
        let model = Self::new(&run.record, run.trials.len(), analysis, &run.unreadable);
        let precision = precision_over_time(&run.record, &run.trials);
        Self { rendered: run.rendered(), precision, ..model }
    }
}

/// Number of planned rounds. With `trials: auto`, this is the number of rounds that were started.
fn rounds(run: &RunRecord, analysis: &Analysis) -> u32 {
    match run.plan.trials {
        _ if analysis.cases.is_empty() => 0,
        Trials::Fixed(rounds) => rounds,
        Trials::Auto(_) => {
            let of = |case: &Case| case.series.iter().map(|series| series.round + 1).max();
            analysis.cases.iter().filter_map(of).max().unwrap_or(0)
        }
    }
}

/// The reason why `trials: auto` did not start another round.
fn why_stopped(run: &RunRecord) -> Option<String> {
    let Trials::Auto(auto) = run.plan.trials else { return None };
    let within = match auto.within_us {
        Some(limit) => format!("±{}", Scale::of_us(limit).value(limit)),
        None => Scale::percent().value(auto.within),
    };
    Some(match run.stopped? {
        Stopped::Narrow => format!("Rounds continued until each headline tax was known within {within}."),
        Stopped::Budget => format!(
            "Rounds stopped because another round would not have fit into {}: not every headline tax is known within \
             {within}.",
            show_duration(auto.at_most)
        ),
        Stopped::Rounds => format!(
            "Rounds stopped at the maximum of {}: not every headline tax is known within {within}.",
            auto.most
        ),
    })
}

fn notes(run: &RunRecord, trials_recorded: usize, unreadable: &[String]) -> Vec<String> {
    let mut notes = Vec::new();
    match &run.ended {
        None => {
            notes.push("The run was killed or is still running: this report has the trials so far.".into());
        }
        Some(ended) if ended.interrupted => {
            let planned = run.trials_planned;
            notes.push(format!("The run was interrupted after {trials_recorded} of {planned} trials."));
        }
        Some(_) => {}
    }
    notes.extend(why_stopped(run));
    if let Upstream::Running(upstream) = &run.plan.upstream {
        notes.push(about_upstream(upstream));
    }
    notes.extend(unreadable.iter().map(|line| format!("Skipped an unreadable record: {line}.")));
    notes
}

/// Describes what is unknown about an upstream that hoptax did not start.
fn about_upstream(upstream: &Running) -> String {
    let url = &upstream.url;
    let unwatched = upstream.pid.is_none();
    match (&upstream.ledger, unwatched) {
        (None, true) => format!(
            "The upstream at {url} is external. It has no ledger, so extra upstream requests are unknown. Its CPU time \
             was not measured."
        ),
        (None, false) => format!(
            "The upstream at {url} is external and has no ledger, so extra upstream requests are unknown."
        ),
        (Some(_), true) => format!(
            "The upstream at {url} is external. Its ledger has only its own count of requests. Its CPU time was not \
             measured."
        ),
        (Some(_), false) => {
            format!("The upstream at {url} is external. Its ledger has only its own count of requests.")
        }
    }
}

fn timestamp(unix_ns: u64) -> String {
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_nanos(unix_ns)).to_string()
}
