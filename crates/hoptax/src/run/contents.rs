//! What the files hold that targets name, read once before anything starts: the generator is given it with each spec.

use anyhow::Context as _;
use hoptax_load::spec::TargetSpec;
use hoptax_plan::{Plan, Target};
use hoptax_record::bounded;
use hoptax_servers::upstream::bytes;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What a plan's files hold, or those of a list of targets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contents {
    /// The body of each target, in their order; empty where it has none.
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
        Self::of(&plan.targets, &plan.files)
    }

    /// Reads the bodies of `targets`, and the `files` that their templates take lines from.
    ///
    /// # Errors
    /// As [`Contents::read`].
    pub fn of(targets: &[Target], files: &BTreeMap<String, PathBuf>) -> anyhow::Result<Self> {
        let body = |target: &Target| match &target.body {
            Some(body) => bytes(body),
            None => Ok(Vec::new()),
        };
        let file = |(name, path): (&String, &PathBuf)| {
            let text = bounded::read_text(path, bounded::LINES)
                .with_context(|| format!("cannot read the lines of {}", path.display()))?;
            Ok((name.clone(), text))
        };
        Ok(Self {
            bodies: targets.iter().map(body).collect::<anyhow::Result<_>>()?,
            files: files.iter().map(file).collect::<anyhow::Result<_>>()?,
        })
    }

    /// `targets`, in the order that they were read in, as they are sent to `host`, where they do not name one themselves.
    pub fn targets(&self, targets: &[Target], host: &str) -> Vec<TargetSpec> {
        let bodies = self.bodies.iter().cloned().chain(std::iter::repeat(Vec::new()));
        targets.iter().zip(bodies).map(|(target, body)| request(target, body, host)).collect()
    }
}

fn request(target: &Target, body: Vec<u8>, host: &str) -> TargetSpec {
    let mut headers = target.headers.clone();
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        headers.insert(0, ("host".to_owned(), host.to_owned()));
    }
    TargetSpec {
        name: target.name.clone(),
        weight: target.weight,
        method: target.method.clone(),
        path: target.path.clone(),
        headers,
        body,
        body_is_template: target.body_is_template,
        checks: target.checks.clone(),
    }
}
