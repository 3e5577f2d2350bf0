//! `hoptax findings`.

use super::exit::{BadInput, Exit};
use super::help;
use hoptax_analysis::checks::{Rule, rules};
use std::fmt::Write as _;
use std::io::{self, Write as _};

const WIDTH: usize = 80;

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
    let mut text = format!("{} ({})\n", rule.code, rule.severity);
    wrap(&mut text, &rule.when);
    text
}

fn explained(rule: &Rule) -> String {
    let mut text = format!("{} ({})\n", rule.code, rule.severity);
    for (title, words) in
        [("Raised when", rule.when.as_str()), ("Why it matters", rule.seen), ("What to do", rule.advice)]
    {
        let _ = writeln!(text, "\n{title}");
        wrap(&mut text, words);
    }
    text
}

/// Appends a paragraph, wrapped and indented by two spaces.
fn wrap(text: &mut String, paragraph: &str) {
    let mut column = 0;
    for word in paragraph.split_whitespace() {
        let length = word.chars().count();
        if column == 0 || column + 1 + length > WIDTH {
            let _ = write!(text, "{}  {word}", if column == 0 { "" } else { "\n" });
            column = 2 + length;
        } else {
            let _ = write!(text, " {word}");
            column += 1 + length;
        }
    }
    text.push('\n');
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
