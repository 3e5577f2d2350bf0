"""Runs the Python code of the pages, and the examples, with a fake hoptax."""

import json
import re
import shutil
import subprocess
import sys

import pytest
from kept import ROOT

import hoptax

GUIDE = ROOT / "docs/guides/tests-in-python.md"
REFERENCE = ROOT / "docs/reference/json.md"


def blocks(page):
    return re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.M | re.S)


@pytest.fixture
def run_tests(pytester):
    """Runs the text of a test file."""

    def run(text, *options):
        pytester.makepyfile(text)
        return pytester.runpytest("-p", "hoptax.pytest_plugin", "-p", "no:cacheprovider", *options)

    return run


def test_the_tests_of_the_guide_run(run_tests, pytester, fake):
    fake(figures={
        # A closed loop saturates the gateway. Its tax then consists of waiting, so only throughput has a bound.
        "nginx": {
            "open": {"added_p50": [72, 66, 78], "cpu_us_per_request": [20, 18, 22]},
            "closed": {"added_p50": [1770, 1640, 1910], "throughput_ratio": [0.67, 0.65, 0.68]},
        },
        "haproxy": {"cpu_us_per_request": [25, 23, 27]},
        "litellm": {"added_first_message_p50": [9000, 8700, 9300]},
    })
    for build in ("main", "pr"):
        program = pytester.mkdir(build) / "nginx"
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    tests = [block for block in blocks(GUIDE) if "def test_" in block]
    run_tests("\n".join(tests), "--junitxml", "tests.xml", "--hoptax-set", "time=20s").assert_outcomes(passed=5)
    runs = [call for call in fake.calls() if call[0] == "run"]
    assert len(runs) == 3 and all("time=20s" in run for run in runs)


def test_the_script_of_the_guide_runs(tmp_path, monkeypatch, capsys, fake):
    fake(figures={"nginx": {"open": {"added_p50": [72, 66, 78]}, "closed": {"added_p50": [1770, 1640, 1910]}}})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "pandas", type("pandas", (), {"DataFrame": list}))
    # Several load points, as in the quickstart.
    loads = [{"loop": "open", "rate": "1000/s", "connections": 8}, {"loop": "closed", "connections": 8}]
    plan = {"name": "a", "gateways": ["nginx"], "load": loads}
    (tmp_path / "plan.yaml").write_text(json.dumps(plan))
    [script] = [block for block in blocks(GUIDE) if "hoptax.run(" in block]
    exec(script, {})
    assert capsys.readouterr().out == "72 µs (66–78)\n6.0\n"
    assert "# 72 µs (66–78)" in script


def test_the_script_of_the_reference_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    [script] = blocks(REFERENCE)
    exec(script, {})
    expected = hoptax.report("records/runs/loops")["nginx"].at(loop="open", connections=2).added_p50
    assert capsys.readouterr().out == f"{expected}\n" == "221 µs (109–332)\n"


def needed(program):
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")


def test_the_jq_example_of_the_reference_prints_what_the_page_says(report):
    needed("jq")
    page = REFERENCE.read_text(encoding="utf-8")
    example = re.search(r"^```\n\$ hoptax report records/runs/loops .*\|\n  jq -r '(.*?)'\n(.*?)^…$", page, flags=re.M | re.S)
    document = json.dumps(report("loops"))
    printed = subprocess.run(["jq", "-r", example[1]], input=document, capture_output=True, text=True, check=True).stdout
    assert printed.startswith(example[2]) and example[2].count("\n") == 2


def test_the_go_example_of_the_reference_reads_a_report(tmp_path, report):
    needed("go")
    [example] = re.findall(r"^```go\n(.*?)^```", REFERENCE.read_text(encoding="utf-8"), flags=re.M | re.S)
    shown = """
    if err != nil {
        panic(err)
    }
    for _, each := range report.Cases {
        if each.Tax != nil && each.Tax.AddedP50 != nil {
            fmt.Println(each.Case, *each.Tax.AddedP50.Estimate)
        }
    }
    """
    imports = 'package main\n\nimport (\n"encoding/json"\n"fmt"\n"os"\n)\n\n'
    (tmp_path / "main.go").write_text(f"{imports}func main() {{\n{example}{shown}}}\n", encoding="utf-8")
    document = report("loops")
    command = ["go", "run", "main.go"]
    done = subprocess.run(command, input=json.dumps(document), capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    with_tax = [case for case in document["cases"] if case["tax"] and case["tax"]["added_p50"]]
    read = [(name, float(figure)) for name, _, figure in (line.rpartition(" ") for line in done.stdout.splitlines())]
    assert read == [(case["case"], case["tax"]["added_p50"]["estimate"]) for case in with_tax] != []


def test_options_and_marks_of_the_guide_exist(pytester):
    page = GUIDE.read_text(encoding="utf-8")
    shown = pytester.runpytest("-p", "hoptax.pytest_plugin", "--help").stdout.str()
    options = set(re.findall(r"--hoptax-[a-z]+", page)) | set(re.findall(r"`(hoptax_[a-z]+)`", page))
    assert len(options) >= 3 and [option for option in options if option not in shown] == []


def test_the_kong_suite_runs(run_tests, fake):
    text = (ROOT / "python/examples/test_kong_suite.py").read_text(encoding="utf-8")
    run_tests(text).assert_outcomes(passed=48)
    assert [call[0] for call in fake.calls()].count("run") == 3
    fake(not_installed=["envoy"])
    run_tests(text).assert_outcomes(passed=32, skipped=16)


def test_the_kong_suite_is_the_one_of_the_plans():
    """The plan and the test file must name the same gateways with the same features."""
    names = {}
    exec((ROOT / "python/examples/test_kong_suite.py").read_text(encoding="utf-8"), names)
    plan = (ROOT / "plans/kong-suite.yaml").read_text(encoding="utf-8")
    for name in names["GATEWAYS"]:
        for scenario, features in names["SCENARIOS"].items():
            written = ", ".join(f"{{ {key}: {value} }}" for feature in features for key, value in feature.items())
            line = f"  - {{ name: {name}, label: {name}.{scenario}, features: [{written}] }}" if features else f"  - {name}"
            assert f"{line}\n" in plan
    assert len(re.findall(r"^  - ", plan, flags=re.M)) == 12 + 2
    changes = (ROOT / "plans/kong-suite-changes.yaml").read_text(encoding="utf-8")
    assert re.findall(r"at: (\d)s, do: reload", changes) == ["3", "6", "9"]
    scrape = (ROOT / "plans/kong-suite-scrape.yaml").read_text(encoding="utf-8")
    assert re.findall(r"at: 5s, do: scrape, gateway: (\w+)\.scraped", scrape) == names["GATEWAYS"]


def test_the_package_has_the_version_of_the_binary():
    version = re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(encoding="utf-8"), flags=re.M)[1]
    packaged = re.search(r'^version = "(.*)"', (ROOT / "python/pyproject.toml").read_text(encoding="utf-8"), flags=re.M)[1]
    assert version == packaged == hoptax.__version__
    assert (ROOT / "python/hoptax/py.typed").is_file()
    assert all(hasattr(hoptax, name) for name in hoptax.__all__)
