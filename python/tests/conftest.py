"""Fixtures of the tests: a fake hoptax, and the reports of kept runs. No test in this directory measures anything."""

import json
import sys

import kept
import pytest


@pytest.fixture(autouse=True)
def fake(monkeypatch, tmp_path):
    """Sets what the fake hoptax does: `fake(status=1)`. `fake.calls()` are the arguments of its calls."""
    settings_file, calls, program = tmp_path / "fake.json", tmp_path / "calls", tmp_path / "fake-hoptax"
    # This interpreter, without site packages, starts faster than the one that `env` finds.
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "{kept.HERE / "fake_hoptax.py"}" "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("HOPTAX", str(program))
    monkeypatch.setenv("FAKE_HOPTAX", str(settings_file))
    monkeypatch.setenv("FAKE_HOPTAX_CALLS", str(calls))

    def behave(**settings):
        settings_file.write_text(json.dumps(settings), encoding="utf-8")

    behave.calls = lambda: [json.loads(line) for line in calls.read_text().splitlines()] if calls.exists() else []
    behave()
    return behave


@pytest.fixture
def report():
    """The JSON report of a kept run, by its name."""
    return kept.report
