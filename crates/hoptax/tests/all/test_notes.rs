//! Tests of `scripts/run-tests.py`: what the script prints about skips and retries, and when it fails. A fake
//! Cargo, which is a shell script, replaces Cargo, and `true` replaces pytest.

use crate::support::Scratch;
use std::path::Path;
use std::process::Command;

/// Runs the script with a fake Cargo, which writes `notes` and exits with `code`. Returns the exit code and
/// the output of the script.
fn run_tests(notes: &str, code: u8, ci: bool) -> (Option<i32>, String) {
    run_script(&format!("cat > \"$HOPTAX_TEST_NOTES\" <<'end'\n{notes}end\nexit {code}\n"), ci)
}

/// The same with the whole text of the fake Cargo.
fn run_script(script: &str, ci: bool) -> (Option<i32>, String) {
    let scratch = Scratch::new();
    let cargo = scratch.file("cargo.sh", script);
    let output = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/run-tests.py"))
        .env("CARGO", format!("sh {}", cargo.display()))
        .env("PYTEST", "true")
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
        let (seen, reported) = run_tests(notes, 0, ci);
        assert_eq!(seen, Some(code), "{reported}");
        assert!(reported.contains("Skipped: 1:\n") && reported.contains("_test: n"), "{reported}");
        assert_eq!(
            reported.contains("FAILED: run::a_test was skipped (nginx is not installed)"),
            code == 1,
            "{reported}"
        );
    }
    let (code, reported) = run_tests("", 0, true);
    assert!(code == Some(0) && reported.contains("Skipped: 0\nRetries: 0 "), "{reported}");
}

#[test]
fn retries_are_counted_and_limited() {
    let six: String = (0..6).map(|test| retries(&format!("a::b{test}"), 2)).collect();
    let (code, reported) = run_tests(&six, 0, false);
    assert!(code == Some(0) && reported.contains("Retries: 12 (at most 12):\n  a::b0: 2 "), "{reported}");
    assert!(reported.contains("    3 became 4\n"), "{reported}");
    let (code, reported) = run_tests(&(six + &retries("a::c", 1)), 0, false);
    assert!(code == Some(1) && reported.contains("FAILED: there were 13 retries"), "{reported}");
    let (code, reported) = run_tests(&retries("a::b", 3), 0, false);
    assert!(code == Some(1) && reported.contains("FAILED: a::b was retried 3 times"), "{reported}");
}

#[test]
fn a_failed_test_fails_the_run_and_notes_are_still_printed() {
    let (code, reported) = run_tests(LISTED, 101, false);
    assert_eq!(code, Some(1), "{reported}");
    assert!(
        reported.contains("docker::a_test: no docker engine answers") && reported.contains("FAILED: sh "),
        "{reported}"
    );
}

/// The middle of a long log is often cut away, and with it the reason.
#[test]
fn what_failed_tests_printed_is_repeated_at_the_end() {
    let script = "cat <<'end'
test a::b ... FAILED

failures:

---- a::b stdout ----
3 became 4
frame
frame
frame
frame
frame
frame
frame
frame
frame
frame
the last frame

failures:
    a::b
end
exit 101
";
    let (code, reported) = run_script(script, false);
    assert_eq!(code, Some(1), "{reported}");
    let (whole, end) = reported.split_once("Retries: 0").expect("a summary");
    assert!(whole.contains("the last frame"), "the log itself is complete: {whole}");
    assert!(end.contains("---- a::b stdout ----\n3 became 4\nframe\n"), "{end}");
    assert!(!end.contains("the last frame") && !end.contains("failures:"), "{end}");
}

#[test]
fn every_allowed_skip_has_a_reason() {
    let list = include_str!("../allowed-skips.txt");
    for line in list.lines().filter(|line| !line.starts_with('#')) {
        let (pattern, why) = line.split_once(" # ").unwrap_or_else(|| panic!("no reason: {line}"));
        assert!(pattern.contains(' ') && !why.trim().is_empty(), "{line}");
    }
}
