//! The reference page of findings, in Markdown.

use super::Rule;
use std::fmt::Write as _;

const HEAD: &str = "\
# Findings

The mistakes for which hoptax checks every run. [Findings](../concepts/findings.md) says what the severities mean,
[METHODOLOGY.md](../../METHODOLOGY.md#findings) has the statistics. `hoptax findings CODE` explains one;
`hoptax generate reference findings` prints this page. The last paragraph of each is advice.
";

/// The reference page of all findings, in Markdown.
pub fn page(rules: &[Rule]) -> String {
    let mut page = HEAD.to_owned();
    for severity in ["void", "warning", "note"] {
        let codes = rules.iter().filter(|rule| rule.severity.split(';').next() == Some(severity));
        let links: Vec<String> = codes.map(|rule| format!("[`{0}`](#{0})", rule.code)).collect();
        let _ = writeln!(page, "\n{}: {}", capital(severity), links.join(", "));
    }
    for rule in rules {
        let _ = write!(
            page,
            "\n## `{}`\n\n{}. Raised when {}.\n\n{}\n\n{}\n",
            rule.code,
            capital(&rule.severity),
            rule.when,
            rule.seen,
            rule.advice
        );
    }
    page
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use crate::checks::{page, rules};
    use std::path::Path;

    #[test]
    fn the_page_is_up_to_date() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/findings.md");
        let written = std::fs::read_to_string(path).expect("docs/reference/findings.md");
        assert!(
            written == page(&rules()),
            "regenerate it: `hoptax generate reference findings > docs/reference/findings.md`"
        );
    }
}
