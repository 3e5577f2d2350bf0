//! What a plan's files hold, read once before anything starts: the generator is given it with each spec.

use crate::lab::upstream::bytes;
use crate::plan::Plan;
use anyhow::Context as _;
use std::collections::BTreeMap;

/// What the plan's files hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contents {
    /// The body of each target, in the plan's order; empty where it has none.
    pub bodies: Vec<Vec<u8>>,
    /// Files that templates take lines from, by name.
    pub files: BTreeMap<String, String>,
}

impl Contents {
    /// Reads them.
    ///
    /// # Errors
    /// If a file cannot be read, or one that lines are taken from is not text.
    pub fn read(plan: &Plan) -> anyhow::Result<Self> {
        let body = |target: &crate::plan::Target| match &target.body {
            Some(body) => bytes(body),
            None => Ok(Vec::new()),
        };
        let file = |(name, path): (&String, &std::path::PathBuf)| {
            let text = std::fs::read_to_string(path)
                .with_context(|| format!("cannot read the lines of {}", path.display()))?;
            Ok((name.clone(), text))
        };
        Ok(Self {
            bodies: plan.targets.iter().map(body).collect::<anyhow::Result<_>>()?,
            files: plan.files.iter().map(file).collect::<anyhow::Result<_>>()?,
        })
    }
}
