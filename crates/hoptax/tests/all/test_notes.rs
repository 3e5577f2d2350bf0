//! `scripts/run-tests.py`: what `make test` prints about skips and retries, and when it fails. A script replaces Cargo.

use crate::support::Scratch;
use std::path::Path;
use std::process::Command;

/// Runs the script with a fake Cargo that writes these notes and exits with this code. Returns the exit code and the output.
fn run_tests(notes: &str, code: u8, ci: bool) -> (Option<i32>, String) {
    let scratch = Scratch::new();
    let script = format!("cat > \"$HOPTAX_TEST_NOTES\" <<'end'\n{notes}end\nexit {code}\n");
    let cargo = scratch.file("cargo.sh", &script);
    let output = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/run-tests.py"))
        .env("CARGO", format!("sh {}", cargo.display()))
        .env("CARGO_TARGET_DIR", scratch.path().join("target"))
        .env("CI", ci.to_string())
        .output()
        .expect("python3 runs");
    (output.status.code(), String::from_utf8(output.stdout).expect("text"))
}

const LISTED: &str = "skip docker::a_test no docker engine answers\n";
const UNLISTED: &str = "skip run::a_test nginx is not installed\n";

fn retries(test: &str, count: usize) -> String {
    format!("retry {test} 3 became 4\n").repeat(count)
}

#[test]
fn skips_are_listed_and_fail_unless_allowed() {
    for (notes, ci, code) in
        [(LISTED, true, 0), (LISTED, false, 0), (UNLISTED, false, 0), (UNLISTED, true, 1)]
    {
        let (seen, told) = run_tests(notes, 0, ci);
        assert_eq!(seen, Some(code), "{told}");
        assert!(told.contains("Skipped: 1:\n") && told.contains("_test: n"), "{told}");
        assert_eq!(
            told.contains("FAILED: run::a_test was skipped (nginx is not installed)"),
            code == 1,
            "{told}"
        );
    }
    let (code, told) = run_tests("", 0, true);
    assert!(code == Some(0) && told.contains("Skipped: 0\nRetries: 0 "), "{told}");
}

#[test]
fn retries_are_counted_and_limited() {
    let six: String = (0..6).map(|test| retries(&format!("a::b{test}"), 2)).collect();
    let (code, told) = run_tests(&six, 0, false);
    assert!(code == Some(0) && told.contains("Retries: 12 (at most 12):\n  a::b0: 2 "), "{told}");
    assert!(told.contains("    3 became 4\n"), "{told}");
    let (code, told) = run_tests(&(six + &retries("a::c", 1)), 0, false);
    assert!(code == Some(1) && told.contains("FAILED: there were 13 retries"), "{told}");
    let (code, told) = run_tests(&retries("a::b", 3), 0, false);
    assert!(code == Some(1) && told.contains("FAILED: a::b was retried 3 times"), "{told}");
}

#[test]
fn a_failed_test_fails_the_run_and_notes_are_still_printed() {
    let (code, told) = run_tests(LISTED, 101, false);
    assert_eq!(code, Some(1), "{told}");
    assert!(
        told.contains("docker::a_test: no docker engine answers") && told.contains("FAILED: sh "),
        "{told}"
    );
}

/// Each line of the hand-written list must give a reason.
#[test]
fn every_allowed_skip_has_a_reason() {
    let list = include_str!("../allowed-skips.txt");
    for line in list.lines().filter(|line| !line.starts_with('#')) {
        let (pattern, why) = line.split_once(" # ").unwrap_or_else(|| panic!("no reason: {line}"));
        assert!(pattern.contains(' ') && !why.trim().is_empty(), "{line}");
    }
}
