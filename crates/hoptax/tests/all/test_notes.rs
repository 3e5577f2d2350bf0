//! Tests of `scripts/run-tests.py`: what the script prints about skips, retries and slow tests, and when it
//! fails. A fake Cargo, which is a shell script, replaces Cargo, and `true` replaces pytest.

use crate::support::Scratch;
use std::path::Path;
use std::process::Command;

/// Runs of the script with a fake Cargo. They have one history.
struct Runs(Scratch);

impl Runs {
    fn new() -> Self {
        Self(Scratch::new())
    }

    /// Runs the script with a fake Cargo, which writes `notes` and exits with `code`. Returns the exit code
    /// and the output of the script.
    fn run(&self, notes: &str, code: u8, ci: bool) -> (Option<i32>, String) {
        self.script(&format!("cat > \"$HOPTAX_TEST_NOTES\" <<'end'\n{notes}end\nexit {code}\n"), ci)
    }

    /// The same with a report of the tests in the format of JUnit.
    fn run_with_report(&self, notes: &str, cases: &str) -> (Option<i32>, String) {
        self.script(
            &format!(
                "cat > \"$HOPTAX_TEST_NOTES\" <<'end'\n{notes}end\n\
                 mkdir -p \"$CARGO_TARGET_DIR/nextest/default\"\n\
                 cat > \"$CARGO_TARGET_DIR/nextest/default/junit.xml\" <<'end'\n\
                 <?xml version=\"1.0\"?><testsuites><testsuite name=\"hoptax::all\">\
                 {cases}</testsuite></testsuites>\n\
                 end\n"
            ),
            false,
        )
    }

    /// The same with the whole text of the fake Cargo.
    fn script(&self, text: &str, ci: bool) -> (Option<i32>, String) {
        let cargo = self.0.file("cargo.sh", text);
        self.command(&[], Some(&cargo), ci)
    }

    fn command(&self, arguments: &[&str], cargo: Option<&Path>, ci: bool) -> (Option<i32>, String) {
        let mut command =
            Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/run-tests.py"));
        if let Some(cargo) = cargo {
            command.env("CARGO", format!("sh {}", cargo.display()));
        }
        let output = command
            .args(arguments)
            .env("PYTEST", "true")
            .env("CARGO_TARGET_DIR", self.0.path().join("target"))
            .env("HOPTAX_TEST_HISTORY", self.0.path().join("history/retries.jsonl"))
            .env("CI", ci.to_string())
            .output()
            .expect("python3 runs");
        (output.status.code(), String::from_utf8(output.stdout).expect("text"))
    }
}

const LISTED: &str = "skip docker::a_test no docker engine answers\n";
const UNLISTED: &str = "skip run::a_test nginx is not installed\n";

fn retries(test: &str, count: usize) -> String {
    format!("retry {test} 3 became 4\n").repeat(count)
}

#[test]
fn skips_are_listed_and_fail_unless_allowed() {
    let mut told = String::new();
    for (notes, ci, code) in
        [(LISTED, true, 0), (LISTED, false, 0), (UNLISTED, false, 0), (UNLISTED, true, 1), ("", true, 0)]
    {
        let (seen, reported) = Runs::new().run(notes, 0, ci);
        assert_eq!(seen, Some(code), "{reported}");
        told += &reported;
    }
    insta::assert_snapshot!(told);
}

#[test]
fn retries_are_counted_and_limited() {
    let six: String = (0..6).map(|test| retries(&format!("a::b{test}"), 2)).collect();
    let seven = six.clone() + &retries("a::c", 1);
    let mut told = String::new();
    for (notes, code) in [(six, 0), (seven, 1), (retries("a::b", 3), 1)] {
        let (seen, reported) = Runs::new().run(&notes, 0, false);
        assert_eq!(seen, Some(code), "{reported}");
        told += &reported;
    }
    insta::assert_snapshot!(told);
}

/// A single run cannot show whether a fault or a disturbed machine caused a retry. Several runs can.
#[test]
fn a_test_that_needs_a_retry_in_three_of_its_last_ten_runs_fails() {
    let runs = Runs::new();
    let quiet = |runs: &Runs| runs.run_with_report("", r#"<testcase name="a::b" time="1"/>"#);
    let retried = |runs: &Runs| runs.run(&retries("a::b", 1), 0, false);
    let mut told = retried(&runs).1;
    assert_eq!(retried(&runs).0, Some(0));
    let (code, reported) = retried(&runs);
    assert_eq!(code, Some(1), "{reported}");
    told += &reported;
    // Runs without this test do not count. After eight runs without a retry and one with a retry, two of the
    // last ten runs have a retry.
    for _ in 0..11 {
        assert_eq!(runs.run("", 0, false).0, Some(0));
    }
    assert_eq!(retried(&runs).0, Some(1));
    for _ in 0..8 {
        assert_eq!(quiet(&runs).0, Some(0));
    }
    let (code, reported) = retried(&runs);
    assert_eq!(code, Some(0), "{reported}");
    told += &reported;
    // After the first of these two runs, the oldest retry is no longer among the last ten runs.
    assert_eq!((retried(&runs).0, retried(&runs).0), (Some(0), Some(1)));
    assert_eq!(runs.command(&["--forget", "a::b"], None, false).0, Some(0));
    let (code, reported) = retried(&runs);
    assert_eq!(code, Some(0), "{reported}");
    let place = runs.0.path().display().to_string();
    insta::assert_snapshot!((told + &reported).replace(&place, "PLACE"));
}

#[test]
fn the_share_of_successes_on_a_disturbed_machine_is_printed() {
    let success = |test: &str, what: &str| format!("success {test} {what}: 1 s\n");
    let quiet: String = ["a::b", "a::c", "a::d"].map(|test| success(test, "quiet")).concat();
    let (code, reported) = Runs::new().run(&(quiet + &success("a::b", "disturbed")), 0, true);
    assert_eq!(code, Some(0), "{reported}");
    insta::assert_snapshot!(reported);
}

#[test]
fn a_failed_test_fails_the_run_and_notes_are_still_printed() {
    let (code, reported) = Runs::new().run(LISTED, 101, false);
    assert_eq!(code, Some(1), "{reported}");
    assert!(reported.contains("docker::a_test: ") && reported.contains("FAILED: sh "), "{reported}");
}

/// The middle of a long log is often cut away, and with it the reason.
#[test]
fn what_failed_tests_printed_and_the_slowest_tests_are_at_the_end() {
    let frames = "frame\n".repeat(20);
    let slow: String = (1..=12).map(|s| format!(r#"<testcase name="slow::{s}" time="{s}.04"/>"#)).collect();
    let cases = format!(
        "{slow}<testcase name=\"a::b\" time=\"0.1\"><failure type=\"test failure\">3 became 4\n{frames}the \
         last frame</failure></testcase>"
    );
    let hangs = r#"<testcase name="a::hangs" time="300"><failure type="test timeout"/></testcase>"#;
    let (_, reported) = Runs::new().run_with_report("", &(cases + hangs));
    let (_, from_slowest) = reported.split_once("Slowest").expect("listed");
    insta::assert_snapshot!(from_slowest);
}

#[test]
fn every_allowed_skip_has_a_reason() {
    let list = include_str!("../allowed-skips.txt");
    for line in list.lines().filter(|line| !line.starts_with('#')) {
        let (pattern, why) = line.split_once(" # ").unwrap_or_else(|| panic!("no reason: {line}"));
        assert!(pattern.contains(' ') && !why.trim().is_empty(), "{line}");
    }
}
