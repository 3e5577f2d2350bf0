//! Measures one commit against the good commit. Each measurement is a separate run.

use super::super::run::quiet::measure_quietly;
use super::question::{Question, git_of};
use super::state::{Distance, Measurement};
use anyhow::Context as _;
use hoptax_analysis::{Analysis, Figures, Finding, Severity, analyse};
use hoptax_format::random;
use hoptax_lab::builds::{BuildError, Builds};
use hoptax_lab::packs::PackSet;
use hoptax_plan::{Gateway, Metric, Plan};
use hoptax_record::dir::Run as ReadRun;
use hoptax_record::{Failure, Placement, Stage};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Measures commits.
pub(super) struct Measurer<'a> {
    pub(super) plan: &'a Plan,
    pub(super) plan_text: &'a str,
    pub(super) packs: &'a PackSet,
    pub(super) builds: Builds,
    pub(super) question: &'a Question,
    /// Parent of the run directories.
    pub(super) directory: PathBuf,
    /// Whether runs with `void` findings count.
    pub(super) accept_void: bool,
    pub(super) interrupted: Arc<AtomicBool>,
}

/// Outcome of a measurement.
#[derive(Debug)]
pub(super) enum Measured {
    /// The commit against the good commit.
    Figures(Measurement),
    /// The commit does not build, or does not run, for this reason.
    Impossible(String),
    /// A signal arrived.
    Interrupted,
}

/// Maximum number of runs of a commit in a row that have `void` findings.
const MOST_VOID: u32 = 3;

/// A commit is skipped after it has failed this many times to start or to serve. The machine may have caused
/// a single failure.
const MOST_FAILURES: u32 = 2;

/// A gateway that was not measured.
#[derive(Debug, Clone, PartialEq)]
struct Failed {
    is_good: bool,
    failure: Failure,
}

impl Failed {
    /// The first of the two gateways that failed, with its failure. A failure of single trials counts only if
    /// the run has no figures.
    fn of(run: &ReadRun, [good, suspect]: [&str; 2], has_figures: bool) -> Option<Self> {
        [good, suspect].into_iter().find_map(|label| {
            let contender = run.record.contenders.iter().find(|one| one.label == label);
            let mut trials = run.trials.iter().filter(|trial| trial.contender == label && !has_figures);
            let failure = contender
                .and_then(|contender| contender.failed.clone())
                .or_else(|| trials.find_map(|trial| trial.failed.clone()))?;
            Some(Self { is_good: label == good, failure })
        })
    }

    /// Outcome of the measurement if this is failure number `count`. `None` if the commit is measured again.
    fn end(&self, count: u32) -> Option<anyhow::Result<Measured>> {
        let reason = in_words(&self.failure);
        match self.failure.stage {
            // The program was built, but no longer exists.
            Stage::Missing => Some(Err(anyhow::anyhow!(reason))),
            _ if count < MOST_FAILURES => None,
            _ if self.is_good => Some(Err(anyhow::anyhow!("the good commit cannot be measured: {reason}"))),
            _ => Some(Ok(Measured::Impossible(reason))),
        }
    }
}

/// Codes of the `void` findings that make the metric doubtful.
fn void_codes(findings: &[Finding], metric: Metric) -> String {
    let of_metric = |figures: Figures| match figures {
        Figures::All | Figures::QuietWindows => true,
        Figures::Tails => matches!(metric, Metric::AddedP90 | Metric::AddedP95 | Metric::AddedP99),
        // A measurement compares two gateways in the same rounds.
        Figures::Machine | Figures::Profiles | Figures::Memory | Figures::PathSplit | Figures::Balance => {
            false
        }
    };
    let void = findings
        .iter()
        .filter(|finding| finding.severity == Severity::Void && of_metric(finding.concerns.figures));
    let codes: BTreeSet<&str> = void.map(|finding| finding.code).collect();
    codes.into_iter().collect::<Vec<_>>().join(", ")
}

