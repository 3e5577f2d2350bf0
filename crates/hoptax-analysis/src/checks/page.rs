//! The page of the reference about findings, in Markdown.

use super::Rule;
use std::fmt::Write as _;

/// The head of the page, above the findings.
const HEAD: &str = "\
# Findings

Every run is examined for the mistakes that make such figures wrong. Each finding has a code, a severity, evidence in
numbers, and advice; reports show them, and `hoptax findings CODE` says what one means.

- `void`: do not believe this case. `hoptax run` then exits with 4, unless `--accept-void` is given.
- `warning`: believe it with this in mind.
- `note`: good to know.

Thresholds are judgement: they mark where we would stop believing a figure without looking further. Where chance could
raise a finding, the rule asks for more than chance would do, and for an effect that matters
([METHODOLOGY.md](../../METHODOLOGY.md#findings)). This page is printed by `hoptax findings --markdown`; a test holds it
to the rules.
";

/// The page of the reference, Markdown.
pub fn page(rules: &[Rule]) -> String {
    let mut page = HEAD.to_owned();
    page.push_str("\n| code | severity |\n| --- | --- |\n");
    for rule in rules {
        let _ = writeln!(page, "| [`{0}`](#{0}) | {1} |", rule.code, rule.severity);
    }
    for rule in rules {
        let _ = write!(
            page,
            "\n## `{}`\n\n{}. Raised when {}.\n\n**Why it matters.** {}\n\n**What to do.** {}\n",
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
    fn the_page_is_as_the_rules_say() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/findings.md");
        let written = std::fs::read_to_string(path).expect("docs/reference/findings.md");
        assert!(
            written == page(&rules()),
            "write it anew: `hoptax findings --markdown > docs/reference/findings.md`"
        );
    }
}
