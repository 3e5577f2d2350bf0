//! Findings, and the rules that raise them.

use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// Severity of a finding, most severe first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Do not use the figures of this case.
    Void,
    /// Use the figures with this in mind.
    Warning,
    /// Good to know.
    Note,
}

impl Severity {
    /// Name in JSON and in reports.
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
    /// Code of the rule.
    pub code: &'static str,
    /// Severity.
    pub severity: Severity,
    /// [`Case::case`](super::Case::case) of the case in doubt; absent if the finding is about the whole run.
    pub case: Option<String>,
    /// The numbers that raised the finding.
    pub evidence: BTreeMap<&'static str, Value>,
    /// What was found and why it matters.
    pub message: String,
    /// What to do.
    pub advice: String,
}

/// One rule in words: an entry of `hoptax findings --json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rule {
    /// Code of the findings that it raises.
    pub code: &'static str,
    /// Severity, and when it is higher.
    pub severity: String,
    /// When it is raised: the end of "raised when …".
    pub when: String,
    /// Why it matters: where the mistake was seen, or its effect there.
    pub seen: &'static str,
    /// What to do about it.
    pub advice: &'static str,
}
