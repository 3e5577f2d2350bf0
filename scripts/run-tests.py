#!/usr/bin/env python3
"""Runs all tests, then lists skips, retries, the slowest tests, and the messages of failed tests.

    scripts/run-tests.py                 all tests
    scripts/run-tests.py --fast          only tests that start no process
    scripts/run-tests.py --forget TEST   after its fault is fixed: forget that a test needed retries

The tests are those of the crates, of the benchmarks, of the packages and of the Python package. The environment variables CARGO and PYTEST
can name other programs for them. cargo-nextest runs those of the crates, with the limits of .config/nextest.toml.

Tests write notes to the file that HOPTAX_TEST_NOTES names: one line each, `KIND TEST REASON` (see crates/hoptax-testing/src/notes.rs).
This script fails if a test fails, or if there are more retries than the limits below. With CI=true, it also fails if a skip is not listed in
crates/hoptax/tests/allowed-skips.txt.

A history of retries is kept in the file that HOPTAX_TEST_HISTORY names, or in the user's cache.
"""

import collections
import concurrent.futures
import datetime
import fnmatch
import importlib.util
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent
ALLOWED = ROOT / "crates/hoptax/tests/allowed-skips.txt"

# About thirty tests can retry if the machine was disturbed. On a rented machine with bursts of up to 60 % steal, at
# most five of these tests retried in one run. More than twice as many retries must have another cause.
MOST_RETRIES = 12
# With two retries, a test has three attempts. A fault in 30 % of the attempts then passes 97 % of the runs, so one run
# proves little. The history sees it: such a test needs a retry in three of ten runs.
MOST_RETRIES_OF_A_TEST = 2
LAST_RUNS = 10
MOST_RUNS_WITH_RETRY = 2
# Number of runs that the history keeps.
KEPT_RUNS = 100
# Number of tests in the list of the slowest tests.
SLOWEST = 10
# Lines of a failed test's output that are printed again at the end. The rest is usually a list of stack frames.
MOST_LINES = 12

# What `make test-fast` runs: unit tests, and integration tests of these modules. A filter refuses to start a process
# (scripts/no-processes.py), so a test that starts one fails there. Then list it here.
FAST_MODULES = ("corpus::", "documented_packs::", "layers::", "source_rules::", "workflows::")
STARTS_PROCESSES = (
    "builds::tests::", "command::tests::", "external::tests::attaches_with_any_status", "host::tests::a_shell_does_not_change",
    "listeners::tests::", "log_files::tests::", "pods::tests::", "probe::tree::tests::", "programs::tests::", "reach::tests::",
    "signals::tests::", "states::unreadable_runs", "tree::tests::", "versions::tests::a_version_command_runs_once",
    "words::tests::words_are_those_of_a_shell",
)
# Tests that it leaves out because they take longer than three seconds: simulations, and tests of very many cases.
SLOW = (
    "simulation::", "compare::tests::equal_runs", "compare::tests::false_alarms", "capacity_search::tests::", "auto::tests::",
    "not_raised_by_chance", "not_raised_by_white_or_bursty_noise", "a_run_of_any_size_fits", "every_chart_can_be_drawn",
    "every_embedded_pack_is_valid", "schema::the_schema_", "damaged_plans_are_refused", "generator::tests::", "tests::index::",
    "warm_up::tests::", "tokens_verify",
)


def read(text):
    """Notes as (kind, test, reason)."""
    notes = []
    for line in text.splitlines():
        kind, _, rest = line.partition(" ")
        test, _, reason = rest.partition(" ")
        if kind not in ("skip", "retry", "success") or not test or not reason:
            raise ValueError(f"not a note: {line!r}")
        notes.append((kind, test, reason))
    return notes


def allowed_patterns(text):
    """Patterns of `TEST REASON`. In the text, ` # ` and the reason why the skip is acceptable follow each pattern."""
    patterns = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        pattern, mark, why = line.partition(" # ")
        if not mark or not why.strip():
            raise ValueError(f"{ALLOWED.name}:{number}: does not say why this skip is acceptable: write `TEST REASON # why`")
        patterns.append(pattern.strip())
    return patterns


