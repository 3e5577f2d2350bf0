//! The one report model: what every format draws, and, serialised, the JSON report itself.

use super::format::Scale;
use super::host::HostLooks;
use super::prices::PriceList;
use super::{capacity, sentence};
use crate::analysis::{
    Analysis, BudgetResult, Capacity, Case, Finding, Load, NoiseFloor, Outcome, Severity, analyse,
};
use crate::plan::Running;
use crate::plan::units::show_duration;
use crate::plan::{Target, Trials, Upstream};
use crate::record::dir::{RenderedFile, Run};
use crate::record::{Contender, Environment, RunRecord, Stopped};
use serde::Serialize;
use std::time::{Duration, UNIX_EPOCH};

/// Version of the JSON report.
const SCHEMA: u32 = 1;

/// What a report says.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Model {
    /// Version of this document.
    pub schema: u32,
    /// The plan's name.
    pub name: String,
    /// Whether the run ended before its last trial: by a signal, or because it was killed.
    pub interrupted: bool,
    /// Version of hoptax that measured.
    pub hoptax: String,
    /// Start, RFC 3339, UTC.
    pub started: String,
    /// End, RFC 3339, UTC; absent if the run was killed.
    pub ended: Option<String>,
    /// Seed of the order and the arrivals.
    pub seed: u64,
    /// The command line.
    pub command: Vec<String>,
    /// The plan as it was typed.
    pub plan_text: String,
    /// Rounds asked for; with `trials: auto` those that were begun; 0 where every load point is searched.
    pub rounds: u32,
    /// Why there was no further round; absent where their number was fixed.
    pub stopped: Option<Stopped>,
    /// Method and path requested; of several targets each with its share.
    pub target: String,
    /// Settings of gateways: `equalised` or `stock`.
    pub profile: crate::plan::Profile,
    /// Trials planned, direct ones included.
    pub trials_planned: u32,
    /// Trials recorded.
    pub trials_recorded: usize,
    /// The machine.
    pub environment: Environment,
    /// How fit the machine was.
    pub host: HostLooks,
    /// Direct and the gateways, with versions, settings and failures.
    pub contenders: Vec<Contender>,
    /// Which gateway adds least, or that it cannot be told; absent where there is no choice.
    pub answer: Option<String>,
    /// One sentence or two per gateway, the least tax first.
    pub summary: Vec<Summary>,
    /// What features cost; without rows where no gateway with features has a sibling without.
    pub prices: PriceList,
    /// How far direct lies from itself.
    pub noise_floor: NoiseFloors,
    /// Every contender at every load point.
    pub cases: Vec<Case>,
    /// The highest rates that were searched for: by load point, then contender, then objective.
    pub capacity: Vec<Capacity>,
    /// Doubts, the gravest first.
    pub findings: Vec<Finding>,
    /// Budgets.
    pub budget: Vec<BudgetResult>,
    /// What is to be known about the records themselves: lines that could not be read, an upstream without a ledger.
    pub notes: Vec<String>,
    /// The files with which gateways ran, for the page; whoever reads the run directory adds them.
    #[serde(skip)]
    pub rendered: Vec<RenderedFile>,
}

/// What is said of one gateway.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// Label.
    pub gateway: String,
    /// What it adds, in words.
    pub sentence: String,
    /// What else there is to say, each a sentence.
    pub details: Vec<String>,
}

impl Summary {
    /// The sentence and the details behind it.
    pub fn in_full(&self) -> String {
        let parts: Vec<&str> =
            std::iter::once(&self.sentence).chain(&self.details).map(String::as_str).collect();
        parts.join(" ")
    }
}

/// The noise floor of each load point.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NoiseFloors {
    /// How it is computed.
    pub definition: &'static str,
    /// One per load point.
    pub by_load: Vec<NoiseFloor>,
}

/// Whether the run is to be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Belief {
    /// No finding is graver than a note.
    Believable,
    /// There are warnings.
    Warnings,
    /// A finding says not to believe a case.
    Void,
}

