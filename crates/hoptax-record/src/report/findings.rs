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
    /// Act on it before believing the answer.
    Warning,
    /// Good to know about one figure.
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

/// The figures of a case that a finding makes doubtful.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Figures {
    /// All figures.
    All,
    /// All figures that depend on the state of the machine, but not which of two gateways costs more.
    Machine,
    /// Percentiles above the median.
    Tails,
    /// Profiles.
    Profiles,
    /// Memory.
    Memory,
    /// The figures of quiet windows.
    QuietWindows,
    /// The times of request path and response path.
    PathSplit,
    /// The shares of the upstream's instances.
    Balance,
}

/// What a finding concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Concerns {
    /// The figures that the finding makes doubtful, in its case or, without a case, in all cases.
    pub figures: Figures,
    /// True if the answer rests on one of these figures. The answer ranks gateways by their added latency at
    /// the median, at one load point. In a run without an answer, this is always true.
    pub answer: bool,
}

impl Concerns {
    /// All figures, and so also the answer.
    pub const ALL: Self = Self::only(Figures::All);

    /// Only these figures.
    pub const fn only(figures: Figures) -> Self {
        Self { figures, answer: true }
    }
}

/// A finding: a reason to doubt a result of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// Code of the rule.
    pub code: &'static str,
    /// Severity.
    pub severity: Severity,
    /// What the finding concerns.
    pub concerns: Concerns,
    /// Name of the case that the finding is about: [`Case::case`](super::Case::case). Absent if the finding
    /// is about the whole run.
    pub case: Option<String>,
    /// The numbers that raised the finding.
    pub evidence: BTreeMap<&'static str, Value>,
    /// What was found and why it matters.
    pub message: String,
    /// What to do.
    pub advice: String,
}

/// Description of one rule: an entry of `hoptax findings --json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rule {
    /// Code of the findings that the rule raises.
    pub code: &'static str,
    /// Severity of the findings, and the condition for a higher severity.
    pub severity: String,
    /// When the finding is raised: the end of a sentence that starts with "Raised when".
    pub when: String,
    /// Why the finding matters: a case in which the mistake was seen, or the effect of the mistake.
    pub seen: &'static str,
    /// What to do about it.
    pub advice: &'static str,
}