class History:
    """Retries of earlier runs, one line of JSON for each run. A line has the number of retries of each test that needed one.
    It has 0 for tests that needed a retry in an earlier run, but not in this run."""

    def __init__(self):
        cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        self.path = pathlib.Path(os.environ.get("HOPTAX_TEST_HISTORY") or os.path.join(cache, "hoptax/test-history.jsonl"))
        self.runs = [json.loads(line) for line in self.path.read_text().splitlines()] if self.path.exists() else []

    def add(self, retries, ran):
        """Adds a run: the number of retries by test, and the tests that ran."""
        known = {test for run in self.runs for test in run["retries"]}
        counts = {test: retries.get(test, 0) for test in sorted((known & ran) | set(retries))}
        self.runs.append({"at": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "retries": counts})
        self.write()

    def forget(self, test):
        for run in self.runs:
            run["retries"].pop(test, None)
        self.write()

    def write(self):
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_suffix(".partial")
        partial.write_text("".join(json.dumps(run) + "\n" for run in self.runs[-KEPT_RUNS:]))
        partial.replace(self.path)

    def runs_with_retry(self, test):
        """How many of the last runs of this test needed a retry."""
        own = [run["retries"][test] for run in self.runs if test in run["retries"]]
        return sum(count > 0 for count in own[-LAST_RUNS:])


def skipped(notes, patterns, ci):
    """Lines to print, and the reasons why this script fails."""
    skips = sorted({(test, reason) for kind, test, reason in notes if kind == "skip"})
    lines, wrong = [f"Skipped: {len(skips)}" + (":" if skips else "")], []
    for test, reason in skips:
        allowed = any(fnmatch.fnmatchcase(f"{test} {reason}", pattern) for pattern in patterns)
        lines.append(f"  {test}: {reason}" + ("" if allowed else " (not listed)"))
        if ci and not allowed:
            wrong.append(f"{test} was skipped ({reason}), and {ALLOWED.name} does not list that")
    return lines, wrong


def retried(notes, history, ran):
    """Adds this run to the history. Returns lines to print, and the reasons why this script fails."""
    retries = [(test, reason) for kind, test, reason in notes if kind == "retry"]
    by_test = collections.Counter(test for test, _ in retries)
    history.add(by_test, ran)
    lines, wrong = [f"Retries: {len(retries)} (at most {MOST_RETRIES})" + (":" if retries else "")], []
    for test, count in sorted(by_test.items()):
        runs = history.runs_with_retry(test)
        lines.append(f"  {test}: {count} (at most {MOST_RETRIES_OF_A_TEST}), in {runs} of its last {LAST_RUNS} runs")
        lines += [f"    {reason}" for one, reason in retries if one == test]
        if count > MOST_RETRIES_OF_A_TEST:
            wrong.append(f"{test} was retried {count} times")
        if runs > MOST_RUNS_WITH_RETRY:
            wrong.append(f"{test} needed a retry in {runs} of its last {LAST_RUNS} runs ({history.path}). After a fix, run "
                         f"scripts/run-tests.py --forget {test}")
    if len(retries) > MOST_RETRIES:
        wrong.append(f"there were {len(retries)} retries")
    successes = [reason for kind, _, reason in notes if kind == "success"]
    if successes:
        disturbed = sum(reason.startswith("disturbed") for reason in successes)
        share = 100 * disturbed / len(successes)
        lines.append(f"Attempts that succeeded: {len(successes)}, of these {disturbed} ({share:.0f} %) while the machine counted as disturbed")
    return lines, wrong


class Report:
    """Times and failures of the tests of the crates, as cargo-nextest writes them (JUnit)."""

    def __init__(self, path):
        root = xml.etree.ElementTree.parse(path).getroot() if path.exists() else ()
        cases = [(suite.get("name"), case) for suite in root for case in suite.iter("testcase")]
        self.ran = {case.get("name") for _, case in cases}
        self.times = sorted(((float(case.get("time")), suite, case.get("name")) for suite, case in cases), reverse=True)
        self.failed = [(suite, case) for suite, case in cases if case.find("failure") is not None or case.find("error") is not None]

    def slowest(self):
        lines = [f"Slowest tests of {len(self.times)}:"] if self.times else []
        return lines + [f"  {seconds:6.1f} s  {suite} {test}" for seconds, suite, test in self.times[:SLOWEST]]

    def failures(self):
        """The beginnings of what failed tests printed."""
        lines = []
        for suite, case in self.failed:
            fault = case.find("failure")
            fault = case.find("error") if fault is None else fault
            said = [line for line in (fault.text or fault.get("message") or "").splitlines() if line.strip()]
            lines += [f"---- {suite} {case.get('name')}: {fault.get('type')} ----", *said[:MOST_LINES]]
        return lines


