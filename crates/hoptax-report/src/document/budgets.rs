//! Budgets and their outcomes.

use crate::model::Model;
use crate::words::figures;
use hoptax_record::report::{BudgetResult, Gate, Outcome};

/// The document that `hoptax gate --format json` prints.
pub(crate) fn gate(model: &Model) -> Gate {
    let outcome = hoptax_analysis::outcome_of_all(&model.budget);
    Gate {
        schema: 1,
        name: model.name.clone(),
        kept: outcome == Outcome::Kept,
        outcome,
        void: model.has_void_verdict(),
        budget: model.budget.iter().map(budget).collect(),
        notes: model.unchecked.iter().cloned().collect(),
    }
}

/// A result with its reason in words. For an inconclusive budget, the reason is the measuring time that would
/// decide it, if it is known.
pub(super) fn budget(one: &BudgetResult) -> BudgetResult {
    BudgetResult { reason: figures::reason(one), ..one.clone() }
}