impl Measurer<'_> {
    /// Measures the commit with this number. A commit that does not start is measured once more. A run with
    /// `void` findings is repeated, up to [`MOST_VOID`] runs. Fails if the good commit cannot be measured, or
    /// a problem of the machine prevents the measurement.
    pub(super) fn measure(&self, commit: usize) -> anyhow::Result<Measured> {
        let name = &self.question.commits[commit].name;
        let (good, suspect) = (self.question.at(&self.question.good), self.question.at(name));
        for gateway in [&good, &suspect] {
            match self.build(gateway) {
                Ok(()) => {}
                Err(BuildError::Interrupted(_)) => return Ok(Measured::Interrupted),
                Err(BuildError::DoesNotBuild(failure)) if gateway.label == suspect.label => {
                    return Ok(Measured::Impossible(in_words(&failure)));
                }
                Err(error) => anyhow::bail!(in_words(&error.failure())),
            }
        }
        let labels = [&*good.label, &*suspect.label];
        let (mut failures, mut void) = (0, 0);
        loop {
            let run = self.run(&good, &suspect);
            if self.is_interrupted() {
                return Ok(Measured::Interrupted);
            }
            let run = run?;
            let analysis = analyse(&run.record, &run.trials, &run.starts, &run.tails);
            let figures = self.figures(&analysis, &run, name, labels);
            if let Some(failed) = Failed::of(&run, labels, figures.is_some()) {
                failures += 1;
                if let Some(end) = failed.end(failures) {
                    return end;
                }
                continue;
            }
            let report = format!("hoptax report {}", run.path.display());
            let metric = self.question.metric;
            let figures = figures.with_context(|| {
                format!("the run has no comparison in {} with an interval; see {report}", metric.name())
            })?;
            let codes = void_codes(&analysis.findings, metric);
            if codes.is_empty() || self.accept_void {
                return Ok(figures);
            }
            void += 1;
            anyhow::ensure!(
                void < MOST_VOID,
                "{MOST_VOID} runs of {} in a row have `void` findings, the last one {codes}; see {report}. \
                 Follow their advice, or use such runs with --accept-void",
                suspect.label
            );
            eprintln!("     this run has `void` findings ({codes}) and is left out; measuring again");
        }
    }

    fn build(&self, gateway: &Gateway) -> Result<(), BuildError> {
        let Some(git) = git_of(gateway) else { return Ok(()) };
        self.builds.build(git, &self.interrupted).map(drop)
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// The figures of a run. `None` if the run has no figure with an interval.
    fn figures(
        &self,
        analysis: &Analysis,
        run: &ReadRun,
        commit: &str,
        [good, suspect]: [&str; 2],
    ) -> Option<Measured> {
        let metric = self.question.metric;
        let pair = analysis.pairs.iter().find(|pair| pair.metric == metric && pair.is_of(good, suspect))?;
        // The search weighs a measurement by its scatter, so it needs the interval without the verdict's 1 %.
        let difference = pair.alone_of(suspect);
        let (low, high) = difference.interval()?;
        let tax = analysis.case(good, pair.load.index)?.tax.as_ref()?;
        Some(Measured::Figures(Measurement {
            commit: commit.to_owned(),
            difference: difference.estimate,
            low,
            high,
            rounds: difference.trials,
            good: tax.get(metric)?.estimate.estimate,
            run: run.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
            distances: analysis.placements.iter().map(distance).collect(),
        }))
    }

    /// Runs the plan with these two gateways.
    fn run(&self, good: &Gateway, suspect: &Gateway) -> anyhow::Result<ReadRun> {
        let mut plan = self.plan.clone();
        (plan.gateways, plan.budget) = (vec![good.clone(), suspect.clone()], Vec::new());
        // The replacements name gateways that are not measured, and a profile would not change the answer.
        (plan.replacements, plan.cpu_profile, plan.tail) = (Vec::new(), None, None);
        // Each measurement has its own order of trials, so that an order that favours one of the two does not
        // repeat.
        plan.seed = Some(random::from_system() >> 32);
        measure_quietly(&plan, self.plan_text, self.packs, &self.directory, &self.interrupted)
    }
}

fn distance(placement: &Placement) -> Distance {
    Distance { cpus: placement.cpus, ns: placement.usual_ns }
}

fn in_words(failure: &Failure) -> String {
    format!("{}\n{}", failure.message, failure.detail).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_analysis::Concerns;
    use std::collections::BTreeMap;

    #[test]
    fn a_failed_start_is_retried_once_and_a_program_that_is_gone_is_an_error() {
        let failed = |stage: Stage, is_good: bool| {
            let failure = Failure { stage, message: "why".to_owned(), detail: String::new() };
            Failed { is_good, failure }
        };
        for stage in [Stage::Start, Stage::Verify, Stage::Trial] {
            assert!(failed(stage, false).end(1).is_none() && failed(stage, true).end(1).is_none());
            let end = failed(stage, false).end(2);
            assert!(matches!(end, Some(Ok(Measured::Impossible(reason))) if reason == "why"));
            assert!(matches!(failed(stage, true).end(2), Some(Err(_))), "the good commit cannot be skipped");
        }
        assert!(matches!(failed(Stage::Missing, false).end(1), Some(Err(_))));
    }

    #[test]
    fn void_findings_about_the_metric_are_named() {
        let finding = |code: &'static str, severity: Severity, figures: Figures| Finding {
            code,
            severity,
            concerns: Concerns::only(figures),
            case: None,
            evidence: BTreeMap::new(),
            message: String::new(),
            advice: String::new(),
        };
        let findings = [
            finding("errors", Severity::Void, Figures::All),
            finding("host-noisy", Severity::Void, Figures::Machine),
            finding("memory-growing", Severity::Void, Figures::Memory),
            finding("few-samples", Severity::Void, Figures::Tails),
        ];
        assert_eq!(void_codes(&findings, Metric::AddedP50), "errors");
        assert_eq!(void_codes(&findings, Metric::AddedP99), "errors, few-samples");
        assert_eq!(void_codes(&findings[1..], Metric::AddedP50), "");
    }
}
