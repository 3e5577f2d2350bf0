//! The report model, which all formats render.

use super::failures::{FailureGroup, same_cause, same_message};
use super::words::measure::Measure;
use super::words::text::listed;
use hoptax_analysis::profiles::Profiles;
use hoptax_analysis::{
    Capacity, Case, Figures, Finding, Load, Outcome, PrecisionOverTime, Severity, headline,
};
use hoptax_plan::{Idle, Metric};
use hoptax_record::dir::RenderedFile;
use hoptax_record::report::{Report, Summary};
use hoptax_record::start::StartKind;
use hoptax_record::{Contender, Failure, Origin, Placement};
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

/// Everything that a report shows: the JSON report, and data that only other formats show.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// The JSON report.
    pub report: Report,
    /// The word for one message of streams: `token`, `event` or `message`.
    pub message: &'static str,
    /// Indices of the load points at which requests via gateways pass the network between the same hosts as
    /// direct requests.
    pub same_ways: Vec<usize>,
    /// The profiles of the report, with all frames and their stacks. The code that reads the run directory
    /// adds them.
    pub whole_profiles: Profiles,
    /// How the precision of the added medians grew during the run. Empty for short runs. The code that reads
    /// the run directory adds it, because it takes more time than the rest of the report.
    pub precision: Vec<PrecisionOverTime>,
    /// Says which budgets were not checked at load points that the run left out. Absent if there are none.
    /// The notes contain this sentence too.
    pub unchecked: Option<String>,
    /// The configuration files that the gateways used. Only the HTML page shows these files. The code that
    /// reads the run directory adds them.
    pub rendered: Vec<RenderedFile>,
}

impl Deref for Model {
    type Target = Report;

    fn deref(&self) -> &Report {
        &self.report
    }
}

impl DerefMut for Model {
    fn deref_mut(&mut self) -> &mut Report {
        &mut self.report
    }
}

/// Whether the answer of a run can be used. Only findings that [concern the
/// answer](hoptax_record::report::Concerns) count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Belief {
    /// All findings are notes, or there are none.
    Believable,
    /// There is a warning, but no `void` finding.
    Warnings,
    /// There is a `void` finding.
    Void,
}

impl Model {
    /// The metric that the answer compares: see [`headline::latency_metric`].
    pub fn latency_metric(&self) -> Metric {
        headline::metric_of_cases(&self.cases)
    }

    /// The measures of the page's first charts: the measure of the answer, then the time added to messages,
    /// if these were measured and the answer compares something else.
    pub(crate) fn measures(&self) -> Vec<Measure> {
        let answered = self.latency_metric();
        let taxes = || self.cases.iter().filter_map(|case| case.tax.as_ref());
        let is_measured = |metric: &Metric| taxes().any(|tax| tax.get(*metric).is_some());
        let of_messages = Metric::HEADLINES_OF_MESSAGES.into_iter().find(is_measured);
        let all = std::iter::once(answered).chain(of_messages.filter(|metric| *metric != answered));
        all.map(|metric| Measure::new(metric, self.message)).collect()
    }

    /// Sentences to append to the meaning of intervals. They say how the scatter of separate runs was
    /// measured, if it was measured on this machine, and which gateways had several processes.
    pub fn origin_of_shares(&self) -> String {
        let by = match &self.scatter.origin {
            Origin::BuiltIn => None,
            Origin::Calibrated { date, runs } => Some(format!("{runs} runs on {date}")),
            Origin::History { plan, since, date, runs } => {
                let when =
                    if since == date { format!("on {date}") } else { format!("from {since} to {date}") };
                Some(format!("{runs} earlier runs of {plan} {when}"))
            }
        };
        let times = 100.0 * self.scatter.times;
        let of_runs = by.map_or_else(String::new, |by| {
            format!(" Separate runs scatter by {times:.1} %, measured on this machine by {by}.")
        });
        let mut processes: BTreeMap<&str, u32> = BTreeMap::new();
        for case in self.cases.iter().filter(|case| case.processes > 1) {
            let most = processes.entry(&case.gateway).or_default();
            *most = case.processes.max(*most);
        }
        let each: Vec<String> =
            processes.iter().map(|(gateway, count)| format!("{count} processes of {gateway}")).collect();
        match each.is_empty() {
            true => of_runs,
            false => format!("{of_runs} Rounds are spread over {}.", listed(&each)),
        }
    }

