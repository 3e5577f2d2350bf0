//! `scripts/run-tests.py`: what `make test` says of skips and repeated looks, and when it fails for them. A script stands in for Cargo.

use crate::support::Scratch;
use std::path::Path;
use std::process::Command;

/// Lets a stand-in for Cargo write these notes and end with this code. Gives the exit code and what was printed.
fn made(notes: &str, code: u8, ci: bool) -> (Option<i32>, String) {
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
fn skips_are_listed_and_fail_where_the_list_does_not_have_them() {
    for (notes, ci, code) in
        [(LISTED, true, 0), (LISTED, false, 0), (UNLISTED, false, 0), (UNLISTED, true, 1)]
    {
        let (seen, told) = made(notes, 0, ci);
        assert_eq!(seen, Some(code), "{told}");
        assert!(told.contains("Skipped: 1:\n") && told.contains("_test: n"), "{told}");
        assert_eq!(
            told.contains("FAILED: run::a_test was skipped (nginx is not installed)"),
            code == 1,
            "{told}"
        );
    }
    let (code, told) = made("", 0, true);
    assert!(code == Some(0) && told.contains("Skipped: 0\nLooked again: 0 "), "{told}");
}

#[test]
fn repeated_looks_are_counted_and_bounded() {
    let six: String = (0..6).map(|test| retries(&format!("a::b{test}"), 2)).collect();
    let (code, told) = made(&six, 0, false);
    assert!(code == Some(0) && told.contains("Looked again: 12 (at most 12):\n  a::b0: 2 "), "{told}");
    assert!(told.contains("    3 became 4\n"), "{told}");
    let (code, told) = made(&(six + &retries("a::c", 1)), 0, false);
    assert!(code == Some(1) && told.contains("FAILED: tests looked again 13 times"), "{told}");
    let (code, told) = made(&retries("a::b", 3), 0, false);
    assert!(code == Some(1) && told.contains("FAILED: a::b looked again 3 times"), "{told}");
}

#[test]
fn a_failed_test_fails_the_run_and_the_notes_are_printed_all_the_same() {
    let (code, told) = made(LISTED, 101, false);
    assert_eq!(code, Some(1), "{told}");
    assert!(
        told.contains("docker::a_test: no docker engine answers") && told.contains("FAILED: sh "),
        "{told}"
    );
}

/// What is written there by hand: each line says why.
#[test]
fn every_allowed_skip_says_why() {
    let list = include_str!("../allowed-skips.txt");
    for line in list.lines().filter(|line| !line.starts_with('#')) {
        let (pattern, why) = line.split_once(" # ").unwrap_or_else(|| panic!("no reason: {line}"));
        assert!(pattern.contains(' ') && !why.trim().is_empty(), "{line}");
    }
}