def pytest_command():
    """The command of pytest, which scripts/setup.sh may have installed; empty if pytest is not installed."""
    if "PYTEST" in os.environ:
        return shlex.split(os.environ["PYTEST"])
    if importlib.util.find_spec("pytest"):
        return [sys.executable, "-m", "pytest"]
    path = programs()
    # In Debian's package, the program is called pytest-3.
    found = shutil.which("pytest", path=path) or shutil.which("pytest-3", path=path)
    return [found] if found else []


def programs():
    """PATH with the programs that scripts/setup.sh installed."""
    data = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    home = os.environ.get("HOPTAX_HOME") or os.path.join(data, "hoptax")
    return f"{os.environ.get('PATH', '')}:{home}/tools/bin"


def commands(target, notes):
    """The commands to run after the tests of the crates: those that may run beside each other, and those that measure."""
    program = target / "debug/hoptax"
    beside = []
    # The program is missing if the build has failed, or if a test replaces Cargo.
    if program.exists():
        names = ("benches/tests.py", "scripts/tests.py", "scripts/packages/tests.py")
        # The first one takes longest.
        beside = [[str(ROOT / "scripts/packages/trial.py"), str(program)], *([str(ROOT / name)] for name in names)]
    pytest = pytest_command()
    if not pytest:
        notes.write_text(notes.read_text() + "skip python::all pytest is not installed\n")
        return beside, []
    results = target / "python-tests"
    shutil.rmtree(results, ignore_errors=True)

    def tests(name):
        kept = ["--hoptax-results", str(results), "--junitxml", str(results / f"{name}.xml")]
        return [*pytest, "-q", "-p", "no:cacheprovider", *kept, f"python/{name}"]

    return [tests("tests"), *beside], [tests("suite")]


def run_all(cargo):
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).absolute()
    notes, junit = target / "test-notes.txt", target / "nextest/default/junit.xml"
    notes.parent.mkdir(parents=True, exist_ok=True)
    notes.write_text("")
    junit.unlink(missing_ok=True)
    # The Python package measures with the program that the tests of the crates built.
    environment = {**os.environ, "HOPTAX_TEST_NOTES": str(notes), "HOPTAX": str(target / "debug/hoptax"), "PATH": programs()}
    wrong = []

    def run(command, **output):
        sys.stdout.flush()
        done = subprocess.run(command, cwd=ROOT, env=environment, check=False, **output)
        if done.returncode != 0:
            wrong.append(f"{shlex.join(command)} failed")
        return done

    def run_quietly(command):
        return run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout

    try:
        # Tests that mostly wait have one thread each, the others two (.config/nextest.toml).
        threads = 3 * (os.cpu_count() or 1)
        run([*cargo, "nextest", "run", "--workspace", "--locked", "--test-threads", str(threads)])
        if wrong and not shutil.which("cargo-nextest", path=programs()):
            wrong.append("cargo-nextest is missing: run scripts/setup.sh test, or cargo install --locked cargo-nextest")
        beside, alone = commands(target, notes)
        for command in alone:
            run(command)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for output in pool.map(run_quietly, beside):
                print(output, end="")
    finally:
        report, found = Report(junit), read(notes.read_text())
        skips, unlisted = skipped(found, allowed_patterns(ALLOWED.read_text()), os.environ.get("CI") == "true")
        retries, too_many = retried(found, History(), report.ran)
        wrong += unlisted + too_many
        lines = ["", *skips, *retries, *report.slowest(), *report.failures(), *(f"FAILED: {what}" for what in wrong)]
        print("\n".join(lines), flush=True)
    return 1 if wrong else 0


def run_fast(cargo):
    runner = f'target."cfg(unix)".runner = ["{ROOT / "scripts/no-processes.py"}"]'
    test = [*cargo, "test", "--config", runner, "--locked"]
    skips = [word for test in (*STARTS_PROCESSES, *SLOW) for word in ("--skip", test)]
    runs = [[*test, "--workspace", "--lib", "--no-fail-fast", "--", *skips], [*test, "-p", "hoptax", "--test", "all", "--", *FAST_MODULES]]
    # Every command runs, also after a failure.
    return max([subprocess.run(command, cwd=ROOT, check=False).returncode for command in runs])


def main():
    cargo = shlex.split(os.environ.get("CARGO", "cargo"))
    if sys.argv[1:2] == ["--forget"]:
        for test in sys.argv[2:]:
            History().forget(test)
        return 0
    return run_fast(cargo) if sys.argv[1:] == ["--fast"] else run_all(cargo)


if __name__ == "__main__":
    sys.exit(main())
