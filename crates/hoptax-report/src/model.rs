//! The one report model: what every format draws.

use super::prices::PriceList;
use hoptax_analysis::{BudgetResult, Capacity, Case, Finding, Load, NoiseFloor, Outcome, Severity};
use hoptax_plan::Profile;
use hoptax_record::dir::RenderedFile;
use hoptax_record::report::{HostLooks, Summary};
use hoptax_record::{Contender, Environment, Failure, Stopped};

/// What a report says.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
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
    pub profile: Profile,
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
    pub noise_floor: Vec<NoiseFloor>,
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
    pub rendered: Vec<RenderedFile>,
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

impl Belief {
    /// The last line of a report.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Believable => "Believable: no finding is worse than a note.",
            Self::Warnings => "Believable, with warnings: read the findings.",
            Self::Void => "Void: do not use these figures; the findings say why.",
        }
    }
}

impl Model {
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
    pub fn summaries_outside_prices(&self) -> impl Iterator<Item = &Summary> {
        self.summary.iter().filter(|one| !self.prices.contains(&one.gateway))
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
        self.noise_floor.iter().map(|floor| &floor.load).filter(|load| load.search.is_none())
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
    pub fn failures(&self) -> Vec<(&str, &Failure)> {
        let contenders = self.contenders.iter().filter_map(|one| Some((&*one.label, one.failed.as_ref()?)));
        let trials = self
            .cases
            .iter()
            .flat_map(|case| case.failed_trials.iter().map(|trial| (&*case.gateway, &trial.failure)));
        let mut all: Vec<(&str, &Failure)> = Vec::new();
        for (label, failure) in contenders.chain(trials) {
            if !all.iter().any(|(known, other)| *known == label && other.message == failure.message) {
                all.push((label, failure));
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use crate::fixture::Reported as _;
    use hoptax_analysis::fixture::sample;

    #[test]
    fn findings_about_the_whole_run_are_never_grouped() {
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
