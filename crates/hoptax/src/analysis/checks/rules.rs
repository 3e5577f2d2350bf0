//! What each finding is raised by, in words: for `hoptax findings` and the page of the reference. Thresholds in them come
//! from the constants that the rules use.

use std::fmt::Write as _;

/// One finding in words.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
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

/// Every finding, in the order in which they are looked for.
pub fn rules() -> Vec<Rule> {
    let mut rules = vec![
        super::errors::rule(),
        super::event_failed::rule(),
        super::failed_checks::rule(),
        super::rejections_counted::rule(),
        super::different_work::rule(),
        super::connections_short::rule(),
        super::keepalive_lost::rule(),
        super::upstream_not_reused::rule(),
        super::upstream_http_version::rule(),
        super::amplification::rule(),
        super::balance::rule(),
        super::rate_missed::rule(),
        super::generator_saturated::rule(),
        super::upstream_saturated::rule(),
        super::host_noisy::rule(),
        super::host_unfit::rule(),
        super::host_changed::rule(),
        super::unsteady::rule(),
        super::impossible::rule(),
        super::herd::rule(),
        super::memory_growing::rule(),
        super::unasked::rule(),
        super::unpinned_version::rule(),
        super::bandwidth_bound::rule(),
        super::hidden_limit::rule(),
        super::listen_overflow::rule(),
        super::logging_unequal::rule(),
        super::ports_exhausted::rule(),
        super::shared_cpus::rule(),
        super::throttled::rule(),
        super::workers_unequal::rule(),
        super::clock::rule(),
        super::few_quiet_windows::rule(),
        super::quiet_differs::rule(),
        super::few_samples::rule(),
        super::not_distinguishable::rule(),
    ];
    // Thresholds are round numbers: they need no digits behind the point.
    for rule in &mut rules {
        for text in [&mut rule.when, &mut rule.severity] {
            *text = text.replace(".0 %", " %");
        }
    }
    rules
}

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
pub fn page() -> String {
    let mut page = HEAD.to_owned();
    page.push_str("\n| code | severity |\n| --- | --- |\n");
    for rule in rules() {
        let _ = writeln!(page, "| [`{0}`](#{0}) | {1} |", rule.code, rule.severity);
    }
    for rule in rules() {
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
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    /// The codes that the files beside this one give their findings.
    fn codes() -> BTreeSet<String> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/analysis/checks");
        let files = std::fs::read_dir(folder).expect("the checks").flatten();
        files
            .filter_map(|file| {
                let text = std::fs::read_to_string(file.path()).ok()?;
                let (_, rest) = text.split_once("\nconst CODE: &str = \"")?;
                Some(rest.split('"').next()?.to_owned())
            })
            .collect()
    }

    #[test]
    fn every_finding_has_its_words_once() {
        let told: Vec<&str> = rules().iter().map(|rule| rule.code).collect();
        let distinct: BTreeSet<String> = told.iter().map(|code| (*code).to_owned()).collect();
        assert_eq!(distinct.len(), told.len());
        assert_eq!(distinct, codes(), "rules() and the files of this folder");
        assert!(distinct.len() >= 20);
    }

    #[test]
    fn every_rule_is_whole() {
        for rule in rules() {
            for text in [rule.seen, rule.advice] {
                assert!(text.len() > 20 && text.ends_with('.'), "{}: {text}", rule.code);
            }
            assert!(rule.when.len() > 20 && !rule.when.ends_with('.'), "{}: {}", rule.code, rule.when);
            let severity = rule.severity.split([';', ',']).next().expect("a first part").trim();
            assert!(["void", "warning", "note"].contains(&severity), "{}: {}", rule.code, rule.severity);
        }
    }

    #[test]
    fn the_page_is_as_the_rules_say() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/findings.md");
        let written = std::fs::read_to_string(path).expect("docs/reference/findings.md");
        assert!(
            written == page(),
            "write it anew: `hoptax findings --markdown > docs/reference/findings.md`"
        );
    }
}
