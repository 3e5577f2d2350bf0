//! The reference page of findings, in Markdown.

use super::Rule;
use std::fmt::Write as _;

const HEAD: &str = "\
# Findings

hoptax checks every run for mistakes that make its figures wrong. Each finding has a code, a severity, figures as
evidence, and advice. Reports show them, and `hoptax findings CODE` explains one.

- `void`: do not use this case. `hoptax run` exits with 4, unless `--accept-void` is given.
- `warning`: act on it before you believe the answer.
- `note`: good to know about one figure.

The thresholds are a matter of judgement: beyond them, we would not trust a figure without a closer look. If chance
could cause a finding, its rule requires a difference that chance does not explain and that is large enough to matter
([METHODOLOGY.md](../../METHODOLOGY.md#findings)). `hoptax findings --markdown` prints this page, and a test keeps it up
to date.
";

/// The reference page of all findings, in Markdown.
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
    fn the_page_is_up_to_date() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/findings.md");
        let written = std::fs::read_to_string(path).expect("docs/reference/findings.md");
        assert!(
            written == page(&rules()),
            "regenerate it: `hoptax findings --markdown > docs/reference/findings.md`"
        );
    }
}
