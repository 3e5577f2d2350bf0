//! Report models of generated runs, for tests.

use crate::Model;
pub(crate) use hoptax_analysis::fixture::{
    MadeTrial, Run, closed_point, failure, open_point, sample, searched_point, staged_point, via,
};
use hoptax_analysis::precision_over_time;

/// Converts a generated run to a report model.
pub(crate) trait Reported {
    fn model(&self) -> Model;
}

impl Reported for Run {
    fn model(&self) -> Model {
        let precision = precision_over_time(&self.record, &self.trials);
        Model { precision, ..Model::new(&self.record, self.trials.len(), self.analyse(), &[]) }
    }
}

/// The words of a text with single spaces between them.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Checks that no line of a text is longer than this.
#[track_caller]
pub(crate) fn fits(text: &str, width: usize) {
    for line in text.lines() {
        assert!(line.chars().count() <= width, "{} columns: {line}", line.chars().count());
    }
}