impl Model {
    /// The model of a run. `unreadable` are lines of the records that were skipped, in words.
    pub fn new(run: &RunRecord, trials_recorded: usize, analysis: Analysis, unreadable: &[String]) -> Self {
        let ended = run.ended.as_ref();
        let answer = sentence::answer(run, &analysis);
        let prices = PriceList::new(&analysis);
        let summary = capacity::add_sentences(sentence::summaries(run, &analysis), &analysis);
        Self {
            schema: SCHEMA,
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
            noise_floor: NoiseFloors {
                definition: "root mean square over rounds of (direct last − direct first)",
                by_load: analysis.noise_floor,
            },
            cases: analysis.cases,
            capacity: analysis.capacity,
            findings: analysis.findings,
            budget: analysis.budget,
            notes: notes(run, trials_recorded, unreadable),
            rendered: Vec::new(),
        }
    }

    /// Everything that a run directory tells.
    pub fn of(run: &Run) -> Self {
        let analysis = analyse(&run.record, &run.trials);
        let model = Self::new(&run.record, run.trials.len(), analysis, &run.unreadable);
        Self { rendered: run.rendered(), ..model }
    }

    /// `15 of 15 trials in 3 rounds and 1 search`.
    pub fn trials_in_words(&self) -> String {
        let counted = |count: usize, one: &str, many: &str| {
            (count > 0).then(|| format!("{count} {}", if count == 1 { one } else { many }))
        };
        let mut searched: Vec<usize> = self.capacity.iter().map(|one| one.load.index).collect();
        searched.dedup();
        let parts =
            [counted(self.rounds as usize, "round", "rounds"), counted(searched.len(), "search", "searches")];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        let trials = format!("{} of {} trials", self.trials_recorded, self.trials_planned);
        if parts.is_empty() { trials } else { format!("{trials} in {}", parts.join(" and ")) }
    }

    /// What is said of each gateway that is not told in the price list: set against its sibling, it says more there.
    pub fn told_by_itself(&self) -> impl Iterator<Item = &Summary> {
        self.summary.iter().filter(|one| !self.prices.tells(&one.gateway))
    }

    /// The gateways with the settings in which they differ from what is shipped; those that are the same in version, workers
    /// and settings, as one gateway with various features is, told together.
    pub fn settings(&self) -> Vec<(Vec<&str>, &Contender)> {
        let mut groups: Vec<(Vec<&str>, &Contender)> = Vec::new();
        for one in self.contenders.iter().filter(|one| !one.kind.is_empty()) {
            let same = |(_, other): &&mut (Vec<&str>, &Contender)| {
                (&other.kind, &other.version, other.workers, &other.settings)
                    == (&one.kind, &one.version, one.workers, &one.settings)
            };
            match groups.iter_mut().find(same) {
                Some((labels, _)) => labels.push(&one.label),
                None => groups.push((vec![&one.label], one)),
            }
        }
        groups
    }

    /// Whether any case has a figure.
    pub fn measured_anything(&self) -> bool {
        let searched = |one: &Capacity| one.rate.is_some() || one.below.is_some();
        self.cases.iter().any(|case| case.trials > 0) || self.capacity.iter().any(searched)
    }

    /// Whether the run is to be believed.
    pub fn belief(&self) -> Belief {
        match self.findings.iter().map(|finding| finding.severity).min() {
            Some(Severity::Void) => Belief::Void,
            Some(Severity::Warning) => Belief::Warnings,
            Some(Severity::Note) | None => Belief::Believable,
        }
    }

    /// Whether a budget was breached, or could not be judged: a limit that nothing was set against is not kept.
    pub fn over_budget(&self) -> bool {
        self.budget.iter().any(|result| result.outcome != Outcome::Kept)
    }

    /// The load points at which cases are measured, in the plan's order.
    pub fn loads(&self) -> impl Iterator<Item = &Load> {
        self.noise_floor.by_load.iter().map(|floor| &floor.load).filter(|load| load.search.is_none())
    }

    /// The cases of a load point, direct first.
    pub fn at<'m>(&'m self, load: &'m Load) -> impl Iterator<Item = &'m Case> {
        self.cases.iter().filter(move |case| case.load.index == load.index)
    }

