//! Budgets and their outcomes.

use super::figures::estimate;
use crate::figures;
use crate::model::Model;
use hoptax_analysis::{BudgetResult, ChangeResult};
use hoptax_record::report::{Budget, Change, Gate, Outcome};

/// The document that `hoptax gate --format json` prints.
pub(crate) fn gate(model: &Model) -> Gate {
    let outcome = hoptax_analysis::outcome_of_all(&model.budget);
    Gate {
        schema: 1,
        name: model.name.clone(),
        kept: outcome == Outcome::Kept,
        outcome,
        void: model.has_void_figures(),
        budget: model.budget.iter().map(budget).collect(),
        notes: model.unchecked.iter().cloned().collect(),
    }
}

pub(super) fn budget(one: &BudgetResult) -> Budget {
    Budget {
        case: one.case.clone(),
        gateway: one.gateway.clone(),
        metric: one.metric,
        max: one.max,
        min: one.min,
        measured: one.measured.map(estimate),
        more_than: one.more_than,
        change: one.change.as_ref().map(change),
        outcome: one.outcome,
        reason: figures::reason(one),
        would_decide: one.would_decide,
    }
}

fn change(one: &ChangeResult) -> Change {
    Change {
        against: one.against.clone(),
        max: one.max,
        min: one.min,
        reference: one.reference.map(estimate),
        measured: one.measured.map(estimate),
        drift: one.drift,
    }
}
