//! Finds the cases whose figures are void. The reason is a `void` finding about the case, about direct at the
//! same load point, or about the whole run.

use hoptax_analysis::{Analysis, Case, Severity};
use hoptax_record::DIRECT;

/// Codes of the findings that make the figures of a case void. Each code appears only once.
pub(crate) fn codes(case: &Case, analysis: &Analysis) -> Vec<&'static str> {
    let direct = analysis.case(DIRECT, case.load.index).map(|direct| &direct.case);
    let mut codes = Vec::new();
    for finding in analysis.findings.iter().filter(|finding| finding.severity == Severity::Void) {
        let concerns = match &finding.case {
            None => true,
            Some(name) => *name == case.case || Some(name) == direct,
        };
        if concerns && !codes.contains(&finding.code) {
            codes.push(finding.code);
        }
    }
    codes
}