    /// A text to append to the run's settings. It says what idle CPUs did during the run, and how far the
    /// CPUs of the roles were from each other: `, idle CPUs poll, CPUs 0 and 1 are 103 ns apart`. Empty if
    /// the run did not record it.
    pub fn cpus_in_words(&self) -> String {
        let idle = match self.environment.idle {
            Some(Idle::Poll) => ", idle CPUs poll",
            Some(Idle::Sleep) => ", idle CPUs sleep",
            None => "",
        };
        let apart = |one: &Placement| {
            let [cpu, other] = one.cpus;
            format!(", CPUs {cpu} and {other} are {:.0} ns apart", one.usual_ns)
        };
        idle.to_owned() + &self.cpu_placements.iter().map(apart).collect::<String>()
    }

    /// The number of trials in words: `15 of 15 trials in 3 rounds and 1 search`, or `80 starts in 20
    /// rounds`.
    pub fn trials_in_words(&self) -> String {
        let counted = |count: usize, one: &str, many: &str| {
            (count > 0).then(|| format!("{count} {}", if count == 1 { one } else { many }))
        };
        let mut searched: Vec<usize> = self.capacity.iter().map(|one| one.load.index).collect();
        searched.dedup();
        let parts =
            [counted(self.rounds as usize, "round", "rounds"), counted(searched.len(), "search", "searches")];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        if self.measured_starts() {
            return self.starts_in_words();
        }
        let trials = format!("{} of {} trials", self.trials_recorded, self.trials_planned);
        if parts.is_empty() { trials } else { format!("{trials} in {}", parts.join(" and ")) }
    }

    /// The number of starts in words: `80 starts and 40 reloads in 20 rounds`.
    fn starts_in_words(&self) -> String {
        let of = |kind| -> u32 {
            let of_kind = self.starts.iter().filter(|one| one.kind == kind);
            of_kind.map(|one| one.measured + one.failed).sum()
        };
        let reloads = match of(StartKind::Reload) {
            0 => String::new(),
            count => format!(" and {count} reloads"),
        };
        format!("{} starts{reloads} in {} rounds", of(StartKind::Start), self.rounds)
    }

    /// Summaries of the gateways that are not in the price list. The price list already shows more about the
    /// other gateways. Gateways that were not measured for the same reason are grouped: a group consists of
    /// the first summary and the labels of the other gateways.
    pub fn summaries_outside_prices(&self) -> Vec<(&Summary, Vec<&str>)> {
        let mut groups: Vec<(&Summary, Vec<&str>)> = Vec::new();
        let has_price = |one: &&Summary| self.prices.rows.iter().any(|row| row.gateway == one.gateway);
        for one in self.summary.iter().filter(|one| !has_price(one)) {
            let same = |(first, _): &&mut (&Summary, Vec<&str>)| {
                is_unmeasured(first)
                    && is_unmeasured(one)
                    && same_message(
                        (&first.gateway, &first.sentence),
                        (&one.gateway, &one.sentence),
                        self.are_variants(&first.gateway, &one.gateway),
                    )
            };
            match groups.iter_mut().find(same) {
                Some((_, others)) => others.push(&one.gateway),
                None => groups.push((one, Vec::new())),
            }
        }
        groups
    }

    /// True if the two contenders are the same gateway in different configurations.
    fn are_variants(&self, one: &str, other: &str) -> bool {
        let kind = |label: &str| Some(&self.contenders.iter().find(|known| known.label == label)?.kind);
        kind(one).is_some_and(|known| Some(known) == kind(other))
    }

    /// Groups the gateways that have the same version, workers and settings, for example one gateway with
    /// different features. Each group consists of the labels, and a contender with the settings that differ
    /// from the shipped defaults.
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

