//! A finding, and the words of a rule that raises it.

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
    /// [`Case::case`] of the case in doubt; absent where it is about the whole run.
    pub case: Option<String>,
    /// The numbers that raised it.
    pub evidence: BTreeMap<&'static str, Value>,
    /// What was seen and why it matters.
    pub message: String,
    /// What to do.
    pub advice: String,
}

/// One finding in words.
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

impl Rule {
    /// Thresholds are round numbers: they need no digits behind the point.
    pub(super) fn with_round_thresholds(mut self) -> Self {
        for text in [&mut self.when, &mut self.severity] {
            *text = text.replace(".0 %", " %");
        }
        self
    }
}

/// Numbers by name.
pub(super) fn evidence<const N: usize>(members: [(&'static str, Value); N]) -> BTreeMap<&'static str, Value> {
    members.into_iter().collect()
}

/// A share in words, with as many digits as it needs to differ from zero and one.
pub(super) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        _ if percent >= 99.95 && share < 1.0 => format!("{percent:.2} %"),
        _ if percent >= 10.0 => format!("{percent:.0} %"),
        _ if percent >= 0.1 => format!("{percent:.1} %"),
        _ => format!("{percent:.2} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::percent;

    #[test]
    fn shares_in_words() {
        let words = [0.0004, 0.0123, 0.345, 0.9999, 1.0].map(percent);
        assert_eq!(words, ["0.04 %", "1.2 %", "34 %", "99.99 %", "100 %"]);
    }
}
