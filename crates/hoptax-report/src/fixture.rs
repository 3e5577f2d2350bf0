//! Report models of generated runs, for tests.

use crate::Model;
use hoptax_analysis::fixture::Run;

/// Converts a generated run to a report model.
pub(crate) trait Reported {
    fn model(&self) -> Model;
}

impl Reported for Run {
    fn model(&self) -> Model {
        Model::new(&self.record, self.trials.len(), self.analyse(), &[])
    }
}
