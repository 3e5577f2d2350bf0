//! Models of made-up runs.

use crate::Model;
use hoptax_analysis::fixture::Run;

/// A run that a report can be made of.
pub(crate) trait Reported {
    /// Its model.
    fn model(&self) -> Model;
}

impl Reported for Run {
    fn model(&self) -> Model {
        Model::new(&self.record, self.trials.len(), self.analyse(), &[])
    }
}
