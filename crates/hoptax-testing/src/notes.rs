//! Notes about skipped tests, attempts and retries. `make test` prints the notes at its end, and fails if
//! there are too many (`scripts/run-tests.py`).

use std::io::Write as _;
use std::panic::Location;

/// Environment variable that names the file for notes. Without this variable, notes are only printed.
const FILE: &str = "HOPTAX_TEST_NOTES";
/// Maximum length of the reason in a note, in characters.
const REASON: usize = 300;

/// Notes that this machine cannot run the calling test, or a part of it. The caller must then return or leave
/// out that part.
#[track_caller]
pub fn skip(reason: impl AsRef<str>) {
    note("skip", &test_name(Location::caller()), reason.as_ref());
}

/// Notes that the calling test retries for `reason`.
#[track_caller]
pub fn note_retry(reason: &str) {
    note("retry", &test_name(Location::caller()), reason);
}

/// Notes how much the machine was disturbed during an attempt that succeeded. These notes show how often
/// attempts succeed on a machine that counts as disturbed, and so how much a retry can hide.
#[track_caller]
pub(crate) fn success(what: &str) {
    note("success", &test_name(Location::caller()), what);
}

/// The name of the calling test. Each test thread has the name of its test. With `--test-threads=1` there is
/// only the main thread, so the source location is used instead.
fn test_name(place: &Location<'_>) -> String {
    let thread = std::thread::current();
    let name = thread.name().filter(|name| *name != "main").map(str::to_owned);
    name.or_else(|| std::env::var("NEXTEST_TEST_NAME").ok())
        .unwrap_or_else(|| format!("{}:{}", place.file(), place.line()))
}

fn note(kind: &str, test: &str, reason: &str) {
    let line = line(kind, test, reason);
    print!("{line}");
    let Some(path) = std::env::var_os(FILE) else { return };
    let file = std::fs::OpenOptions::new().create(true).append(true).open(&path);
    // Each line is written with one call, so that lines of parallel tests do not mix.
    let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
    written.unwrap_or_else(|error| panic!("cannot write the notes {}: {error}", path.display()));
}

fn line(kind: &str, test: &str, reason: &str) -> String {
    let words: Vec<&str> = reason.split_whitespace().collect();
    let reason: String = words.join(" ").chars().take(REASON).collect();
    format!("{kind} {test} {reason}\n")
}

#[test]
fn a_note_is_one_short_line_that_names_its_test() {
    assert_eq!(test_name(Location::caller()), "notes::a_note_is_one_short_line_that_names_its_test");
    assert_eq!(line("skip", "a::b", "no\n  engine"), "skip a::b no engine\n");
    assert_eq!(line("retry", "a::b", &"x".repeat(1000)).len(), "retry a::b \n".len() + REASON);
}