    /// The question that the report answers.
    pub fn question(&self) -> &'static str {
        if self.measured_starts() { "what does a new instance cost?" } else { "what does each hop cost?" }
    }

    /// True if the run measured starts of gateways instead of trials.
    pub fn measured_starts(&self) -> bool {
        !self.starts.is_empty()
    }

    /// True if any case was measured, any search has a result, or any start was measured.
    pub fn measured_anything(&self) -> bool {
        let searched = |one: &Capacity| one.rate.is_some() || one.below.is_some();
        self.cases.iter().any(|case| case.trials > 0)
            || self.capacity.iter().any(searched)
            || self.starts.iter().any(|one| one.measured > 0)
    }

    /// True if a `void` finding makes the verdict doubtful. Budgets of counts and of memory hold on a
    /// disturbed machine too.
    pub fn has_void_verdict(&self) -> bool {
        let counts = [
            Metric::ErrorShare,
            Metric::ExtraUpstreamRequests,
            Metric::MemoryRssBytes,
            Metric::MemoryPssBytes,
            Metric::BytesPerStream,
            Metric::ExtraTokensPerStream,
        ];
        let holds = !self.budget.is_empty() && self.budget.iter().all(|one| counts.contains(&one.metric));
        let mut void = self.findings.iter().filter(|finding| finding.severity == Severity::Void);
        void.any(|one| !(holds && matches!(one.concerns.figures, Figures::Machine | Figures::Profiles)))
    }

    /// Whether the answer can be used.
    pub fn belief(&self) -> Belief {
        let concerned = self.findings.iter().filter(|finding| finding.concerns.answer);
        match concerned.map(|finding| finding.severity).min() {
            Some(Severity::Void) => Belief::Void,
            Some(Severity::Warning) => Belief::Warnings,
            Some(Severity::Note) | None => Belief::Believable,
        }
    }

    /// True if a budget was exceeded or not measured.
    pub fn over_budget(&self) -> bool {
        self.budget.iter().any(|one| matches!(one.outcome, Outcome::Exceeded | Outcome::Unmeasured))
    }

    /// True if the run cannot decide a budget.
    pub fn is_inconclusive(&self) -> bool {
        self.budget.iter().any(|one| one.outcome == Outcome::Inconclusive)
    }

    /// The load points that have measured cases, in the plan's order. A run of starts has none.
    pub fn loads(&self) -> impl Iterator<Item = &Load> {
        let floors = if self.measured_starts() { &[][..] } else { &self.noise_floor.by_load };
        floors.iter().map(|floor| &floor.load).filter(|load| load.search.is_none() && load.left_out.is_none())
    }

    /// The cases of a load point. Direct comes first.
    pub fn at<'m>(&'m self, load: &'m Load) -> impl Iterator<Item = &'m Case> {
        self.cases.iter().filter(move |case| case.load.index == load.index)
    }

    /// Findings, grouped by rule and severity. A group consists of its first finding, and the names of the
    /// other cases with this finding. Findings about the whole run are never grouped, because their evidence
    /// differs.
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

    /// The contenders that could not be measured, and the reasons. Each reason appears only once, with all
    /// contenders that it concerns.
    pub fn failures(&self) -> Vec<FailureGroup<'_>> {
        let mut groups: Vec<FailureGroup<'_>> = Vec::new();
        for (label, failure) in self.failures_by_contender() {
            let same = |first: &&mut FailureGroup<'_>| {
                let variants = self.are_variants(first.label, label);
                same_cause((first.label, first.failure), (label, failure), variants)
            };
            match groups.iter_mut().find(same) {
                Some(group) if group.label == label || group.others.contains(&label) => {}
                Some(group) => group.others.push(label),
                None => groups.push(FailureGroup { label, failure, others: Vec::new() }),
            }
        }
        groups
    }

    /// Failures in the order of the contenders. For each contender, each reason appears only once.
    fn failures_by_contender(&self) -> Vec<(&str, &Failure)> {
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

fn is_unmeasured(summary: &Summary) -> bool {
    let rest = summary.sentence.strip_prefix(&*summary.gateway);
    rest.is_some_and(|rest| rest.starts_with(" was not measured: "))
}

#[cfg(test)]
mod tests {
    use crate::fixture::*;
    use crate::formats::html::words;
    use crate::words::text::same_holds_for;
    use crate::{markdown, terminal};
    use hoptax_record::{Origin, Shares, Stage};

    /// A run in which three variants of nginx fail with the same cause, and one with another cause.
    fn with_failures() -> Run {
        let mut run = Run::steady(2, 100, &[("haproxy", 150)]);
        for (label, cause) in
            [("nginx", "code 1"), ("nginx.tls", "code 1"), ("nginx.gzip", "code 2"), ("nginx.cors", "code 1")]
        {
            run.contender(label, Some(failure(Stage::Start, &format!("{label} exited with {cause}"))));
        }
        for contender in run.record.contenders.iter_mut().filter(|one| one.label.starts_with("nginx")) {
            contender.kind = "nginx".into();
        }
        run
    }

    #[test]
    fn every_format_says_where_the_scatter_of_separate_runs_was_measured() {
        let mut run = hoptax_analysis::fixture::sample();
        let all = |run: &Run| {
            let model = run.model();
            let json = crate::json(&model);
            let html = crate::html(&model).expect("drawn");
            ([crate::markdown(&model), crate::terminal(&model, 200, false), html], json)
        };
        let (texts, json) = all(&run);
        assert!(texts.iter().all(|text| !text.contains("Separate runs scatter")));
        assert!(!json.contains("\"scatter\""), "the built-in shares are left out");
        let origin = Origin::Calibrated { date: "2026-11-28".into(), runs: 12 };
        run.record.shares = Shares { times: 0.034, origin, ..Shares::BUILT_IN };
        let (texts, json) = all(&run);
        for text in texts {
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(text.contains("scatter by 3.4 %") && text.contains("12 runs on 2026-11-28."), "{text}");
        }
        assert!(json.contains("\"scatter\"") && json.contains("\"kind\": \"calibrated\""), "{json}");
        let sentences = ["2026-11-20", "2026-11-28"].map(|since| {
            let (plan, date) = ("nightly".into(), "2026-11-28".into());
            run.record.shares.origin = Origin::History { plan, since: since.into(), date, runs: 11 };
            run.model().origin_of_shares()
        });
        insta::assert_snapshot!(sentences.join("\n"));
    }

    #[test]
    fn every_format_says_over_how_many_processes_rounds_are_spread() {
        let mut run = Run::steady(8, 100, &[("jvm", 400), ("nginx", 150)]);
        let of_jvm = run.trials.iter_mut().filter(|trial| trial.contender == "jvm");
        of_jvm.for_each(|trial| trial.start = trial.round / 2);
        let model = run.model();
        let html = crate::html(&model).expect("drawn");
        for text in [crate::markdown(&model), crate::terminal(&model, 200, false), html] {
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(text.contains("4 processes of jvm"), "{text}");
        }
        let json = crate::json(&model);
        assert_eq!(json.matches("\"processes\": 4").count(), 1, "{json}");
    }

    #[test]
    fn failures_with_the_same_cause_are_grouped() {
        let model = with_failures().model();
        let groups: Vec<_> = model.failures().into_iter().map(|group| (group.label, group.others)).collect();
        assert_eq!(groups, [("nginx", vec!["nginx.tls", "nginx.cors"]), ("nginx.gzip", vec![])]);
        let unmeasured: Vec<_> = model.summaries_outside_prices().into_iter().skip(1).collect();
        let labels: Vec<_> =
            unmeasured.iter().map(|(first, others)| (&*first.gateway, others.clone())).collect();
        assert_eq!(labels, groups);
    }

    #[test]
    fn each_format_shows_a_cause_once_as_a_sentence_and_once_with_its_log() {
        let model = with_failures().model();
        for text in [terminal(&model, 200, false), markdown(&model), words(&model)] {
            assert_eq!(text.matches("exited with code 1").count(), 2, "{text}");
            let others = same_holds_for(&["nginx.tls", "nginx.cors"]);
            assert_eq!(text.matches(&others).count(), 2, "{text}");
            assert_eq!(text.matches("last line of a log").count(), 2, "one log for each cause: {text}");
        }
    }

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
