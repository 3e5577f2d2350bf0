//! `hoptax findings`.

use super::exit::{BadInput, Exit};
use super::help;
use hoptax_analysis::checks::{Rule, rules};
use std::fmt::Write as _;
use std::io::{self, Write as _};

/// Width of texts for terminals, in columns.
pub(super) const WIDTH: usize = 80;

/// Explain findings: when each is raised, why it matters, what to do
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Finding to explain [default: list all]
    #[arg(value_name = "CODE")]
    code: Option<String>,
    #[arg(long, help = help::JSON)]
    json: bool,
}

impl Args {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let mut rules = rules();
        if let Some(code) = &self.code {
            rules.retain(|rule| rule.code == code);
            if rules.is_empty() {
                return Err(BadInput(unknown(code)).into());
            }
        }
        let text = if self.json {
            serde_json::to_string_pretty(&rules)? + "\n"
        } else if self.code.is_some() {
            rules.iter().map(explained).collect()
        } else {
            rules.iter().map(in_short).collect()
        };
        write!(io::stdout(), "{text}")?;
        Ok(Exit::Success)
    }
}

/// The error for an unknown code. It lists the known codes that have a word in common with the unknown code.
/// If there are no such codes, it lists all known codes.
fn unknown(code: &str) -> String {
    let words: Vec<&str> = code.split(['-', '_', ' ']).filter(|word| word.len() > 2).collect();
    let rules = rules();
    let near = |rule: &&Rule| words.iter().any(|word| rule.code.contains(*word));
    let similar: Vec<&str> = rules.iter().filter(near).map(|rule| rule.code).collect();
    if !similar.is_empty() {
        return format!("there is no finding `{code}`; similar codes are: {}", similar.join(", "));
    }
    let codes: Vec<&str> = rules.iter().map(|rule| rule.code).collect();
    format!("there is no finding `{code}`; the codes are {}", codes.join(", "))
}

fn in_short(rule: &Rule) -> String {
    format!("{} ({})\n{}", rule.code, rule.severity, indented(&rule.when))
}

fn explained(rule: &Rule) -> String {
    let mut text = format!("{} ({})\n", rule.code, rule.severity);
    for (title, words) in
        [("Raised when", rule.when.as_str()), ("Why it matters", rule.seen), ("What to do", rule.advice)]
    {
        let _ = write!(text, "\n{title}\n{}", indented(words));
    }
    text
}

/// A paragraph, wrapped and indented by two spaces.
fn indented(paragraph: &str) -> String {
    wrapped(paragraph, WIDTH - 2).iter().map(|line| format!("  {line}\n")).collect()
}

/// Wraps `text` at spaces, with at most `width` characters per line. A word longer than `width` gets a line
/// of its own.
pub(super) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(last) if last.chars().count() + 1 + word.chars().count() <= width => {
                last.push(' ');
                last.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_fits_into_80_columns() {
        for rule in rules() {
            for line in (explained(&rule) + &in_short(&rule)).lines().filter(|line| !line.contains(" (")) {
                assert!(line.chars().count() <= WIDTH, "{line}");
            }
        }
    }

    #[test]
    fn an_unknown_code_suggests_similar_ones() {
        let error = unknown("keep-alive-lost");
        assert!(error.contains("keepalive-lost") && !error.contains("balance"), "{error}");
        assert!(unknown("x").contains("balance"));
    }
}
