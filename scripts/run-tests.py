#!/usr/bin/env python3
"""Runs all tests, then lists skips, retries, and the messages of failed tests.

The tests are those of the crates, of the benchmarks, of the packages and of the Python package. The environment variables CARGO and PYTEST
can name other programs for them.

Tests write notes to the file that HOPTAX_TEST_NOTES names. A note is one line: `skip TEST REASON` or `retry TEST
REASON` (see crates/hoptax/tests/all/support/notes.rs). This script fails if a test fails, or if there are more retries
than the limits below. With CI=true, it also fails if a skip is not listed in crates/hoptax/tests/allowed-skips.txt.
"""

import collections
import fnmatch
import importlib.util
import os
import pathlib
import shlex
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ALLOWED = ROOT / "crates/hoptax/tests/allowed-skips.txt"

# About twenty tests can retry if the machine was disturbed. On a rented machine with bursts of up to 60 % steal, at
# most five of these tests retried in one run. More than twice as many retries must have another cause.
MOST_RETRIES = 12
# With two retries, a test has three attempts. Then a fault that occurs in half of the attempts makes one run in eight
# fail, so the fault is noticed.
MOST_RETRIES_OF_A_TEST = 2
# Lines of a failed test's output that are printed again at the end. The rest is usually a list of stack frames.
MOST_LINES = 12


def read(text):
    """Notes as (kind, test, reason)."""
    notes = []
    for line in text.splitlines():
        kind, _, rest = line.partition(" ")
        test, _, reason = rest.partition(" ")
        if kind not in ("skip", "retry") or not test or not reason:
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


def summary(notes, patterns, ci):
    """Lines to print, and the reasons why this script fails."""
    lines, wrong = [], []
    skips = sorted({(test, reason) for kind, test, reason in notes if kind == "skip"})
    lines.append(f"Skipped: {len(skips)}" + (":" if skips else ""))
    for test, reason in skips:
        allowed = any(fnmatch.fnmatchcase(f"{test} {reason}", pattern) for pattern in patterns)
        lines.append(f"  {test}: {reason}" + ("" if allowed else " (not listed)"))
        if ci and not allowed:
            wrong.append(f"{test} was skipped ({reason}), and {ALLOWED.name} does not list that")
    retries = [(test, reason) for kind, test, reason in notes if kind == "retry"]
    lines.append(f"Retries: {len(retries)} (at most {MOST_RETRIES})" + (":" if retries else ""))
    by_test = collections.Counter(test for test, _ in retries)
    for test, count in sorted(by_test.items()):
        lines.append(f"  {test}: {count} (at most {MOST_RETRIES_OF_A_TEST})")
        lines += [f"    {reason}" for one, reason in retries if one == test]
        if count > MOST_RETRIES_OF_A_TEST:
            wrong.append(f"{test} was retried {count} times")
    if len(retries) > MOST_RETRIES:
        wrong.append(f"there were {len(retries)} retries")
    return lines, wrong


def failures(lines):
    """The beginnings of what failed tests printed, from the lines of `cargo test`."""
    found, left = [], 0
    for line in lines:
        if line.startswith("---- ") and line.endswith(" stdout ----"):
            left = MOST_LINES
        elif line == "failures:":
            left = 0
        if left and line:
            found.append(line)
            left -= 1
    return found


def run(command, environment):
    """Runs a command and prints its output. Returns its exit status, and what failed tests printed."""
    lines = []
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, errors="replace", text=True) as process:
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line.rstrip("\n"))
    return process.returncode, failures(lines)


def pytest_command():
    """The command of pytest, also as scripts/setup.sh installs it; empty if it is not installed."""
    if "PYTEST" in os.environ:
        return shlex.split(os.environ["PYTEST"])
    if importlib.util.find_spec("pytest"):
        return [sys.executable, "-m", "pytest"]
    data = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    home = os.environ.get("HOPTAX_HOME") or os.path.join(data, "hoptax")
    path = f"{os.environ.get('PATH', '')}:{home}/tools/bin"
    # Debian's package has the second name.
    found = shutil.which("pytest", path=path) or shutil.which("pytest-3", path=path)
    return [found] if found else []


def main():
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).absolute()
    notes = target / "test-notes.txt"
    notes.parent.mkdir(parents=True, exist_ok=True)
    notes.write_text("")
    # The Python package measures with the program that the tests of the crates built.
    environment = {**os.environ, "HOPTAX_TEST_NOTES": str(notes), "HOPTAX": str(target / "debug/hoptax")}
    trial = [str(ROOT / "scripts/packages/trial.py"), str(target / "debug/hoptax")]
    cargo = shlex.split(os.environ.get("CARGO", "cargo"))
    scripts = [[str(ROOT / script)] for script in ("benches/tests.py", "scripts/tests.py", "scripts/packages/tests.py")]
    commands = [[*cargo, "test", "--workspace", "--locked", "--no-fail-fast"], *scripts, trial]
    pytest = pytest_command()
    if pytest:
        results = target / "python-tests"
        shutil.rmtree(results, ignore_errors=True)
        kept = ["--hoptax-results", str(results), "--junitxml", str(results / "junit.xml")]
        commands.append([*pytest, "-q", "-p", "no:cacheprovider", *kept, "python/tests", "python/suite"])
    else:
        notes.write_text("skip python::all pytest is not installed\n")
    wrong, printed = [], []
    try:
        for command in commands:
            # Without the program, the first command has failed, or a test replaces Cargo.
            if command is trial and not os.path.exists(trial[1]):
                continue
            status, failed = run(command, environment)
            printed += failed
            if status != 0:
                wrong.append(f"{shlex.join(command)} failed")
    finally:
        ci = os.environ.get("CI") == "true"
        lines, against = summary(read(notes.read_text()), allowed_patterns(ALLOWED.read_text()), ci)
        wrong += against
        print("\n".join(["", *lines, *printed, *(f"FAILED: {what}" for what in wrong)]), flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
