//! Findings, and the rules that raise them.

use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// How grave a finding is; the gravest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Do not believe this case.
    Void,
    /// Believe it with this in mind.
    Warning,
    /// Good to know.
    Note,
}

impl Severity {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Void => "void",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

/// A doubt about a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// Names the rule.
    pub code: &'static str,
    /// How grave it is.
    pub severity: Severity,
    /// [`Case::case`](super::Case::case) of the case in doubt; absent if it is about the whole run.
    pub case: Option<String>,
    /// The numbers that raised it.
    pub evidence: BTreeMap<&'static str, Value>,
    /// What was seen and why it matters.
    pub message: String,
    /// What to do.
    pub advice: String,
}

/// One finding in words: what `hoptax findings --json` prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rule {
    /// Names the finding.
    pub code: &'static str,
    /// How grave it is, and when graver.
    pub severity: String,
    /// When it is raised: the end of "raised when …".
    pub when: String,
    /// Why it matters: where the mistake was seen, or what it did there.
    pub seen: &'static str,
    /// What to do about it.
    pub advice: &'static str,
}
