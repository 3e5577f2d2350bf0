//! For tests: pages of the documentation state the constants of the code.
//!
//! A file invokes [`stated!`] after its constants. The test that it generates fails if a page does not state
//! their values. With [`WRITE`] in the environment, it writes the values into the pages instead:
//! `HOPTAX_WRITE_PAGES=1 cargo test --workspace --lib stated::`.
#![forbid(unsafe_code)]

pub mod words;

use regex_lite::Regex;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Environment variable that makes the tests write the pages.
pub const WRITE: &str = "HOPTAX_WRITE_PAGES";

/// METHODOLOGY.md.
pub const METHODOLOGY: &str = "METHODOLOGY.md";
/// BIAS.md.
pub const BIAS: &str = "BIAS.md";
/// The page of quiet windows.
pub const QUIET_WINDOWS: &str = "docs/concepts/quiet-windows.md";
/// The page that explains findings.
pub const FINDINGS: &str = "docs/concepts/findings.md";
/// The reference of plans.
pub const PLAN: &str = "docs/reference/plan.md";
/// The page of simulations.
pub const SIMULATIONS: &str = "docs/concepts/simulations.md";

/// Longest text of a value, in characters.
const LONGEST: usize = 20;

/// Only one test at a time writes a page.
static WRITING: Mutex<()> = Mutex::new(());

/// A value that a page states.
#[derive(Debug)]
pub struct Stated {
    /// Path of the page in the repository.
    pub page: &'static str,
    /// The words on the page, with `{}` instead of the value.
    pub sentence: &'static str,
    /// The value, in the page's words.
    pub value: String,
}

/// A test that pages state these constants. Each line: the page, the words with `{}` instead of the value,
/// and how [`words`] writes the value. Needs `#[cfg(test)]`.
#[macro_export]
macro_rules! stated {
    ($($page:ident $sentence:literal $kind:ident($value:expr);)+) => {
        mod stated {
            use super::*;

            #[test]
            fn pages_state_the_constants() {
                $crate::check(&[$($crate::Stated {
                    page: $crate::$page,
                    sentence: $sentence,
                    value: $crate::words::$kind($value),
                }),+]);
            }
        }
    };
}

/// Checks that pages state values. Writes the values if [`WRITE`] is set.
///
/// # Panics
/// If a page does not state a value.
pub fn check(all: &[Stated]) {
    let write = std::env::var_os(WRITE).is_some();
    let _writing = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut wrong = Vec::new();
    for one in all {
        let path = root().join(one.page);
        let page = std::fs::read_to_string(&path).expect(one.page);
        match one.on(&page) {
            Ok(same) if same == page => {}
            Ok(updated) if write => std::fs::write(&path, updated).expect(one.page),
            Ok(_) => wrong.push(format!(
                "{} must say \"{}\": `{WRITE}=1 cargo test --workspace --lib stated::` writes it",
                one.page,
                one.sentence.replace("{}", &one.value)
            )),
            Err(found) => wrong.push(format!(
                "{} says \"{}\" {found} times, not once: change the page or the words in `stated!`",
                one.page, one.sentence
            )),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

impl Stated {
    /// Returns the page with the value in its sentence. If the page does not contain the sentence exactly
    /// once, returns the number of times as an error.
    fn on(&self, page: &str) -> Result<String, usize> {
        let (before, after) = self.sentence.split_once("{}").expect("`{}` in the words");
        // Without words on both sides, the pattern does not say where the value begins or ends.
        assert!(!before.is_empty() && !after.is_empty(), "{}", self.sentence);
        let pattern = format!("({})(.{{1,{LONGEST}}}?)({})", with_any_blanks(before), with_any_blanks(after));
        // `.` also matches the end of a line: a value such as `5 %` can be split across two lines.
        let sentence = Regex::new(&format!("(?s){pattern}")).expect("a valid pattern");
        let found: Vec<_> = sentence.captures_iter(page).collect();
        let [found] = found.as_slice() else { return Err(found.len()) };
        let stated = found.get(2).expect("a group");
        let is_same = stated.as_str().split_whitespace().eq(self.value.split_whitespace());
        // At the start of a sentence, a number in words has a capital.
        let is_capital = stated.as_str().starts_with(char::is_uppercase);
        let value = if is_capital { words::capital(&self.value) } else { self.value.clone() };
        let is_same = is_same || stated.as_str().split_whitespace().eq(value.split_whitespace());
        Ok(match is_same {
            true => page.to_owned(),
            false => format!("{}{value}{}", &page[..stated.start()], &page[stated.end()..]),
        })
    }
}

/// A pattern for the text, in which a blank also matches the end of a line.
fn with_any_blanks(text: &str) -> String {
    let mut pattern = String::new();
    let mut is_blank = false;
    for letter in text.chars() {
        match letter.is_whitespace() {
            true if is_blank => {}
            true => pattern += r"\s+",
            false => pattern += &regex_lite::escape(&letter.to_string()),
        }
        is_blank = letter.is_whitespace();
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(page: &str, sentence: &'static str, value: &str) -> Result<String, usize> {
        Stated { page: METHODOLOGY, sentence, value: value.to_owned() }.on(page)
    }

    #[test]
    fn a_value_is_found_across_lines_and_replaced() {
        let page = "It is set aside above 5\n% of (CPU) time.\nFour fifths of it.\n";
        let sentence = "set aside above {} of (CPU) time";
        assert_eq!(on(page, sentence, "5 %").as_deref(), Ok(page));
        let changed = "It is set aside above 0.5 % of (CPU) time.\nFour fifths of it.\n";
        assert_eq!(on(page, sentence, "0.5 %").as_deref(), Ok(changed));
        assert_eq!(on(page, "time. {} of it", "four fifths").as_deref(), Ok(page));
        let changed = page.replace("Four fifths", "A half");
        assert_eq!(on(page, "time. {} of it", "a half").as_deref(), Ok(changed.as_str()));
    }

    #[test]
    fn a_sentence_must_be_there_once() {
        assert_eq!(on("at 5 % of time, at 5 % of time", "at {} of time", "5 %").map(drop), Err(2));
        assert_eq!(on("nothing", "above {} of time", "5 %").map(drop), Err(0));
    }
}