    /// Findings about cases told once per rule and severity: the first, and the cases of the others. What is found of the
    /// whole run is told by itself: its evidence is its own.
    pub fn findings_by_rule(&self) -> Vec<(&Finding, Vec<&str>)> {
        let mut rules: Vec<(&Finding, Vec<&str>)> = Vec::new();
        for finding in &self.findings {
            let same = |first: &Finding| {
                first.case.is_some()
                    && finding.case.is_some()
                    && (first.code, first.severity) == (finding.code, finding.severity)
            };
            match rules.iter_mut().find(|(first, _)| same(first)) {
                Some((_, others)) => others.extend(finding.case.as_deref()),
                None => rules.push((finding, Vec::new())),
            }
        }
        rules
    }

    /// What could not be measured, once per contender and reason.
    pub fn failures(&self) -> Vec<(&str, &crate::record::Failure)> {
        let contenders = self.contenders.iter().filter_map(|one| Some((&*one.label, one.failed.as_ref()?)));
        let trials = self
            .cases
            .iter()
            .flat_map(|case| case.failed_trials.iter().map(|trial| (&*case.gateway, &trial.failure)));
        let mut all: Vec<(&str, &crate::record::Failure)> = Vec::new();
        for (label, failure) in contenders.chain(trials) {
            if !all.iter().any(|(known, other)| *known == label && other.message == failure.message) {
                all.push((label, failure));
            }
        }
        all
    }
}

/// Rounds: as many as were asked for, or as were begun where that was left open.
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

/// Why rounds ended, in words.
fn why_stopped(run: &RunRecord) -> Option<String> {
    let Trials::Auto(auto) = run.plan.trials else { return None };
    let within = Scale::percent().value(auto.within);
    Some(match run.stopped? {
        Stopped::Narrow => format!("Rounds went on until each headline tax was known within {within}."),
        Stopped::Budget => format!(
            "Rounds ended as another one would not have fit into {}: not every headline tax is known within {within}.",
            show_duration(auto.at_most)
        ),
        Stopped::Rounds => format!(
            "Rounds ended after the most there may be, {}: not every headline tax is known within {within}.",
            auto.most
        ),
    })
}

fn notes(run: &RunRecord, trials_recorded: usize, unreadable: &[String]) -> Vec<String> {
    let mut notes = Vec::new();
    match &run.ended {
        None => notes.push("The run was killed, or is still going on: this is what it had measured.".into()),
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
    notes.extend(unreadable.iter().map(|line| format!("Skipped what could not be read: {line}.")));
    notes
}

/// What is not known of an upstream that already ran.
fn about_upstream(upstream: &Running) -> String {
    let url = &upstream.url;
    let unwatched = upstream.pid.is_none();
    match (&upstream.ledger, unwatched) {
        (None, true) => format!(
            "The upstream at {url} is not ours: it has no ledger and its CPU time was not watched, so extra upstream \
             requests are unknown."
        ),
        (None, false) => format!(
            "The upstream at {url} is not ours and has no ledger, so extra upstream requests are unknown."
        ),
        (Some(_), true) => format!(
            "The upstream at {url} is not ours: its ledger holds requests alone, as it counts them itself, and its CPU \
             time was not watched."
        ),
        (Some(_), false) => {
            format!(
                "The upstream at {url} is not ours: its ledger holds requests alone, as it counts them itself."
            )
        }
    }
}

fn timestamp(unix_ns: u64) -> String {
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_nanos(unix_ns)).to_string()
}

#[cfg(test)]
mod tests {
    use crate::analysis::fixture::sample;

    #[test]
    fn what_is_found_of_the_whole_run_is_told_by_itself() {
        let mut model = sample().model();
        let mut finding = model.findings[0].clone();
        model.findings.clear();
        for (case, message) in [(None, "one"), (Some("a"), "two"), (Some("b"), "three"), (None, "four")] {
            finding.case = case.map(str::to_owned);
            finding.message = message.to_owned();
            model.findings.push(finding.clone());
        }
        let told = model.findings_by_rule();
        let told: Vec<(&str, usize)> =
            told.iter().map(|(finding, others)| (finding.message.as_str(), others.len())).collect();
        assert_eq!(told, [("one", 0), ("two", 1), ("four", 0)]);
    }
}
