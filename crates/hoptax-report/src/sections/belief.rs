//! Puts into words whether the answer of a run can be used, and which other figures are doubtful.

use crate::model::{Belief, Model};
use crate::words::text::listed;
use hoptax_analysis::{Case, Finding, Severity};

/// Names at most this many cases with void figures.
const MOST_CASES: usize = 3;

impl Belief {
    /// The first words of the verdict.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Believable => "Believable",
            Self::Warnings => "Believable, with warnings",
            Self::Void => "Void: do not use these figures",
        }
    }

    fn severity(self) -> Severity {
        match self {
            Self::Believable => Severity::Note,
            Self::Warnings => Severity::Warning,
            Self::Void => Severity::Void,
        }
    }
}

/// The verdict in words, and sentences about other figures.
pub(crate) fn in_words(model: &Model) -> String {
    verdict(model) + &others(model)
}

/// The verdict in words: `Believable: no finding is worse than a note.`
pub(crate) fn verdict(model: &Model) -> String {
    let belief = model.belief();
    let reason = match belief {
        Belief::Believable if other_findings(model).is_empty() => ": no finding is worse than a note",
        Belief::Believable => ": no warning concerns the answer",
        Belief::Warnings => ": read the findings",
        Belief::Void if model.answer.is_some() => "; the findings say why, and what holds all the same",
        Belief::Void => "; the findings say why",
    };
    format!("{}{reason}.", belief.name())
}

/// Codes of the findings that the verdict rests on. Each code appears only once.
pub(crate) fn codes(model: &Model) -> Vec<&'static str> {
    let gravest = model.belief().severity();
    codes_of(model, |finding| finding.concerns.answer && finding.severity == gravest)
}

/// Sentences about figures that the answer does not rest on, and about what is unknown, each after a space.
/// Empty if these figures have no finding that is worse than a note, and nothing is unknown.
pub(crate) fn others(model: &Model) -> String {
    other_findings(model) + &unknown_origin(model)
}

/// Says that nothing shows whether the upstream answered.
fn unknown_origin(model: &Model) -> String {
    let cpu = |case: &Case| case.cpu.as_ref().and_then(|cpu| cpu.upstream_us_per_request);
    let is_unknown = |case: &&Case| {
        let mut direct =
            model.cases.iter().filter(|one| one.is_direct() && one.load.index == case.load.index);
        let is_seen = cpu(case).is_some() && direct.any(|one| cpu(one).is_some());
        !case.is_direct() && case.trials > 0 && case.ledger.is_none() && !is_seen
    };
    let mut names: Vec<String> =
        model.cases.iter().filter(is_unknown).map(|case| case.gateway.clone()).collect();
    names.dedup();
    let known = model.findings.iter().any(|finding| finding.code == "cached-answers");
    if names.is_empty() || known {
        return String::new();
    }
    names.sort_unstable();
    names.dedup();
    format!(
        " Unknown: whether the upstream or a cache answered the requests to {} (give `upstream` a `ledger` \
        or its `pid`).",
        listed(&names)
    )
}

fn other_findings(model: &Model) -> String {
    let other = |severity| move |finding: &Finding| !finding.concerns.answer && finding.severity == severity;
    let mut sentences = String::new();
    let mut void: Vec<String> = model
        .findings
        .iter()
        .filter(|finding| other(Severity::Void)(finding))
        .filter_map(|one| one.case.clone())
        .collect();
    void.sort_unstable();
    void.dedup();
    if !void.is_empty() {
        let more = void.len().saturating_sub(MOST_CASES);
        void.truncate(MOST_CASES);
        if more > 0 {
            void.push(format!("{more} more"));
        }
        let quoted: Vec<String> = void.iter().map(|case| format!("\u{201c}{case}\u{201d}")).collect();
        sentences.push_str(&format!(" Do not use the figures of {}: they are void.", listed(&quoted)));
    }
    let mut warnings = codes_of(model, other(Severity::Warning));
    let named = codes(model);
    warnings.retain(|code| !named.contains(code));
    if !warnings.is_empty() {
        let codes: Vec<String> = warnings.into_iter().map(str::to_owned).collect();
        sentences.push_str(&format!(" Warnings about other figures: {}.", listed(&codes)));
    }
    sentences
}

