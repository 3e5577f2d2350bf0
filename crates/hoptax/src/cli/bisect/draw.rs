//! Texts of a search: the suspects after each measurement, and the result.

use super::question::{Least, Question, short};
use super::state::{Measurement, Skipped, State, states};
use super::steps::{SURE, Situation, Step};
use hoptax_lab::builds::Commit;
use hoptax_plan::Metric;
use serde::Serialize;
use std::fmt::Write as _;

/// Number of suspects that are shown after each measurement.
const SHOWN: usize = 5;

/// Width of the bar of a certain suspect.
const WIDEST: f64 = 30.0;

/// The result. Part of the stable interface.
#[derive(Debug, Serialize)]
pub(super) struct Document<'a> {
    schema: u32,
    /// `found`, `unchanged` or `unclear`.
    outcome: &'static str,
    /// One of these commits made the change. There are several only if some of them cannot be measured. The
    /// list is empty if no commit was found.
    commits: Vec<Named<'a>>,
    /// Probability that one of `commits` made the change.
    probability: Option<f64>,
    metric: Metric,
    /// The change with its 95 % interval, in the metric's unit, with the CPUs placed as in the last
    /// measurement. Absent if the bad commit was not measured.
    change: Option<Change>,
    measurements: usize,
    skipped: &'a [Skipped],
    /// The probability of each commit, oldest first.
    suspects: Vec<Suspect<'a>>,
}

#[derive(Debug, Serialize)]
struct Named<'a> {
    commit: &'a str,
    subject: &'a str,
}

#[derive(Debug, Serialize)]
struct Change {
    estimate: f64,
    low: f64,
    high: f64,
}

#[derive(Debug, Serialize)]
struct Suspect<'a> {
    commit: &'a str,
    probability: f64,
}

/// Text at the start of a search, or of its continuation.
pub(super) fn begin(question: &Question, state: &State) -> String {
    let known = match state.measurements().len() {
        0 => String::new(),
        count => format!(", {count} measurements so far"),
    };
    let count = question.commits.len();
    format!(
        "{count} commits after {}{known}; state in {}\n",
        short(&question.good),
        state.directory().display()
    )
}

/// Says which commit is measured next.
pub(super) fn about_to(question: &Question, before: usize, commit: usize) -> String {
    format!("{:3}  measuring {}", before + 1, named(&question.commits[commit]))
}

/// Says why a commit is skipped.
pub(super) fn skipped(question: &Question, commit: usize, reason: &str) -> String {
    let reason = reason.replace('\n', "\n     ");
    format!("     skipping {}: {reason}", short(&question.commits[commit].name))
}

/// The last measurement, and the most likely suspects.
pub(super) fn after(question: &Question, state: &State, situation: &Situation) -> String {
    let Some(last) = state.measurements().last() else { return String::new() };
    let metric = question.metric;
    let change = change_in_words(metric, (last.difference, last.low, last.high));
    let mut text = format!("     {change} against {}\n", short(&question.good));
    if let Some(moved) = moved(state.measurements()) {
        let _ = writeln!(text, "     {moved}");
    }
    let suspects = situation.suspects();
    let mut ranked: Vec<(usize, f64)> = suspects.probabilities().iter().copied().enumerate().collect();
    ranked.sort_by(|one, other| other.1.total_cmp(&one.1));
    for (commit, probability) in ranked.iter().take(SHOWN) {
        let bar = "▇".repeat((probability * WIDEST).round() as usize);
        let _ =
            writeln!(text, "     {:5.1} % {bar} {}", 100.0 * probability, named(&question.commits[*commit]));
    }
    if let Some(rest) = ranked.get(SHOWN..).filter(|rest| !rest.is_empty()) {
        let sum: f64 = rest.iter().map(|(_, probability)| probability).sum();
        let _ = writeln!(text, "     {:5.1} % {} other commits", 100.0 * sum, rest.len());
    }
    text
}

/// Says that the hypervisor moved a CPU, if the placement of the CPUs is new in this search. Otherwise
/// `None`.
fn moved(measurements: &[Measurement]) -> Option<String> {
    let (now, before) = measurements.split_last()?;
    if states(before).contains(states(measurements).last()?) {
        return None;
    }
    let pairs = now.distances.iter().flat_map(|now| before.iter().rev().map(move |one| (now, one)));
    let (now, then) = pairs
        .filter_map(|(now, one)| Some((now, one.distances.iter().find(|then| now.is_apart(then))?)))
        .next()?;
    let [one, other] = now.cpus;
    Some(format!(
        "the hypervisor moved CPU {one} or {other}: a cache line now takes {:.0} ns to the other and back, \
         and took {:.0} ns before. The change can have another size here, so hoptax measures the bad commit \
         again",
        now.ns, then.ns
    ))
}

