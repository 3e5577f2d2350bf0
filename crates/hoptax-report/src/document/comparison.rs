//! Comparisons.

use super::figures::{contrast, estimate};
use super::load::load;
use hoptax_analysis::compare;
use hoptax_record::report::{Comparison, Row};

/// Version of the document's format.
const SCHEMA: u32 = 1;

/// The document that `hoptax compare --format json` prints.
pub fn comparison(one: &compare::Comparison) -> Comparison {
    Comparison {
        schema: SCHEMA,
        a: one.a.clone(),
        b: one.b.clone(),
        paired: one.paired,
        verdict: one.verdict,
        forced: one.forced.clone(),
        warnings: one.warnings.clone(),
        void: one.void.clone(),
        rows: one.rows.iter().map(row).collect(),
        expected_by_chance: one.expected_by_chance,
    }
}

fn row(one: &compare::Row) -> Row {
    Row {
        load: load(&one.load),
        label_a: one.label_a.clone(),
        label_b: one.label_b.clone(),
        metric: one.metric,
        unit: one.unit,
        headline: one.headline,
        a: one.a.map(estimate),
        b: one.b.map(estimate),
        difference: contrast(one.difference),
        change: one.change.map(estimate),
        floor: one.floor,
        adjusted_p_value: one.adjusted_p_value,
        verdict: one.verdict,
    }
}
