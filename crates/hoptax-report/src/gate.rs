//! The output of `hoptax gate`. It contains every budget and its outcome.

use super::Model;
use crate::words::figures::{limit, measured, reason, sentence};
use crate::words::text::{inline, wrapped};
use hoptax_analysis::{Outcome, outcome_of_all};
use hoptax_record::report::Gate;

/// Text for the terminal. The headline comes first, then the budgets that were not kept, then the budgets
/// that were.
pub fn terminal(model: &Model, width: u16) -> String {
    let mut text = wrapped(&headline(model), usize::from(width));
    for result in model.budget.iter().filter(|result| result.outcome != Outcome::Kept) {
        text.push_str(&wrapped(
            &format!("{} {}", result.outcome.words(), sentence(result)),
            usize::from(width),
        ));
    }
    for result in model.budget.iter().filter(|result| result.outcome == Outcome::Kept) {
        let (case, metric) = (&result.case, result.metric.name());
        let line = format!("kept {case}: {metric} is {}, {} allowed", measured(result), limit(result));
        text.push_str(&wrapped(&line, usize::from(width)));
    }
    text
}

/// Markdown for a pull request: the headline, then a table of all budgets. Budgets that were kept come last.
pub fn markdown(model: &Model) -> String {
    let mut text = format!("**{}**\n\n", inline(&headline(model)));
    text.push_str("| | case | metric | limit | measured |\n|---|---|---|---|---|\n");
    let (kept, failed): (Vec<_>, Vec<_>) =
        model.budget.iter().partition(|result| result.outcome == Outcome::Kept);
    for result in failed.into_iter().chain(kept) {
        let measured = match (result.outcome, reason(result)) {
            (Outcome::Unmeasured, Some(reason)) => reason,
            (_, Some(reason)) => format!("{}; {reason}", measured(result)),
            (_, None) => measured(result),
        };
        let cells = [result.outcome.words(), &result.case, result.metric.words(), &limit(result), &measured];
        let cells = cells.map(inline).join(" | ");
        text.push_str(&format!("| {cells} |\n"));
    }
    text
}

/// The budgets with their outcomes as JSON.
pub fn json(model: &Model) -> String {
    let outcome = outcome_of_all(&model.budget);
    let gate = Gate {
        schema: 1,
        name: model.name.clone(),
        kept: outcome == Outcome::Kept,
        outcome,
        void: model.has_void_verdict(),
        budget: model.budget.clone(),
        notes: model.unchecked.iter().cloned().collect(),
    };
    let mut text = serde_json::to_string_pretty(&gate).expect("only string keys");
    text.push('\n');
    text
}

pub(super) fn headline(model: &Model) -> String {
    let of = |outcome| model.budget.iter().filter(|result| result.outcome == outcome).count();
    let all = model.budget.len();
    let others: Vec<String> = [Outcome::Exceeded, Outcome::Unmeasured, Outcome::Inconclusive]
        .into_iter()
        .filter(|outcome| of(*outcome) > 0)
        .map(|outcome| format!("{} {}", of(outcome), outcome.words()))
        .collect();
    let mut text = match (others.as_slice(), all) {
        ([], 1) => format!("{}: the budget is kept.", model.name),
        ([], _) => format!("{}: all {all} budgets are kept.", model.name),
        ([_], 1) => {
            let outcome = model.budget[0].outcome.words();
            format!("{}: the budget is {outcome}.", model.name)
        }
        _ => format!("{}: of {all} budgets, {}.", model.name, others.join(", ")),
    };
    if let Some(unchecked) = &model.unchecked {
        text.push_str(&format!(" {unchecked}"));
    }
    if model.has_void_verdict() {
        let void = model.findings.iter().find(|one| one.severity == hoptax_analysis::Severity::Void);
        let reason = void.map_or(String::new(), |one| format!(" {}: {}", one.code, one.message));
        text.push_str(&format!(" But the run is void: do not rely on this verdict.{reason}"));
    }
    text
}
