import json
import os
import stat

import pytest

import hoptax
from hoptax import BinaryNotFound, CommandFailed, HoptaxError, PlanError

PLAN = {"name": "t", "gateways": ["nginx"], "load": [hoptax.closed_loop(8)]}


@pytest.fixture
def program(tmp_path):
    """A program in a new directory."""

    def made(*path):
        file = tmp_path.joinpath(*path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("#!/bin/sh\n")
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
        return file

    return made


def test_the_binary_is_found_in_order(program, monkeypatch):
    argument, variable, script, on_path = (program(name, "hoptax") for name in ("argument", "variable", "scripts", "path"))
    monkeypatch.setattr("sysconfig.get_path", {"scripts": str(script.parent)}.get)
    monkeypatch.setenv("PATH", str(on_path.parent))
    monkeypatch.setenv("HOPTAX", str(variable))
    assert hoptax.find_binary(argument) == str(argument)
    assert hoptax.find_binary() == str(variable)
    monkeypatch.delenv("HOPTAX")
    assert hoptax.find_binary() == str(script)
    script.unlink()
    assert hoptax.find_binary() == str(on_path)
    on_path.unlink()
    with pytest.raises(BinaryNotFound, match="set the environment variable HOPTAX"):
        hoptax.find_binary()


def test_a_wrong_name_of_the_binary_is_an_error(monkeypatch, tmp_path):
    with pytest.raises(BinaryNotFound, match="the argument `binary` names '/nowhere/hoptax', which is not a program"):
        hoptax.find_binary("/nowhere/hoptax")
    monkeypatch.setenv("HOPTAX", str(tmp_path))
    with pytest.raises(BinaryNotFound, match="the environment variable HOPTAX names"):
        hoptax.find_binary()


def test_a_run_passes_its_options_and_returns_the_result(fake, tmp_path):
    fake(figures={"nginx": {"added_p50": [72, 66, 78]}})
    options = {"set": {"time": "20s", "trials": 3}, "only": ["nginx", "envoy"], "packs": "packs", "skip_missing": True}
    result = hoptax.run(PLAN, **options, out=tmp_path / "out")
    plan = fake.calls()[0][1]
    assert fake.calls()[0] == [
        "run", plan, "--out", str(tmp_path / "out"), "--no-live", "--set", "time=20s", "--set", "trials=3",
        "--only", "nginx,envoy", "--packs", "packs", "--skip-missing",
    ]
    assert not os.path.exists(plan), "the temporary file of the plan is removed"
    assert result["nginx"].added_p50 < "100us" and result.status == 0
    assert result.directory.parent == tmp_path / "out" and result.html.read_text() == "<html>"
    assert hoptax.report(result.directory)["nginx"].added_p50 == result["nginx"].added_p50


def test_a_plan_can_be_a_file(fake, tmp_path):
    path = tmp_path / "plan.yaml"
    path.write_text(json.dumps({**PLAN, "load": [{"loop": "closed", "connections": 8}]}))
    assert hoptax.run(path, out=tmp_path / "out").name == "t"
    assert fake.calls()[0][1] == str(path) and path.exists()
    assert hoptax.check(path, set={"time": "1m"})["expected_s"] == 30.0
    assert fake.calls()[-1] == ["check", str(path), "--json", "--set", "time=1m"]


@pytest.mark.parametrize("status", [3, 4, 5])
def test_exceeded_budgets_and_void_findings_are_results(fake, tmp_path, status):
    fake(status=status)
    assert hoptax.run(PLAN, out=tmp_path).status == status


def test_a_wrong_plan_is_quoted(fake, tmp_path):
    error = "error: plan.yaml:4:61: unknown unit of time `x` in `2x`\n  = help: use ns, us\n"
    fake(status=2, log=error)
    for command in (lambda: hoptax.run(PLAN, out=tmp_path), lambda: hoptax.check(PLAN)):
        with pytest.raises(PlanError) as raised:
            command()
        assert str(raised.value) == error.strip() and raised.value.status == 2


def test_a_failed_run_is_quoted(fake, tmp_path, capfd):
    fake(status=1, log="".join(f"line {number}\n" for number in range(100)))
    with pytest.raises(CommandFailed) as raised:
        hoptax.run(PLAN, out=tmp_path)
    words = str(raised.value)
    assert words.startswith("`hoptax run ") and "exit status 1:\nline 60\n" in words and words.endswith("line 99")
    assert raised.value.output.startswith("line 0\n")
    assert capfd.readouterr().err.startswith("line 0\nline 1\n"), "the log is shown while it is written"


def test_the_log_can_be_hidden(fake, tmp_path, capfd):
    fake(log="round 1\n")
    hoptax.run(PLAN, out=tmp_path, quiet=True)
    assert capfd.readouterr().err == ""


def test_an_interrupted_run_is_stopped(fake, tmp_path, monkeypatch):
    mark = tmp_path / "mark"
    fake(log="round 1\n", wait=str(mark))

    class Interrupted:
        def write(self, _):
            # The fake waits for the signal after it has written its log.
            raise KeyboardInterrupt

    monkeypatch.setattr("sys.stderr", Interrupted())
    with pytest.raises(KeyboardInterrupt):
        hoptax.run(PLAN, out=tmp_path / "out")
    assert mark.read_text() == "stopped"


def test_error_shares_and_memory_are_computed_by_the_gate(fake, tmp_path):
    result = hoptax.run({**PLAN, "load": [*PLAN["load"], hoptax.open_loop("100/s", 4)]}, out=tmp_path)
    nginx = result["nginx"].at(loop="open")
    assert nginx.error_share < "1%" and (nginx.error_share < "0.1%").inconclusive
    assert nginx.memory_rss_bytes.unit == "bytes" and nginx.memory_pss_bytes < "20MiB"
    assert [call[0] for call in fake.calls()].count("gate") == 3, "once for each metric"
    with pytest.raises(hoptax.NotMeasured, match="direct is the baseline"):
        _ = result.direct.at(index=0).error_share


def test_two_gateways_of_a_run_are_compared(fake, tmp_path):
    result = hoptax.run(PLAN, out=tmp_path)
    comparison = result.compare("main", "pr")
    assert fake.calls()[-1] == [
        "compare", str(result.directory), "--labels", "main,pr", "--format", "json", "--accept-void"
    ]
    row = comparison["cpu_us_per_request"]
    assert row.labels == ("main", "pr") and row.difference.metric == "difference in cpu_us_per_request"
    assert row.change < "5%" and (row.change < "2%").inconclusive
    assert str(row.change) == "1 % (−1 to 3)"
    with pytest.raises(hoptax.UnknownName, match="no metric 'speed'; it has added_p50"):
        _ = comparison["speed"]


def test_two_runs_are_compared(fake, tmp_path):
    comparison = hoptax.compare(tmp_path / "a", tmp_path / "b", force=True)
    assert fake.calls()[-1][:3] == ["compare", str(tmp_path / "a"), str(tmp_path / "b")] and "--force" in fake.calls()[-1]
    row = comparison.rows[0]
    with pytest.raises(hoptax.Ambiguous, match="was compared in 3 cases; .* direct, closed loop, 4 connections; "):
        _ = comparison.at(index=row.load.index)["p50"]
    assert comparison.at(index=row.load.index).of(row.labels[1])[row.metric] == row
    for choose in (lambda: comparison.of("pr"), lambda: comparison.at(loop="open")):
        with pytest.raises(hoptax.UnknownName, match="the comparison has no "):
            choose()
    fake(void=["nginx, closed loop"], status=4)
    void = hoptax.compare(tmp_path / "a", tmp_path / "b")
    assert (void.rows[0].change < "10000%").inconclusive


def test_output_that_is_not_json_is_an_error(program):
    with pytest.raises(HoptaxError, match="did not print JSON"):
        hoptax.report("x", binary=program("hoptax"))


def test_only_is_a_list(fake, tmp_path):
    with pytest.raises(TypeError, match=r"such as \['nginx'\]"):
        hoptax.run(PLAN, only="nginx", out=tmp_path)
