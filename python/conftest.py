"""Loads the plugin from this directory, so that the tests run without installing the package, and writes the notes on
skipped tests that scripts/run-tests.py reads."""

import os

pytest_plugins = ["pytester", "hoptax.pytest_plugin"]


def pytest_runtest_logreport(report):
    path = os.environ.get("HOPTAX_TEST_NOTES")
    if path and report.skipped and isinstance(report.longrepr, tuple):
        reason = " ".join(report.longrepr[2].removeprefix("Skipped: ").split())
        with open(path, "a", encoding="utf-8") as notes:
            notes.write(f"skip python::{report.nodeid.replace(' ', '_')} {reason}\n")