/// The result as text.
pub(super) fn end(
    question: &Question,
    state: &State,
    situation: &Situation,
    step: &Step,
    least: Least,
) -> String {
    let metric = question.metric;
    let change = situation.suspects().change().map(|change| change_in_words(metric, change));
    let change = change.unwrap_or_else(|| "an unknown amount".to_owned());
    let counts =
        format!("{} measurements, {} commits skipped", state.measurements().len(), state.skipped().len());
    match step {
        Step::Found { commits, probability } => {
            let sure = format!("{:.1} %", 100.0 * probability);
            let commits: Vec<String> = question.commits[commits.clone()].iter().map(named).collect();
            match commits.as_slice() {
                [one] => {
                    format!("{one}\n  changed {} by {change}; {sure} certain after {counts}\n", metric.name())
                }
                several => format!(
                    "One of {} commits changed {} by {change}; {sure} certain after {counts}. Only the last \
                     one can be measured:\n  {}\n",
                    several.len(),
                    metric.name(),
                    several.join("\n  ")
                ),
            }
        }
        Step::Unchanged => format!(
            "No change of {} of at least {} between {} and {}: {change} after {counts}\n",
            metric.name(),
            least_in_words(least),
            short(&question.good),
            question.commits.last().map_or("", |commit| short(&commit.name))
        ),
        Step::Unclear | Step::Measure(_) => format!(
            "No commit is {:.0} % certain: {} changed by {change} after {counts}. Run the same command again \
             to measure more. A longer --time makes each measurement more precise\n",
            100.0 * SURE,
            metric.name()
        ),
    }
}

/// The result for programs.
pub(super) fn document<'a>(
    question: &'a Question,
    state: &'a State,
    situation: &Situation,
    step: &Step,
) -> Document<'a> {
    let (outcome, found, probability) = match step {
        Step::Found { commits, probability } => {
            ("found", &question.commits[commits.clone()], Some(*probability))
        }
        Step::Unchanged => ("unchanged", &question.commits[..0], None),
        Step::Unclear | Step::Measure(_) => ("unclear", &question.commits[..0], None),
    };
    let suspects = situation.suspects();
    let change = suspects.change().map(|(estimate, low, high)| Change { estimate, low, high });
    let each = question.commits.iter().zip(suspects.probabilities());
    Document {
        schema: 1,
        outcome,
        commits: found.iter().map(|one| Named { commit: &one.name, subject: &one.subject }).collect(),
        probability,
        metric: question.metric,
        change,
        measurements: state.measurements().len(),
        skipped: state.skipped(),
        suspects: each
            .map(|(commit, probability)| Suspect { commit: &commit.name, probability: *probability })
            .collect(),
    }
}

fn named(commit: &Commit) -> String {
    format!("{} {}", short(&commit.name), commit.subject)
}

/// A change with its interval: `+38.1 µs (31.0 to 45.2)`.
fn change_in_words(metric: Metric, (estimate, low, high): (f64, f64, f64)) -> String {
    match metric == Metric::ThroughputRatio {
        true => format!("{:+.2} % ({:.2} to {:.2})", 100.0 * estimate, 100.0 * low, 100.0 * high),
        false => format!("{estimate:+.1} µs ({low:.1} to {high:.1})"),
    }
}

fn least_in_words(least: Least) -> String {
    match least {
        Least::Share(share) => format!("{} %", 100.0 * share),
        Least::Time(us) => format!("{us} µs"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::state::Distance;
    use super::*;

    #[test]
    fn a_placement_that_the_search_has_not_met_is_explained_once() {
        let at = |ns: f64| Measurement::example(vec![Distance { cpus: [0, 1], ns }]);
        let measured = [110.0, 105.0, 400.0, 110.0, 390.0].map(at);
        let texts: Vec<Option<String>> = (0..=5).map(|count| moved(&measured[..count])).collect();
        let explained: Vec<bool> = texts.iter().map(Option::is_some).collect();
        assert_eq!(explained, [false, false, false, true, false, false]);
        let text = texts[3].as_deref().unwrap_or_default();
        assert!(["CPU 0 or 1", "400 ns", "105 ns"].iter().all(|fact| text.contains(fact)), "{text}");
    }
}