fn codes_of(model: &Model, is_meant: impl Fn(&Finding) -> bool) -> Vec<&'static str> {
    let mut codes = Vec::new();
    for finding in model.findings.iter().filter(|finding| is_meant(finding)) {
        if !codes.contains(&finding.code) {
            codes.push(finding.code);
        }
    }
    codes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;
    use crate::fixture::Reported;
    use hoptax_analysis::fixture::{Run, closed_point, open_point, via};
    use hoptax_plan::{Budget, Metric};

    /// A run with an answer at the first load point. Enough samples for every percentile.
    fn run() -> Run {
        let mut run = Run::with_load(vec![open_point(1000.0, 8, 1), closed_point(32, 1)]);
        for round in 0..12 {
            for load in 0..2 {
                run.direct_trials(round, |trial| trial.at_load(load).all_at_us(100));
                for (gateway, time) in [("nginx", 150), ("haproxy", 170)] {
                    run.push(via(gateway, round).at_load(load).all_at_us(time + u64::from(round)));
                }
            }
        }
        run
    }

    #[test]
    fn the_verdict_says_if_nothing_shows_that_the_upstream_answered() {
        let words = |without: fn(&mut hoptax_record::TrialRecord)| {
            let mut run = run();
            run.trials.iter_mut().for_each(without);
            let model = run.model();
            assert_eq!(model.belief(), Belief::Believable, "{:#?}", model.findings);
            in_words(&model)
        };
        insta::assert_snapshot!(words(|trial| (trial.ledger, trial.upstream) = (None, None)));
        assert!(!words(|trial| trial.ledger = None).contains("Unknown"), "the upstream's CPU time shows it");
        assert!(!words(|_| {}).contains("Unknown"));
    }

    #[test]
    fn findings_about_other_figures_are_named_after_the_verdict() {
        let mut run = run();
        for round in 12..20 {
            run.push(via("nginx", round).at_load(1).status(500, 999));
        }
        let model = run.model();
        assert_eq!(model.belief(), Belief::Believable, "{:#?}", model.findings);
        assert!(model.answer.is_some());
        insta::assert_snapshot!(in_words(&model));
    }

    #[test]
    fn on_a_disturbed_machine_only_the_order_of_the_gateways_is_known() {
        let mut run = run();
        let disturbed = run.trials.iter_mut().filter(|trial| trial.round < 3);
        disturbed.for_each(|trial| trial.host.foreign = 0.5);
        let model = run.model();
        assert_eq!(model.belief(), Belief::Void);
        let answer = model.answer.as_deref().unwrap_or_default();
        insta::assert_snapshot!(format!("{}\n{answer}\n{}", in_words(&model), model.summary[0].in_full()));
        assert!(!answer.contains("µs"), "amounts are those of the disturbed machine: {answer}");
    }

    #[test]
    fn on_a_disturbed_machine_budgets_of_counts_keep_their_verdict() {
        let verdict = |metrics: &[Metric]| {
            let mut run = run();
            run.trials.iter_mut().for_each(|trial| trial.host.foreign = 0.5);
            let budget = |metric: &Metric| Budget { max: Some(1e9), ..Budget::of(*metric) };
            run.record.plan.budget = metrics.iter().map(budget).collect();
            let model = run.model();
            assert!(!model.budget.is_empty());
            Verdict::of(&model, false)
        };
        assert_eq!(verdict(&[Metric::ExtraUpstreamRequests]), Verdict::Good);
        assert_eq!(verdict(&[Metric::P50]), Verdict::Void);
        assert_eq!(verdict(&[Metric::ExtraUpstreamRequests, Metric::P50]), Verdict::Void);
    }

    #[test]
    fn a_void_finding_about_the_answer_leaves_no_answer() {
        let mut run = run();
        for round in 12..20 {
            run.push(via("nginx", round).at_load(0).status(500, 999));
        }
        let model = run.model();
        assert_eq!((model.belief(), &model.answer), (Belief::Void, &None));
        assert!(in_words(&model).starts_with("Void: "));
        assert_eq!(codes(&model), ["different-work"], "{:#?}", model.findings);
    }
}
