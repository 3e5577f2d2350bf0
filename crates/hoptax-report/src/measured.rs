//! A run that was read from its directory, with the name that messages use. Reports and comparisons start
//! from it.

use super::Model;
use hoptax_analysis::compare::{Comparison, Obstacle, Refusal, Subject, compare};
use hoptax_analysis::{Analysis, Side, analyse};
use hoptax_plan::units;
use hoptax_record::dir::{DirError, Run};
use std::path::Path;

/// A run that was read from its directory.
#[derive(Debug)]
pub struct Measured {
    /// The name of the directory.
    pub name: String,
    /// The content of the directory.
    pub run: Run,
}

/// The reason why two runs, or two gateways of the same run, were not compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotCompared {
    /// Only one run was given, and the labels of two of its gateways are missing.
    #[error("there is nothing to compare {name} with: name a second run, or two gateways of {name}")]
    Alone {
        /// Name of the run.
        name: String,
        /// Labels of the run's gateways.
        labels: Vec<String>,
    },
    /// The same gateway of the same run was given twice.
    #[error("cannot compare {0} with itself: name two different labels")]
    Itself(String),
    /// The run has no gateway with this label.
    #[error("{name} has no gateway labelled {label}")]
    NoLabel {
        /// Name of the run.
        name: String,
        /// The requested label.
        label: String,
        /// The most similar label, or all labels.
        help: String,
    },
    /// The runs have different settings, so their results cannot be compared.
    #[error("these runs measured different things")]
    Obstacles(Vec<Obstacle>),
    /// No case was measured in both runs.
    #[error("these runs cannot be compared: {0}")]
    NothingInCommon(String),
}

impl Measured {
    /// Reads a run from its directory.
    ///
    /// # Errors
    /// If the path is not a run directory, or if a newer version of hoptax wrote it.
    pub fn read(path: &Path) -> Result<Self, DirError> {
        let run = Run::read(path)?;
        let place = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        let name = place
            .file_name()
            .map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into());
        Ok(Self { name, run })
    }

    /// The run's trials, prepared for a comparison.
    pub fn side(&self) -> Side<'_> {
        Side::read(&self.run.record, &self.run.trials)
    }

    /// The run's analysis.
    pub fn analyse(&self) -> Analysis {
        analyse(&self.run.record, &self.run.trials, &self.run.starts, &self.run.tails)
    }

    /// The run's report model.
    pub fn model(&self) -> Model {
        Model::of(&self.run)
    }

    /// The labels of the run's contenders, direct first.
    pub fn labels(&self) -> Vec<&str> {
        self.run.record.contenders.iter().map(|one| one.label.as_str()).collect()
    }

    fn check_label(&self, label: &str) -> Result<(), NotCompared> {
        let known = self.labels();
        if known.contains(&label) {
            return Ok(());
        }
        let help = match units::nearest(label, known.iter().copied()) {
            Some(near) => format!("did you mean {near}?"),
            None => format!("it has {}", known.join(", ")),
        };
        Err(NotCompared::NoLabel { name: self.name.clone(), label: label.into(), help })
    }
}

/// Compares `second` with `first`. If `second` is absent, compares two gateways of the run `first`. `labels`
/// are the labels of the two gateways. The function [`compare`] describes `least` and `force`.
///
/// # Errors
/// If the runs or the gateways cannot be compared.
pub fn compared(
    first: &Measured,
    second: Option<&Measured>,
    labels: Option<(&str, &str)>,
    least: f64,
    force: bool,
) -> Result<Comparison, NotCompared> {
    let other = second.unwrap_or(first);
    match labels {
        None if second.is_none() => {
            let labels = first.labels().into_iter().map(str::to_owned).collect();
            return Err(NotCompared::Alone { name: first.name.clone(), labels });
        }
        None => {}
        Some((one, two)) => {
            first.check_label(one)?;
            other.check_label(two)?;
            if second.is_none() && one == two {
                return Err(NotCompared::Itself(one.into()));
            }
        }
    }
    let (side_a, analysis_a) = (first.side(), first.analyse());
    // Within one run, both subjects share the same trials, so that the trials of each round are paired.
    let own = second.map(|second| (second.side(), second.analyse()));
    let (side_b, analysis_b) = own.as_ref().map_or((&side_a, &analysis_a), |(side, one)| (side, one));
    let (one, two) = (labels.map(|labels| labels.0), labels.map(|labels| labels.1));
    let a = Subject { name: &first.name, side: &side_a, analysis: &analysis_a, label: one };
    let b = Subject { name: &other.name, side: side_b, analysis: analysis_b, label: two };
    compare(&a, &b, least, force).map_err(|refusal| match refusal {
        Refusal::Obstacles(obstacles) => NotCompared::Obstacles(obstacles),
        Refusal::NothingInCommon(why) => NotCompared::NothingInCommon(why),
    })
}
