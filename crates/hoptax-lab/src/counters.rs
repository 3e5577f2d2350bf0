//! A gateway's own counters, as defined in its pack. They are read before and after each trial.
//!
//! A counter that cannot be read is left out, so a gateway whose admin port does not answer can still be
//! measured.

use super::packs::manifest::{CounterFrom, CounterSpec};
use hoptax_plan::selector::{Selector, SelectorKind, pattern};
use hoptax_servers::http_client::HttpClient;
use regex_lite::Regex;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Maximum number of bytes of a log that one reading searches. The rest is skipped, because a gateway that
/// logs more than this in one trial only repeats the same message.
const MOST_OF_A_LOG: u64 = 64 << 20;
const MOST_OF_AN_ANSWER: usize = 4 << 20;

const TIMEOUT: Duration = Duration::from_secs(10);

/// The counters of one running gateway.
#[derive(Debug)]
pub struct Counters {
    admin: SocketAddr,
    log_directory: PathBuf,
    list: Vec<Counter>,
}

#[derive(Debug)]
struct Counter {
    name: String,
    path: String,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Answer { plus: Selector, minus: Option<Selector> },
    Log { pattern: Regex, seen: Seen },
}

/// How far a log has been searched, and the number of matches so far.
#[derive(Debug, Default, Clone, Copy)]
struct Seen {
    offset: u64,
    matches: u64,
}

/// Checks that the pack's definition of a counter is valid.
///
/// # Errors
/// If `select` or `minus` is invalid. The error says what is wrong and how to fix it.
pub fn check(spec: &CounterSpec) -> Result<(), String> {
    source(spec).map(drop)
}

fn source(spec: &CounterSpec) -> Result<Source, String> {
    Ok(match spec.from {
        CounterFrom::Admin => Source::Answer {
            plus: Selector::parse(spec.kind, &spec.select)?,
            minus: spec.minus.as_deref().map(|minus| Selector::parse(spec.kind, minus)).transpose()?,
        },
        CounterFrom::Log if spec.kind != SelectorKind::Regex || spec.minus.is_some() => {
            let rule = "so it must have `kind: regex` and must not have `minus`";
            return Err(format!("a counter with `from: log` counts matching lines, {rule}"));
        }
        CounterFrom::Log => Source::Log { pattern: pattern(&spec.select)?, seen: Seen::default() },
    })
}

impl Counters {
    /// The counters of a pack, for a gateway with this admin port and these logs. Invalid counters are left
    /// out, because packs are checked when they are loaded.
    pub fn new(specs: &[CounterSpec], admin: SocketAddr, log_directory: &Path) -> Self {
        let counter = |spec: &CounterSpec| {
            Some(Counter { name: spec.name.clone(), path: spec.path.clone(), source: source(spec).ok()? })
        };
        Self {
            admin,
            log_directory: log_directory.to_owned(),
            list: specs.iter().filter_map(counter).collect(),
        }
    }

    /// The current values of all counters that can be read. Each path is requested once.
    pub fn read(&mut self) -> BTreeMap<String, f64> {
        let mut answers: BTreeMap<String, Option<String>> = BTreeMap::new();
        let mut values = BTreeMap::new();
        for counter in &mut self.list {
            let value = match &mut counter.source {
                Source::Log { pattern, seen } => {
                    *seen = count(&self.log_directory.join(&counter.path), pattern, *seen);
                    Some(seen.matches as f64)
                }
                Source::Answer { plus, minus } => {
                    let answer = answers
                        .entry(counter.path.clone())
                        .or_insert_with(|| answered(self.admin, &counter.path));
                    answer.as_deref().and_then(|answer| {
                        let less = minus.as_ref().map_or(Some(0.0), |minus| minus.value(answer));
                        Some(plus.value(answer)? - less?)
                    })
                }
            };
            values.extend(value.map(|value| (counter.name.clone(), value)));
        }
        values
    }
}

fn answered(admin: SocketAddr, path: &str) -> Option<String> {
    let body = HttpClient::plain(admin, TIMEOUT).get(path, MOST_OF_AN_ANSWER).ok()?;
    String::from_utf8(body).ok()
}

/// Continues the search of a log where the previous search stopped. A log that has shrunk is searched from
/// its beginning.
fn count(path: &Path, pattern: &Regex, seen: Seen) -> Seen {
    let Ok(mut file) = File::open(path) else { return seen };
    let length = file.metadata().map_or(0, |metadata| metadata.len());
    let from = if length < seen.offset { 0 } else { seen.offset };
    if file.seek(SeekFrom::Start(from)).is_err() {
        return seen;
    }
    let mut lines = BufReader::new(file.take((length - from).min(MOST_OF_A_LOG)));
    let (mut matches, mut line) = (seen.matches, Vec::new());
    while lines.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        matches += u64::from(pattern.is_match(&String::from_utf8_lossy(&line)));
        line.clear();
    }
    Seen { offset: length, matches }
}

/// How much each counter grew between two readings. A counter that is missing in one reading is left out. A
/// counter decreases if the gateway restarts; its growth is then 0.
pub fn growth(before: &BTreeMap<String, f64>, after: &BTreeMap<String, f64>) -> BTreeMap<String, f64> {
    let grown = |(name, after): (&String, &f64)| Some((name.clone(), (after - before.get(name)?).max(0.0)));
    after.iter().filter_map(grown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn lines_of_a_log_are_counted_once() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("error.log");
        let pattern = Regex::new("not enough").expect("a pattern");
        assert_eq!(count(&path, &pattern, Seen::default()).matches, 0, "no log yet");
        let mut log = File::create(&path).expect("made");
        log.write_all(b"512 are not enough\nother\n512 are not enough\n").expect("written");
        let first = count(&path, &pattern, Seen::default());
        assert_eq!(first.matches, 2);
        log.write_all(b"\xff not enough\n").expect("written");
        let second = count(&path, &pattern, first);
        assert_eq!(second.matches, 3);
        std::fs::write(&path, "not enough\n").expect("rewritten");
        assert_eq!(count(&path, &pattern, second).matches, 4);
    }

    #[test]
    fn growth_covers_counters_present_before_and_after() {
        let map = |list: &[(&str, f64)]| list.iter().map(|(name, value)| ((*name).into(), *value)).collect();
        let before: BTreeMap<String, f64> = map(&[("a", 1.0), ("b", 9.0), ("gone", 1.0)]);
        let after = map(&[("a", 4.0), ("b", 2.0), ("new", 5.0)]);
        assert_eq!(growth(&before, &after), map(&[("a", 3.0), ("b", 0.0)]));
    }
}
